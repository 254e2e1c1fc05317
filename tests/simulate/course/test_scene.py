"""Places of polyps, and looks that miss theirs; tests of plans prove the rest of a scene."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from polyplink_lab.simulate.colon.outline import coarser, outline
from polyplink_lab.simulate.colon.projection import Outlines
from polyplink_lab.simulate.colon.surface import draw_colon, wall_distance
from polyplink_lab.simulate.course.scene import (
    SPACING,
    Place,
    Scene,
    Views,
    calm_at,
    distance_between,
    draw_places,
    misses,
)
from tests.simulate.scenes import mini_plan


@given(st.lists(st.floats(1, 17), min_size=2, max_size=9), st.integers(0, 99))
def test_polyps_are_spaced_along_the_colon_and_pairs_are_side_by_side(
    sizes: list[float], seed: int
) -> None:
    places = draw_places(np.random.default_rng(seed), sizes, [(0, 1)])
    z_of_others = [place.z for index, place in enumerate(places) if index != 1]
    assert np.all(-np.diff(z_of_others) >= SPACING[0])
    radii = [size / 36 for size in sizes[:2]]
    distance = math.hypot(places[1].z - places[0].z, places[1].angle - places[0].angle)
    assert distance == pytest.approx(distance_between(*radii))
    assert distance > sum(radii)


def test_folds_fade_only_at_calm_places() -> None:
    colon = draw_colon(np.random.default_rng(0))
    places = (Place(-2.0, 1.0), Place(-9.0, 4.0))
    calm = calm_at(colon, places)
    for place in (*places, Place(-5.5, 2.0)):
        z = torch.linspace(place.z - 0.6, place.z + 0.6, 41)
        x = colon.bend[0] * torch.sin(colon.bend_rate[0] * z + colon.bend_phase[0])
        y = colon.bend[1] * torch.sin(colon.bend_rate[1] * z + colon.bend_phase[1])
        points = torch.stack([x + 0.5 * math.cos(place.angle), y + 0.5 * math.sin(place.angle), z])
        before, after = (float(wall_distance(c, points).std()) for c in (colon, calm))
        assert (after < 0.6 * before) if place in places else (after == pytest.approx(before))


@pytest.fixture(scope="module")
def scene() -> Scene:
    plan = mini_plan()
    return Scene(
        plan.colon,
        plan.lumps,
        Outlines.of([coarser(outline(plan.colon, lump)) for lump in plan.lumps]),
        plan.lens,
        (plan.spec.width, plan.spec.height),
        plan.timeline.removal_frames,
    )


@pytest.fixture(scope="module")
def views() -> Views:
    """The frames of the first planned look."""
    plan = mini_plan()
    look = plan.timeline.looks[0]
    frames = np.arange(look.first, look.end)
    phase = plan.conditions.phase[frames].astype(np.float64)
    return Views(plan.path[frames], phase, frames, np.zeros(len(frames), np.int64))


def test_a_planned_look_sees_its_polyp_and_misses_others(scene: Scene, views: Views) -> None:
    viewed = np.array([mini_plan().timeline.looks[0].polyp])
    assert not misses(scene, views, viewed).any()
    assert not misses(scene, views, np.array([-1])).any()
    assert misses(scene, views, np.array([2])).all()
    after_removal = dataclasses.replace(views, frames=views.frames + mini_plan().spec.n_frames)
    assert misses(scene, after_removal, viewed).all()
