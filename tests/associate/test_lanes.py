import numba
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.associate.lanes import (
    LANES,
    any_above,
    every,
    larger,
    load,
    minus,
    plus,
    smaller,
    store,
    times,
    where_equal,
)

U = np.uint64
NUMBERS = st.lists(
    st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0]), min_size=4, max_size=4
)


@numba.njit
def every_function(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> bool:
    """Each function of x[4:8] and y[4:8] into four places of its own of `out`."""
    a, b = load(x, U(1)), load(y, U(1))
    store(out, U(0), plus(a, b))
    store(out, U(1), minus(a, b))
    store(out, U(2), times(a, b))
    store(out, U(3), larger(a, b))
    store(out, U(4), smaller(a, b))
    store(out, U(5), where_equal(a, b, every(1.0), every(-1.0)))
    store(out, U(6), every(x[5]))
    return bool(any_above(a, b))


@settings(deadline=None)  # the first call compiles
@given(NUMBERS, NUMBERS)
def test_fours_are_the_same_operations_on_each_number(
    left: list[float], right: list[float]
) -> None:
    x, y = np.array(left), np.array(right)
    out = np.full((7, LANES), np.nan)
    above = every_function(np.append(y, x), np.append(x, y), out.ravel())
    with np.errstate(all="ignore"):
        expected = [
            x + y,
            x - y,
            x * y,
            np.where(x > y, x, y),
            np.where(x < y, x, y),
            np.where(x == y, 1.0, -1.0),
            np.full(LANES, x[1]),
        ]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out[3:5]), np.signbit(expected[3:5]))
    assert above == (x > y).any()
