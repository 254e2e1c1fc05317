import dataclasses
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyplink.simulate.colon.surface import draw_colon
from polyplink.simulate.course.camera import (
    WANDER_RATE,
    CameraPath,
    carry,
    empty_path,
    from_tube,
    smooth,
    to_tube,
    wander,
)

COLON = dataclasses.replace(draw_colon(np.random.default_rng(0)), wave=0.05, wave_rate=1.3)
PLACES: st.SearchStrategy[np.ndarray] = st.lists(
    st.tuples(*[st.floats(-3, 3)] * 3), min_size=1, max_size=9
).map(np.asarray)


@given(PLACES)
def test_tube_coordinates_go_both_ways(places: np.ndarray) -> None:
    np.testing.assert_allclose(to_tube(COLON, from_tube(COLON, places)), places, atol=1e-9)


@given(PLACES, st.floats(0, 6))
def test_the_wave_scales_the_way_from_the_centre_line(places: np.ndarray, phase: float) -> None:
    points = from_tube(COLON, places)
    moved = to_tube(COLON, carry(COLON, points, np.full(len(points), phase)))
    for before, after in zip(places, moved, strict=True):
        g = 1 + COLON.wave * math.sin(COLON.wave_rate * before[2] - phase)
        np.testing.assert_allclose(after, before * [g, g, 1], atol=1e-9)


@given(st.floats(0, 6), st.floats(0, 6), st.floats(0.1, 5))
def test_a_wander_is_bounded_and_no_faster_than_it_says(a: float, b: float, turns: float) -> None:
    time = np.linspace(0, turns, 200)
    way = wander(time, np.array([a, b]))
    assert np.abs(way).max() <= 1.25 + 1e-9
    assert np.abs(np.diff(way)).max() <= WANDER_RATE * (time[1] - time[0]) + 1e-9


def test_smooth_begins_and_ends_at_rest() -> None:
    assert smooth(np.array([0.0, 0.5, 1.0])).tolist() == [0, 0.5, 1]
    np.testing.assert_allclose(smooth(np.array([1e-3, 1 - 1e-3])), [0, 1], atol=1e-5)


def test_some_and_put_are_each_others_inverse() -> None:
    path, rows = empty_path(5), np.array([1, 3])
    part = CameraPath(np.ones((2, 3)), np.ones((2, 3, 3)), np.full(2, 0.5), np.full((2, 3), 2.0))
    path.put(rows, part)
    for name in ("positions", "rotations", "exposures", "whites"):
        np.testing.assert_array_equal(getattr(path.some(rows), name), getattr(part, name))
    assert path.exposures.tolist() == [1, 0.5, 1, 0.5, 1]
