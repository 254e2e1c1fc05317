"""Rotations of the camera: (3, 3) matrices with columns right, down, forward in the world."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def unit(vectors: Array) -> Array:
    """Vectors (..., 3) made of length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def look_along(forward: Array, up: Array) -> Array:
    """Rotations (s, 3, 3), columns right, down, forward, for directions and rough ups (s, 3)."""
    forward = unit(forward)
    right = unit(np.cross(forward, up))
    return np.stack([right, np.cross(forward, right), forward], axis=-1)


def rotation(axis: Array, angle: Array) -> Array:
    """Rodrigues' rotations (s, 3, 3) about unit axes (s, 3) by angles (s,), radians."""
    zero = np.zeros(len(axis))
    x, y, z = axis.T
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
    s, c = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    return np.asarray(np.eye(3) + s * cross + (1 - c) * (cross @ cross))


def turn_own(rotations: Array, axis: int, angles: Array) -> Array:
    """Turn cameras about an axis of their own: R @ rotation(e_axis, angle), without the product.

    Args:
        rotations: (s, 3, 3).
        axis: 0 right (a positive angle looks up), 1 down (looks right), 2 forward (rolls).
        angles: (s,) radians.
    """
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    i, j = (axis + 1) % 3, (axis + 2) % 3
    turned = rotations.copy()
    turned[:, :, i] = c * rotations[:, :, i] + s * rotations[:, :, j]
    turned[:, :, j] = c * rotations[:, :, j] - s * rotations[:, :, i]
    return turned


def look_down(axes: Array, azimuth: Array, elevation: Array) -> tuple[Array, Array]:
    """Cameras around places on a wall that look at them, without a pole anywhere.

    The right side of the picture is the tangent of the circle of azimuth, so that small changes
    of azimuth and elevation are small turns even straight above the place.

    Args:
        axes: (s, 3, 3) columns along the wall, around, and into the lumen.
        azimuth: (s,) 0 along the first axis, radians.
        elevation: (s,) above the wall, radians.

    Returns:
        Unit ways (s, 3) from the places to the cameras, and rotations (s, 3, 3).
    """
    ca, sa = np.cos(azimuth)[:, None], np.sin(azimuth)[:, None]
    ce, se = np.cos(elevation)[:, None], np.sin(elevation)[:, None]
    along, around, inward = axes[:, :, 0], axes[:, :, 1], axes[:, :, 2]
    flat = ca * along + sa * around
    way = ce * flat + se * inward
    right = ca * around - sa * along
    down = se * flat - ce * inward  # so that right x down = forward = -way
    return way, np.stack([right, down, -way], axis=-1)


def axis_angle(turns: Array) -> tuple[Array, Array]:
    """Axes (s, 3) and angles (s,), 0 to pi, of rotations (s, 3, 3)."""
    trace = turns[:, 0, 0] + turns[:, 1, 1] + turns[:, 2, 2]
    angle = np.arccos(np.clip((trace - 1) / 2, -1, 1))
    axis = np.stack(
        [
            turns[:, 2, 1] - turns[:, 1, 2],
            turns[:, 0, 2] - turns[:, 2, 0],
            turns[:, 1, 0] - turns[:, 0, 1],
        ],
        axis=1,
    )
    axis[angle < 1e-6] = (0.0, 0.0, 1.0)
    # Near half a turn the antisymmetric part vanishes: R + 1 is 2 a a^T.
    for row in np.flatnonzero(angle > np.pi - 1e-3):
        axis[row] = (turns[row] + np.eye(3))[:, int(np.argmax(np.diag(turns[row])))]
    return unit(axis), angle


def turn_between(
    first: Array, last: Array, t: Array, which: NDArray[np.integer[Any]] | None = None
) -> Array:
    """Rotations on the shortest ways between pairs of rotations.

    Args:
        first: (k, 3, 3).
        last: (k, 3, 3).
        t: (s,) how far on the way, 0 to 1.
        which: (s,) index of the pair; without it s = k, one each.

    Returns:
        (s, 3, 3).
    """
    axis, angle = axis_angle(last @ first.transpose(0, 2, 1))
    if which is not None:
        axis, angle, first = axis[which], angle[which], first[which]
    return np.asarray(rotation(axis, angle * t) @ first)
