import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.simulate.course.first_camera import (
    CLEARANCE,
    MAX_STEP,
    CameraPath,
    Target,
    draw_view,
    follow_gap,
    follow_lumen,
    follow_view,
    from_tube,
    join_paths,
    keep_clear,
    smooth,
    to_tube,
)
from polyplink.simulate.picture.patient import draw_colon
from polyplink.simulate.picture.polyp import wall_frame
from tests.simulate.scenes import degrees

SEEDS = st.integers(0, 2**32 - 1)
COLON = draw_colon(np.random.default_rng(0))


def target_at(z: float, angle: float = 1.0) -> Target:
    point, axes = wall_frame(COLON, z, angle)
    return Target(point.double().numpy(), axes.double().numpy(), 0.2)


def off_axis(path: CameraPath, target: Target) -> np.ndarray:
    """Angle from the middle of the image to the polyp, degrees."""
    way = target.centre - path.positions
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    return np.asarray(np.degrees(np.arccos(np.clip((way * path.rotations[:, :, 2]).sum(1), -1, 1))))


def assert_continuous(path: CameraPath, turn: float) -> None:
    assert np.linalg.norm(np.diff(path.positions, axis=0), axis=1).max() <= 2 * MAX_STEP
    turns = [degrees(a, b) for a, b in zip(path.rotations[:-1], path.rotations[1:], strict=True)]
    assert max(turns) <= turn
    assert np.abs(np.diff(np.log(path.exposures))).max() < 0.6


def test_smooth_begins_and_ends_at_rest() -> None:
    assert smooth(np.array([0.0, 0.5, 1.0])).tolist() == [0, 0.5, 1]
    assert smooth(np.array([1e-3, 1 - 1e-3])) == pytest.approx([0, 1], abs=1e-5)


@given(st.lists(st.tuples(*[st.floats(-3, 3)] * 3), min_size=1, max_size=9))
def test_tube_coordinates_go_both_ways(places: list[tuple[float, float, float]]) -> None:
    there = np.array(places)
    np.testing.assert_allclose(to_tube(COLON, from_tube(COLON, there)), there, atol=1e-9)
    clear = keep_clear(there)
    assert np.hypot(clear[:, 0], clear[:, 1]).max() <= CLEARANCE + 1e-9
    np.testing.assert_array_equal(clear[:, 2], there[:, 2])
    inside = np.hypot(there[:, 0], there[:, 1]) < CLEARANCE
    np.testing.assert_allclose(clear[inside], there[inside])


@settings(deadline=None)
@given(SEEDS)
def test_a_look_keeps_the_polyp_in_view_and_moves_smoothly(seed: int) -> None:
    target = target_at(0.0)
    path = follow_view(COLON, target, draw_view(np.random.default_rng(seed), 0, 0.2, 33))
    assert len(path.positions) == 33
    assert off_axis(path, target).max() < 22
    assert_continuous(path, turn=8)


@settings(deadline=None)
@given(SEEDS, st.booleans())
def test_a_gap_loses_the_polyp_and_joins_two_looks(seed: int, travel: bool) -> None:
    rng = np.random.default_rng(seed)
    first, last = target_at(0.0), target_at(-5.0, 3.0)
    targets = (first, last if travel else first)
    before, after = (follow_view(COLON, t, draw_view(rng, 0, 0.2, 30)) for t in targets)
    gap = follow_gap(rng, COLON, targets, before, after)
    assert off_axis(gap, targets[0]).max() > 65
    assert_continuous(join_paths([before, gap, after]), turn=75)


def test_gaps_are_short_unless_there_is_far_to_go() -> None:
    rng = np.random.default_rng(0)
    near, far = target_at(0.0), target_at(-6.0)
    here, there = (follow_view(COLON, t, draw_view(rng, 0, 0.2, 30)) for t in (near, far))
    assert len(follow_gap(rng, COLON, (near, near), here, here).positions) < 16
    assert len(follow_gap(rng, COLON, (near, far), here, there).positions) >= 6 / MAX_STEP


def test_the_lumen_path_withdraws_and_looks_ahead() -> None:
    path = follow_lumen(np.random.default_rng(0), COLON, 50)
    assert np.all(np.diff(path.positions[:, 2]) < 0)
    assert path.rotations[:, 2, 2].min() > math.cos(math.radians(75))
    assert_continuous(path, turn=8)


def test_short_looks_go_less_far() -> None:
    spans = []
    for frames in (10, 33):
        views = [draw_view(np.random.default_rng(seed), 0, 0.2, frames) for seed in range(30)]
        spans.append(np.mean([abs(v.roll[1] - v.roll[0]) for v in views]))
    assert spans[0] < 0.6 * spans[1]
