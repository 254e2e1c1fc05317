"""What an epoch is."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.learn.bags import sampled_bags, shuffled
from polyplink.learn.epoch import batches, cut, rng_of, shard, view_bags

CPU = torch.device("cpu")


@given(st.integers(0, 60), st.integers(1, 20))
def test_batches_cover_every_bag_once_and_none_is_alone(n: int, size: int) -> None:
    pieces = cut(np.arange(n), size)
    assert [i for piece in pieces for i in piece] == list(range(n))
    assert all(len(piece) <= size + 1 for piece in pieces)
    if n > 1 and size > 1:
        assert all(len(piece) > 1 for piece in pieces)


def test_every_fragment_anchors_one_bag_in_an_order_fixed_by_the_seed() -> None:
    procedures = np.repeat([0, 1, 2], [6, 1, 5])
    bags = sampled_bags(procedures, np.linspace(0, 1, 12), 4, 3.0, rng_of(1, 2))
    orders = []
    for seed in (5, 5, 6):
        found = list(batches(shuffled(bags, rng_of(seed)), 5, CPU))
        anchors = [batch.fragments[batch.anchor.numpy()].tolist() for batch in found]
        assert sorted(i for part in anchors for i in part) == list(range(12))
        for batch in found:
            counts = torch.bincount(batch.bag[batch.anchor])
            assert (counts == 1).all()  # one anchor per bag
            same = procedures[batch.fragments]
            for bag in set(batch.bag.tolist()):
                assert len(set(same[(batch.bag == bag).numpy()])) == 1
        orders.append(anchors)
    assert orders[0] == orders[1] != orders[2]


def test_members_that_are_not_there_are_left_out() -> None:
    bags = sampled_bags(np.array([0, 0, 1]), np.array([0.0, 0.5, 0.2]), 4, 3.0, rng_of(0))
    (batch,) = batches(bags, 10, CPU)
    assert batch.fragments.tolist() == [0, 1, 1, 0, 2]
    assert batch.bag.tolist() == [0, 0, 1, 1, 2]


def test_view_bags_hold_known_views_of_one_polyp() -> None:
    polyps = np.array([0, 0, 0, 1, 2, 2, 3, 3])
    known = np.array([True] * 6 + [False, True])
    bags = view_bags(polyps, known, 2, rng_of(0))
    assert len(bags.members) == 2  # polyps 0 and 2; 1 and 3 have one known view
    for members, valid in zip(bags.members, bags.valid, strict=True):
        views = members[valid]
        assert len(set(views)) == 2
        assert len(set(polyps[views])) == 1
        assert known[views].all()
    many = view_bags(polyps, known, 9, rng_of(0))
    assert many.valid.sum(axis=1).tolist() == [3, 2]


@given(st.integers(0, 40), st.integers(1, 5))
def test_shards_cover_an_epoch_without_overlap(n: int, world: int) -> None:
    pieces = list(range(n))
    shards = [shard(pieces, rank, world) for rank in range(world)]
    assert sorted(i for part in shards for i in part) == pieces
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_shard_that_is_not_there_is_refused(rank: int) -> None:
    with pytest.raises(PolyplinkError, match=f"shard {rank} of 2"):
        shard([1, 2, 3], rank, 2)
