"""Bags of several views of a polyp: coverage, batches and refilling."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.learn.bags import rng_of
from polyplink.learn.polyp_views import PolypViews, fragments_of_polyps, refilled_bags
from tests.learn.sets import bare_set


def draw(counts: list[int], views: int, size: int, seed: int = 0) -> tuple[list[list[int]], ...]:
    """Bags of fragments, and the polyps of each batch; fragments of polyp i are from 100 i on."""
    rows = [100 * i + np.arange(count) for i, count in enumerate(counts)]
    drawn = refilled_bags(rows, views, size, rng_of(seed))
    bags = [m[v].tolist() for m, v in zip(drawn.members, drawn.valid, strict=True)]
    size = min(size, len(counts))
    polyps = [bag[0] // 100 for bag in bags]
    return bags, [polyps[i : i + size] for i in range(0, len(polyps), size)]


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=8),
    st.integers(2, 6),
    st.integers(1, 5),
    st.integers(0, 5),
)
def test_all_fragments_are_drawn_and_polyps_of_a_batch_differ(
    counts: list[int], views: int, size: int, seed: int
) -> None:
    bags, batches = draw(counts, views, size, seed)
    for bag in bags:
        polyp = bag[0] // 100
        assert {f // 100 for f in bag} == {polyp}
        assert len(set(bag)) == len(bag) == min(views, counts[polyp])
    drawn_fragments = {f for bag in bags for f in bag}
    assert len(drawn_fragments) == sum(counts)  # coverage
    for batch in batches:
        assert len(set(batch)) == len(batch) == min(size, len(counts))


def test_polyps_are_drawn_in_proportion_to_their_remaining_fragments() -> None:
    counts, draws = [6, 3, 1], 300
    first = np.bincount([draw(counts, 5, 1, seed)[1][0][0] for seed in range(draws)])
    expected = np.array(counts) / 10 * draws
    statistic = ((first - expected) ** 2 / expected).sum()
    assert statistic < 13.8  # chi-square of 2 degrees of freedom, 0.1 %


def test_unknown_polyps_are_left_out() -> None:
    data = bare_set([8, 8, 8, 8], [0, 1, 1, 2], labelled=[True, True, True, False])
    fragments = [rows.tolist() for rows in fragments_of_polyps(data)]
    assert fragments == [[0, 1], [2, 3, 4, 5]]
    for refill in (False, True):
        drawn = PolypViews(views=2, refill=refill).draw(data, 0.0, 2, rng_of(0))
        assert set(drawn.bags.members[drawn.bags.valid]) <= set(range(6))
    assert set(drawn.bags.members[drawn.bags.valid]) == set(range(6))


def test_too_few_known_polyps_are_refused_in_training_only() -> None:
    data = bare_set([8, 8], [0, 1], labelled=[True, False])
    with pytest.raises(PolyplinkError, match="1 known polyp with fragments"):
        PolypViews().draw(data, 0.0, 2, rng_of(0))
    few = bare_set([8, 12, 12], [0, 1, 2])
    with pytest.raises(PolyplinkError, match="2 known polyps with 3 fragments, and a batch holds"):
        PolypViews(views=3).draw(few, 0.0, 3, rng_of(0))
    assert len(PolypViews(views=3).draw(few, 0.0, 2, rng_of(0)).bags.members) == 2
    assert len(PolypViews(views=3, refill=True).draw(few, 0.0, 3, rng_of(0)).bags.members) == 3
    unlabelled = bare_set([8, 8], [0, 1], labelled=[False, False])
    assert len(PolypViews().draw_validation(unlabelled, 3.0, 2, rng_of(0)).bags.members) == 0
