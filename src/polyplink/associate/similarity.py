"""Similarities between the tracklets of one procedure: visual, temporal, and both together.

Source: Parolari et al., temporally-aware polyp counting, section 2.2: S = alpha V + (1 - alpha) T.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from polyplink.core.arrays import Floats
from polyplink.core.errors import PolyplinkError

ROUNDING = 1e-12  # a spread up to this is rounding noise and is not stretched

VisualForm = Literal["raw_l2", "l2", "sigmoid"]


def _finite_rows(vectors: npt.ArrayLike) -> Floats:
    """Embeddings (n, d) in double precision; a row that is not finite is an error."""
    rows = np.asarray(vectors, dtype=np.float64)  # (n, d)
    if rows.ndim != 2:
        raise PolyplinkError(
            f"embeddings of shape {rows.shape} are not a matrix", "give one row per tracklet"
        )
    broken = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if broken.size:
        raise PolyplinkError(
            f"embedding row {broken[0]} is not finite", "embed that tracklet again, or leave it out"
        )
    return rows


def unit_rows(vectors: npt.ArrayLike) -> Floats:
    """Scale every row to length 1, in double precision.

    Args:
        vectors: Embeddings (n, d), one row per tracklet.

    Returns:
        The same directions (n, d), float64.

    Raises:
        PolyplinkError: If the vectors are not a matrix, or a row is zero or not finite; names the
            row.
    """
    rows = _finite_rows(vectors)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)  # (n, 1)
    empty = np.flatnonzero(lengths == 0)
    if empty.size:
        raise PolyplinkError(
            f"embedding row {empty[0]} is zero, so its cosine is undefined",
            "embed that tracklet again, or leave it out",
        )
    return np.asarray(rows / lengths)


DIGITS = 12  # of cosines: rounding keeps ties independent of the row or block of a pair


def cosines(left: Floats, right: Floats) -> Floats:
    """Cosines (a, b) of rows of length 1; equal pairs of rows have exactly equal values.

    In a plain matrix product, the last bits of a pair's value depend on its row, column and block.
    """
    return np.asarray(np.round(left @ right.T, DIGITS))


def cosine(vectors: npt.ArrayLike) -> Floats:
    """Cosine similarity of every two rows, in [-1, 1].

    Args:
        vectors: Embeddings (n, d).

    Returns:
        Matrix (n, n), float64, symmetric.

    Raises:
        PolyplinkError: If a row is zero or not finite.
    """
    unit = unit_rows(vectors)
    return np.clip(cosines(unit, unit), -1.0, 1.0)


def expit(odds: npt.ArrayLike) -> Floats:
    """Probabilities of log odds, as `scipy.special.expit`, which is slow to import."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-np.asarray(odds, dtype=np.float64))))


def min_max(matrix: Floats) -> Floats:
    """Stretch the values of a matrix to [0, 1]; all ones if they are equal up to rounding."""
    if matrix.size == 0:
        return matrix
    low, high = matrix.min(), matrix.max()
    if high - low <= ROUNDING:
        return np.ones_like(matrix)
    return np.asarray((matrix - low) / (high - low))


def visual(vectors: npt.ArrayLike, form: VisualForm = "l2") -> Floats:
    """Visual similarity V of the tracklets of one procedure, in [0, 1].

    The published programs differ:

    - `"raw_l2"` (the code of temporally-aware counting): 1 minus the Euclidean distances between
      the unscaled vectors, stretched to [0, 1] over the whole matrix.
    - `"l2"` (the default): the same for vectors scaled to length 1, so that their lengths do not
      matter.
    - `"sigmoid"` (the thesis, 2.3): 1 / (1 + exp(-cos)), not stretched: all values lie between
      0.27 and 0.73.

    Args:
        vectors: Embeddings (n, d) of one procedure.
        form: One of the three forms.

    Returns:
        V (n, n), float64, symmetric. In the first two forms the diagonal is 1, and all values
        are 1 if every pair is equally similar.

    Raises:
        PolyplinkError: If a row is not finite, or is zero in a form that scales it to length 1.
    """
    if form == "sigmoid":
        return expit(cosine(vectors))
    from scipy.spatial.distance import cdist  # noqa: PLC0415 - slow to import

    rows = _finite_rows(vectors) if form == "raw_l2" else unit_rows(vectors)
    # From differences of vectors: sqrt(2 - 2 cos) would give distances of 1e-8 between equal ones.
    similarity = min_max(-cdist(rows, rows))
    np.fill_diagonal(similarity, 1.0)
    return similarity


def checked_square(matrix: npt.ArrayLike) -> Floats:
    """Check similarities between n > 0 tracklets and return a float64 copy (n, n).

    Raises:
        PolyplinkError: If the matrix is not square or is empty, or a value is not finite.
    """
    square = np.array(matrix, dtype=np.float64, order="C")
    if square.ndim != 2 or square.shape[0] != square.shape[1] or not square.size:
        raise PolyplinkError(
            f"similarities of shape {square.shape} are not a square",
            "give one row and one column per tracklet, and at least one tracklet",
        )
    if not np.isfinite(square).all():
        raise PolyplinkError("a similarity is not finite", "check the embeddings")
    return square


def checked_positions(positions: npt.ArrayLike) -> Floats:
    """Positions (n,), float64, in [0, 1].

    Raises:
        PolyplinkError: If they are not one-dimensional, or one is not finite or outside [0, 1].
    """
    p = np.asarray(positions, dtype=np.float64)
    if p.ndim != 1:
        raise PolyplinkError(f"positions of shape {p.shape} are not a row", "give one per tracklet")
    outside = np.flatnonzero(~((p >= 0.0) & (p <= 1.0)))  # NaN fails both comparisons
    if outside.size:
        raise PolyplinkError(
            f"position {p[outside[0]]} of row {outside[0]} is outside [0, 1]",
            "divide frame numbers by the procedure's annotated span",
        )
    return p


def temporal(positions: npt.ArrayLike, gamma: float) -> Floats:
    """Temporal similarity T = exp(-gamma |p_i - p_j|), stretched to [0, 1].

    Args:
        positions: Positions (n,) in [0, 1].
        gamma: The penalty on distance in time, 0 or more.

    Returns:
        T (n, n), float64, symmetric, 1 on the diagonal; all ones if all positions are equal.

    Raises:
        PolyplinkError: If a position is outside [0, 1] or gamma is negative.
    """
    if not (np.isfinite(gamma) and gamma >= 0):
        raise PolyplinkError(f"gamma {gamma} is not a penalty", "give a number of 0 or more")
    p = checked_positions(positions)
    return min_max(np.exp(-gamma * np.abs(p[:, None] - p[None, :])))
