"""All pairs of tracklets counted by their similarity, in one pass, a block at a time.

Rows are sorted by procedure and polyp, so that a row's partners of other polyps are those after
the last row of its own: every pair occurs once, and half of the similarities are never computed.

Scores are placed among rising levels (the scores of all positives, and edges of bins). The range of
the levels is cut into cells of equal width, so that a score's place is one look into a table and
one comparison, however many levels there are. Scores are compared as whole numbers of the last
digit that `cosines` keeps: a product is rounded as it is counted, and needs no division.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import cosines
from polyplink.core.compiled import njit
from polyplink.evaluate.ranking import SCALE, Grouped, parallel

Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Wide = npt.NDArray[np.int32 | np.int64]

ROWS = 256  # of a block of similarities
COLUMNS = 480
NARROW = 2**31  # pairs that counts of 32 bits can hold
PICKED = 64  # rows of a block of those that are looked at first
CELLS_A_LEVEL = 4  # more are slower to look up, fewer hold several levels more often
MOST_CELLS = 1 << 20

Table = tuple[Places, float, float]
"""Levels before each cell (cells + 1,), where the first cell begins, cells for each unit: in units
of the last digit."""


def tabulate(values: Reals, edges: Reals) -> tuple[Table, Reals]:
    """Make what `tally` looks scores up in.

    Args:
        values: Levels (u,), u > 0, rising, without doubles, rounded as cosines are.
        edges: Those of them that begin a bin (e,), rising.

    Returns:
        The table, and the records of the levels, in one place of memory (u + 1, 4): a level, and
        a last one above all; how many scores are at it or between it and the level below; how
        many are at it; the bin of those below it. Nothing is counted yet.
    """
    whole = np.rint(values * SCALE)
    cells = int(min(MOST_CELLS, max(16, CELLS_A_LEVEL * values.size)))
    low, high = float(whole[0]), float(whole[-1])
    per_unit = cells / (high - low) if high > low else 1.0
    cell = np.empty(values.size, dtype=np.int32)
    _cells(values.copy(), low, per_unit, cells, cell)
    first = np.append(0, np.cumsum(np.bincount(cell, minlength=cells))).astype(np.int32)
    records = np.zeros((values.size + 1, 4))
    records[:, 0] = np.append(whole, np.inf)
    records[:, 3] = np.append(np.searchsorted(edges, values, side="left"), edges.size)
    return (first, low, per_unit), records


@njit(error_model="numpy")
def _cells(scores: Reals, low: float, per_unit: float, cells: int, found: Places) -> None:
    """Round scores (n,) to whole numbers, and find their cells: outside, the first or the last."""
    last = float(cells - 1)
    for j in range(scores.size):
        whole = np.rint(scores[j] * SCALE)
        scores[j] = whole
        found[j] = np.int32(min(max((whole - low) * per_unit, 0.0), last))


@njit(error_model="numpy")
def tally(scores: Reals, table: Table, records: Reals, bins: Places) -> None:
    """Count scores (n,) in the records of levels, and tell the bin of each.

    Args:
        scores: Overwritten by whole numbers.
        table: Of the levels.
        records: Of the levels, see `tabulate`; counts are added to.
        bins: Bin of every score (n,), written.
    """
    first, low, per_unit = table
    _cells(scores, low, per_unit, first.size - 1, bins)
    for j in range(scores.size):
        score = scores[j]
        # Cells rise with scores: no level of an earlier cell can be above this score.
        level = first[bins[j]]
        # No branch: whether a score is above the only level of its cell is a coin's toss.
        level += np.int32(records[level, 0] < score)
        while records[level, 0] < score:
            level += 1
        records[level, 1] += 1.0
        if records[level, 0] == score:
            records[level, 2] += 1.0
            level += 1  # its bin is that of scores above
        bins[j] = np.int32(records[level, 3])


@dataclass(frozen=True)
class PairCounts:
    """How many pairs fall into each bin of similarity; bin b is [edges[b - 1], edges[b]).

    Attributes:
        edges: Bin edges, rising (e,).
        positives: Pairs of one polyp, per procedure and bin (procedures, e + 1).
        negatives: Pairs of two polyps, per pair of procedures and bin (pairs, e + 1), the pairs
            being in the order of `np.triu_indices`: a procedure with itself and those after it.
    """

    edges: Reals
    positives: Counts
    negatives: Counts


def some_other_scores(grouped: Grouped, every: int, *, threads: int | None = None) -> Reals:
    """Scores of the pairs of two polyps whose first is each `every`-th row, in any order."""

    def work(starts: Iterator[int]) -> Reals:
        found = [np.zeros(0)]
        for start in starts:
            picked = np.arange(start, min(start + step, n), every)
            scores = cosines(grouped.rows[picked], grouped.rows[start:])  # (picked, n - start)
            found.append(scores[columns[start:] >= grouped.stop[picked, None]])
        return np.concatenate(found)

    n, step = len(grouped.rows), PICKED * every
    columns = np.arange(n)
    return np.concatenate(parallel(work, range(0, n, step), threads))


def count_others(
    grouped: Grouped, values: Reals, edges: Reals, *, threads: int | None = None
) -> tuple[Counts, Counts, Counts]:
    """Count the pairs of two polyps among levels, and by bin.

    Args:
        grouped: The tracklets.
        values: The levels (u,), see `tabulate`.
        edges: Those of them that begin a bin (e,).
        threads: How many; None for one a core. The result is the same.

    Returns:
        Pairs at each level or between it and the one below, the last above all (u + 1,); those of
        them at it (u + 1,); pairs per pair of procedures and bin (pairs, e + 1).
    """
    table, none_counted = tabulate(values, edges)
    pairs = grouped.procedures * (grouped.procedures + 1) // 2
    # Counts half as wide where they suffice: caches hold more of them.
    count: type = np.int32 if len(grouped.rows) ** 2 // 2 < NARROW else np.int64
    bins: Wide = np.zeros((pairs, edges.size + 1), dtype=count)
    a = np.arange(grouped.procedures)
    pair_row = a * grouped.procedures - a * (a + 1) // 2  # plus b: the row of (a, b), a <= b
    layout = (grouped.procedure, grouped.stop, pair_row)
    rows = grouped.rows

    def work(jobs: Iterator[tuple[int, int]]) -> Reals:
        records = none_counted.copy()
        room = np.empty(ROWS * COLUMNS)
        for start, end in jobs:
            for i in range(start, end, ROWS):
                left = rows[i : min(i + ROWS, end)]  # (a, d)
                for j in range(i, len(rows), COLUMNS):
                    right = rows[j : j + COLUMNS]  # (b, d)
                    scores = room[: len(left) * len(right)].reshape(len(left), len(right))
                    np.matmul(left, right.T, out=scores)
                    _count(scores, (i, j), layout, table, (records, bins))
        return records[:, 1:3]

    # Counts are written by procedure, so that a job has whole procedures.
    jobs, begin = [], 0
    for end in (np.flatnonzero(np.diff(grouped.procedure, append=-1)) + 1).tolist():
        if end - begin >= ROWS or end == len(rows):
            jobs.append((begin, end))
            begin = end
    counted = np.sum(parallel(work, jobs, threads), axis=0).astype(np.int64)
    return counted[:, 0], counted[:, 1], bins.astype(np.int64)


@njit(error_model="numpy")
def _count(
    scores: Reals,
    corner: tuple[int, int],
    layout: tuple[Counts, Counts, Counts],
    table: Table,
    counts: tuple[Reals, Wide],
) -> None:
    """Count a block of scores (a, b), which are overwritten, row by row."""
    procedure, stop, pair_row = layout
    records, bins = counts
    width = scores.shape[1]
    found = np.empty(width, np.int32)
    for i in range(scores.shape[0]):
        row = corner[0] + i
        begin = max(stop[row] - corner[1], 0)
        if begin >= width:
            continue
        tally(scores[i, begin:], table, records, found[begin:])
        while begin < width:  # one procedure after the other
            partner = procedure[corner[1] + begin]
            own = bins[pair_row[procedure[row]] + partner]
            while begin < width and procedure[corner[1] + begin] == partner:
                own[found[begin]] += 1
                begin += 1
