"""Where scores fall among levels: counts of millions of pairs in one pass.

The levels are cut into cells of equal width, so that a score's place among them is one look into a
table and few comparisons, however many levels there are.
"""

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

CELLS_A_LEVEL = 2  # cells for each level: few hold more than one, and the table stays in cache
MOST_CELLS = 1 << 20


@dataclass(frozen=True)
class Levels:
    """Rising levels with their table.

    Attributes:
        values: The levels (u,), rising, without doubles.
        low: Where the first cell begins.
        per_unit: Cells for each unit of score.
        first: Levels before each cell (cells + 1,).
    """

    values: Reals
    low: float
    per_unit: float
    first: Places

    @classmethod
    def of(cls, values: Reals) -> "Levels":
        """Make the table of levels (u,), u > 0, rising and without doubles."""
        cells = int(min(MOST_CELLS, max(16, CELLS_A_LEVEL * values.size)))
        low, high = float(values[0]), float(values[-1])
        per_unit = cells / (high - low) if high > low else 1.0
        cell = _cells(values, low, per_unit, cells)
        first = np.searchsorted(cell, np.arange(cells + 1), side="left").astype(np.int32)
        return cls(values, low, per_unit, first)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _cell(score: float, low: float, per_unit: float, cells: int) -> int:
    """Cell of a score; scores outside are in the first or the last."""
    at = (score - low) * per_unit
    if at < 0.0:
        return 0
    return min(int(min(at, float(cells))), cells - 1)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _cells(values: Reals, low: float, per_unit: float, cells: int) -> Counts:
    found = np.empty(values.size, np.int64)
    for k in range(values.size):
        found[k] = _cell(values[k], low, per_unit, cells)
    return found


@dataclass(frozen=True)
class Tally:
    """Counts of scores by their place among u levels.

    Attributes:
        levels: The levels.
        bin_of: Bin of every place (u + 1,): bins are coarser than places.
        places: Scores with exactly k levels at or below them (u + 1,).
        ties: Scores equal to level k (u,).
    """

    levels: Levels
    bin_of: Places
    places: Counts
    ties: Counts

    @classmethod
    def of(cls, values: Reals, edges: Reals) -> "Tally":
        """Nothing counted yet.

        Args:
            values: Levels (u,), rising, without doubles.
            edges: Those of them that bound bins (e,), rising.
        """
        is_edge = np.isin(values, edges)
        bin_of = np.concatenate([[0], np.cumsum(is_edge)]).astype(np.int32)
        zeros = np.zeros(values.size + 1, dtype=np.int64)
        return cls(Levels.of(values), bin_of, zeros, np.zeros(values.size, dtype=np.int64))

    def add(self, scores: Reals, wanted: Mask) -> Counts:
        """Count the wanted scores; how many fell into each bin (e + 1,).

        Args:
            scores: Any scores (a, b).
            wanted: Which of them count (a, b).
        """
        table = (self.levels.values, self.levels.low, self.levels.per_unit, self.levels.first)
        bins = np.zeros(int(self.bin_of[-1]) + 1, dtype=np.int64)
        _count(scores, wanted, table, (self.places, self.ties, self.bin_of, bins))
        return bins


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _count(
    scores: Reals,
    wanted: Mask,
    table: tuple[Reals, float, float, Places],
    tally: tuple[Counts, Counts, Places, Counts],
) -> None:
    values, low, per_unit, first = table
    places, ties, bin_of, bins = tally
    cells, most = first.size - 1, values.size
    for i in range(scores.shape[0]):
        for j in range(scores.shape[1]):
            if not wanted[i, j]:
                continue
            score = scores[i, j]
            place = first[_cell(score, low, per_unit, cells)]
            # Cells rise with scores: no level of an earlier cell can be above this score.
            while place < most and values[place] <= score:
                place += 1
            places[place] += 1
            bins[bin_of[place]] += 1
            if place > 0 and values[place - 1] == score:
                ties[place - 1] += 1
