import numpy as np
import pytest

import polyplink.evaluate.reid as module
from polyplink.associate.similarity import cosines, unit_rows
from polyplink.evaluate.ranking import Grouped, own_cosines
from polyplink.evaluate.reid import count_others, some_other_scores, tabulate, tally
from polyplink.evaluate.samples import Samples
from tests.evaluate.made import made


def pairs(grouped: Grouped) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs i < j of sorted rows: i, j, and whether they are of one polyp."""
    i, j = np.triu_indices(len(grouped.rows), k=1)
    return i, j, j < grouped.stop[i]


@pytest.mark.parametrize("every", [2, 5])
@pytest.mark.parametrize("picked", [1, 64])
def test_some_others_are_those_of_each_so_many(
    every: int, picked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PICKED", picked)
    vectors, samples, _ = made(noise=2.0)
    grouped = Grouped.of(unit_rows(vectors), samples)
    i, j, same = pairs(grouped)
    kept = ~same & (i % every == 0)
    expected = np.sort(cosines(grouped.rows, grouped.rows)[i[kept], j[kept]])
    found = np.sort(some_other_scores(grouped, every, threads=3))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1.1e-12)


@pytest.mark.parametrize(
    ("rows", "columns", "threads", "narrow"),
    [(1, 1, 1, 2**31), (3, 7, 4, 2**31), (256, 480, 1, 2**31), (256, 480, 1, 0)],
)
def test_counts_equal_a_search_of_every_score(
    rows: int, columns: int, threads: int, narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NARROW", narrow)
    monkeypatch.setattr(module, "ROWS", rows)
    monkeypatch.setattr(module, "COLUMNS", columns)
    rng = np.random.default_rng(5)
    vectors = rng.integers(-2, 3, (60, 4)) + 0.5  # few directions: many scores tie
    polyp = rng.integers(0, 14, 60)
    samples = Samples.of(
        [f"t{i}" for i in range(60)],
        [f"v{p % 5}" for p in polyp],
        [f"p{p}" for p in polyp],
        [0] * 60,
    )
    grouped = Grouped.of(unit_rows(vectors), samples)
    levels = np.unique(own_cosines(grouped.rows, grouped.stop))
    edges = levels[::3]
    around, tied, bins = count_others(grouped, levels, edges, threads=threads)
    i, j, same = pairs(grouped)
    scores = cosines(grouped.rows, grouped.rows)[i, j][~same]
    level = np.searchsorted(levels, scores, "left")
    np.testing.assert_array_equal(around, np.bincount(level, minlength=levels.size + 1))
    np.testing.assert_array_equal(tied[:-1], [(scores == value).sum() for value in levels])
    assert tied[-1] == 0
    expected = np.zeros_like(bins)
    number = np.zeros((5, 5), dtype=np.int64)
    number[np.triu_indices(5)] = np.arange(15)
    row = number[grouped.procedure[i[~same]], grouped.procedure[j[~same]]]
    np.add.at(expected, (row, np.searchsorted(edges, scores, "right")), 1)
    np.testing.assert_array_equal(bins, expected)


@pytest.mark.parametrize("size", [1, 1000])
def test_crowded_levels_are_told_apart(size: int) -> None:
    """All levels but one within a millionth share a cell; against a search for every score."""
    crowd = np.linspace(0.5, 0.500001, size).round(12)
    values = np.unique(np.concatenate([[-1.0], crowd]))
    scores = np.random.default_rng(0).uniform(0.499999, 0.500002, 5000)
    scores[::7] = values[np.arange(scores[::7].size) % values.size]
    (table, records), bins = tabulate(values, values), np.empty(scores.size, dtype=np.int32)
    tally(scores.copy(), table, records, bins)
    rounded = np.round(scores, 12)
    level = np.searchsorted(values, rounded, "left")
    np.testing.assert_array_equal(records[:, 1], np.bincount(level, minlength=values.size + 1))
    ties = [(rounded == value).sum() for value in values]
    np.testing.assert_array_equal(records[:, 2], [*ties, 0])
    np.testing.assert_array_equal(bins, np.searchsorted(values, rounded, "right"))
