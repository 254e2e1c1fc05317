"""Ranks of all matches in one pass over the similarities: exact, without sorting, in blocks.

Every row queries all others, and rows of one polyp match. A match's rank is one more than the
number of rows before it, so that counting replaces sorting. Rows of the query's own procedure are
counted apart, so that retrieval with and without them comes from one pass.

Similarities are computed in float32, twice as fast, and that is nearly always enough: only a score
that float32 cannot tell from a match's exact similarity is computed again in double precision.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import DIGITS
from polyplink.core.compiled import njit
from polyplink.evaluate.parallel import parallel
from polyplink.evaluate.samples import Samples

Reals = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Singles = npt.NDArray[np.float32]

BLOCK = 480  # rows and columns of a block; no power of two, whose columns share cache sets
PART = 512  # scores that are counted at a time, and looked at again where rounding may decide
FINE = 32  # of those, scores that are looked at one by one
UNIT32 = 2.0**-24  # half a last place of float32 near 1
SCALE = 10.0**DIGITS


# Sums may be taken in any order, so that they are vectorised. The order is the same for all pairs.
@njit(error_model="numpy", fastmath={"reassoc"})
def _dot(a: Reals, b: Reals) -> float:
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@njit(error_model="numpy")
def exact_cosine(a: Reals, b: Reals) -> float:
    """Cosine of two rows (d,) of length 1, rounded as `cosines` does: equal ones are equal."""
    return float(np.rint(_dot(a, b) * SCALE) / SCALE)


def tolerance(width: int) -> float:
    """Bound on the error of a float32 product of two rows of length 1 and this width.

    Products and sums of d terms err by at most d u times the sum of |x_i y_i|, which Cauchy and
    Schwarz bound by 1; rounding both rows to float32 adds 2 u.
    """
    return (width + 4) * UNIT32 * 1.01


@dataclass(frozen=True)
class Grouped:
    """The n tracklets of known polyp, sorted by procedure and polyp.

    Attributes:
        rows: Their rows of length 1 (n, d).
        order: Their rows of the samples (n,).
        procedure: Procedure of each (n,), rising.
        start: First row of each row's polyp (n,).
        stop: One past its last row (n,).
        procedures: How many there are, those without a row included.
    """

    rows: Reals
    order: Codes
    procedure: Codes
    start: Codes
    stop: Codes
    procedures: int

    @classmethod
    def of(cls, unit: Reals, samples: Samples) -> Self:
        """Sort the rows (n, d) of samples; those of unknown polyp are left out."""
        known = np.flatnonzero(samples.known)
        order = known[np.lexsort((samples.polyp[known], samples.procedure[known]))]
        rows, procedure = np.ascontiguousarray(unit[order]), samples.procedure[order]
        return cls(rows, order, procedure, *_bounds(samples.polyp[order]), len(samples.procedures))


def _bounds(grouped: Codes) -> tuple[Codes, Codes]:
    """First row of every row's group (n,) and one past its last (n,), groups being in one piece."""
    ends = np.append(np.flatnonzero(np.diff(grouped)) + 1, grouped.size)
    place = np.searchsorted(ends, np.arange(grouped.size), side="right")
    return np.append(0, ends)[place], ends[place]


def rank_matches(
    grouped: Grouped, *, block: int = BLOCK, threads: int | None = None
) -> tuple[Codes, Reals, Codes, Codes, Codes, Reals]:
    """Let every row query all others: its m matches with what is before them, and what is nearest.

    Ties count against the query: a row of another polyp that is as similar as a match is before it.

    Args:
        grouped: The tracklets of known polyp.
        block: Rows and columns of a block of similarities, in float32; a thread holds two.
        threads: How many; None for one a core. The result is the same.

    Returns:
        Row of each match's query in the samples (m,), the matches of a query being in one piece,
        the best one first; their cosines (m,); their places among the query's matches (m,), from
        1; rows of other procedures, and rows of other polyps of the query's procedure, before
        them (m, 2); of each grouped row the row of the samples that is most similar to it (n,),
        the first among equals, -1 where there is none; its cosine (n,), NaN where there is none.
    """
    n = len(grouped.rows)
    many = grouped.stop - grouped.start - 1  # n, matches of each row
    first = np.concatenate([[0], np.cumsum(many)])  # n + 1, where each row's matches begin
    similarity = _match_similarities(grouped.rows, grouped.start, grouped.stop, first)  # m
    whole = _bounds(grouped.procedure)
    matches = (grouped.rows, similarity, first, grouped.start, grouped.stop, *whole, grouped.order)
    before, nearest, cosine = _in_blocks(matches, block, threads)
    row = np.repeat(np.arange(n), many)  # m
    place = 1 + np.arange(row.size) - first[row]
    found = nearest >= 0
    nearest = np.where(found, grouped.order[nearest], -1) if n else nearest
    return grouped.order[row], similarity, place, before, nearest, np.where(found, cosine, np.nan)


@njit(error_model="numpy")
def _match_similarities(rows: Reals, start: Codes, stop: Codes, first: Codes) -> Reals:
    """Exact similarities of all matches (m,), each query's from the best on."""
    negated = np.empty(first[-1])
    for i in range(len(rows)):
        own = negated[first[i] : first[i + 1]]
        place = 0
        for j in range(start[i], stop[i]):
            if j != i:
                own[place] = -exact_cosine(rows[i], rows[j])
                place += 1
        own.sort()
    return -negated


Matches = tuple[Reals, Reals, Codes, Codes, Codes, Codes, Codes, Codes]
"""The sorted rows (n, d); exact similarities of all matches (m,) and where each row's begin
(n + 1,); first row of each row's polyp and one past its last (n,), the same of its procedure, and
its place before sorting (n,)."""


def _in_blocks(matches: Matches, block: int, threads: int | None) -> tuple[Codes, Codes, Reals]:
    """Rows before each match, elsewhere and own (m, 2); the nearest row and its cosine (n,) each.

    A block of similarities serves twice: its rows query its columns, and its columns the rows.
    """
    rows, similarity, order = matches[0], matches[1], matches[-1]
    n, width = rows.shape
    narrow = rows.astype(np.float32)  # n d
    side = max(1, min(block, n))
    slack = tolerance(width) + UNIT32 * 2  # bounds are rounded to float32, too

    def work(corners: Iterator[tuple[int, int]]) -> tuple[Codes, Codes, Reals]:
        before = np.zeros((similarity.size, 2), dtype=np.int64)
        nearest, cosine = np.full(n, -1), np.full(n, -np.inf)
        room, mirror_room = np.empty((2, side * side), dtype=np.float32)
        for i, j in corners:
            left, right = narrow[i : i + side], narrow[j : j + side]
            shape = len(left), len(right)
            near = np.matmul(left, right.T, out=room[: shape[0] * shape[1]].reshape(shape))  # a b
            _count_before(near, (i, j), matches, slack, before)
            _find_nearer(near, (i, j), matches, slack, (nearest, cosine))
            if i != j:
                mirror = mirror_room[: near.size].reshape(shape[::-1])  # b a
                np.copyto(mirror, near.T)
                _count_before(mirror, (j, i), matches, slack, before)
                _find_nearer(mirror, (j, i), matches, slack, (nearest, cosine))
        return before, nearest, cosine

    corners = [(i, j) for i in range(0, n, side) for j in range(i, n, side)]
    done = parallel(work, corners, threads)
    before, nearest, cosine = done[0]
    for more, other, value in done[1:]:  # one result a thread
        before += more
        first = order[other] < order[nearest]
        better = (value > cosine) | ((value == cosine) & (other >= 0) & first)
        nearest, cosine = np.where(better, other, nearest), np.where(better, value, cosine)
    return before, nearest, cosine


@njit(error_model="numpy")
def _count_before(
    near: Singles, corner: tuple[int, int], matches: Matches, slack: float, before: Codes
) -> None:
    """Count the columns of a block that are before each match of its rows.

    Args:
        near: Similarities (a, b) in float32.
        corner: The block's first query and its first gallery row.
        matches: All matches.
        slack: How far `near` may be from the exact similarities.
        before: Counts of all blocks so far, of other procedures and of the own one (m, 2); changed.
    """
    rows, similarity, first, start, stop, procedure_start, procedure_stop, _ = matches
    width = near.shape[1]
    for i in range(near.shape[0]):
        row = corner[0] + i
        # Columns of the query's procedure are [a, d), and of its polyp [b, c) among them.
        a = min(max(procedure_start[row] - corner[1], 0), width)
        b = min(max(start[row] - corner[1], 0), width)
        c = min(max(stop[row] - corner[1], 0), width)
        d = min(max(procedure_stop[row] - corner[1], 0), width)
        for k in range(first[row], first[row + 1]):
            level = similarity[k]
            for whose, begin, end in ((0, 0, a), (1, a, b), (1, c, d), (0, d, width)):
                for left in range(begin, end, PART):
                    right = min(left + PART, end)
                    gallery = rows[corner[1] + left :]
                    before[k, whose] += _at_least(
                        near[i, left:right], level, slack, rows[row], gallery
                    )


@njit(error_model="numpy")
def _find_nearer(
    near: Singles,
    corner: tuple[int, int],
    matches: Matches,
    slack: float,
    found: tuple[Codes, Reals],
) -> None:
    """Look in a block for columns that are nearer to its rows than the nearest so far.

    Args:
        near: Similarities (a, b) in float32.
        corner: The block's first query and its first gallery row.
        matches: All matches.
        slack: How far `near` may be from the exact similarities.
        found: The nearest row so far, -1 for none, and its exact cosine (n,) each; changed.
    """
    rows, similarity, first, order = matches[0], matches[1], matches[2], matches[7]
    nearest, cosine = found
    width = near.shape[1]
    for i in range(near.shape[0]):
        row = corner[0] + i
        # The nearest row is no farther than the best match, wherever that is.
        bound = cosine[row]
        if first[row] < first[row + 1]:
            bound = max(bound, similarity[first[row]])
        here = min(max(row - corner[1], 0), width)  # the query itself is left out
        after = min(max(row + 1 - corner[1], 0), width)
        for begin, end in ((0, here), (after, width)):
            for left in range(begin, end, FINE):
                right = min(left + FINE, end)
                if _highest(near[i, left:right]) < np.float32(bound - slack):
                    continue
                for j in range(left, right):
                    if near[i, j] < np.float32(bound - slack):
                        continue
                    other = corner[1] + j
                    exact = exact_cosine(rows[row], rows[other])
                    tied = exact == cosine[row] and order[other] < order[nearest[row]]
                    if exact > cosine[row] or tied:
                        cosine[row], nearest[row] = exact, other
                        bound = max(bound, exact)


@njit(error_model="numpy")
def _at_least(near: Singles, level: float, slack: float, query: Reals, gallery: Reals) -> int:
    """How many of at most `PART` scores are at least `level`, exactly.

    Args:
        near: The scores (n,) in float32.
        level: The exact similarity of a match.
        slack: How far `near` may be from the exact similarities.
        query: The query's row (d,).
        gallery: The rows that are compared with it (n or more, d).
    """
    low, high = np.float32(level - slack), np.float32(level + slack)
    maybe, found = _count_between(near, low, high)
    if maybe == found:  # as nearly always: no score is in doubt
        return found
    for left in range(0, near.size, FINE):
        right = min(left + FINE, near.size)
        maybe, above = _count_between(near[left:right], low, high)
        if maybe == above:
            continue
        for j in range(left, right):
            if low <= near[j] <= high and exact_cosine(query, gallery[j]) >= level:
                found += 1
    return found


# Counts are kept in float32, exact up to 16 million, so that they are as wide as the scores: numba
# makes 64 bits of every integer sum. Being whole, they may be added in any order.
@njit(fastmath={"reassoc", "nsz"})
def _count_between(near: Singles, low: np.float32, high: np.float32) -> tuple[int, int]:
    """How many of near (n,), at most 2^24, are at least `low`, and how many above `high`."""
    one, zero = np.float32(1), np.float32(0)
    at_least, above = zero, zero
    for j in range(near.size):
        at_least += one if near[j] >= low else zero
        above += one if near[j] > high else zero
    return int(at_least), int(above)


@njit(fastmath={"reassoc", "nsz", "nnan"})
def _highest(near: Singles) -> np.float32:
    """The largest of near (n,)."""
    highest = np.float32(-2)
    for j in range(near.size):
        highest = max(highest, near[j])
    return highest
