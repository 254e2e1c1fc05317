"""Bags hold what the formula says, in any order of the fragments."""

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.learn.bags import Bags, nearest_bags, purity, sampled_bags

fragments = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=40)


def arrays(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([r[0] for r in rows]), np.array([r[1] / 20 for r in rows])


@given(fragments, st.integers(1, 5), st.sampled_from([0.3, 4.0, 12.0]))
def test_members_hold_their_ranks(rows: list[tuple[int, int]], k: int, tau: float) -> None:
    procedures, positions = arrays(rows)
    bags = sampled_bags(procedures, positions, k, tau, np.random.default_rng(0))
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j != i and procedures[j] == procedures[i]]
        distances = sorted(abs(positions[j] - positions[i]) for j in others)
        kept = bags.members[i, 1:][bags.valid[i, 1:]]
        assert bags.members[i, 0] == i
        assert len(set(kept)) == len(kept) == min(k, len(others))
        assert set(kept) <= set(others)
        for member, rank in zip(kept, bags.ranks[i][bags.valid[i, 1:]], strict=True):
            assert abs(positions[member] - positions[i]) == distances[rank - 1]


@given(fragments, st.integers(1, 5))
def test_nearest_are_the_nearest(rows: list[tuple[int, int]], k: int) -> None:
    procedures, positions = arrays(rows)
    bags = nearest_bags(procedures, positions, k)
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j != i and procedures[j] == procedures[i]]
        distances = sorted(abs(positions[j] - positions[i]) for j in others)[:k]
        kept = bags.members[i, 1:][bags.valid[i, 1:]]
        assert sorted(abs(positions[j] - positions[i]) for j in kept) == distances


def test_same_seed_same_bags_and_names_serve_as_well_as_codes() -> None:
    procedures = np.repeat([0, 1, 2], [5, 1, 7])
    positions = np.random.default_rng(3).random(13)
    one = sampled_bags(procedures, positions, 4, 3.0, np.random.default_rng(7))
    two = sampled_bags(
        np.array(["a", "b", "c"])[procedures], positions, 4, 3.0, np.random.default_rng(7)
    )
    assert (one.members == two.members).all()
    assert not one.valid[5, 1:].any()  # alone in its procedure: an anchor without members


def test_purity_counts_only_members_that_are_there() -> None:
    members = np.array([[0, 1, 2], [1, 0, 2], [2, 3, 0], [3, 2, 0]])
    valid = np.array([[1, 1, 1], [1, 1, 1], [1, 1, 0], [1, 1, 1]], bool)
    bags = Bags(members, valid, np.ones((4, 2), int))
    assert purity(bags, np.array([5, 5, 7, 7])) == pytest.approx(0.25)
    assert np.isnan(purity(Bags(members[:0], valid[:0], members[:0, 1:]), np.array([])))


def test_purity_falls_as_tau_grows() -> None:
    """Figure 2 of the paper, in small: nearby bags are purer."""
    polyps = np.repeat(np.arange(6), 10)
    positions = np.linspace(0, 1, 60)
    values = [
        purity(sampled_bags(np.zeros(60), positions, 4, tau, np.random.default_rng(0)), polyps)
        for tau in (0.3, 3.0, 12.0)
    ]
    assert values[0] > values[1] > values[2]


def test_an_epoch_of_28000_fragments_costs_little() -> None:
    """O(n K): the papers' program takes 47 s and 13 GB here."""
    procedures, positions = np.arange(28_000) % 27, np.random.default_rng(0).random(28_000)

    def draw() -> Bags:
        return sampled_bags(procedures, positions, 4, 6.0, np.random.default_rng(1))

    times = []
    for _ in range(3):
        started = time.process_time()
        draw()
        times.append(time.process_time() - started)
    assert min(times) < 0.5
    tracemalloc.start()
    try:
        draw()
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
