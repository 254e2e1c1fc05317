"""Where scores fall among levels: counts of millions of pairs in one pass.

The range of the levels is cut into cells of equal width, so that a score's place among them is one
look into a table and one comparison, however many levels there are. Few cells hold two levels.

Scores are compared as whole numbers of the last digit that `cosines` keeps: a product is rounded
as it is counted, and needs no division.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import DIGITS
from polyplink.core.compiled import njit

Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]

SCALE = 10.0**DIGITS
CELLS_A_LEVEL = 4  # more are slower to look up, fewer hold several levels more often
MOST_CELLS = 1 << 20

Table = tuple[Places, float, float]
"""Levels before each cell (cells + 1,), where the first cell begins, cells for each unit: in units
of the last digit."""


@dataclass(frozen=True)
class Levels:
    """Rising levels with their table.

    Attributes:
        values: The levels (u,), rising, without doubles.
        table: What `tally` looks them up in.
        records: What it then needs, in one place of memory (u + 1, 4): a level, and a last one
            above all; how many scores are at it or between it and the level below; how many are
            at it; the bin of those below it. Nothing is counted yet.
    """

    values: Reals
    table: Table
    records: Reals

    @classmethod
    def of(cls, values: Reals, edges: Reals) -> "Levels":
        """Make the table of levels.

        Args:
            values: Levels (u,), u > 0, rising, without doubles, rounded as cosines are.
            edges: Those of them that begin a bin (e,), rising.
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
        return cls(values, (first, low, per_unit), records)


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
        records: Of the levels, see `Levels`; counts are added to.
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
