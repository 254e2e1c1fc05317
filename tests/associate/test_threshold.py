import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from polyplink.associate.threshold import threshold_components
from polyplink.core.errors import PolyplinkError

THRESHOLDS = np.arange(101) / 100


def naive_components(V: np.ndarray, threshold: float) -> list[int]:
    n = len(V)
    labels = [-1] * n
    found = 0
    for first in range(n):
        if labels[first] >= 0:
            continue
        waiting = [first]
        while waiting:
            i = waiting.pop()
            if labels[i] >= 0:
                continue
            labels[i] = found
            waiting += [j for j in range(n) if j != i and V[i, j] >= threshold]
        found += 1
    return labels


# Hundredths, so that similarities often equal a threshold or each other.
@settings(deadline=None)
@given(
    st.integers(1, 9).flatmap(
        lambda n: arrays(np.float64, (n, n), elements=st.integers(0, 100).map(lambda v: v / 100))
    )
)
def test_components_equal_a_naive_search_at_every_threshold(raw: np.ndarray) -> None:
    V = np.maximum(raw, raw.T)
    expected = [naive_components(V, threshold) for threshold in THRESHOLDS]
    np.testing.assert_array_equal(threshold_components(V, THRESHOLDS), expected)


def test_components_of_many_tracklets() -> None:
    raw = np.random.default_rng(0).random((40, 40))
    V = np.minimum(raw, raw.T)
    thresholds = THRESHOLDS[::10]
    expected = [naive_components(V, threshold) for threshold in thresholds]
    np.testing.assert_array_equal(threshold_components(V, thresholds), expected)


def test_the_ends_of_the_range() -> None:
    V = np.array([[1.0, 0.0, 0.4], [0.0, 1.0, 0.2], [0.4, 0.2, 1.0]])
    np.testing.assert_array_equal(threshold_components(V, [0.0, 1.0]), [[0, 0, 0], [0, 1, 2]])


@pytest.mark.parametrize("V", [np.ones((2, 3)), np.ones((0, 0))])
def test_a_matrix_that_is_no_square_is_refused(V: np.ndarray) -> None:
    with pytest.raises(PolyplinkError, match="not a square"):
        threshold_components(V, [0.5])


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(PolyplinkError, match="a similarity is not finite"):
        threshold_components(np.full((2, 2), np.nan), [0.5])
    with pytest.raises(PolyplinkError, match="a threshold is not finite"):
        threshold_components(np.ones((2, 2)), [np.nan])
