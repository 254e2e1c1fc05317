import dataclasses
import math

import numpy as np
import pytest
import torch

from polyplink_lab.simulate.colon.outline import AROUND, DOWN, coarser, outline
from polyplink_lab.simulate.colon.polyp import FORMS, draw_traits
from polyplink_lab.simulate.colon.projection import Outline, rest_of
from polyplink_lab.simulate.colon.surface import Colon, Lump, draw_colon
from polyplink_lab.simulate.course.scene import Place, calm_at, set_lump
from tests.simulate.scenes import surface


def colon_with_polyp(paris: str, size: float) -> tuple[Colon, Lump, Outline]:
    rng = np.random.default_rng(3)
    place = Place(-4.0, 1.0)
    colon = dataclasses.replace(draw_colon(rng), wave=0.05, wave_rate=1.3)
    colon = calm_at(colon, [place])
    traits = dataclasses.replace(draw_traits(rng, size, "AD", 0.5), form=FORMS[paris])
    lump = set_lump(rng, colon, place, traits)
    return colon, lump, outline(colon, lump)


def points_at_rest(polyp_outline: Outline) -> np.ndarray:
    return rest_of(polyp_outline.grid.reshape(-1, 7))


def surface_at_rest(colon: Colon, lump: Lump, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    without_wave = dataclasses.replace(colon, wave=0.0)
    distance, shares = surface(without_wave, [lump], torch.from_numpy(points.T.copy()).float())
    return distance.numpy(), shares[0].numpy()


@pytest.mark.parametrize(("paris", "size"), [("Is", 1.0), ("IIa", 5.0), ("Isp", 3.0), ("Ip", 9.0)])
def test_an_outline_is_on_the_surface_and_ends_at_half_share(paris: str, size: float) -> None:
    colon, lump, polyp_outline = colon_with_polyp(paris, size)
    distance, share = surface_at_rest(colon, lump, points_at_rest(polyp_outline))
    # Larger errors only at the kink between head and stalk, where no box ends.
    largest = 0.04 if paris == "Ip" else 0.006
    assert np.abs(distance).max() < largest * float(lump.radii[0])
    assert np.quantile(np.abs(distance), 0.9) < 3e-3 * float(lump.radii[0])
    assert share.min() > 0.47
    rim = share.reshape(DOWN, AROUND)[-1]
    assert np.abs(rim - 0.5).max() < 0.03


@pytest.mark.parametrize(("paris", "size"), [("Is", 6.0), ("Ip", 9.0)])
def test_the_polyp_is_inside_its_outline(paris: str, size: float) -> None:
    """Points that march inwards to the surface from all sides end in the box of the hull."""
    colon, lump, polyp_outline = colon_with_polyp(paris, size)
    rng = np.random.default_rng(0)
    centre = lump.centre.double().numpy()
    starts = centre + 1.2 * float(polyp_outline.ball[7]) * rng.normal(0, 1, (4000, 3))
    goal = centre + 0.3 * float(lump.radii.min()) * rng.uniform(-1, 1, (4000, 3))
    direction = (goal - starts) / np.linalg.norm(goal - starts, axis=1, keepdims=True)
    start_distance, _ = surface_at_rest(colon, lump, starts)
    points = starts[start_distance > 0]
    for _ in range(60):
        points = (
            points
            + surface_at_rest(colon, lump, points)[0][:, None] * direction[start_distance > 0]
        )
    distance, share = surface_at_rest(colon, lump, points)
    polyp_points = points[(np.abs(distance) < 1e-3) & (share > 0.52)]
    assert len(polyp_points) > 500
    slack = 0.01 * float(lump.radii[0])
    assert np.all(polyp_points >= points_at_rest(polyp_outline).min(0) - slack)
    assert np.all(polyp_points <= points_at_rest(polyp_outline).max(0) + slack)
    hull = points_at_rest(polyp_outline)[polyp_outline.hull]
    np.testing.assert_allclose(hull.min(0), points_at_rest(polyp_outline).min(0), atol=slack)
    np.testing.assert_allclose(hull.max(0), points_at_rest(polyp_outline).max(0), atol=slack)


def test_the_bounding_ball_contains_the_outline_at_every_phase() -> None:
    colon, _, polyp_outline = colon_with_polyp("Is", 6.0)
    for phase in np.linspace(0, 2 * math.pi, 7):
        moved_points = []
        for points in (polyp_outline.grid.reshape(-1, 7), polyp_outline.ball[None, :7]):
            g = 1 + colon.wave * (points[:, 5] * math.cos(phase) - points[:, 6] * math.sin(phase))
            x, y = points[:, 0] + points[:, 2] * g, points[:, 1] + points[:, 3] * g
            moved_points.append(np.stack([x, y, points[:, 4]], axis=1))
        assert (
            np.linalg.norm(moved_points[0] - moved_points[1], axis=1).max() <= polyp_outline.ball[7]
        )


def test_a_coarse_outline_has_few_points_and_nearly_the_same_extent() -> None:
    _, _, polyp_outline = colon_with_polyp("Is", 6.0)
    coarse = coarser(polyp_outline)
    assert coarse.grid.size * 10 < polyp_outline.grid.size
    assert coarse.hull.max() < coarse.grid[..., 0].size
    extent = np.ptp(points_at_rest(polyp_outline), axis=0)
    assert np.all(np.ptp(points_at_rest(coarse), axis=0) > 0.9 * extent)
