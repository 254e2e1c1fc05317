"""The camera, frame by frame, and the smooth unrest that all its movements are made of."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polyplink.simulate.colon.surface import Colon, centre_line, to_world

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# A wander is two sine waves of these sizes; the second is so many times as fast.
WANDER = ((0.8, 1.0), (0.45, 1.9))
WANDER_RATE = 2 * np.pi * sum(size * speed for size, speed in WANDER)


@dataclass(frozen=True)
class CameraPath:
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

    def some(self, rows: Index | NDArray[np.bool_]) -> "CameraPath":
        """Some of the frames."""
        return CameraPath(
            self.positions[rows], self.rotations[rows], self.exposures[rows], self.whites[rows]
        )

    def put(self, rows: Index | NDArray[np.bool_], other: "CameraPath") -> None:
        """Overwrite some of the frames."""
        self.positions[rows], self.rotations[rows] = other.positions, other.rotations
        self.exposures[rows], self.whites[rows] = other.exposures, other.whites


def empty_path(n: int) -> CameraPath:
    """A path of n frames that is to be filled."""
    return CameraPath(np.zeros((n, 3)), np.zeros((n, 3, 3)), np.ones(n), np.ones((n, 3)))


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
    """Where the wave of phases (n,) carries points (n, 3) at rest."""
    moved = to_world(colon, torch.from_numpy(points.T.copy()), torch.from_numpy(phase))
    return np.asarray(moved.numpy().T)
