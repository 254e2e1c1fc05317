import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyplink.simulate.colon.projection import FOCAL
from polyplink.simulate.colon.surface import draw_colon, wall_distance
from polyplink.simulate.course.placing import (
    FAINT,
    SPACING,
    USUAL,
    Place,
    apart,
    calm_at,
    draw_places,
    wall_axes,
)
from tests.simulate.plans import mini_plan

SIZES = st.lists(st.floats(1, 17), min_size=2, max_size=9)


@given(SIZES, st.integers(0, 99))
def test_polyps_lie_one_after_the_other_and_pairs_side_by_side(
    sizes: list[float], seed: int
) -> None:
    places = draw_places(np.random.default_rng(seed), sizes, [(0, 1)])
    alone = [place.z for index, place in enumerate(places) if index != 1]
    assert np.all(-np.diff(alone) >= SPACING[0])
    radii = [size / 36 for size in sizes[:2]]
    way = math.hypot(places[1].z - places[0].z, places[1].angle - places[0].angle)
    assert way == pytest.approx(apart(*radii))
    assert way > sum(radii)


@given(st.floats(0.02, 0.5), st.floats(0.02, 0.5))
def test_a_polyp_can_be_looked_at_without_its_neighbour(own: float, other: float) -> None:
    usual = USUAL * own
    half_view = 0.5 / FOCAL * usual
    visible = 2 * other * FOCAL / usual > FAINT
    assert not visible or apart(own, other) - other >= half_view
    assert apart(own, other) == apart(other, own)


def test_folds_fade_at_calm_places_alone() -> None:
    colon = draw_colon(np.random.default_rng(0))
    places = (Place(-2.0, 1.0), Place(-9.0, 4.0))
    calm = calm_at(colon, places)
    assert len(calm.calm) == 2
    for place in (*places, Place(-5.5, 2.0)):
        z = torch.linspace(place.z - 0.6, place.z + 0.6, 41)
        x = colon.bend[0] * torch.sin(colon.bend_rate[0] * z + colon.bend_phase[0])
        y = colon.bend[1] * torch.sin(colon.bend_rate[1] * z + colon.bend_phase[1])
        points = torch.stack([x + 0.5 * math.cos(place.angle), y + 0.5 * math.sin(place.angle), z])
        before, after = (float(wall_distance(c, points).std()) for c in (colon, calm))
        assert (after < 0.6 * before) if place in places else (after == pytest.approx(before))


def test_wall_axes_stand_on_the_wall() -> None:
    colon = mini_plan().colon
    still = dataclasses.replace(colon, wave=0.0)
    point, axes = wall_axes(colon, Place(-3.0, 2.0))
    there = torch.from_numpy(np.stack([point, point + 0.05 * axes[:, 2]], axis=1))
    wall = wall_distance(still, there)
    assert abs(float(wall[0])) < 1e-3
    assert float(wall[1]) > 0.02
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-5)
