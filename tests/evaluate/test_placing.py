import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.evaluate.placing import Levels, Tally

SCORES = st.lists(st.integers(-9, 9).map(lambda v: v / 9), min_size=1, max_size=30)


@settings(deadline=None)
@given(SCORES, SCORES, st.integers(0, 3))
def test_places_equal_a_search(levels: list[float], scores: list[float], skip: int) -> None:
    values = np.unique(levels)
    edges = values[skip::2]
    given_, wanted = np.array([scores]), np.arange(len(scores))[None] % 4 != 3
    tally = Tally.of(values, edges)
    bins = tally.add(given_, wanted)
    kept = given_[wanted]
    places = np.searchsorted(values, kept, side="right")
    np.testing.assert_array_equal(tally.places, np.bincount(places, minlength=values.size + 1))
    np.testing.assert_array_equal(tally.ties, [(kept == v).sum() for v in values])
    expected = np.bincount(np.searchsorted(edges, kept, side="right"), minlength=edges.size + 1)
    np.testing.assert_array_equal(bins, expected)


@pytest.mark.parametrize("size", [1, 1000])
def test_crowded_levels_are_told_apart(size: int) -> None:
    """All levels but one within a millionth: they share a cell."""
    values = np.unique(np.concatenate([[-1.0], np.linspace(0.5, 0.500001, size)]))
    scores = np.random.default_rng(0).uniform(0.499999, 0.500002, (1, 5000))
    tally = Tally.of(values, values)
    tally.add(scores, np.ones_like(scores, dtype=bool))
    expected = np.bincount(np.searchsorted(values, scores[0], "right"), minlength=values.size + 1)
    np.testing.assert_array_equal(tally.places, expected)


def test_one_level_has_a_table() -> None:
    table = Levels.of(np.array([0.25]))
    assert table.per_unit == 1.0
    assert table.first[0] == 0
