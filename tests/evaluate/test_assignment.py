import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from polyplink.evaluate.assignment import assigned


@settings(deadline=None, max_examples=500)
@given(st.integers(1, 8), st.sampled_from([1, 2, 4, 1000]), st.integers(0, 10_000))
def test_it_is_scipys_choice_among_equals_too(n: int, values: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cost = -np.round(rng.integers(0, values, (n, n)) / 7, rng.integers(1, 17))
    np.testing.assert_array_equal(assigned(cost), linear_sum_assignment(cost)[1])


def test_equal_costs_give_the_diagonal() -> None:
    assert assigned(np.ones((3, 3))).tolist() == [0, 1, 2]
    assert assigned(np.array([[0.0, -1.0], [-1.0, 0.0]])).tolist() == [1, 0]
