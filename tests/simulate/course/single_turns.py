"""Turns between rotations one by one: what the vectorised ones are held against."""

import math

import numpy as np

from polyplink.simulate.course.rotations import Array, rotation, unit


def log_rotation(turn: Array) -> tuple[Array, float]:
    """Axis (3,) and angle of one rotation (3, 3), angle in 0 to pi."""
    angle = math.acos(float(np.clip((np.trace(turn) - 1) / 2, -1, 1)))
    if angle > math.pi - 1e-3:
        # Near half a turn the antisymmetric part vanishes: R + 1 is 2 a a^T.
        column = (turn + np.eye(3))[:, int(np.argmax(np.diag(turn)))]
        return unit(column), angle
    axis = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    return (unit(axis) if angle > 1e-6 else np.array([0.0, 0.0, 1.0])), angle


def angle_between(first: Array, last: Array) -> float:
    """Angle of the turn between two rotations (3, 3), radians, 0 to pi."""
    return log_rotation(last @ first.T)[1]


def turn_towards(first: Array, last: Array, t: Array) -> Array:
    """Rotations (s, 3, 3) on the shortest way from `first` to `last`, both (3, 3), at t (s,)."""
    axis, angle = log_rotation(last @ first.T)
    return np.asarray(rotation(np.repeat(axis[None], len(t), 0), angle * t) @ first)
