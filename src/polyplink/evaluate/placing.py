"""Where scores fall among levels: counts of millions of pairs in one pass.

The range of the levels is cut into cells of equal width, so that a score's place among them is one
look into a table and one comparison, however many levels there are. Few cells hold two levels.

Scores are compared as whole numbers of the last digit that `cosines` keeps: a product is rounded
as it is counted, and needs no division.
"""

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import DIGITS

Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]

SCALE = 10.0**DIGITS
CELLS_A_LEVEL = 4  # more are slower to look up, fewer hold several levels more often
MOST_CELLS = 1 << 20

Table = tuple[Reals, Places, float, float]
"""Levels and a last one above all (u + 1,), levels before each cell (cells + 1,), where the first
cell begins, cells for each unit: all in units of the last digit."""


@dataclass(frozen=True)
class Levels:
    """Rising levels with their table.

    Attributes:
        values: The levels (u,), rising, without doubles.
        table: What `place` looks them up in.
    """

    values: Reals
    table: Table

    @classmethod
    def of(cls, values: Reals) -> "Levels":
        """Make the table of levels (u,), u > 0, rising, without doubles, rounded as cosines are."""
        whole = np.rint(values * SCALE)
        cells = int(min(MOST_CELLS, max(16, CELLS_A_LEVEL * values.size)))
        low, high = float(whole[0]), float(whole[-1])
        per_unit = cells / (high - low) if high > low else 1.0
        cell = np.empty(values.size, dtype=np.int32)
        _cells(values.copy(), low, per_unit, cells, cell)
        first = np.append(0, np.cumsum(np.bincount(cell, minlength=cells))).astype(np.int32)
        return cls(values, (np.append(whole, np.inf), first, low, per_unit))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _cells(scores: Reals, low: float, per_unit: float, cells: int, found: Places) -> None:
    """Round scores (n,) to whole numbers, and find their cells: outside, the first or the last."""
    last = float(cells - 1)
    for j in range(scores.size):
        whole = np.rint(scores[j] * SCALE)
        scores[j] = whole
        found[j] = np.int32(min(max((whole - low) * per_unit, 0.0), last))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def place(scores: Reals, table: Table, found: Places) -> None:
    """Places of scores (n,) among u levels, written to `found` (n,).

    Args:
        scores: Overwritten by whole numbers.
        table: Of the levels.
        found: 2 k for a score above k levels and below all others, 2 k + 1 for one equal to level
            k, from 0.
    """
    whole, first, low, per_unit = table
    _cells(scores, low, per_unit, first.size - 1, found)
    for j in range(scores.size):
        score, cell = scores[j], found[j]
        level = first[cell]
        if first[cell + 1] - level > 1:
            # Cells rise with scores: no level of an earlier cell can be above this score.
            while whole[level] < score:
                level += 1
        # No branch: whether a score is above the only level of its cell is a coin's toss.
        found[j] = 2 * level + np.int32(whole[level] <= score) + np.int32(whole[level] < score)
