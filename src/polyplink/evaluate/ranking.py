"""Ranks of all matches in one pass over the similarities: exact, without sorting, in blocks.

Every row queries all others, and rows of the same polyp match. The rank of a match is one more than
the number of rows ranked before it, so counting replaces sorting. Rows of the query's procedure are
counted separately, so that one pass gives retrieval with and without them.

Similarities are computed in float32, which is twice as fast and nearly always sufficient: only a
score that float32 cannot distinguish from a match's exact similarity is computed again in double
precision.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from polyplink.associate.similarity import DIGITS
from polyplink.core.arrays import Floats, Ints
from polyplink.core.compiled import njit
from polyplink.evaluate.samples import Samples

Singles = npt.NDArray[np.float32]
Job = TypeVar("Job")
Result = TypeVar("Result")

# Rows and columns of a block of similarities, in float32; a thread holds two. With a power of two,
# columns would share cache sets.
BLOCK = 480
FINE = 32  # scores that are checked one by one if rounding may matter
UNIT32 = 2.0**-24  # half a unit in the last place of float32 near 1
SCALE = 10.0**DIGITS


@cache
def _libraries() -> Any:
    """The loaded libraries with thread pools, cached because finding them takes milliseconds."""
    return ThreadpoolController()


def parallel(work: Callable[[Iterator[Job]], Result], jobs: Iterable[Job]) -> list[Result]:
    """Call `work` once in every thread, of which each core has one; the threads share the jobs.

    BLAS is limited to one thread: it would split every product among its threads and wait for the
    last one, so that small products take many times longer if anything else runs on the machine.
    Threads that fetch blocks one by one never wait for each other. `work` must release the GIL, as
    numpy's products and compiled loops do.

    Args:
        work: Iterates over jobs and returns its result; the sum of all results must not depend on
            the distribution of jobs.
        jobs: The jobs, the longest first.

    Returns:
        One result per thread, at least one.
    """
    items = list(jobs)
    waiting = iter(items)  # the iterator of a list yields each job to only one thread
    count = max(1, min(os.cpu_count() or 1, len(items)))
    with _libraries().limit(limits=1, user_api="blas"):
        if count == 1:
            return [work(waiting)]
        with ThreadPoolExecutor(count, thread_name_prefix="blocks") as pool:
            return list(pool.map(work, [waiting] * count))


# Reordering of sums is allowed, for vectorisation. The order is the same for all pairs.
@njit(error_model="numpy", fastmath={"reassoc"})
def _dot(a: Floats, b: Floats) -> float:
    """Product of two rows (d,)."""
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@njit(error_model="numpy")
def exact_cosine(a: Floats, b: Floats) -> float:
    """Cosine of two rows (d,) of length 1, rounded as in `cosines` so that ties are exact."""
    return float(np.rint(_dot(a, b) * SCALE) / SCALE)


def tolerance(width: int) -> float:
    """Bound on the error of a float32 product of two rows of length 1 and this width.

    The error of d products and their sum is at most d u times the sum of |x_i y_i|, which is at
    most 1 by Cauchy-Schwarz; rounding both rows to float32 adds 2 u.
    """
    return (width + 4) * UNIT32 * 1.01


@dataclass(frozen=True)
class Grouped:
    """The n tracklets of known polyp, sorted by procedure and polyp.

    Attributes:
        rows: Vectors of length 1 (n, d).
        order: Row of each in the samples (n,).
        procedure: Procedure of each (n,), rising.
        start: First row of each row's polyp (n,).
        stop: One past the last row of each row's polyp (n,).
        procedures: Number of procedures, including those without a row.
    """

    rows: Floats
    order: Ints
    procedure: Ints
    start: Ints
    stop: Ints
    procedures: int

    @classmethod
    def of(cls, unit: Floats, samples: Samples) -> Self:
        """Sort the vectors (n, d) of samples; those of unknown polyp are left out."""
        labelled = np.flatnonzero(samples.labelled)
        order = labelled[np.lexsort((samples.polyp[labelled], samples.procedure[labelled]))]
        rows, procedure = np.ascontiguousarray(unit[order]), samples.procedure[order]
        return cls(rows, order, procedure, *_bounds(samples.polyp[order]), len(samples.procedures))


def _bounds(grouped: Ints) -> tuple[Ints, Ints]:
    """First row of every row's group (n,) and one past its last (n,), for contiguous groups."""
    ends = np.append(np.flatnonzero(np.diff(grouped)) + 1, grouped.size)
    place = np.searchsorted(ends, np.arange(grouped.size), side="right")
    return np.append(0, ends)[place], ends[place]


@njit(error_model="numpy")
def cosines_in_groups(rows: Floats, stop: Ints) -> Floats:
    """Cosines (p,) of every row with the rows after it in its group, row by row.

    Args:
        rows: Vectors of length 1 (n, d), with contiguous groups.
        stop: One past the last row of each row's group (n,).
    """
    pairs = 0
    for i in range(len(rows)):
        pairs += stop[i] - i - 1
    cosines_of_pairs = np.empty(pairs)
    place = 0
    for i in range(len(rows)):
        for j in range(i + 1, stop[i]):
            cosines_of_pairs[place] = exact_cosine(rows[i], rows[j])
            place += 1
    return cosines_of_pairs


class _Gallery(NamedTuple):
    """What the compiled loops read: the sorted rows with their groups and matches.

    Attributes:
        rows: Vectors of length 1 (n, d).
        order: Index of each row before sorting (n,).
        similarity: Exact similarity of every match (m,), falling within a row's matches.
        first: First match of each row (n + 1,).
        polyp_start: First row of each row's polyp (n,).
        polyp_stop: One past the last row of its polyp (n,).
        procedure_start: First row of its procedure (n,).
        procedure_stop: One past the last row of its procedure (n,).
    """

    rows: Floats
    order: Ints
    similarity: Floats
    first: Ints
    polyp_start: Ints
    polyp_stop: Ints
    procedure_start: Ints
    procedure_stop: Ints


@dataclass(frozen=True)
class RankedMatches:
    """All m matches of all queries, and the nearest row of each of n queries.

    Attributes:
        query: Row of the query in the samples (m,); the matches of a query are contiguous and
            sorted by similarity.
        similarity: Cosine of query and match (m,).
        place: Position among the query's matches (m,), from 1.
        before: Number of rows that are ranked before the match and show another polyp: those of
            other procedures, and those of the query's procedure (m, 2).
        nearest: The most similar row of the samples for each grouped row (n,), the first on ties;
            -1 if there is none.
        nearest_similarity: Its cosine (n,); NaN if there is none.
    """

    query: Ints
    similarity: Floats
    place: Ints
    before: Ints
    nearest: Ints
    nearest_similarity: Floats


def rank_matches(grouped: Grouped) -> RankedMatches:
    """Let every row query all others: the ranks of all m matches, and the nearest row of each.

    Ties count against the query: a row of another polyp that is as similar as a match is ranked
    before it.

    Args:
        grouped: The tracklets of known polyp.
    """
    rows, order = grouped.rows, grouped.order
    n, width = rows.shape

    # The matches of each row, the most similar first. Every pair (i, j) of a polyp is a match of i
    # and a match of j.
    later = grouped.stop - np.arange(n) - 1  # n, matches after each row
    i = np.repeat(np.arange(n), later)
    j = np.arange(i.size) + np.repeat(np.arange(n) + 1 - np.cumsum(later) + later, later)
    row, cosine_of_match = np.append(i, j), np.tile(cosines_in_groups(rows, grouped.stop), 2)  # m
    best_first = np.lexsort((-cosine_of_match, row))
    row, similarity = row[best_first], cosine_of_match[best_first]
    first = np.append(0, np.cumsum(np.bincount(row, minlength=n)))  # n + 1
    procedure_start, procedure_stop = _bounds(grouped.procedure)
    gallery = _Gallery(
        rows,
        order,
        similarity,
        first,
        grouped.start,
        grouped.stop,
        procedure_start,
        procedure_stop,
    )

    # Blocks of similarities on and above the diagonal, in float32; threads share them.
    float32_rows = rows.astype(np.float32)  # n d
    side = max(1, min(BLOCK, n))
    slack = tolerance(width) + UNIT32 * 2  # bounds are rounded to float32, too

    def work(corners: Iterator[tuple[int, int]]) -> tuple[Ints, Ints, Floats]:
        """`before` (m, 2), and the nearest row (n,) with its cosine (n,), in some of the blocks."""
        before = np.zeros((similarity.size, 2), dtype=np.int64)
        nearest, cosine = np.full(n, -1), np.full(n, -np.inf)
        buffer, mirror_buffer = np.empty((2, side * side), dtype=np.float32)
        for i, j in corners:
            left, right = float32_rows[i : i + side], float32_rows[j : j + side]
            shape = len(left), len(right)
            product = buffer[: shape[0] * shape[1]].reshape(shape)  # a b
            np.matmul(left, right.T, out=product)
            blocks = [((i, j), product)]
            if i == j:
                np.fill_diagonal(product, -2.0)  # exclude the query itself
            else:  # a block is used twice: rows query columns, and columns query rows
                mirror = mirror_buffer[: product.size].reshape(shape[::-1])  # b a
                np.copyto(mirror, product.T)
                blocks.append(((j, i), mirror))
            for corner, scores in blocks:
                _count_before(scores, corner, gallery, slack, before)
                _find_nearer(scores, scores.max(axis=1), corner, gallery, slack, (nearest, cosine))
        return before, nearest, cosine

    corners = [(i, j) for i in range(0, n, side) for j in range(i, n, side)]
    per_thread = parallel(work, corners)

    # Counts of all threads are added; of the nearest rows the most similar counts, on ties the
    # first of the samples.
    before, nearest, cosine = per_thread[0]
    for thread_before, thread_nearest, thread_cosine in per_thread[1:]:
        before += thread_before
        better = (thread_cosine > cosine) | (
            (thread_cosine == cosine)
            & (thread_nearest >= 0)
            & (order[thread_nearest] < order[nearest])
        )
        nearest = np.where(better, thread_nearest, nearest)
        cosine = np.where(better, thread_cosine, cosine)
    has_nearest = nearest >= 0
    return RankedMatches(
        query=order[row],
        similarity=similarity,
        place=1 + np.arange(row.size) - first[row],
        before=before,
        nearest=np.where(has_nearest, order[nearest], -1) if n else nearest,
        nearest_similarity=np.where(has_nearest, cosine, np.nan),
    )


@njit(error_model="numpy")
def _count_before(
    scores: Singles, corner: tuple[int, int], gallery: _Gallery, slack: float, before: Ints
) -> None:
    """Count the columns of a block that are ranked before each match of its rows.

    Args:
        scores: Similarities (a, b) in float32.
        corner: The block's first query and its first gallery row.
        gallery: All rows and matches.
        slack: Upper bound of the error of `scores`.
        before: Counts of all blocks so far, for other procedures and the query's own (m, 2);
            changed.
    """
    rows, similarity, first = gallery.rows, gallery.similarity, gallery.first
    width = scores.shape[1]
    for i in range(scores.shape[0]):
        row = corner[0] + i
        # Columns of the query's procedure are [a, d), and of its polyp [b, c) among them.
        a = min(max(gallery.procedure_start[row] - corner[1], 0), width)
        b = min(max(gallery.polyp_start[row] - corner[1], 0), width)
        c = min(max(gallery.polyp_stop[row] - corner[1], 0), width)
        d = min(max(gallery.procedure_stop[row] - corner[1], 0), width)
        for k in range(first[row], first[row + 1]):
            for column, begin, end in ((0, 0, a), (1, a, b), (1, c, d), (0, d, width)):
                if begin < end:
                    other_rows = rows[corner[1] + begin :]
                    before[k, column] += _at_least(
                        scores[i, begin:end], similarity[k], slack, rows[row], other_rows
                    )


@njit(error_model="numpy")
def _find_nearer(  # noqa: PLR0917
    scores: Singles,
    highest: Singles,
    corner: tuple[int, int],
    gallery: _Gallery,
    slack: float,
    nearest_so_far: tuple[Ints, Floats],
) -> None:
    """Search a block (see `_count_before`) for columns nearer to its rows than the nearest so far.

    highest (a,) is the maximum of each row of scores; `nearest_so_far` is the nearest row (n,), -1
    for none, and its exact cosine (n,); changed.
    """
    rows, order = gallery.rows, gallery.order
    similarity, first = gallery.similarity, gallery.first
    nearest, cosine = nearest_so_far
    for i in range(scores.shape[0]):
        row = corner[0] + i
        # The nearest row is at least as similar as the best match.
        bound = cosine[row]
        if first[row] < first[row + 1]:
            bound = max(bound, similarity[first[row]])
        if highest[i] < np.float32(bound - slack):
            continue
        for j in range(scores.shape[1]):
            candidate = corner[1] + j
            if scores[i, j] < np.float32(bound - slack) or candidate == row:
                continue
            exact = exact_cosine(rows[row], rows[candidate])
            tied = exact == cosine[row] and order[candidate] < order[nearest[row]]
            if exact > cosine[row] or tied:
                cosine[row], nearest[row] = exact, candidate
                bound = max(bound, exact)


@njit(error_model="numpy")
def _at_least(scores: Singles, level: float, slack: float, query: Floats, gallery: Floats) -> int:
    """Number of scores (n,) in float32 that are at least the exact similarity `level`.

    They are scores of a query (d,) with the first rows of a gallery (n or more, d).
    """
    low, high = np.float32(level - slack), np.float32(level + slack)
    maybe, surely = _count_between(scores, low, high)
    if maybe == surely:  # nearly always: no score is ambiguous
        return surely
    for begin in range(0, scores.size, FINE):
        end = min(begin + FINE, scores.size)
        maybe, above = _count_between(scores[begin:end], low, high)
        if maybe == above:
            continue
        for j in range(begin, end):
            if low <= scores[j] <= high and exact_cosine(query, gallery[j]) >= level:
                surely += 1
    return surely


# Counts are float32, exact up to 16 million, so that they are as wide as the scores: numba widens
# integer sums to 64 bits. As whole numbers, they may be added in any order.
@njit(fastmath={"reassoc", "nsz"})
def _count_between(scores: Singles, low: np.float32, high: np.float32) -> tuple[int, int]:
    """Number of `scores` (n,), at most 2^24, that are at least `low`, and above `high`."""
    one, zero = np.float32(1), np.float32(0)
    at_least, above = zero, zero
    for j in range(scores.size):
        at_least += one if scores[j] >= low else zero
        above += one if scores[j] > high else zero
    return int(at_least), int(above)
