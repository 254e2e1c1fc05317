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
Singles = npt.NDArray[np.float32]

PART = 256  # scores that are counted at a time, and looked at again where rounding may decide
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


@numba.njit(cache=True, nogil=True)
def _between(near: Singles, low: np.float32, high: np.float32) -> tuple[int, int]:
    """How many of near (n,) are at least `low`, and how many above `high`."""
    at_least, above = np.int32(0), np.int32(0)  # as wide as the values: more in a vector
    for j in range(near.size):
        at_least += np.int32(1) if near[j] >= low else np.int32(0)
        above += np.int32(1) if near[j] > high else np.int32(0)
    return int(at_least), int(above)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _ahead_of(near: Singles, row: int, own: tuple[int, int], unit: Reals, slack: float) -> Codes:
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
    slack += UNIT32 * 2  # the bounds are rounded to float32, too
    m = levels.size
    ranks = np.empty(m, np.int64)
    for k in range(m):  # from the best match on
        level = levels[m - 1 - k]
        low, high = np.float32(level - slack), np.float32(level + slack)
        ranks[k] = k + 1
        for begin, end in ((0, start), (stop, near.size)):  # all but the query's own polyp
            for left in range(begin, end, PART):
                right = min(left + PART, end)
                at_least, above = _between(near[left:right], low, high)
                ranks[k] += above
                if at_least == above:
                    continue
                for j in range(left, right):
                    if low <= near[j] <= high and exact_cosine(unit[row], unit[j]) >= level:
                        ranks[k] += 1
    return ranks


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _block(
    near: Singles, first: int, bounds: Codes, unit: Reals, slack: float
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
