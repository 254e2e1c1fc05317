"""The k rows of a large matrix that are most similar to a vector, exactly, in one pass over bytes.

Reading the rows is what a search costs: a million vectors of 256 numbers are 1 GB in float32. So
each row is also stored in 8 bits, together with the length of the rounding error. One pass over
the bytes gives every similarity with a bound on its error (Cauchy-Schwarz: the dot product of a
unit vector with the rounding error is at most the error's length). Rows whose upper bound lies
below the k-th largest lower bound cannot be among the k; the few others are compared in double
precision. The answer is that of comparing all rows so.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import cosines
from polyplink.core.compiled import njit
from polyplink.evaluate.ranking import parallel

BLOCK = 65_536  # rows that a thread scans at a time, and that are compared exactly at a time
ROUNDING = 1e-5  # above what float32 loses in a dot product of unit vectors of up to 4,096 numbers
_INT32 = 2**31 - 1

Reals = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


class Codes(NamedTuple):
    """Unit rows (n, d) in 8 bits: row i is about codes[i] * scale[i], wrong by error[i] in length.

    `codes` int8 (n, d); `scale` and `error` float32 (n,).
    """

    codes: npt.NDArray[np.int8]
    scale: npt.NDArray[np.float32]
    error: npt.NDArray[np.float32]


def encode_rows(unit: npt.NDArray[np.float32]) -> Codes:
    """Round unit rows (n, d) to 8 bits, each with its own scale.

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
    about: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.bool_]],
    query: npt.NDArray[np.int16],
    step_slack: tuple[float, float],
    bounds: tuple[npt.NDArray[np.float32], Reals],
) -> None:
    """Bound the cosines of rows (n, d); `bounds`: every upper one (n,), the k largest lower (k,).

    `about`: scale, error and whether to look at the row, (n,) each.
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
    keep: npt.NDArray[np.bool_] | None = None,
) -> tuple[Rows, Reals]:
    """The k rows with the largest cosine to a vector, exactly; equal ones in the order of the rows.

    Args:
        query: Vector (d,) of length 1.
        unit: Rows (n, d) of length 1; memory-mapped, as only candidates are read.
        stored: The same rows in 8 bits, from `encode_rows`.
        k: How many; fewer where there are fewer rows.
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

    def work(starts: Iterator[int]) -> Reals:
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
    for a in range(0, len(candidates), BLOCK):  # one block, but where nearly all rows are alike
        block = candidates[a : a + BLOCK]
        exact = cosines(unit[block].astype(np.float64), vector[None])[:, 0]
        rows, similarities = np.concatenate([rows, block]), np.concatenate([similarities, exact])
        first = np.lexsort((rows, -similarities))[:k]
        rows, similarities = rows[first], similarities[first]
    return rows, similarities
