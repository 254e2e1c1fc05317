import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from polyplink.simulate.course.rotations import (
    axis_angle,
    look_along,
    look_down,
    rotation,
    turn_between,
    turn_own,
    unit,
)
from tests.simulate.course.single_turns import angle_between, log_rotation, turn_towards

VECTORS = st.tuples(*[st.floats(-1, 1)] * 3).map(np.array).filter(lambda v: np.linalg.norm(v) > 0.1)
ANGLES = st.floats(0, math.pi)


@given(VECTORS, ANGLES)
def test_rotation_is_scipys(axis: np.ndarray, angle: float) -> None:
    expected = Rotation.from_rotvec(unit(axis) * angle).as_matrix()
    np.testing.assert_allclose(
        rotation(unit(axis[None]), np.array([angle]))[0], expected, atol=1e-9
    )


@given(VECTORS, ANGLES)
def test_log_rotation_gives_axis_and_angle_back(axis: np.ndarray, angle: float) -> None:
    turn = Rotation.from_rotvec(unit(axis) * angle).as_matrix()
    found, size = log_rotation(turn)
    assert size == pytest.approx(angle, abs=1e-5)
    again = Rotation.from_rotvec(found * size).as_matrix()
    np.testing.assert_allclose(again, turn, atol=3e-3)


@given(VECTORS, ANGLES, VECTORS, st.floats(0, 3))
def test_turn_goes_the_shortest_way_from_first_to_last(
    axis: np.ndarray, angle: float, other: np.ndarray, more: float
) -> None:
    first = Rotation.from_rotvec(unit(other) * more).as_matrix()
    last = Rotation.from_rotvec(unit(axis) * angle).as_matrix() @ first
    steps = turn_towards(first, last, np.linspace(0, 1, 5))
    np.testing.assert_allclose(steps[0], first, atol=1e-9)
    np.testing.assert_allclose(steps[-1], last, atol=3e-3)
    for before, after in itertools.pairwise(steps):
        assert angle_between(before, after) == pytest.approx(angle / 4, abs=1e-3)


@given(VECTORS, VECTORS)
def test_look_along_is_a_right_handed_camera(forward: np.ndarray, up: np.ndarray) -> None:
    if np.linalg.norm(np.cross(unit(forward), unit(up))) < 0.05:
        return
    turn = look_along(forward[None], up[None])[0]
    np.testing.assert_allclose(turn.T @ turn, np.eye(3), atol=1e-9)
    assert np.linalg.det(turn) == pytest.approx(1)
    np.testing.assert_allclose(turn[:, 2], unit(forward))
    assert turn[:, 1] @ up < 0  # the second column points down


@given(VECTORS, ANGLES, st.integers(0, 2), ANGLES)
def test_turn_own_is_a_product_from_the_right(
    axis: np.ndarray, angle: float, own: int, by: float
) -> None:
    before = Rotation.from_rotvec(unit(axis) * angle).as_matrix()[None]
    expected = before @ Rotation.from_rotvec(np.eye(3)[own] * by).as_matrix()
    np.testing.assert_allclose(turn_own(before, own, np.array([by])), expected, atol=1e-9)


@given(VECTORS, ANGLES, st.floats(-3, 3), st.floats(0.1, 1.6))
def test_look_down_looks_at_the_place_from_the_asked_way(
    axis: np.ndarray, angle: float, azimuth: float, elevation: float
) -> None:
    axes = Rotation.from_rotvec(unit(axis) * angle).as_matrix()
    way, turn = look_down(axes[None], np.array([azimuth]), np.array([elevation]))
    local = axes.T @ way[0]
    assert math.asin(np.clip(local[2], -1, 1)) == pytest.approx(
        min(elevation, math.pi - elevation), abs=1e-6
    )
    np.testing.assert_allclose(turn[0, :, 2], -way[0], atol=1e-12)
    np.testing.assert_allclose(turn[0].T @ turn[0], np.eye(3), atol=1e-9)
    assert np.linalg.det(turn[0]) == pytest.approx(1)


@given(st.lists(st.tuples(VECTORS, ANGLES, VECTORS, st.floats(0, 3)), min_size=1, max_size=4))
def test_many_turns_at_once_are_the_single_ones(
    turns: list[tuple[np.ndarray, float, np.ndarray, float]],
) -> None:
    first = np.stack([Rotation.from_rotvec(unit(o) * m).as_matrix() for _, _, o, m in turns])
    last = np.stack([Rotation.from_rotvec(unit(a) * b).as_matrix() for a, b, _, _ in turns])
    axis, angle = axis_angle(last @ first.transpose(0, 2, 1))
    again = Rotation.from_rotvec(axis * angle[:, None]).as_matrix()
    np.testing.assert_allclose(again @ first, last, atol=3e-3)
    which = np.repeat(np.arange(len(turns)), 3)
    t = np.tile([0.0, 0.4, 1.0], len(turns))
    expected = [turn_towards(first[k], last[k], t[:3]) for k in range(len(turns))]
    found = turn_between(first, last, t, which)
    np.testing.assert_allclose(found, np.concatenate(expected), atol=3e-3)
