import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.simulate.colon.surface import (
    CALM_DEPTH,
    CALM_RADIUS,
    LUMP_BOUND,
    MAP_EXTENT,
    RADIUS,
    WALL_BOUND,
    Colon,
    Lump,
    centre_line,
    fold_share,
    join,
    lengths,
    lump_distance,
    normals,
    read_maps,
    scene_distance,
    surface,
    to_lump,
    to_material,
    to_world,
    wall_distance,
    wall_radius,
)
from tests.simulate.scenes import small_scene

PATIENT, SKIN = small_scene()


def naive_wall(colon: Colon, x: float, y: float, z: float) -> float:
    """The wall's distance of one point with plain angles."""
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


def naive_lump(lump: Lump, point: torch.Tensor) -> float:
    """The lump's distance of one point: stereographic place and bilinear reading by hand."""
    axes, radii = lump.axes.double(), lump.radii.double()
    local = [float((point.double() - lump.centre) @ axes[:, i] / radii[i]) for i in range(3)]
    length = math.sqrt(sum(q * q for q in local))
    rho = naive_read(lump.maps[0], local[0] / (length + local[2]), local[1] / (length + local[2]))
    steep = math.sqrt(sum((q / float(r)) ** 2 for q, r in zip(local, radii, strict=True)))
    return LUMP_BOUND * (length - rho) * length / steep


def naive_read(values: torch.Tensor, a: float, b: float) -> float:
    last = len(values) - 1
    column, row = ((min(max(q / MAP_EXTENT, -1), 1) + 1) / 2 * last for q in (a, b))
    c, r = min(int(column), last - 1), min(int(row), last - 1)
    u, v = column - c, row - r
    top = (1 - u) * float(values[r, c]) + u * float(values[r, c + 1])
    below = (1 - u) * float(values[r + 1, c]) + u * float(values[r + 1, c + 1])
    return (1 - v) * top + v * below


def points_near(lump: Lump, n: int = 60) -> torch.Tensor:
    noise = torch.from_numpy(np.random.default_rng(3).normal(0, 0.25, (3, n)).astype(np.float32))
    return lump.centre[:, None] + noise


def test_wall_distance_is_the_naive_one() -> None:
    points = points_near(SKIN.lump)
    expected = [naive_wall(PATIENT.colon, *point.tolist()) for point in points.T]
    np.testing.assert_allclose(wall_distance(PATIENT.colon, points), expected, atol=2e-5)


def test_lump_distance_is_the_naive_one() -> None:
    points = points_near(SKIN.lump)
    expected = [naive_lump(SKIN.lump, point) for point in points.T]
    np.testing.assert_allclose(lump_distance(SKIN.lump, points), expected, atol=2e-5)


def test_a_round_lump_is_a_sphere() -> None:
    lump = Lump(torch.ones(3), torch.eye(3), torch.full((3,), 0.5), 0.1, torch.ones(3, 8, 8))
    points = torch.from_numpy(np.random.default_rng(0).normal(0, 1, (3, 50)).astype(np.float32))
    expected = (points - 1).square().sum(0).sqrt() - 0.5
    np.testing.assert_allclose(lump_distance(lump, points) / LUMP_BOUND, expected, atol=1e-5)


def test_a_stalk_is_a_capsule_below_the_head() -> None:
    maps = torch.ones(1, 8, 8)
    bare = Lump(torch.zeros(3), torch.eye(3), torch.full((3,), 0.2), 0.1, maps)
    stalked = dataclasses.replace(bare, stalk=(0.08, 0.6))
    points = torch.tensor([[0.0, 0.0, -0.5], [0.12, 0.0, -0.5], [0.0, 0.0, -0.7], [0.0, 0.0, 0.3]])
    away = lump_distance(stalked, points.T) / LUMP_BOUND
    assert away.tolist() == pytest.approx([-0.08, 0.04, 0.02, 0.1], abs=1e-3)
    assert (lump_distance(stalked, points.T) <= lump_distance(bare, points.T) + 1e-6).all()


def test_a_stalked_lump_is_star_shaped_about_its_centre() -> None:
    lump = dataclasses.replace(SKIN.lump, stalk=(0.4 * float(SKIN.lump.radii[0]), 0.5))
    rng = np.random.default_rng(0)
    ways = torch.from_numpy(rng.normal(size=(3, 400)).astype(np.float32))
    ways /= lengths(ways)
    depths = torch.linspace(0, 1, 200)
    points = lump.centre[:, None, None] + ways[:, :, None] * depths  # (3, 400, 200)
    inside = (lump_distance(lump, points.reshape(3, -1)) < 0).view(400, 200).int()
    assert (inside.diff(dim=1) == 1).sum() == 0  # once outside, outside for good


def test_maps_are_read_by_direction_alone() -> None:
    local = points_near(SKIN.lump) - SKIN.lump.centre[:, None]
    near = read_maps(SKIN.lump.maps, local, lengths(local))
    far = read_maps(SKIN.lump.maps, 3 * local, lengths(3 * local))
    np.testing.assert_allclose(near, far, atol=1e-4)


def test_top_of_a_lump_is_the_middle_of_its_maps() -> None:
    maps = torch.zeros(1, 9, 9)
    maps[0, 4, 4] = 1.0
    up = torch.tensor([[0.0], [0.0], [2.0]])
    assert read_maps(maps, up, lengths(up)).item() == 1.0


def test_to_lump_undoes_axes_and_radii() -> None:
    local = torch.tensor([[0.3, -1.0], [0.5, 0.2], [1.0, 0.4]])
    lump = SKIN.lump
    points = lump.centre[:, None] + lump.axes @ (lump.radii[:, None] * local)
    np.testing.assert_allclose(to_lump(lump, points), local, atol=1e-5)


@pytest.mark.parametrize(("wall", "lump"), [(0.5, 0.1), (0.1, 0.5), (0.2, 0.2), (0.2, 0.25)])
def test_join_never_exceeds_the_minimum_and_is_it_far_from_the_joint(
    wall: float, lump: float
) -> None:
    distance, share = join(torch.tensor(wall), torch.tensor(lump), 0.1)
    assert min(wall, lump) - 0.1 / 4 - 1e-6 <= distance.item() <= min(wall, lump) + 1e-6
    assert share.item() == pytest.approx(min(max(0.5 + 5 * (wall - lump), 0), 1))
    if abs(wall - lump) > 0.1:
        assert distance.item() == pytest.approx(min(wall, lump))


def test_surface_and_scene_distance_agree() -> None:
    points = points_near(SKIN.lump)
    distance, shares = surface(PATIENT.colon, [SKIN.lump], points)
    assert torch.equal(distance, scene_distance(PATIENT.colon, [SKIN.lump], points))
    lump, wall = lump_distance(SKIN.lump, points), wall_distance(PATIENT.colon, points)
    assert torch.equal(shares[0] > 0.5, lump < wall)
    assert surface(PATIENT.colon, [], points)[1].shape == (0, points.shape[1])


def test_normals_are_the_gradient() -> None:
    points = points_near(SKIN.lump, 20).double()
    old = SKIN.lump
    lump = Lump(old.centre.double(), old.axes.double(), old.radii.double(), 0.1, old.maps.double())
    here = scene_distance(PATIENT.colon, [lump], points)
    result = normals(PATIENT.colon, [lump], points, here, 1e-4)
    leaf = points.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(scene_distance(PATIENT.colon, [lump], leaf).sum(), leaf)
    expected = gradient / gradient.norm(dim=0)
    np.testing.assert_allclose(result, expected, atol=1e-3)  # 3.8e-4 at this step


def test_distances_are_bounds() -> None:
    """No step of the size of the distance crosses the surface by more than a little."""
    rng = np.random.default_rng(1)
    points = points_near(SKIN.lump, 500)  # 28 % of them in the lumen
    here = scene_distance(PATIENT.colon, [SKIN.lump], points)
    ways = rng.normal(size=(3, 500)).astype(np.float32)
    ways /= np.linalg.norm(ways, axis=0)
    after = scene_distance(PATIENT.colon, [SKIN.lump], points + torch.from_numpy(ways) * here)
    inside = here > 0
    assert inside.sum() > 100
    assert (after[inside] < -0.02).float().mean() < 0.02


WAVY = dataclasses.replace(PATIENT.colon, wave=0.05, wave_rate=2.0)
REACHES = st.floats(-3, 3, allow_nan=False, width=32)


@settings(max_examples=30, deadline=None)
@given(st.tuples(REACHES, REACHES, REACHES), st.floats(0, 7, width=32))
def test_to_world_undoes_to_material(place: tuple[float, float, float], phase: float) -> None:
    point = torch.tensor(place, dtype=torch.float64)[:, None]
    there = to_world(WAVY, to_material(WAVY, point, phase), phase)
    torch.testing.assert_close(there, point, atol=1e-12, rtol=1e-12)


def test_the_wave_is_the_naive_one() -> None:
    point, phase = torch.tensor([[0.4], [-0.2], [0.7]], dtype=torch.float64), 1.3
    g = 1 + 0.05 * math.sin(2.0 * 0.7 - phase)
    x, y = (float(line) for line in centre_line(WAVY, point[2]))
    expected = [x + (0.4 - x) / g, y + (-0.2 - y) / g, 0.7]
    assert to_material(WAVY, point, phase)[:, 0].tolist() == pytest.approx(expected)


def test_the_wave_carries_the_wall_and_the_polyps_with_it() -> None:
    """A point on the surface at rest is on the surface wherever the wave takes it."""
    points = points_near(SKIN.lump).double()
    old = SKIN.lump
    lump = Lump(old.centre.double(), old.axes.double(), old.radii.double(), 0.1, old.maps.double())
    phases = torch.linspace(0, 6, points.shape[1], dtype=torch.float64)
    moved = to_world(WAVY, points, phases)
    rest, shares = surface(PATIENT.colon, [lump], points)
    distance, same = surface(WAVY, [lump], moved, phases)
    g = 1 + 0.05 * torch.sin(2.0 * points[2] - phases)
    torch.testing.assert_close(distance, rest * g)
    torch.testing.assert_close(same, shares)


def test_folds_fade_at_a_calm_place_and_nowhere_else() -> None:
    z0, angle = 0.3, 1.1
    x, y = (float(line) for line in centre_line(PATIENT.colon, torch.tensor(z0)))
    place = (x + math.cos(angle), y + math.sin(angle), z0)
    calm = dataclasses.replace(PATIENT.colon, calm=(place,))
    z = torch.linspace(-3, 3, 200)
    c, s = torch.full_like(z, math.cos(angle)), torch.full_like(z, math.sin(angle))
    share = fold_share(calm, z, c, s)
    assert share is not None
    bell = (1 - (z - z0) ** 2 / CALM_RADIUS**2).clamp_min(0) ** 2
    torch.testing.assert_close(share, 1 - CALM_DEPTH * bell, atol=1e-5, rtol=0)
    across = fold_share(calm, z, -c, -s)
    assert across is not None
    assert (across == 1).all()
    middle, _ = centre_line(PATIENT.colon, z)
    flat = dataclasses.replace(PATIENT.colon, fold_depth=0.0)
    bare, before, after = (
        wall_radius(tube, z, middle, c, s) for tube in (flat, PATIENT.colon, calm)
    )
    torch.testing.assert_close(bare - after, (bare - before) * share, atol=1e-5, rtol=0)
