"""How many others stand before each match: ranks without sorting, exact, in blocks.

Similarities are computed twice as fast in float32, and that is nearly always enough: a score is
compared with a match's exact one, and only where the two are nearer to each other than rounding
can tell is it computed again in double precision. The counts are those of exact scores.

A block of similarities serves twice: its rows query its columns, and its columns the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.core.compiled import njit
from polyplink.evaluate.exact import exact_cosine
from polyplink.evaluate.side_by_side import side_by_side

Reals = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Singles = npt.NDArray[np.float32]

BLOCK = 480  # rows and columns of a block; no power of two, whose columns share places in caches
PART = 512  # scores that are counted at a time, and looked at again where rounding may decide
FINE = 32  # of those, scores that are looked at one by one
UNIT32 = 2.0**-24  # half a last place of float32 near 1


def tolerance(width: int) -> float:
    """Bound on the error of a float32 product of two rows of length 1 and this width.

    Products and sums of d terms err by at most d u times the sum of |x_i y_i|, which Cauchy and
    Schwarz bound by 1; rounding both rows to float32 adds 2 u.
    """
    return (width + 4) * UNIT32 * 1.01


@dataclass(frozen=True)
class Matches:
    """The m matches of all n queries, where rows of one polyp lie side by side.

    Attributes:
        rows: Rows of length 1 (n, d).
        start: First row of each row's polyp (n,).
        stop: One past the last (n,).
        first: Where each query's matches begin, and m (n + 1,).
        levels: Their exact similarities (m,), each query's from the best on.
    """

    rows: Reals
    start: Codes
    stop: Codes
    first: Codes
    levels: Reals

    @classmethod
    def of(cls, rows: Reals, grouped: Codes) -> "Matches":
        """Look up the matches of rows (n, d) whose polyps (n,) rise."""
        start = np.searchsorted(grouped, grouped, "left")
        stop = np.searchsorted(grouped, grouped, "right")
        first = np.concatenate([[0], np.cumsum(stop - start - 1)])
        return cls(rows, start, stop, first, _levels(rows, start, stop, first))


@njit(error_model="numpy")
def _levels(rows: Reals, start: Codes, stop: Codes, first: Codes) -> Reals:
    levels = np.empty(first[-1])
    for i in range(len(rows)):
        own = levels[first[i] : first[i + 1]]
        place = 0
        for j in range(start[i], stop[i]):
            if j != i:
                own[place] = -exact_cosine(rows[i], rows[j])
                place += 1
        own.sort()
    return -levels


# Counts are kept in float32, exact up to 16 million, so that they are as wide as the scores: numba
# makes 64 bits of every integer sum. Being whole, they may be added in any order.
@njit(fastmath={"reassoc", "nsz"})
def _between(near: Singles, low: np.float32, high: np.float32) -> tuple[int, int]:
    """How many of near (n,), at most 2^24, are at least `low`, and how many above `high`."""
    one, zero = np.float32(1), np.float32(0)
    at_least, above = zero, zero
    for j in range(near.size):
        at_least += one if near[j] >= low else zero
        above += one if near[j] > high else zero
    return int(at_least), int(above)


@njit(error_model="numpy")
def _again(
    near: Singles,
    bounds: tuple[np.float32, np.float32],
    level: float,
    query: Reals,
    gallery: Reals,
) -> int:
    """How many of near (n,) within the bounds are in truth at least `level`.

    Args:
        near: Similarities of the query, as float32 has them.
        bounds: The least and the largest of which rounding leaves a doubt.
        level: The exact similarity of a match.
        query: The query's row (d,).
        gallery: The rows that are compared with it (n or more, d).
    """
    low, high = bounds
    found = 0
    for left in range(0, near.size, FINE):
        right = min(left + FINE, near.size)
        at_least, above = _between(near[left:right], low, high)
        if at_least == above:
            continue
        for j in range(left, right):
            if low <= near[j] <= high and exact_cosine(query, gallery[j]) >= level:
                found += 1
    return found


@njit(error_model="numpy")
def _count(
    near: Singles,
    corner: tuple[int, int],
    matches: tuple[Reals, Codes, Codes, Codes, Reals],
    slack: float,
    ahead: Codes,
) -> None:
    """Add to `ahead` (m,) how many columns of a block stand before each match of its rows.

    Args:
        near: Similarities (a, b), as float32 has them.
        corner: The block's first query and its first gallery row.
        matches: Fields of `Matches`.
        slack: How far `near` may be from the exact similarities.
        ahead: Counts of all blocks so far.
    """
    rows, start, stop, first, levels = matches
    slack += UNIT32 * 2  # the bounds are rounded to float32, too
    width = near.shape[1]
    for i in range(near.shape[0]):
        row = corner[0] + i
        own = (  # columns of the query's own polyp
            min(max(start[row] - corner[1], 0), width),
            min(max(stop[row] - corner[1], 0), width),
        )
        for k in range(first[row], first[row + 1]):
            level = levels[k]
            low, high = np.float32(level - slack), np.float32(level + slack)
            for begin, end in ((0, own[0]), (own[1], width)):
                for left in range(begin, end, PART):
                    right = min(left + PART, end)
                    at_least, above = _between(near[i, left:right], low, high)
                    ahead[k] += above
                    if at_least == above:
                        continue
                    ahead[k] += _again(
                        near[i, left:right], (low, high), level, rows[row], rows[corner[1] + left :]
                    )


def _overtaken(matches: Matches, block: int, threads: int | None) -> Codes:
    """How many rows of other polyps stand before each match (m,), or beside it."""
    n, width = matches.rows.shape
    fields = (matches.rows, matches.start, matches.stop, matches.first, matches.levels)
    narrow = matches.rows.astype(np.float32)  # n d
    side = max(1, min(block, n))

    def work(corners: Iterator[tuple[int, int]]) -> Codes:
        ahead = np.zeros(matches.levels.size, dtype=np.int64)
        room, mirror_room = np.empty((2, side * side), dtype=np.float32)
        for i, j in corners:
            left, right = narrow[i : i + side], narrow[j : j + side]
            shape = len(left), len(right)
            near = np.matmul(left, right.T, out=room[: shape[0] * shape[1]].reshape(shape))  # a b
            _count(near, (i, j), fields, tolerance(width), ahead)
            if i != j:
                mirror = mirror_room[: near.size].reshape(shape[::-1])  # b a
                np.copyto(mirror, near.T)
                _count(mirror, (j, i), fields, tolerance(width), ahead)
        return ahead

    corners = [(i, j) for i in range(0, n, side) for j in range(i, n, side)]
    return np.asarray(sum(side_by_side(work, corners, threads)))


def precision_and_best(
    unit: Reals, polyp: Codes, *, block: int = BLOCK, threads: int | None = None
) -> tuple[Reals, Codes]:
    """Average precision of every query and the rank of its best match.

    Every row queries all others; rows of one polyp match. Ties count against the query: a match
    ranks behind every non-match of the same score.

    Args:
        unit: Rows of length 1 (n, d).
        polyp: Polyp of every row (n,).
        block: Rows and columns of a block of similarities, in float32; a thread holds two.
        threads: How many; None for one a core. The result is the same.

    Returns:
        Average precision (n,), NaN where nothing matches; rank of the best match (n,), from 1,
        0 where nothing matches.
    """
    n = len(unit)
    order = np.argsort(polyp, kind="stable")  # matches lie side by side
    matches = Matches.of(np.ascontiguousarray(unit[order]), polyp[order])
    many = np.diff(matches.first)  # n
    query = np.repeat(np.arange(n), many)  # m
    place = 1 + np.arange(query.size) - matches.first[query]  # m, among a query's matches
    ranks = place + _overtaken(matches, block, threads)  # m
    found, best = np.full(n, np.nan), np.zeros(n, dtype=np.int64)
    some = many > 0
    sums = np.bincount(query, place / ranks, minlength=n)  # n
    found[order[some]] = sums[some] / many[some]
    best[order[some]] = ranks[matches.first[:-1][some]]
    return found, best
