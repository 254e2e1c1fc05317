"""The route of the camera through a procedure, and conditions of its frames."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from polyplink_lab.simulate.colon.surface import centre_line, draw_colon
from polyplink_lab.simulate.course.camera import CameraPath, look_down, to_tube
from polyplink_lab.simulate.course.conditions import (
    FORCEPS,
    MOST_MOTION,
    SHARP_FAR,
    SHARP_NEAR,
    SNARE,
    defocus,
    draw_haze,
    draw_instruments,
    draw_splash,
    picture_motion,
)
from polyplink_lab.simulate.course.route import BLINK_GAP, FREE, Pose, travel, turn_away
from polyplink_lab.simulate.course.timeline import Timeline
from tests.simulate.scenes import angles_between, mini_plan, mini_spec

COLON = draw_colon(np.random.default_rng(0))
AXES = np.tile(np.array([[0.0, 0, -1], [0, 1.0, 0], [1.0, 0, 0]]), (3, 1, 1))


def test_a_gap_turns_away_and_back_without_a_jump() -> None:
    lengths = np.array([8, 30, 200])
    x, y = (float(part) for part in centre_line(COLON, torch.tensor(-2.0)))
    ends: list[Pose] = []
    for azimuth in (0.3, 2.0):
        direction, rotations = look_down(AXES, np.full(3, azimuth), np.full(3, 0.8))
        ends.append((np.array([x - 0.6, y, -2.0]) + 0.4 * direction, rotations))
    rng = np.random.default_rng(0)
    positions, rotations_in_gaps = turn_away(rng, COLON, tuple(ends), (AXES, AXES), lengths)
    for gap, stop in enumerate(np.cumsum(lengths)):
        rows = slice(stop - lengths[gap], stop)
        parts = [ends[0][1][gap][None], rotations_in_gaps[rows], ends[1][1][gap][None]]
        assert angles_between(np.concatenate(parts)).max() < math.radians(
            130 if lengths[gap] < 10 else 75
        )
        # In the middle of a gap the camera looks into the lumen, away from the polyp's wall.
        assert rotations_in_gaps[rows][lengths[gap] // 2][:, 2] @ AXES[0][:, 2] > 0.5
        parts = [ends[0][0][gap][None], positions[rows], ends[1][0][gap][None]]
        assert np.linalg.norm(np.diff(np.concatenate(parts), axis=0), axis=1).max() < 0.2


@pytest.mark.parametrize("fps", [25.0, 60.0])
def test_travel_stays_in_its_stretch_and_looks_along_it(fps: float) -> None:
    forward = np.arange(900) < 300
    positions, rotations = travel(np.random.default_rng(0), COLON, forward, fps, 5.0)
    places = to_tube(COLON, positions)
    assert places[:, 2].min() >= 5.0 - 1e-9
    step = np.diff(places[:, 2])
    assert np.all(step[:299] > 0)
    assert np.all(step[300:] < 0)
    assert np.hypot(places[:, 0], places[:, 1]).max() < 0.55
    assert rotations[:, 2, 2].min() > 0.2
    assert angles_between(rotations).max() < math.radians(6)
    empty, _ = travel(np.random.default_rng(0), COLON, np.zeros(0, bool), 25.0, 5.0)
    assert empty.shape == (0, 3)


def test_blinks_cover_short_gaps_and_cuts() -> None:
    plan = mini_plan()
    blink = plan.conditions.blink
    gaps = [(a.end, b.first) for a, b in itertools.pairwise(plan.timeline.looks)]
    short = [(start, stop) for start, stop in gaps if stop - start <= BLINK_GAP]
    assert short
    assert all(blink[start:stop].all() for start, stop in short)
    jump = np.linalg.norm(np.diff(plan.path.positions, axis=0), axis=1)
    cut = np.flatnonzero(jump > 0.5)
    assert len(cut)
    assert np.all(blink[cut] | blink[cut + 1])


def test_the_camera_is_near_its_polyp_in_looks_and_far_before_them() -> None:
    plan = mini_plan()
    z = plan.path.positions[:, 2]
    first = plan.timeline.looks[0].first
    assert np.all(z[: first // 2] >= FREE - 1e-6)
    for look in plan.timeline.looks:
        polyp_z = float(plan.lumps[look.polyp].centre[2])
        assert np.abs(z[look.first : look.end] - polyp_z).max() < 2.5


def test_exposures_are_continuous_between_looks() -> None:
    plan = mini_plan()
    looks = plan.timeline.looks
    start, stop = looks[1].end, looks[2].first
    between = plan.path.exposures[start:stop]
    ends = plan.path.exposures[[start - 1, stop]]
    assert np.all((between >= ends.min() - 1e-9) & (between <= ends.max() + 1e-9))


def timeline() -> Timeline:
    return dataclasses.replace(
        mini_plan().timeline,
        treated=((0, 100, 180), (1, 300, 360)),
        jets=((20, 40),),
        smoke=((150, 260),),
    )


def test_picture_motion_of_a_turn_equals_its_tangent() -> None:
    """A turn to the right by one degree moves the picture left by the tangent of one degree."""
    angle = np.radians(1.0)
    c, s = np.cos(angle), np.sin(angle)
    turns = np.stack([np.eye(3), np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])])
    path = CameraPath(np.zeros((2, 3)), turns, np.ones(2), np.ones((2, 3)))
    motion = picture_motion(path, np.tile([0.0, 0, 2], (2, 1)))
    np.testing.assert_allclose(motion[0], [-0.5 / np.tan(np.radians(44)) * np.tan(angle), 0])
    np.testing.assert_array_equal(motion[0], motion[1])
    assert picture_motion(path[np.array([0])], np.zeros((1, 3))).tolist() == [[0, 0]]


def test_distances_in_focus_are_sharp() -> None:
    far, near = np.array([SHARP_FAR, 1.0, 3.0]), np.array([SHARP_NEAR[0], 0.2, SHARP_NEAR[1]])
    np.testing.assert_allclose(defocus(far, np.zeros(3, bool)), 0, atol=1e-12)
    np.testing.assert_allclose(defocus(near, np.ones(3, bool)), 0, atol=1e-12)
    close = np.array([0.15, 0.1])
    assert np.all(np.diff(defocus(close, np.zeros(2, bool))) > 0)
    assert np.all(defocus(close, np.zeros(2, bool)) > defocus(close, np.ones(2, bool)))


def test_instruments_are_in_view_while_a_polyp_is_treated() -> None:
    tools = draw_instruments(np.random.default_rng(0), mini_spec((8.0, 2.0, 3.0)), timeline())
    in_view = tools[:, 0] > 0
    assert np.flatnonzero(in_view)[[0, -1]].tolist() == [100, 360]
    assert not in_view[181:300].any()
    assert set(tools[100:181, 2]) == {SNARE}
    assert set(tools[300:361, 2]) == {FORCEPS}
    assert tools[:, 0].max() <= 1
    assert np.abs(tools[in_view, 1] - np.pi / 2).max() < 1.2


def test_smoke_and_water_are_limited_to_their_spans() -> None:
    rng = np.random.default_rng(0)
    haze, splash = draw_haze(rng, 25.0, timeline()), draw_splash(rng, 25.0, timeline())
    assert haze.max() > 0.15
    assert not haze[:150].any()
    assert not haze[261:].any()
    assert splash[20:41].min() > 0
    assert not splash[:20].any()
    assert not splash[67:].any()
    assert max(haze.max(), splash.max()) <= 1


@pytest.mark.parametrize("seed", [0, 1])
def test_every_frame_has_a_camera_and_valid_conditions(seed: int) -> None:
    plan = mini_plan(seed)
    conditions = plan.conditions
    for name, values in (vars(plan.path) | vars(conditions)).items():
        assert len(values) == plan.spec.n_frames, name
        assert np.isfinite(values).all(), name
    assert np.abs(conditions.motion).max() <= MOST_MOTION + 1e-6
    assert 0 <= conditions.focus.min() <= conditions.focus.max() < 0.1
    assert conditions.focus[conditions.blink].min() >= 0.03 - 1e-6
    assert conditions.phase.dtype == conditions.focus.dtype == np.float32
    assert conditions.near.dtype == conditions.blink.dtype == np.bool_
