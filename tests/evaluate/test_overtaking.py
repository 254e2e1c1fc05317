import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.associate.similarity import cosines, unit_rows
from polyplink.evaluate.overtaking import precision_and_best, tolerance
from polyplink.evaluate.retrieval import average_precision, match_ranks


def plain(unit: np.ndarray, polyp: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All similarities in double precision, a sort for every query."""
    n = len(unit)
    ap, best = np.full(n, np.nan), np.zeros(n, int)
    scores = cosines(unit, unit)
    for i in range(n):
        others = np.arange(n) != i
        match = polyp[others] == polyp[i]
        if match.any():
            ranks = match_ranks(scores[i][others], match)
            ap[i], best[i] = average_precision(ranks), ranks[0]
    return ap, best


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12), st.integers(1, 50))
def test_precision_equals_a_sort_of_exact_scores(seed: int, n: int, width: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    unit = unit_rows(rng.normal(size=(n, width)) + 1e-3)
    polyp = rng.integers(0, max(n // 4, 1), n)
    ap, best = precision_and_best(unit, polyp, block=block)
    expected, ranks = plain(unit, polyp)
    np.testing.assert_allclose(ap, expected, atol=1e-12)
    np.testing.assert_array_equal(best, ranks)


def test_scores_nearer_than_float32_can_tell_are_told_apart() -> None:
    """Directions that differ by 1e-9: in float32 all cosines are one."""
    rng = np.random.default_rng(1)
    base = rng.normal(size=64)
    unit = unit_rows(base + 1e-4 * rng.normal(size=(30, 64)))
    polyp = rng.integers(0, 5, 30)
    assert len(np.unique((unit.astype(np.float32) @ unit.astype(np.float32).T).round(6))) == 1
    ap, best = precision_and_best(unit, polyp)
    expected, ranks = plain(unit, polyp)
    np.testing.assert_allclose(ap, expected, atol=1e-12)
    np.testing.assert_array_equal(best, ranks)
    assert len(np.unique(ranks)) > 3


def test_threads_and_blocks_change_no_bit() -> None:
    rng = np.random.default_rng(4)
    unit = unit_rows(rng.normal(size=(90, 7)))
    polyp = rng.integers(0, 20, 90)
    ap, best = precision_and_best(unit, polyp, threads=1)
    for block, threads in ((7, 1), (7, 4), (64, 2)):
        again, ranks = precision_and_best(unit, polyp, block=block, threads=threads)
        np.testing.assert_array_equal(again, ap)
        np.testing.assert_array_equal(ranks, best)


def test_nothing_has_no_match() -> None:
    ap, best = precision_and_best(np.zeros((0, 3)), np.zeros(0, dtype=np.int64))
    assert (ap.size, best.size) == (0, 0)


@pytest.mark.parametrize("width", [3, 256, 2048])
def test_the_tolerance_bounds_what_float32_errs(width: int) -> None:
    unit = unit_rows(np.random.default_rng(2).normal(size=(200, width)))
    narrow = unit.astype(np.float32)
    assert np.abs(narrow @ narrow.T - unit @ unit.T).max() < tolerance(width)
