"""TPC's curriculum of pairs."""

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.learn.epoch import rng_of
from polyplink.learn.polyp_parts import PolypParts, linear_alpha, siblings
from tests.learn.sets import bare_set

DATA = bare_set(
    [40, 40, 40, 40, 40, 40], [0, 0, 0, 1, 2, 2], known=[True, True, True, True, False, False]
)


def from_one_tracklet(progress: float, sampler: PolypParts | None = None) -> np.ndarray:
    """(pairs, 2) tracklets of both views, over many epochs."""
    owners = []
    for seed in range(60):
        drawn = (sampler or PolypParts()).draw(DATA, progress, 8, rng_of(seed))
        owners.append(DATA.tracklet_of[drawn.clips[:, 0]].reshape(-1, 2))
    return np.concatenate(owners)


def test_alpha_falls_in_a_straight_line() -> None:
    assert [linear_alpha(p, 1.0, 0.0) for p in (0.0, 0.25, 1.0)] == [1.0, 0.75, 0.0]
    assert PolypParts().draw(DATA, 0.4, 8, rng_of(0)).figures == pytest.approx({"alpha": 0.6})


@pytest.mark.parametrize(("progress", "share"), [(0.0, 1.0), (0.3, 0.7), (0.9999, 0.0)])
def test_so_many_pairs_come_from_one_tracklet(progress: float, share: float) -> None:
    pairs = from_one_tracklet(progress)
    several = pairs[pairs[:, 0] < 3]  # the polyp with three tracklets
    same = (several[:, 0] == several[:, 1]).mean()
    assert same == pytest.approx(share, abs=0.04)
    lone = pairs[pairs[:, 0] >= 3]  # one tracklet, or unknown
    assert (lone[:, 0] == lone[:, 1]).all()


def test_siblings_are_the_others_evenly() -> None:
    owner = np.zeros(9000, np.int64)
    drawn = np.bincount(siblings(DATA.tracklets, owner, rng_of(0)), minlength=6)
    assert drawn.tolist()[:1] + drawn.tolist()[3:] == [0, 0, 0, 0]
    assert abs(drawn[1] - 4500) < 200
    each = np.arange(6)
    assert siblings(DATA.tracklets, each, rng_of(1))[3:].tolist() == [3, 4, 5]


def test_validation_is_as_hard_in_every_epoch() -> None:
    one, two = (PolypParts().watch(DATA, 3.0, 8, rng_of(5)) for _ in range(2))
    assert (one.clips == two.clips).all()
    assert one.figures == {"alpha": 0.5}


def test_shares_beyond_one_are_refused() -> None:
    with pytest.raises(PolyplinkError, match=r"bags\.alpha_first is 2"):
        PolypParts(alpha_first=2.0)
    with pytest.raises(PolyplinkError, match=r"bags\.longest is 0"):
        PolypParts(longest=0)
