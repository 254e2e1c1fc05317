import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.evaluate.placing import Levels, place

SCORES = st.lists(st.integers(-9, 9).map(lambda v: round(v / 9, 12)), min_size=1, max_size=30)


def places(values: np.ndarray, scores: np.ndarray) -> np.ndarray:
    found = np.empty(scores.size, dtype=np.int32)
    place(scores.copy(), Levels.of(values).table, found)
    return found


def searched(values: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The plain version: levels below a score and levels at it or below it."""
    rounded = np.round(scores, 12)
    return np.searchsorted(values, rounded, "left") + np.searchsorted(values, rounded, "right")


@settings(deadline=None)
@given(SCORES, SCORES)
def test_places_equal_a_search(levels: list[float], scores: list[float]) -> None:
    values, given_ = np.unique(levels), np.array(scores)
    np.testing.assert_array_equal(places(values, given_), searched(values, given_))


@pytest.mark.parametrize("size", [1, 1000])
def test_crowded_levels_are_told_apart(size: int) -> None:
    """All levels but one within a millionth: they share a cell."""
    crowd = np.linspace(0.5, 0.500001, size).round(12)
    values = np.unique(np.concatenate([[-1.0], crowd]))
    scores = np.random.default_rng(0).uniform(0.499999, 0.500002, 5000)
    scores[::7] = values[np.arange(scores[::7].size) % values.size]
    np.testing.assert_array_equal(places(values, scores), searched(values, scores))


def test_products_are_rounded_before_they_are_placed() -> None:
    values = np.array([-0.25, 0.1, 0.7])
    scores = np.repeat(values, 3) + np.tile([-3e-13, 0.0, 3e-13], 3)
    np.testing.assert_array_equal(places(values, scores), np.repeat([1, 3, 5], 3))


def test_one_level_has_a_table() -> None:
    found = places(np.array([0.25]), np.array([-1.0, 0.25, 1.0]))
    np.testing.assert_array_equal(found, [0, 1, 2])
