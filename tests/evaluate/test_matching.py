import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from polyplink.evaluate.matching import best_sum


def of_table(table: np.ndarray) -> int:
    row, column = np.nonzero(table)
    starts = np.searchsorted(row, np.arange(len(table) + 1))
    return best_sum(starts, column, table[row, column], table.shape[1])


@settings(deadline=None, max_examples=500)
@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([2, 4, 1000]),
    st.floats(0, 1),
    st.integers(0, 10_000),
)
def test_the_sum_is_that_of_the_hungarian_algorithm(
    rows: int, columns: int, most: int, filled: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(1, most, (rows, columns)) * (rng.random((rows, columns)) < filled)
    assert of_table(table) == table[linear_sum_assignment(-table)].sum()


def test_a_row_is_left_alone_where_that_is_better() -> None:
    assert of_table(np.array([[5], [7], [6]])) == 7
    # The third row takes the first's column, which takes the second's, which is left alone.
    assert of_table(np.array([[9, 8], [0, 2], [7, 0]])) == 15
    assert of_table(np.zeros((2, 0), dtype=np.int64)) == 0
