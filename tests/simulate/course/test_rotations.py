import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from polyplink.simulate.course.rotations import (
    angle_between,
    log_rotation,
    look_along,
    rotation,
    turn_towards,
    unit,
)

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
