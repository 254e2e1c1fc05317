"""The plain surface against naive computations, and the compiled surface against it."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.ndimage import map_coordinates

from polyplink_lab.simulate.colon.surface import (
    LUMP_BOUND,
    MAP_EXTENT,
    RADIUS,
    WALL_BOUND,
    BatchSurface,
    Colon,
    Lump,
    centre_line,
    draw_colon,
    join,
    lump_distance,
    stack_maps,
    to_material,
    to_world,
    wall_distance,
    wall_radius,
)
from tests.simulate.scenes import CALM, COLON, LUMPS, PHASES, batch, points, surface

LUMP = LUMPS[0]
STILL = dataclasses.replace(COLON, wave=0.0)
FRAME = torch.arange(2)[:, None]


def naive_wall(colon: Colon, x: float, y: float, z: float) -> float:
    """Distance of one point from the wall, computed with plain angles."""
    middle = colon.bend[0] * math.sin(colon.bend_rate[0] * z + colon.bend_phase[0])
    x -= middle
    y -= colon.bend[1] * math.sin(colon.bend_rate[1] * z + colon.bend_phase[1])
    angle = math.atan2(y, x)
    corner = math.cos(3 * angle + colon.corner_phase)
    phase = colon.fold_rate * z + colon.fold_phase + 0.9 * middle
    ridge = (0.5 + 0.5 * math.cos(phase + colon.fold_tilt * math.cos(angle))) ** 8
    radius = RADIUS + colon.corner_depth * corner
    radius -= colon.fold_depth * ridge * (0.7 + 0.3 * corner)
    return WALL_BOUND * (radius - math.hypot(x, y))


def naive_read(values: torch.Tensor, a: float, b: float) -> float:
    """Bilinear value of a map at column a and row b."""
    place = (np.array([[b], [a]]) / MAP_EXTENT + 1) / 2 * (len(values) - 1)
    return float(map_coordinates(values.double().numpy(), place, order=1, mode="nearest")[0])


def naive_lump(lump: Lump, point: torch.Tensor) -> float:
    """Distance of one point from a lump, with the stereographic map read by hand."""
    axes, radii = lump.axes.double(), lump.radii.double()
    local = [float((point.double() - lump.centre) @ axes[:, i] / radii[i]) for i in range(3)]
    length = math.sqrt(sum(q * q for q in local))
    rho = naive_read(lump.maps[0], local[0] / (length + local[2]), local[1] / (length + local[2]))
    steep = math.sqrt(sum((q / float(r)) ** 2 for q, r in zip(local, radii, strict=True)))
    return LUMP_BOUND * (length - rho) * length / steep


def points_near_first(n: int = 60) -> torch.Tensor:
    return points(n)[:, 0]


def test_distances_equal_the_naive_ones() -> None:
    at = points_near_first()
    walls = [naive_wall(STILL, *point.tolist()) for point in at.T]
    np.testing.assert_allclose(wall_distance(STILL, at), walls, atol=2e-5)
    lumps = [naive_lump(LUMP, point) for point in at.T]
    np.testing.assert_allclose(lump_distance(LUMP, at), lumps, atol=2e-5)


def test_a_round_lump_is_a_sphere_and_a_stalk_a_capsule_below_it() -> None:
    round_lump = Lump(torch.ones(3), torch.eye(3), torch.full((3,), 0.2), 0.1, torch.ones(1, 8, 8))
    at = torch.from_numpy(np.random.default_rng(0).normal(0, 1, (3, 50)).astype(np.float32))
    expected = (at - 1).square().sum(0).sqrt() - 0.2
    np.testing.assert_allclose(lump_distance(round_lump, at) / LUMP_BOUND, expected, atol=1e-5)
    stalked = dataclasses.replace(round_lump, stalk=(0.08, 0.6))
    at = 1 + torch.tensor([[0.0, 0, -0.5], [0.12, 0, -0.5], [0, 0, -0.7], [0, 0, 0.3]]).T
    distances = lump_distance(stalked, at) / LUMP_BOUND
    assert distances.tolist() == pytest.approx([-0.08, 0.04, 0.02, 0.1], abs=1e-3)


@pytest.mark.parametrize(("wall", "lump"), [(0.5, 0.1), (0.1, 0.5), (0.2, 0.2), (0.2, 0.25)])
def test_join_is_the_minimum_except_at_a_rounded_joint(wall: float, lump: float) -> None:
    distance, share = join(torch.tensor(wall), torch.tensor(lump), 0.1)
    assert min(wall, lump) - 0.1 / 4 - 1e-6 <= distance.item() <= min(wall, lump) + 1e-6
    assert share.item() == pytest.approx(min(max(0.5 + 5 * (wall - lump), 0), 1))
    if abs(wall - lump) > 0.1:
        assert distance.item() == pytest.approx(min(wall, lump))


def test_the_wave_moves_wall_and_polyps_together() -> None:
    """A point on the surface at rest stays on the surface when the wave moves it."""
    at = points_near_first().double()
    phases = torch.linspace(0, 6, at.shape[1], dtype=torch.float64)
    rest, shares = surface(STILL, LUMPS, at)
    distance, moved_shares = surface(COLON, LUMPS, to_world(COLON, at, phases), phases)
    g = 1 + COLON.wave * torch.sin(COLON.wave_rate * at[2] - phases)
    torch.testing.assert_close(distance, rest * g)
    torch.testing.assert_close(moved_shares, shares)


@given(st.integers(0, 2**32 - 1))
def test_every_lumen_has_room_for_the_camera(seed: int) -> None:
    colon = draw_colon(np.random.default_rng(seed))
    angle, z = torch.meshgrid(
        torch.linspace(0, 2 * math.pi, 60), torch.linspace(-8, 8, 200), indexing="ij"
    )
    radius = wall_radius(colon, z, centre_line(colon, z)[0], angle.cos(), angle.sin())
    assert radius.min() > 0.55  # units, so that a camera can sway around the middle
    assert radius.max() < 1.1


VISIBLE = (((True, True), (True, True)), ((True, False), (False, True)), ((False, False),) * 2)


@pytest.mark.parametrize("visible_by_frame", VISIBLE)
def test_compiled_plain_and_naive_surfaces_are_equal(
    visible_by_frame: tuple[tuple[bool, bool], ...],
) -> None:
    """For frames with all, one or none of the polyps visible."""
    scene, at = batch(visible_by_frame), points()
    fast, shares = scene.fast(at, FRAME, with_shares=True)
    plain, _, _, parts = scene.plain(at, FRAME)
    torch.testing.assert_close(fast, plain, atol=3e-6, rtol=0)
    far_points = at + torch.tensor([0.0, 0.0, -120.0])[:, None, None]  # along the tube
    plain_far = scene.plain(far_points, FRAME)[0]
    torch.testing.assert_close(scene.fast(far_points, FRAME)[0], plain_far, atol=2e-4, rtol=0)
    if len(shares):
        plain_shares = torch.stack([share for share, _, _ in parts])
        torch.testing.assert_close(shares, plain_shares, atol=2e-5, rtol=0)
    for k, visible in enumerate(visible_by_frame):
        lumps = [lump for lump, is_visible in zip(LUMPS, visible, strict=True) if is_visible]
        colon = dataclasses.replace(
            CALM,
            calm=tuple(p for p, is_visible in zip(CALM.calm, visible, strict=True) if is_visible),
        )
        distance, frame_shares = surface(colon, lumps, at[:, k].double(), float(PHASES[k]))
        torch.testing.assert_close(fast[k].double(), distance, atol=3e-6, rtol=0)
        torch.testing.assert_close(
            shares[: len(frame_shares), k].double(), frame_shares, atol=2e-5, rtol=0
        )


def test_touch_gives_slope_colours_and_material_coordinates() -> None:
    at = points()
    sample = batch().sample(at, FRAME)
    leaf = at.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(batch().plain(leaf, FRAME)[0].sum(), leaf)
    cosine = torch.nn.functional.cosine_similarity(sample.slope, gradient, dim=0)
    assert cosine.median() > 0.9999
    assert (cosine < 0.99).float().mean() < 0.05  # at sharp folds and joints
    phases = torch.from_numpy(PHASES).float()[:, None]
    torch.testing.assert_close(sample.material, to_material(COLON, at, phases))
    for k, lump in enumerate(LUMPS):
        local = (sample.material[:, 1, 5] - lump.centre) @ lump.axes / lump.radii
        a, b = (float(q / (local.norm() + local[2])) for q in local[:2])
        expected = [naive_read(lump.maps[channel], a, b) for channel in (1, 2, 3)]
        assert sample.colours[k][:, 1, 5].tolist() == pytest.approx(expected, abs=1e-4)


def test_a_procedure_without_polyps_has_a_surface() -> None:
    no_polyps = np.zeros((1, 0), np.bool_)
    without_polyps = BatchSurface(COLON, (), stack_maps([]), (no_polyps, no_polyps), PHASES[:1])
    at = points()[:, :1]
    torch.testing.assert_close(
        without_polyps.distance(at, FRAME[:1])[0],
        surface(COLON, [], at[:, 0], 0.3)[0],
        atol=3e-6,
        rtol=0,
    )
    assert without_polyps.sample(at, FRAME[:1]).shares == ()
