"""Ranks: their distribution, and the neighbour at a rank."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chisquare

from polyplink.core.errors import PolyplinkError
from polyplink.learn.temporal_bags import draw_ranks, neighbour_at


def probability_of_set(chosen: tuple[int, ...], p: np.ndarray) -> float:
    """Probability of drawing this set without replacement, summed over all orders."""
    total = 0.0
    for order in itertools.permutations(chosen):
        remaining, product = 1.0, 1.0
        for rank in order:
            product *= p[rank - 1] / remaining
            remaining -= p[rank - 1]
        total += product
    return total


@pytest.mark.parametrize("tau", [0.3, 0.8, 3.0, 12.0])
def test_sets_of_ranks_have_their_exact_probabilities(tau: float) -> None:
    candidates, k, draws = 7, 3, 40_000
    ranks, valid = draw_ranks(np.full(draws, candidates), k, tau, np.random.default_rng(1))
    assert valid.all()
    p = np.exp(-np.arange(1, candidates + 1) / tau)
    p /= p.sum()
    sets = list(itertools.combinations(range(1, candidates + 1), k))
    expected = np.array([probability_of_set(s, p) for s in sets]) * draws
    drawn = Counter(map(tuple, np.sort(ranks, axis=1).tolist()))
    observed = np.array([drawn[s] for s in sets])
    rare = expected < 5  # pooled, as a chi-square test requires
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    assert chisquare(observed[keep], expected[keep]).pvalue > 1e-3


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.integers(1, 6),
    st.sampled_from([0.01, 0.3, 2.0, 50.0]),
    st.integers(0, 10),
)
def test_ranks_are_distinct_and_k_or_all_candidates(
    candidates: list[int], k: int, tau: float, seed: int
) -> None:
    counts = np.array(candidates)
    ranks, valid = draw_ranks(counts, k, tau, np.random.default_rng(seed))
    for count, row, row_valid in zip(counts, ranks, valid, strict=True):
        chosen = row[row_valid]
        assert len(chosen) == len(set(chosen)) == min(k, count)
        assert ((chosen >= 1) & (chosen <= count)).all()
        if tau == 0.01:  # only the nearest
            assert sorted(chosen) == list(range(1, len(chosen) + 1))


@pytest.mark.parametrize("tau", [0.0, -1.0, float("nan"), float("inf")])
def test_an_invalid_tau_is_refused(tau: float) -> None:
    with pytest.raises(PolyplinkError, match="tau is"):
        draw_ranks(np.full(3, 5), 2, tau, np.random.default_rng(0))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=25))
def test_neighbour_at_equals_a_sort(rows: list[tuple[int, int]]) -> None:
    rows.sort()
    procedure = np.array([r[0] for r in rows])
    positions = np.array([r[1] / 6 for r in rows])
    start = np.searchsorted(procedure, procedure, side="left")
    stop = np.searchsorted(procedure, procedure, side="right")
    for i in range(len(rows)):
        others = [j for j in range(start[i], stop[i]) if j != i]
        # Nearest first; ties by earlier position, then by distance in the order.
        others.sort(key=lambda j: (abs(positions[j] - positions[i]), j > i, abs(j - i)))
        for rank, expected in enumerate(others, start=1):
            ranks = np.ones((len(rows), 1), np.int64)
            ranks[i] = rank
            in_range = np.minimum(ranks, (stop - start - 1)[:, None])
            assert neighbour_at(positions, start, stop, in_range)[i, 0] == expected
