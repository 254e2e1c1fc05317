"""What every way of drawing bags has in common."""

from typing import get_args

import numpy as np
import pytest

from polyplink.learn.drawn import BagSampler
from polyplink.learn.epoch import rng_of
from polyplink.learn.sampling import AnyBags
from tests.learn.sets import bare_set

SAMPLERS = [kind() for kind in get_args(get_args(AnyBags)[0])]
DATA = bare_set([30, 9, 50, 4, 17, 33, 12], [0, 0, 1, 2, 3, 3, 4])


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: s.kind)
def test_the_seed_decides_and_nothing_else(sampler: BagSampler) -> None:
    one, two, three = (sampler.draw(DATA, 0.3, 3, rng_of(s)) for s in (1, 1, 2))
    assert (one.clips == two.clips).all()
    assert (one.bags.members == two.bags.members).all()
    shown = [d.clips[d.bags.members].tobytes() for d in (one, three)]
    assert shown[0] != shown[1]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: s.kind)
@pytest.mark.parametrize("way", ["draw", "watch"])
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
