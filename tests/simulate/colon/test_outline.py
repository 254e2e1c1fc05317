import dataclasses
import math

import numpy as np
import pytest
import torch

from polyplink_lab.simulate.colon.outline import AROUND, DOWN, coarser, outline
from polyplink_lab.simulate.colon.polyp import FORMS, draw_traits
from polyplink_lab.simulate.colon.projection import Outline, rest_of
from polyplink_lab.simulate.colon.surface import Colon, Lump, draw_colon
from polyplink_lab.simulate.course.stage import Place, calm_at, set_lump
from tests.simulate.scenes import surface


def polyp(paris: str, size: float) -> tuple[Colon, Lump, Outline]:
    rng = np.random.default_rng(3)
    place = Place(-4.0, 1.0)
    colon = dataclasses.replace(draw_colon(rng), wave=0.05, wave_rate=1.3)
    colon = calm_at(colon, [place])
    traits = dataclasses.replace(draw_traits(rng, size, "AD", 0.5), form=FORMS[paris])
    lump = set_lump(rng, colon, place, traits)
    return colon, lump, outline(colon, lump)


def rest(body: Outline) -> np.ndarray:
    return rest_of(body.grid.reshape(-1, 7))


def at_rest(colon: Colon, lump: Lump, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    still = dataclasses.replace(colon, wave=0.0)
    distance, shares = surface(still, [lump], torch.from_numpy(points.T.copy()).float())
    return distance.numpy(), shares[0].numpy()


@pytest.mark.parametrize(("paris", "size"), [("Is", 1.0), ("IIa", 5.0), ("Isp", 3.0), ("Ip", 9.0)])
def test_an_outline_lies_on_the_surface_and_ends_where_half_is_wall(
    paris: str, size: float
) -> None:
    colon, lump, body = polyp(paris, size)
    distance, share = at_rest(colon, lump, rest(body))
    # Only the kink between a head and its stalk, which no box ends at, is cut short a little.
    largest = 0.04 if paris == "Ip" else 0.006
    assert np.abs(distance).max() < largest * float(lump.radii[0])
    assert np.quantile(np.abs(distance), 0.9) < 3e-3 * float(lump.radii[0])
    assert share.min() > 0.47
    rim = share.reshape(DOWN, AROUND)[-1]
    assert np.abs(rim - 0.5).max() < 0.03


@pytest.mark.parametrize(("paris", "size"), [("Is", 6.0), ("Ip", 9.0)])
def test_no_surface_of_the_polyp_lies_outside_its_outline(paris: str, size: float) -> None:
    """Points marched inwards from all around onto the surface are within the hull's box."""
    colon, lump, body = polyp(paris, size)
    rng = np.random.default_rng(0)
    centre = lump.centre.double().numpy()
    starts = centre + 1.2 * float(body.ball[7]) * rng.normal(0, 1, (4000, 3))
    goal = centre + 0.3 * float(lump.radii.min()) * rng.uniform(-1, 1, (4000, 3))
    way = (goal - starts) / np.linalg.norm(goal - starts, axis=1, keepdims=True)
    begun, _ = at_rest(colon, lump, starts)
    points = starts[begun > 0]
    for _ in range(60):
        points = points + at_rest(colon, lump, points)[0][:, None] * way[begun > 0]
    distance, share = at_rest(colon, lump, points)
    polyp_points = points[(np.abs(distance) < 1e-3) & (share > 0.52)]
    assert len(polyp_points) > 500
    slack = 0.01 * float(lump.radii[0])
    assert np.all(polyp_points >= rest(body).min(0) - slack)
    assert np.all(polyp_points <= rest(body).max(0) + slack)
    hull = rest(body)[body.hull]
    np.testing.assert_allclose(hull.min(0), rest(body).min(0), atol=slack)
    np.testing.assert_allclose(hull.max(0), rest(body).max(0), atol=slack)


def test_the_ball_is_around_it_at_every_phase() -> None:
    colon, _, body = polyp("Is", 6.0)
    for phase in np.linspace(0, 2 * math.pi, 7):
        moved = []
        for points in (body.grid.reshape(-1, 7), body.ball[None, :7]):
            g = 1 + colon.wave * (points[:, 5] * math.cos(phase) - points[:, 6] * math.sin(phase))
            x, y = points[:, 0] + points[:, 2] * g, points[:, 1] + points[:, 3] * g
            moved.append(np.stack([x, y, points[:, 4]], axis=1))
        assert np.linalg.norm(moved[0] - moved[1], axis=1).max() <= body.ball[7]


def test_a_coarse_outline_is_about_as_large_with_few_points() -> None:
    _, _, body = polyp("Is", 6.0)
    few = coarser(body)
    assert few.grid.size * 10 < body.grid.size
    assert few.hull.max() < few.grid[..., 0].size
    extent = np.ptp(rest(body), axis=0)
    assert np.all(np.ptp(rest(few), axis=0) > 0.9 * extent)
