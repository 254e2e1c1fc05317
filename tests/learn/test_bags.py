"""Bags, the samplers that draw them, and the batches of an epoch."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from polyplink.core.parts import BAGS
from polyplink.learn.bags import (
    Bags,
    BagSampler,
    batches,
    cut_into_batches,
    purity,
    rng_of,
    view_bags,
)
from polyplink.learn.polyp_views import PolypViews
from polyplink.learn.temporal_bags import TemporalBags, nearest_bags, sampled_bags
from tests.learn.sets import bare_set

fragments = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=40)


def procedures_and_positions(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([r[0] for r in rows]), np.array([r[1] / 20 for r in rows])


@given(fragments, st.integers(1, 5), st.sampled_from([0.3, 4.0, 12.0]))
def test_members_of_bags_have_the_ranks_of_their_distances(
    rows: list[tuple[int, int]], k: int, tau: float
) -> None:
    procedures, positions = procedures_and_positions(rows)
    bags = sampled_bags(procedures, positions, k, tau, np.random.default_rng(0))
    nearest = nearest_bags(procedures, positions, k)
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j != i and procedures[j] == procedures[i]]
        distances = sorted(abs(positions[j] - positions[i]) for j in others)
        members = bags.members[i, 1:][bags.valid[i, 1:]]
        assert bags.members[i, 0] == i
        assert len(set(members)) == len(members) == min(k, len(others))
        assert set(members) <= set(others)
        for member, rank in zip(members, bags.ranks[i][bags.valid[i, 1:]], strict=True):
            assert abs(positions[member] - positions[i]) == distances[rank - 1]
        members = nearest.members[i, 1:][nearest.valid[i, 1:]]
        assert sorted(abs(positions[j] - positions[i]) for j in members) == distances[:k]


def test_purity_counts_only_valid_members() -> None:
    members = np.array([[0, 1, 2], [1, 0, 2], [2, 3, 0], [3, 2, 0]])
    valid = np.array([[1, 1, 1], [1, 1, 1], [1, 1, 0], [1, 1, 1]], bool)
    bags = Bags(members, valid, np.ones((4, 2), int))
    assert purity(bags, np.array([5, 5, 7, 7])) == pytest.approx(0.25)
    assert np.isnan(purity(Bags(members[:0], valid[:0], members[:0, 1:]), np.array([])))


DATA = bare_set([30, 9, 50, 4, 17, 33, 12], [0, 0, 1, 2, 3, 3, 4])


def test_every_fragment_anchors_one_bag_and_the_order_is_shuffled() -> None:
    drawn = TemporalBags().draw(DATA, 0.0, 12, rng_of(0))
    anchors = drawn.bags.members[:, 0].tolist()
    assert sorted(anchors) == list(range(len(DATA)))
    assert anchors != sorted(anchors)
    assert drawn.clips is DATA.rows


def test_bags_reach_further_as_the_curriculum_progresses() -> None:
    taus = [TemporalBags().draw(DATA, p, 12, rng_of(0)).figures["tau"] for p in (0.0, 0.5, 0.98)]
    assert taus == pytest.approx([0.3, 6.15, 11.988], abs=1e-3)
    near, far = (
        np.mean(TemporalBags(k=1).draw(DATA, p, 12, rng_of(0)).bags.ranks) for p in (0.0, 0.98)
    )
    assert far > 2 * near


def test_validation_and_nearest_bags_have_no_curriculum() -> None:
    validation = TemporalBags().draw_validation(DATA, 3.0, 12, rng_of(0))
    assert not validation.figures
    nearest = TemporalBags(sampling="nearest")
    ranks_at_start, ranks_at_end = (
        nearest.draw(DATA, p, 12, rng_of(4)).bags.ranks for p in (0.0, 0.9)
    )
    assert (ranks_at_start == ranks_at_end).all()
    assert (np.sort(ranks_at_start, axis=1) == [1, 2, 3, 4]).all()


SAMPLERS = [PolypViews(views=2) if kind is PolypViews else kind() for kind in BAGS.values()]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: s.kind)
def test_bags_depend_only_on_the_seed(sampler: BagSampler) -> None:
    first, same_seed, other_seed = (sampler.draw(DATA, 0.3, 3, rng_of(s)) for s in (1, 1, 2))
    assert (first.clips == same_seed.clips).all()
    assert (first.bags.members == same_seed.bags.members).all()
    crops_of_bags = [d.clips[d.bags.members].tobytes() for d in (first, other_seed)]
    assert crops_of_bags[0] != crops_of_bags[1]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: s.kind)
@pytest.mark.parametrize("method", ["draw", "draw_validation"])
def test_bags_hold_crops_of_one_tracklet_in_time_order(sampler: BagSampler, method: str) -> None:
    drawn = getattr(sampler, method)(DATA, 0.5, 3, rng_of(0))
    owner = DATA.tracklet_of[drawn.clips]
    assert (owner == owner[:, :1]).all()  # a view is of one tracklet
    assert (np.diff(drawn.clips, axis=1) >= 0).all()
    assert drawn.bags.valid[:, 0].all()
    procedure = DATA.tracklets.procedures[owner[:, 0]][drawn.bags.members]
    assert ((procedure == procedure[:, :1]) | ~drawn.bags.valid).all()
    for members, valid in zip(drawn.bags.members, drawn.bags.valid, strict=True):
        assert len(set(members[valid])) == valid.sum()


CPU = torch.device("cpu")


@given(st.integers(0, 60), st.integers(1, 20))
def test_cut_covers_every_bag_once_and_leaves_none_alone(n: int, size: int) -> None:
    pieces = cut_into_batches(np.arange(n), size)
    assert [i for piece in pieces for i in piece] == list(range(n))
    assert all(len(piece) <= size + 1 for piece in pieces)
    if n > 1 and size > 1:
        assert all(len(piece) > 1 for piece in pieces)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(2, 4), st.integers(2, 4))
def test_view_bags_end_when_too_few_polyps_have_views_left(
    counts: list[int], views: int, size: int
) -> None:
    """The rule of the samplers in the programs of NTSSL and TA, checked on the batches."""
    unknown = 9  # fragments of a polyp that is not known
    polyps = np.repeat(np.arange(len(counts) + 1), [*counts, unknown])
    bags = view_bags(polyps, polyps < len(counts), views, size, rng_of(1))
    remaining = dict(enumerate(counts))
    assert bags.valid.all()
    assert len(set(bags.members.ravel())) == bags.members.size  # no fragment twice
    assert (bags.members < sum(counts)).all()  # only known polyps
    for start in range(0, len(bags.members), size):
        polyps_of_bags = polyps[bags.members[start : start + size]]
        assert (polyps_of_bags == polyps_of_bags[:, :1]).all()
        assert len(set(polyps_of_bags[:, 0])) == len(polyps_of_bags)  # different polyps
        for polyp in polyps_of_bags[:, 0]:
            remaining[polyp] -= views
    with_enough_views = sum(count >= views for count in counts)
    if with_enough_views >= size:
        assert sum(count >= views for count in remaining.values()) < size
    else:
        assert len(bags.members) == with_enough_views


def test_no_sampler_fills_validation_batches_with_neighbours() -> None:
    data = bare_set([60] * 12, list(range(12)))
    for kind in BAGS.values():
        drawn = kind().draw_validation(data, 3.0, 6, rng_of(0))
        polyp = data.tracklets.polyps[data.tracklet_of[drawn.clips[:, 0]]]
        same = []
        for batch in batches(drawn.bags, 6, CPU):
            polyps_of_batch = polyp[batch.fragments]
            other = batch.bag[:, None].numpy() != batch.bag[None, :].numpy()
            same.append((polyps_of_batch[:, None] == polyps_of_batch[None, :])[other].mean())
        assert np.mean(same) < 0.2, kind  # by chance one in twelve
