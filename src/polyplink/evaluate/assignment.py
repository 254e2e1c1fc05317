"""scipy's `linear_sum_assignment` for tables so small that calling it costs more than solving.

Source: Crouse, On implementing 2D rectangular assignment algorithms, IEEE TAES 2016, as scipy 1.17
has it, step by step, so that of several best assignments the same is chosen.
"""

import numpy as np
import numpy.typing as npt

from polyplink.core.compiled import njit

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@njit()
def _way(
    cost: Reals, row: int, duals: Reals, row_of: Ints, state: tuple[Ints, Reals, Ints, Ints]
) -> tuple[int, float]:
    """The shortest way from a row to a free column, and its length.

    Args:
        cost: Costs (n, n).
        row: The row.
        duals: Of rows and of columns (2, n).
        row_of: Row of every column (n,), -1: free.
        state: Last row of the way to every column and its length (n,), written; whether a row and
            a column are on the way (n,), written.
    """
    last, length, row_on, column_on = state
    n = row_of.size
    left = np.arange(n - 1, -1, -1)  # backwards: equal costs shall give the diagonal
    length[:] = np.inf
    row_on[:] = 0
    column_on[:] = 0
    base, i = 0.0, row
    for many in range(n, 0, -1):
        row_on[i] = 1
        best, lowest = -1, np.inf
        for k in range(many):
            j = left[k]
            here = base + cost[i, j] - duals[0, i] - duals[1, j]
            if here < length[j]:
                last[j], length[j] = i, here
            if length[j] < lowest or (length[j] == lowest and row_of[j] == -1):
                best, lowest = k, length[j]
        base, j = lowest, left[best]
        column_on[j] = 1
        if row_of[j] == -1:
            return j, base
        i, left[best] = row_of[j], left[many - 1]
    return -1, base  # never: there are as many columns as rows


@njit()
def assigned(cost: Reals) -> Ints:
    """Column of every row (n,) in the cheapest one-to-one assignment of finite costs (n, n)."""
    n = cost.shape[0]
    duals = np.zeros((2, n))
    row_of, column_of = np.full(n, -1), np.full(n, -1)
    last, length = np.full(n, -1), np.empty(n)
    row_on, column_on = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for row in range(n):
        j, end = _way(cost, row, duals, row_of, (last, length, row_on, column_on))
        duals[0, row] += end
        for k in range(n):
            if row_on[k] and k != row:
                duals[0, k] += end - length[column_of[k]]
        for k in range(n):
            if column_on[k]:
                duals[1, k] -= end - length[k]
        i = -1
        while i != row:
            i = last[j]
            row_of[j] = i
            j, column_of[i] = column_of[i], j
    return column_of
