import dataclasses

import numpy as np
import pytest

from polyplink.simulate.course.camera import CameraPath
from polyplink.simulate.course.conditions import (
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
from polyplink.simulate.course.timeline import Timeline
from tests.simulate.plans import mini_plan, mini_spec


def timeline() -> Timeline:
    return dataclasses.replace(
        mini_plan().timeline,
        treated=((0, 100, 180), (1, 300, 360)),
        jets=((20, 40),),
        smoke=((150, 260),),
    )


def test_the_picture_moves_as_a_turn_by_hand_says() -> None:
    """Turning right by a degree moves the picture left by the tangent of a degree."""
    angle = np.radians(1.0)
    c, s = np.cos(angle), np.sin(angle)
    turns = np.stack([np.eye(3), np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])])
    path = CameraPath(np.zeros((2, 3)), turns, np.ones(2), np.ones((2, 3)))
    moved = picture_motion(path, np.tile([0.0, 0, 2], (2, 1)))
    np.testing.assert_allclose(moved[0], [-0.5 / np.tan(np.radians(44)) * np.tan(angle), 0])
    np.testing.assert_array_equal(moved[0], moved[1])
    assert picture_motion(path[np.array([0])], np.zeros((1, 3))).tolist() == [[0, 0]]


def test_what_is_in_range_is_sharp() -> None:
    far, near = np.array([SHARP_FAR, 1.0, 3.0]), np.array([SHARP_NEAR[0], 0.2, SHARP_NEAR[1]])
    np.testing.assert_allclose(defocus(far, np.zeros(3, bool)), 0, atol=1e-12)
    np.testing.assert_allclose(defocus(near, np.ones(3, bool)), 0, atol=1e-12)
    close = np.array([0.15, 0.1])
    assert np.all(np.diff(defocus(close, np.zeros(2, bool))) > 0)
    assert np.all(defocus(close, np.zeros(2, bool)) > defocus(close, np.ones(2, bool)))


def test_instruments_are_there_while_a_polyp_is_treated() -> None:
    tools = draw_instruments(np.random.default_rng(0), mini_spec((8.0, 2.0, 3.0)), timeline())
    there = tools[:, 0] > 0
    assert np.flatnonzero(there)[[0, -1]].tolist() == [100, 360]
    assert not there[181:300].any()
    assert set(tools[100:181, 2]) == {SNARE}
    assert set(tools[300:361, 2]) == {FORCEPS}
    assert tools[:, 0].max() <= 1
    assert np.abs(tools[there, 1] - np.pi / 2).max() < 1.2


def test_smoke_and_water_are_there_in_their_spans() -> None:
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
def test_all_conditions_are_in_their_ranges(seed: int) -> None:
    conditions = mini_plan(seed).conditions
    n = mini_plan(seed).spec.n_frames
    for field in dataclasses.fields(conditions):
        values = getattr(conditions, field.name)
        assert len(values) == n, field.name
        assert np.isfinite(values).all(), field.name
    assert np.abs(conditions.motion).max() <= MOST_MOTION + 1e-6
    assert 0 <= conditions.focus.min() <= conditions.focus.max() < 0.1
    assert conditions.focus[conditions.blink].min() >= 0.03 - 1e-6
    assert conditions.phase.dtype == conditions.focus.dtype == np.float32
    assert conditions.near.dtype == conditions.blink.dtype == np.bool_
