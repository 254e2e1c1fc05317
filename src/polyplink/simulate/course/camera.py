"""The camera frame by frame: its path, its rotations, and the smooth motion they are made of.

Rotations are (3, 3) matrices with columns right, down, forward in the world. They are computed by
hand because `scipy.spatial` takes 0.3 s to import, in every worker process.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from polyplink.simulate.colon.surface import Colon, centre_line, to_world

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

# A wander is two sine waves of these sizes; the second is so many times as fast.
WANDER = ((0.8, 1.0), (0.45, 1.9))
WANDER_RATE = 2 * np.pi * sum(size * speed for size, speed in WANDER)


class Rows:
    """Base of records of arrays whose rows belong together."""

    def some(self, rows: Index | Mask) -> Self:
        """A copy with some of the rows."""
        return type(self)(**{name: values[rows] for name, values in vars(self).items()})

    def put(self, rows: Index | Mask, other: Self) -> None:
        """Overwrite some of the rows."""
        for name, values in vars(self).items():
            values[rows] = getattr(other, name)


@dataclass(frozen=True)
class CameraPath(Rows):
    """The camera in s frames.

    Attributes:
        positions: (s, 3).
        rotations: (s, 3, 3) columns: right, down, forward.
        exposures: (s,) factor on the automatic exposure.
        whites: (s, 3) white balance, factors on RGB.
    """

    positions: Array
    rotations: Array
    exposures: Array
    whites: Array

    @classmethod
    def of(cls, positions: Array, rotations: Array) -> Self:
        """A path with plain exposure and white balance."""
        n = len(positions)
        return cls(positions, rotations, np.ones(n), np.ones((n, 3)))


def wander(turns: NDArray[Any], phases: Array) -> Array:
    """A smooth back and forth within about -1.25 to 1.25.

    Its rate is at most `WANDER_RATE` per turn.

    Args:
        turns: (n,) time, in turns of the slower wave.
        phases: (n, 2) or (2,) radians.
    """
    waves = [
        size * np.sin(2 * np.pi * speed * turns + phases[..., index])
        for index, (size, speed) in enumerate(WANDER)
    ]
    return np.asarray(sum(waves))


def smooth(t: Array) -> Array:
    """Smoothstep of t in 0 to 1: begins and ends at rest."""
    return t * t * (3 - 2 * t)


def to_tube(colon: Colon, positions: Array) -> Array:
    """World positions (s, 3) to tube coordinates (s, 3): offset from the centre line, z."""
    x, y = centre_line(colon, torch.from_numpy(positions[:, 2]))
    return np.asarray(positions - np.stack([x, y, torch.zeros_like(x)], axis=1))


def from_tube(colon: Colon, places: Array) -> Array:
    """Tube coordinates (s, 3) to world positions (s, 3)."""
    x, y = centre_line(colon, torch.from_numpy(places[:, 2]))
    return np.asarray(places + np.stack([x, y, torch.zeros_like(x)], axis=1))


def carry(colon: Colon, points: Array, phase: Array) -> Array:
    """Where the peristaltic wave of phases (n,) carries points (n, 3) at rest."""
    moved = to_world(colon, torch.from_numpy(points.T.copy()), torch.from_numpy(phase))
    return np.asarray(moved.numpy().T)


def unit(vectors: Array) -> Array:
    """Vectors (..., 3) scaled to length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def look_along(forward: Array, up: Array) -> Array:
    """Rotations (s, 3, 3) for viewing directions and rough up directions (s, 3)."""
    forward = unit(forward)
    right = unit(np.cross(forward, up))
    return np.stack([right, np.cross(forward, right), forward], axis=-1)


def look_down(axes: Array, azimuth: Array, elevation: Array) -> tuple[Array, Array]:
    """Cameras around places on a wall that look at them, without a singularity at the pole.

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


def turn_between(first: Array, last: Array, t: Array, which: Index) -> Array:
    """Rotations on the shortest ways between k pairs of rotations.

    Args:
        first: (k, 3, 3).
        last: (k, 3, 3).
        t: (s,) how far on the way, 0 to 1.
        which: (s,) index of the pair.

    Returns:
        (s, 3, 3).
    """
    # Axis and angle of the turns R = last first^T (k, 3, 3).
    turns = last @ first.transpose(0, 2, 1)
    trace = turns[:, 0, 0] + turns[:, 1, 1] + turns[:, 2, 2]
    angle = np.arccos(np.clip((trace - 1) / 2, -1, 1))
    skew = turns - turns.transpose(0, 2, 1)
    axis = np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=1)
    axis[angle < 1e-6] = (0.0, 0.0, 1.0)
    # Near half a turn the antisymmetric part vanishes: R + 1 is 2 a a^T.
    for row in np.flatnonzero(angle > np.pi - 1e-3):
        axis[row] = (turns[row] + np.eye(3))[:, int(np.argmax(np.diag(turns[row])))]
    # Rodrigues' formula: 1 + sin K + (1 - cos) K^2, K the cross product with the axis.
    x, y, z = unit(axis)[which].T
    zero = np.zeros(len(x))
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
    s, c = (part[:, None, None] for part in (np.sin(angle[which] * t), np.cos(angle[which] * t)))
    return np.asarray((np.eye(3) + s * cross + (1 - c) * (cross @ cross)) @ first[which])
