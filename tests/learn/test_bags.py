"""Bags, the ways of drawing them, and the batches of an epoch."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from polyplink.core.parts import BAGS
from polyplink.learn.bags import (
    Bags,
    BagSampler,
    batches,
    cut,
    purity,
    rng_of,
    view_bags,
)
from polyplink.learn.noise_aware import symmetric_noise_aware
from polyplink.learn.polyp_views import PolypViews
from polyplink.learn.temporal_bags import TemporalBags, nearest_bags, sampled_bags
from tests.learn.sets import bare_set

fragments = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=40)


def arrays(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([r[0] for r in rows]), np.array([r[1] / 20 for r in rows])


@given(fragments, st.integers(1, 5), st.sampled_from([0.3, 4.0, 12.0]))
def test_members_hold_their_ranks(rows: list[tuple[int, int]], k: int, tau: float) -> None:
    procedures, positions = arrays(rows)
    bags = sampled_bags(procedures, positions, k, tau, np.random.default_rng(0))
    nearest = nearest_bags(procedures, positions, k)
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j != i and procedures[j] == procedures[i]]
        distances = sorted(abs(positions[j] - positions[i]) for j in others)
        kept = bags.members[i, 1:][bags.valid[i, 1:]]
        assert bags.members[i, 0] == i
        assert len(set(kept)) == len(kept) == min(k, len(others))
        assert set(kept) <= set(others)
        for member, rank in zip(kept, bags.ranks[i][bags.valid[i, 1:]], strict=True):
            assert abs(positions[member] - positions[i]) == distances[rank - 1]
        kept = nearest.members[i, 1:][nearest.valid[i, 1:]]
        assert sorted(abs(positions[j] - positions[i]) for j in kept) == distances[:k]


def test_names_serve_as_well_as_codes() -> None:
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


DATA = bare_set([30, 9, 50, 4, 17, 33, 12], [0, 0, 1, 2, 3, 3, 4])


def test_every_fragment_anchors_one_bag_and_the_order_is_shuffled() -> None:
    drawn = TemporalBags().draw(DATA, 0.0, 12, rng_of(0))
    anchors = drawn.bags.members[:, 0].tolist()
    assert sorted(anchors) == list(range(len(DATA)))
    assert anchors != sorted(anchors)
    assert drawn.clips is DATA.rows


def test_the_curriculum_reaches_further_as_it_goes() -> None:
    taus = [TemporalBags().draw(DATA, p, 12, rng_of(0)).figures["tau"] for p in (0.0, 0.5, 0.98)]
    assert taus == pytest.approx([0.3, 6.15, 11.988], abs=1e-3)
    near, far = (
        np.mean(TemporalBags(k=1).draw(DATA, p, 12, rng_of(0)).bags.ranks) for p in (0.0, 0.98)
    )
    assert far > 2 * near


def test_validation_stays_at_its_temperature_and_nearest_has_none() -> None:
    watched = TemporalBags().draw_validation(DATA, 3.0, 12, rng_of(0))
    assert not watched.figures
    nearest = TemporalBags(sampling="nearest")
    one, two = (nearest.draw(DATA, p, 12, rng_of(4)).bags.ranks for p in (0.0, 0.9))
    assert (one == two).all()
    assert (np.sort(one, axis=1) == [1, 2, 3, 4]).all()


SAMPLERS = [PolypViews(views=2) if kind is PolypViews else kind() for kind in BAGS.values()]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: s.kind)
def test_the_seed_decides_and_nothing_else(sampler: BagSampler) -> None:
    one, two, three = (sampler.draw(DATA, 0.3, 3, rng_of(s)) for s in (1, 1, 2))
    assert (one.clips == two.clips).all()
    assert (one.bags.members == two.bags.members).all()
    shown = [d.clips[d.bags.members].tobytes() for d in (one, three)]
    assert shown[0] != shown[1]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: s.kind)
@pytest.mark.parametrize("way", ["draw", "draw_validation"])
def test_bags_hold_crops_of_one_tracklet_in_time_order(sampler: BagSampler, way: str) -> None:
    drawn = getattr(sampler, way)(DATA, 0.5, 3, rng_of(0))
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
def test_batches_cover_every_bag_once_and_none_is_alone(n: int, size: int) -> None:
    pieces = cut(np.arange(n), size)
    assert [i for piece in pieces for i in piece] == list(range(n))
    assert all(len(piece) <= size + 1 for piece in pieces)
    if n > 1 and size > 1:
        assert all(len(piece) > 1 for piece in pieces)


def test_members_that_are_not_there_are_left_out() -> None:
    bags = sampled_bags(np.array([0, 0, 1]), np.array([0.0, 0.5, 0.2]), 4, 3.0, rng_of(0))
    (batch,) = batches(bags, 10, CPU)
    assert batch.fragments.tolist() == [0, 1, 1, 0, 2]
    assert batch.bag.tolist() == [0, 0, 1, 1, 2]


def test_view_bags_hold_known_views_of_one_polyp() -> None:
    polyps = np.array([0, 0, 0, 1, 2, 2, 3, 3])
    known = np.array([True] * 6 + [False, True])
    bags = view_bags(polyps, known, 2, 9, rng_of(0))
    assert len(bags.members) == 2  # polyps 0 and 2; 1 and 3 have one known view
    for members, valid in zip(bags.members, bags.valid, strict=True):
        views = members[valid]
        assert len(set(views)) == 2
        assert len(set(polyps[views])) == 1
        assert known[views].all()
    assert len(view_bags(polyps, known, 3, 9, rng_of(0)).members) == 1
    assert not len(view_bags(polyps, known, 4, 9, rng_of(0)).members)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(2, 4), st.integers(2, 4))
def test_view_bags_are_batches_until_too_few_polyps_are_left(
    counts: list[int], views: int, size: int
) -> None:
    """The rule of the program's sampler, checked from the batches it gave."""
    polyps = np.repeat(np.arange(len(counts)), counts)
    bags = view_bags(polyps, np.ones(len(polyps), bool), views, size, rng_of(1))
    left = dict(enumerate(counts))
    assert len(set(bags.members.ravel())) == bags.members.size  # no fragment twice
    for start in range(0, len(bags.members), size):
        shown = polyps[bags.members[start : start + size]]
        assert (shown == shown[:, :1]).all()
        assert len(set(shown[:, 0])) == len(shown)  # different polyps
        for polyp in shown[:, 0]:
            left[polyp] -= views
    enough = sum(count >= views for count in counts)
    if enough >= size:
        assert sum(count >= views for count in left.values()) < size
    else:
        assert len(bags.members) == enough


def test_a_random_encoder_has_the_programs_validation_loss() -> None:
    """NTSSL's program: batches of 6 views, 2 of each polyp; of one match in 5 the log is 1.61."""
    sizes, rng = (3, 6), np.random.default_rng(0)
    polyps = np.repeat(np.arange(20), 30)
    vectors = torch.from_numpy(rng.normal(size=(len(polyps), 4096)))
    found = []
    for size in sizes:
        bags = view_bags(polyps, np.ones(len(polyps), bool), 2, size, rng_of(0))
        losses = [
            symmetric_noise_aware(vectors[b.fragments], b.bag, 0.07)
            for b in batches(bags, size, CPU)
        ]
        found.append(float(torch.stack(losses).mean()))
    assert found == pytest.approx([math.log(5), math.log(11)], abs=0.05)


def test_validation_batches_tell_a_good_encoder_from_a_bad_one() -> None:
    """In the order of time most negatives of a batch would show the anchor's polyp."""
    data = bare_set([60] * 12, list(range(12)))  # 12 polyps one after the other, 15 views each
    drawn = TemporalBags().draw_validation(data, 3.0, 6, rng_of(0))
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(len(data), 24))
    good = np.eye(24)[data.polyps] + 0.1 * noise
    losses = {}
    for name, vectors in (("good", good), ("bad", noise)):
        parts = []
        for batch in batches(drawn.bags, 6, CPU):
            z = torch.from_numpy(vectors[batch.fragments])
            parts.append(float(symmetric_noise_aware(z, batch.bag, 0.07)))
        losses[name] = np.mean(parts)
    assert losses["good"] < 0.6 * losses["bad"]


def test_no_way_of_drawing_validation_bags_fills_a_batch_with_neighbours() -> None:
    data = bare_set([60] * 12, list(range(12)))
    for kind in BAGS.values():
        drawn = kind().draw_validation(data, 3.0, 6, rng_of(0))
        polyp = data.tracklets.polyps[data.tracklet_of[drawn.clips[:, 0]]]
        same = []
        for batch in batches(drawn.bags, 6, CPU):
            shown = polyp[batch.fragments]
            other = batch.bag[:, None].numpy() != batch.bag[None, :].numpy()
            same.append((shown[:, None] == shown[None, :])[other].mean())
        assert np.mean(same) < 0.2, kind  # one in twelve by chance
