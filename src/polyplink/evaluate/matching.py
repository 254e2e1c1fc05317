"""The best one-to-one matching of rows and columns where few cells of a table are filled.

Rows enter one by one, each by the shortest way to a free column or to a row that is better left
alone (Jonker and Volgenant, Computing 1987), over filled cells alone. Most rows find their best
column free, and cost no more than reading their cells. Weights are whole numbers, so that the sum
is exact.
"""

import numpy as np
import numpy.typing as npt

from polyplink.core.compiled import njit

Ints = npt.NDArray[np.int64]

FAR = int(np.iinfo(np.int64).max)
# Rows of `columns`: dual, row and cell it is matched with, distance, last row and cell of the
# way to it, whether the way goes on from it.
DUAL, ROW, CELL, DISTANCE, FROM, BY, PASSED = range(7)


@njit()
def _reach(
    row: int, cells: tuple[Ints, Ints, Ints], rows: Ints, columns: Ints, seen: Ints
) -> tuple[tuple[int, int, int], int]:
    """The shortest way from a row that is not matched yet.

    Args:
        row: The row.
        cells: First cell of every row, and the end (g + 1,); column of every cell (c,); its
            weight (c,), above 0.
        rows: Dual and column of every row (2, g); column -1: none.
        columns: State of every column (7, t), changed.
        seen: Room for the columns that were reached (t,).

    Returns:
        The way: the row to leave alone or -1, the column to end in or -1, the length; and how
        many columns were reached.
    """
    starts, column, weight = cells
    i, base, many, left, end = row, 0, 0, row, FAR
    while True:
        if base - rows[0, i] < end:
            end, left = base - rows[0, i], i
        for cell in range(starts[i], starts[i + 1]):
            t = column[cell]
            distance = base - weight[cell] - rows[0, i] - columns[DUAL, t]
            if distance < columns[DISTANCE, t]:
                if columns[DISTANCE, t] == FAR:
                    seen[many] = t
                    many += 1
                columns[DISTANCE, t] = distance
                columns[FROM, t] = i
                columns[BY, t] = cell
        best, base = -1, FAR
        for k in range(many):
            t = seen[k]
            if columns[PASSED, t] == 0 and columns[DISTANCE, t] < base:
                best, base = t, columns[DISTANCE, t]
        if end <= base:
            return (left, -1, end), many
        if columns[ROW, best] < 0:
            return (-1, best, base), many
        columns[PASSED, best] = 1
        i = columns[ROW, best]


@njit()
def _enter(row: int, way: tuple[int, int, int], rows: Ints, columns: Ints, reached: Ints) -> None:
    """Match a row along the way that `_reach` found; the duals keep all other ways no shorter."""
    left, last, end = way
    rows[0, row] += end
    for t in reached:
        if columns[PASSED, t]:
            change = end - columns[DISTANCE, t]
            rows[0, columns[ROW, t]] += change
            columns[DUAL, t] -= change
        columns[DISTANCE, t] = FAR
        columns[PASSED, t] = 0
    t = last
    if last < 0:
        t, rows[1, left] = rows[1, left], -1
    while t >= 0:
        i = columns[FROM, t]
        columns[ROW, t], columns[CELL, t] = i, columns[BY, t]
        t, rows[1, i] = rows[1, i], t


@njit()
def best_sum(starts: Ints, column: Ints, weight: Ints, width: int) -> int:
    """Largest sum of cells with at most one in a row and in a column.

    Args:
        starts: First cell of every row, and the end (g + 1,).
        column: Column of every filled cell (c,), each once in a row.
        weight: Its weight (c,), above 0.
        width: Number of columns.
    """
    rows = np.zeros((2, starts.size - 1), np.int64)
    rows[1] = -1
    columns = np.zeros((7, width), np.int64)
    columns[ROW] = -1
    columns[DISTANCE] = FAR
    seen = np.empty(width, np.int64)
    for row in range(starts.size - 1):
        for cell in range(starts[row], starts[row + 1]):
            rows[0, row] = min(rows[0, row], -weight[cell] - columns[DUAL, column[cell]])
        way, many = _reach(row, (starts, column, weight), rows, columns, seen)
        _enter(row, way, rows, columns, seen[:many])
    total = 0
    for t in range(width):
        if columns[ROW, t] >= 0:
            total += weight[columns[CELL, t]]
    return total
