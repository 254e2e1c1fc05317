"""Places of polyps, and what a camera sees of them."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from polyplink_lab.simulate.colon.outline import coarser, outline
from polyplink_lab.simulate.colon.projection import Outlines
from polyplink_lab.simulate.colon.surface import draw_colon, wall_distance
from polyplink_lab.simulate.course.camera import CameraPath
from polyplink_lab.simulate.course.scene import (
    SPACING,
    Place,
    Scene,
    Views,
    calm_at,
    distance_between,
    draw_places,
    hidden,
    misses,
    overlaps,
    strays,
)
from tests.simulate.scenes import mini_plan

BOXES: st.SearchStrategy[np.ndarray] = (
    st.tuples(*[st.floats(0, 1)] * 4)
    .filter(lambda b: abs(b[0] - b[2]) > 0.05 and abs(b[1] - b[3]) > 0.05)
    .map(lambda b: np.array([[min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3])]]))
)


# --- Places ---------------------------------------------------------------------------------


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


# --- What a camera sees ---------------------------------------------------------------------


@given(BOXES, BOXES)
def test_overlaps_equal_those_on_a_fine_grid(first: np.ndarray, second: np.ndarray) -> None:
    x, y = np.meshgrid((np.arange(200) + 0.5) / 200, (np.arange(200) + 0.5) / 200)
    a, b = (
        (x >= c[0, 0]) & (x <= c[0, 2]) & (y >= c[0, 1]) & (y <= c[0, 3]) for c in (first, second)
    )
    assert abs(overlaps(first, second)[0] - (a & b).sum() / (a | b).sum()) < 0.12


@pytest.fixture(scope="module")
def scene() -> Scene:
    plan = mini_plan()
    return Scene(
        plan.colon,
        plan.lumps,
        Outlines.of([coarser(outline(plan.colon, lump)) for lump in plan.lumps]),
        plan.lens,
        (plan.spec.width, plan.spec.height),
        plan.timeline.gone,
    )


@pytest.fixture(scope="module")
def views() -> Views:
    """The frames of the first planned look."""
    plan = mini_plan()
    look = plan.timeline.looks[0]
    frames = np.arange(look.first, look.end)
    phase = plan.conditions.phase[frames].astype(np.float64)
    return Views(plan.path[frames], phase, frames, np.zeros(len(frames), np.int64))


VIEWED = np.array([mini_plan().timeline.looks[0].polyp])
NONE = np.array([-1])


def test_a_planned_look_sees_its_polyp_and_misses_others(scene: Scene, views: Views) -> None:
    assert not misses(scene, views, VIEWED).any()
    assert not misses(scene, views, NONE).any()
    assert misses(scene, views, np.array([2])).all()
    after_removal = dataclasses.replace(views, frames=views.frames + mini_plan().spec.n_frames)
    assert misses(scene, after_removal, VIEWED).all()


def test_a_polyp_that_must_not_be_visible_is_a_stray(scene: Scene, views: Views) -> None:
    assert not strays(scene, views, np.array([[VIEWED[0], -1]])).any()
    assert strays(scene, views, np.array([[-1, -1]])).all()


def from_place(views: Views, place: np.ndarray, rotations: np.ndarray) -> Views:
    """The same frames with the camera at another place."""
    path = CameraPath.of(np.tile(place, (len(views.frames), 1)), rotations)
    return dataclasses.replace(views, path=path)


def test_a_camera_in_the_wall_sees_nothing(scene: Scene, views: Views) -> None:
    assert not hidden(scene, views, VIEWED, NONE).any()
    lump = scene.lumps[VIEWED[0]]
    outside = lump.centre.double().numpy() - 0.3 * lump.axes.double().numpy()[:, 2]
    assert hidden(scene, from_place(views, outside, views.path.rotations), VIEWED, NONE).all()


def test_a_polyp_behind_another_is_hidden(scene: Scene, views: Views) -> None:
    first, second = (lump.centre.double().numpy() for lump in scene.lumps[:2])
    inwards = scene.lumps[0].axes.double().numpy()[:, 2]
    line = first + (first - second) * 0.6 + 0.03 * inwards
    behind = from_place(views, line, np.tile(np.eye(3), (len(views.frames), 1, 1)))
    assert hidden(scene, behind, np.array([1]), np.array([0])).all()
