"""Exact search for the k rows of a large matrix that are most similar to a vector.

The cost of a search is reading the rows: a million vectors of 256 numbers are 1 GB in float32.
Therefore each row is also stored in 8 bits, together with the length of the rounding error. One
pass over these bytes gives every similarity with a bound on its error (Cauchy-Schwarz: the dot
product of a unit vector with the rounding error is at most the error's length). A row with an upper
bound below the k-th largest lower bound cannot be among the k; the few others are compared in
double precision. The result is the same as if all rows were compared in double precision.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import cosines
from polyplink.core.arrays import Flags, Floats
from polyplink.core.compiled import njit
from polyplink.evaluate.ranking import parallel

BLOCK = 65_536  # rows scanned at a time by a thread, and compared exactly at a time
ROUNDING = 1e-5  # bound on float32's error in dot products of unit vectors, up to 4,096 numbers
_INT32 = 2**31 - 1

Rows = npt.NDArray[np.int64]


class Codes(NamedTuple):
    """Unit rows (n, d) in 8 bits: row i is approximately codes[i] * scale[i].

    Attributes:
        codes: (n, d) int8.
        scale: (n,) float32.
        error: (n,) float32, length of the difference between the row and its approximation.
    """

    codes: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float32]
    error: npt.NDArray[np.float32]


def encode_rows(unit: npt.NDArray[np.float32]) -> Codes:
    """Round unit rows (n, d) to 8 bits, with a scale for each row.

    Example:
        >>> encode_rows(np.array([[0.6, -0.8]], np.float32)).codes
        array([[  95, -127]], dtype=int8)
    """
    scale = (np.abs(unit).max(axis=1, initial=0.0) / 127).astype(np.float32)  # n
    codes = np.rint(unit / scale[:, None]).astype(np.int8)  # n d
    error = np.linalg.norm(unit - codes * scale[:, None], axis=1)  # n
    return Codes(codes, scale, (error * (1 + 1e-4)).astype(np.float32))


@njit(error_model="numpy")
def _scan(
    codes: npt.NDArray[np.int8],
    about: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], Flags],
    query: npt.NDArray[np.int16],
    step_slack: tuple[float, float],
    bounds: tuple[npt.NDArray[np.float32], Floats],
) -> None:
    """Bound the cosines of rows (n, d) from above and below.

    Args:
        codes: The rows in 8 bits.
        about: Scale, error, and whether to search the row, (n,) each.
        query: The vector in 16 bits, (d,).
        step_slack: Scale of the query, and bound on the error from rounding it.
        bounds: Outputs: all upper bounds (n,), and the k largest lower bounds (k,).
    """
    (scale, error, keep), (step, slack), (upper, best) = about, step_slack, bounds
    weakest = np.argmin(best)
    for i in range(codes.shape[0]):
        if not keep[i]:
            upper[i] = -np.inf
            continue
        total = np.int32(0)
        for j in range(codes.shape[1]):
            total = np.int32(total + np.int32(codes[i, j]) * np.int32(query[j]))
        similarity = total * step * scale[i]
        bound = error[i] * (1.0 + slack) + slack
        upper[i] = similarity + bound
        if similarity - bound > best[weakest]:
            best[weakest] = similarity - bound
            weakest = np.argmin(best)


def nearest(
    query: npt.ArrayLike,
    unit: npt.NDArray[np.float32],
    stored: Codes,
    k: int,
    keep: Flags | None = None,
) -> tuple[Rows, Floats]:
    """The k rows with the largest cosine to a vector, exactly; ties in the order of the rows.

    Args:
        query: Vector (d,) of length 1.
        unit: Rows (n, d) of length 1, which may be memory-mapped: only candidates are read.
        stored: The same rows in 8 bits, from `encode_rows`.
        k: Number of rows to return, or fewer if there are fewer.
        keep: Rows (n,) to search among; None for all.

    Returns:
        Row numbers and cosines (k,), the most similar first.

    Example:
        >>> unit = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
        >>> rows, similarity = nearest([0.0, 1.0], unit, encode_rows(unit), 2)
        >>> rows.tolist(), similarity.round(2).tolist()
        ([2, 1], [1.0, 0.8])
    """
    n, d = unit.shape
    keep = np.ones(n, np.bool_) if keep is None else keep
    vector = np.asarray(query, dtype=np.float64)  # d
    max_step = min(2**15 - 1, _INT32 // (127 * d))  # 16 bits, less where a sum of d could overflow
    step = max(float(np.abs(vector).max(initial=0.0)) / max_step, 1e-300)
    short = np.rint(vector / step).astype(np.int16)  # d
    slack = float(np.linalg.norm(vector - short * step)) * 1.01 + ROUNDING
    upper = np.empty(n, np.float32)

    def work(starts: Iterator[int]) -> Floats:
        best = np.full(k, -np.inf)
        for a in starts:
            part = slice(a, a + BLOCK)
            about = (stored.scale[part], stored.error[part], keep[part])
            _scan(stored.codes[part], about, short, (step, slack), (upper[part], best))
        return best

    if k < 1 or n == 0:
        return np.zeros(0, np.int64), np.zeros(0)
    lower = np.concatenate(parallel(work, range(0, n, BLOCK)))
    enough = np.partition(lower, len(lower) - k)[-k]  # the k-th largest; -inf: fewer rows than k
    candidates = np.flatnonzero((upper >= enough) & (upper > -np.inf))
    rows, similarities = candidates[:0], np.zeros(0)
    for a in range(0, len(candidates), BLOCK):  # usually one block
        block = candidates[a : a + BLOCK]
        exact = cosines(unit[block].astype(np.float64), vector[None])[:, 0]
        rows, similarities = np.concatenate([rows, block]), np.concatenate([similarities, exact])
        first = np.lexsort((rows, -similarities))[:k]
        rows, similarities = rows[first], similarities[first]
    return rows, similarities
