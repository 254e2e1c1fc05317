"""What can be in a window at all: spheres against its four sides, for all frames at once."""

import numpy as np
from numpy.typing import NDArray

from polyplink.simulate.colon.projection import FOCAL
from polyplink.simulate.picture.march import FAR
from polyplink.simulate.picture.window import Windows

Array = NDArray[np.float64]


def in_windows(
    windows: Windows, positions: Array, rotations: Array, centres: Array, radii: Array
) -> NDArray[np.bool_]:
    """Whether spheres may show: (s, k), False only where no ray can meet them.

    Args:
        windows: s windows.
        positions: (s, 3) of the cameras.
        rotations: (s, 3, 3) columns: right, down, forward.
        centres: (k, 3).
        radii: (k,).
    """
    away = np.einsum("sji,skj->ski", rotations, centres[None] - positions[:, None])  # (s, k, 3)
    width, height = windows.frame
    edges = windows.edges.double().numpy()  # (s, 4)
    middle = np.array([width, height, width, height]) / 2
    sides = (edges - middle) / (width * FOCAL)  # (s, 4) tangents of left, top, right, bottom
    shown = (np.linalg.norm(away, axis=2) < FAR + radii) & (away[:, :, 2] > -radii)
    for side, (axis, sign) in enumerate(((0, 1), (1, 1), (0, -1), (1, -1))):
        tangent = sides[:, side, None]  # (s, 1)
        inward = sign * (away[:, :, axis] - tangent * away[:, :, 2])
        shown &= inward / np.sqrt(1 + tangent**2) > -radii
    return np.asarray(shown)


def groups(shown: NDArray[np.bool_]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows of (s, k) that are alike: their indices, and the columns that are True in them."""
    if not shown.shape[1]:
        return [(np.arange(len(shown)), np.arange(0))] if len(shown) else []
    kinds, which = np.unique(shown, axis=0, return_inverse=True)
    which = which.reshape(-1)
    return [(np.flatnonzero(which == k), np.flatnonzero(kind)) for k, kind in enumerate(kinds)]
