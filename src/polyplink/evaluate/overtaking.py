"""How many others stand before each match: ranks without sorting, exact, in blocks.

Similarities are computed twice as fast in float32, and that is nearly always enough: a score is
compared with a match's exact one, and only where the two are nearer to each other than rounding
can tell is it computed again in double precision. The counts are those of exact scores.
"""

import numba
import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import DIGITS

Reals = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

UNIT32 = 2.0**-24  # half a last place of float32 near 1


def tolerance(width: int) -> float:
    """Bound on the error of a float32 product of two rows of length 1 and this width.

    Products and sums of d terms err by at most d u times the sum of |x_i y_i|, which Cauchy and
    Schwarz bound by 1; rounding both rows to float32 adds 2 u.
    """
    return (width + 4) * UNIT32 * 1.01


@numba.njit(cache=True, nogil=True, error_model="numpy")
def exact_cosine(a: Reals, b: Reals) -> float:
    """Cosine of two rows (d,) of length 1, rounded so that equal ones are equal."""
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    scale = 10.0**DIGITS
    return float(np.rint(total * scale) / scale)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _place(levels: Reals, value: float) -> int:
    """How many of the rising levels (m,) are at most the value."""
    low, high = 0, levels.size
    while low < high:
        middle = (low + high) // 2
        if levels[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _ahead_of(
    near: npt.NDArray[np.float32], row: int, own: tuple[int, int], unit: Reals, slack: float
) -> Codes:
    """Ranks (m,) of one query's matches, best first.

    Args:
        near: The query's similarities (n,), as float32 has them.
        row: The query.
        own: First row of its polyp, and one past its last.
        unit: Rows of length 1 (n, d).
        slack: How far `near` may be from the exact similarities.
    """
    start, stop = own
    levels = np.empty(stop - start - 1)
    place = 0
    for j in range(start, stop):
        if j != row:
            levels[place] = exact_cosine(unit[row], unit[j])
            place += 1
    levels.sort()
    m = levels.size
    counts = np.zeros(m + 1, np.int64)  # others between two matches
    bottom = levels[0] - slack
    for j in range(near.size):
        score = np.float64(near[j])
        if score < bottom or start <= j < stop:
            continue
        place = _place(levels, score)
        if (place < m and levels[place] - score <= slack) or (
            place > 0 and score - levels[place - 1] <= slack
        ):
            place = _place(levels, exact_cosine(unit[row], unit[j]))
        counts[place] += 1
    ranks = np.empty(m, np.int64)
    before = 0
    for k in range(m):  # from the best match on
        before += counts[m - k]
        ranks[k] = before + k + 1
    return ranks


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _block(
    near: npt.NDArray[np.float32], first: int, bounds: Codes, unit: Reals, slack: float
) -> tuple[Reals, Codes]:
    """Average precision (b,) and best rank (b,) of b queries, whose first is row `first`."""
    ap, best = np.full(near.shape[0], np.nan), np.zeros(near.shape[0], np.int64)
    for place in range(near.shape[0]):
        row = first + place
        start, stop = bounds[row, 0], bounds[row, 1]
        if stop - start < 2:
            continue
        ranks = _ahead_of(near[place], row, (start, stop), unit, slack)
        total = 0.0
        for k in range(ranks.size):
            total += (k + 1) / ranks[k]
        ap[place], best[place] = total / ranks.size, ranks[0]
    return ap, best


def precision_and_best(unit: Reals, polyp: Codes, *, block: int = 512) -> tuple[Reals, Codes]:
    """Average precision of every query and the rank of its best match.

    Every row queries all others; rows of one polyp match. Ties count against the query: a match
    ranks behind every non-match of the same score.

    Args:
        unit: Rows of length 1 (n, d).
        polyp: Polyp of every row (n,).
        block: Queries whose similarities are held in memory at a time, in float32.

    Returns:
        Average precision (n,), NaN where nothing matches; rank of the best match (n,), from 1,
        0 where nothing matches.
    """
    n, width = unit.shape
    order = np.argsort(polyp, kind="stable")  # matches lie side by side
    grouped = polyp[order]
    bounds = np.stack(
        [np.searchsorted(grouped, grouped, side) for side in ("left", "right")], axis=1
    )  # n 2
    rows = np.ascontiguousarray(unit[order])  # n d
    narrow = rows.astype(np.float32)
    room = np.empty((min(block, n), n), dtype=np.float32)
    found, ranks = np.full(n, np.nan), np.zeros(n, dtype=np.int64)
    for start in range(0, n, block):
        part = narrow[start : start + block]
        near = np.matmul(part, narrow.T, out=room[: len(part)])  # block n
        queries = order[start : start + block]
        found[queries], ranks[queries] = _block(near, start, bounds, rows, tolerance(width))
    return found, ranks
