"""Bags from time as a recipe draws them."""

import numpy as np
import pytest

from polyplink.learn.epoch import rng_of
from polyplink.learn.temporal_bags import TemporalBags
from tests.learn.sets import bare_set

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
    watched = TemporalBags().watch(DATA, 3.0, 12, rng_of(0))
    assert not watched.figures
    nearest = TemporalBags(sampling="nearest")
    one, two = (nearest.draw(DATA, p, 12, rng_of(4)).bags.ranks for p in (0.0, 0.9))
    assert (one == two).all()
    assert (np.sort(one, axis=1) == [1, 2, 3, 4]).all()
