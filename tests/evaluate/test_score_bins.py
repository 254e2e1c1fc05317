import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.evaluate.score_bins import Levels, tally

SCORES = st.lists(st.integers(-9, 9).map(lambda v: round(v / 9, 12)), min_size=1, max_size=30)


def assert_counted(values: np.ndarray, edges: np.ndarray, scores: np.ndarray) -> None:
    """Against the plain version: a search for every score."""
    levels, bins = Levels.of(values, edges), np.empty(scores.size, dtype=np.int32)
    tally(scores.copy(), levels.table, levels.records, bins)
    rounded = np.round(scores, 12)
    level = np.searchsorted(values, rounded, "left")
    np.testing.assert_array_equal(
        levels.records[:, 1], np.bincount(level, minlength=values.size + 1)
    )
    ties = [(rounded == value).sum() for value in values]
    np.testing.assert_array_equal(levels.records[:, 2], [*ties, 0])
    np.testing.assert_array_equal(bins, np.searchsorted(edges, rounded, "right"))


@settings(deadline=None)
@given(SCORES, SCORES, st.integers(0, 3))
def test_counts_equal_a_search(levels: list[float], scores: list[float], skip: int) -> None:
    values = np.unique(levels)
    assert_counted(values, values[skip::2], np.array(scores))


@pytest.mark.parametrize("size", [1, 1000])
def test_crowded_levels_are_told_apart(size: int) -> None:
    """All levels but one within a millionth: they share a cell."""
    crowd = np.linspace(0.5, 0.500001, size).round(12)
    values = np.unique(np.concatenate([[-1.0], crowd]))
    scores = np.random.default_rng(0).uniform(0.499999, 0.500002, 5000)
    scores[::7] = values[np.arange(scores[::7].size) % values.size]
    assert_counted(values, values, scores)


def test_products_are_rounded_before_they_are_placed() -> None:
    values = np.array([-0.25, 0.1, 0.7])
    scores = np.repeat(values, 3) + np.tile([-3e-13, 0.0, 3e-13], 3)
    assert_counted(values, values[1:], scores)
    levels = Levels.of(values, values)
    tally(scores, levels.table, levels.records, np.empty(9, dtype=np.int32))
    np.testing.assert_array_equal(levels.records[:, 2], [3, 3, 3, 0])


def test_one_level_has_a_table() -> None:
    value = np.array([0.25])
    assert_counted(value, value, np.array([-1.0, 0.25, 1.0]))
