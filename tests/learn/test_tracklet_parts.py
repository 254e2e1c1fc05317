"""MVE's pairs of parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from polyplink.core.errors import PolyplinkError
from polyplink.learn.epoch import rng_of
from polyplink.learn.tracklet_parts import (
    TrackletParts,
    check_stride,
    draw_strides,
    draw_tracklets,
    one_part,
    two_parts,
)
from tests.learn.sets import bare_set

counts = st.lists(st.integers(1, 90), min_size=1, max_size=20).map(np.array)


@given(counts, st.integers(1, 9), st.integers(1, 4))
def test_parts_share_no_crop_and_keep_one_stride(count: np.ndarray, s: int, longest: int) -> None:
    places = two_parts(count, s, longest, rng_of(0))
    assert ((places >= 0) & (places < count[:, None, None])).all()
    for m, (first, second) in zip(count, places, strict=True):
        if m >= 2:
            assert first.max() < second.min()
        if m >= 2 * s and s > 1:
            steps = {*np.diff(first), *np.diff(second)}
            assert len(steps) == 1
            assert 1 <= steps.pop() <= longest
    single = one_part(count, s, longest, rng_of(0))
    assert ((single >= 0) & (single < count[:, None])).all()


def test_longer_strides_are_likelier_among_those_that_fit() -> None:
    n = 20_000
    drawn = draw_strides(np.full(n, 100), 8, 2, 4, rng_of(1))
    assert chisquare(np.bincount(drawn)[1:], n * np.arange(1, 5) / 10).pvalue > 1e-3
    short = draw_strides(np.full(n, 31), 8, 2, 4, rng_of(1))  # 2 x 15 crops at stride 2
    assert chisquare(np.bincount(short)[1:], n * np.arange(1, 3) / 3).pvalue > 1e-3
    assert set(draw_strides(np.array([15, 2]), 8, 2, 4, rng_of(1))) == {0}


def test_all_placements_are_equally_likely() -> None:
    places = two_parts(np.full(30_000, 8), 3, 1, rng_of(2))  # two parts of 3 in 8: 6 ways
    ways, observed = np.unique(places[:, :, 0], axis=0, return_counts=True)
    assert len(ways) == 6
    assert chisquare(observed).pvalue > 1e-3


def test_tracklets_come_in_proportion_to_the_root_of_their_length() -> None:
    count = np.array([1, 4, 9, 100, 400])
    expected = 1000 * np.sqrt(count) / np.sqrt(count).sum()
    observed = np.bincount(draw_tracklets(count, 1000, rng_of(0)), minlength=5)
    assert (np.abs(observed - expected) < 1).all()
    mean = np.mean(
        [np.bincount(draw_tracklets(count, 7, rng_of(s)), minlength=5) for s in range(3000)], 0
    )
    assert mean == pytest.approx(expected * 7 / 1000, rel=0.1)


def test_an_epoch_has_as_many_pairs_as_fragments() -> None:
    data = bare_set([30, 9, 50, 4], [0, 0, 1, 2])
    drawn = TrackletParts().draw(data, 0.0, 8, rng_of(0))
    assert drawn.bags.members.shape == (len(data), 2)
    assert drawn.clips.shape == (2 * len(data), 4)
    owner = data.tracklet_of[drawn.clips[:, 0]]
    assert (owner[0::2] == owner[1::2]).all()
    assert set(owner) == {0, 1, 2, 3}


def test_a_stride_below_one_is_refused() -> None:
    with pytest.raises(PolyplinkError, match=r"bags\.longest is 0"):
        TrackletParts(longest=0)
    check_stride(1)
