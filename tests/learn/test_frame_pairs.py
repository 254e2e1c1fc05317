"""SFE's pairs of frames."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, norm

from polyplink.core.errors import PolyplinkError
from polyplink.learn.epoch import rng_of
from polyplink.learn.frame_pairs import FramePairs, gaussian_partner, uniform_partner
from tests.learn.sets import bare_set


@pytest.mark.parametrize(("place", "count"), [(0, 12), (5, 12), (11, 12)])
@pytest.mark.parametrize("deviation", [0.7, 3.0, 30.0])
def test_distances_follow_the_gaussian(place: int, count: int, deviation: float) -> None:
    n = 20_000
    drawn = gaussian_partner(np.full(n, place), np.full(n, count), deviation, rng_of(1))
    steps = np.arange(count) - place
    p = norm.cdf(steps + 0.5, scale=deviation) - norm.cdf(steps - 0.5, scale=deviation)
    p[place] = 0
    expected = n * p / p.sum()
    observed = np.bincount(drawn, minlength=count).astype(float)
    assert observed[place] == 0
    many = expected >= 5
    observed = np.append(observed[many], observed[~many].sum())
    expected = np.append(expected[many], expected[~many].sum())
    keep = expected > 1e-9
    assert chisquare(observed[keep], expected[keep]).pvalue > 1e-3


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 39)), min_size=1, max_size=30),
    st.sampled_from([1e-3, 0.5, 30.0, 1e6]),
)
def test_the_other_frame_is_another_of_the_same_tracklet(
    rows: list[tuple[int, int]], deviation: float
) -> None:
    count = np.array([c for c, _ in rows])
    place = np.array([i % c for c, i in rows])
    for drawn in (
        gaussian_partner(place, count, deviation, rng_of(2)),
        uniform_partner(place, count, max(int(deviation), 1), rng_of(2)),
    ):
        assert ((drawn >= 0) & (drawn < count)).all()
        assert ((drawn != place) == (count > 1)).all()


def test_the_uniform_window_is_uniform() -> None:
    drawn = uniform_partner(np.full(30_000, 2), np.full(30_000, 20), 5, rng_of(3))
    observed = np.bincount(drawn, minlength=8)
    assert observed[[0, 1, 3, 4, 5, 6, 7]].sum() == 30_000
    assert chisquare(observed[[0, 1, 3, 4, 5, 6, 7]]).pvalue > 1e-3


def test_every_fragment_gives_the_first_frame_of_one_pair() -> None:
    data = bare_set([30, 9, 50, 1], [0, 0, 1, 2], fragment=1)
    for sampler in (FramePairs(), FramePairs(distance="uniform", window=2)):
        drawn = sampler.draw(data, 0.0, 8, rng_of(0))
        assert drawn.clips.shape == (2 * 90, 1)
        assert sorted(drawn.clips[drawn.bags.members[:, 0], 0]) == list(range(90))
        alone = ~drawn.bags.valid[:, 1]
        assert drawn.clips[drawn.bags.members[alone, 0], 0].tolist() == [89]


def test_distances_are_in_frames_whatever_the_stride() -> None:
    far = []
    for stride in (1, 4):
        data = bare_set([4000 // stride], [0], fragment=1, stride=stride)
        clips = FramePairs().draw(data, 0.0, 8, rng_of(0)).clips.reshape(-1, 2)
        far.append(np.std(np.diff(clips, axis=1) * stride))
    assert far == pytest.approx([30, 30], rel=0.1)


def test_fields_without_sense_are_refused() -> None:
    with pytest.raises(PolyplinkError, match=r"bags\.deviation is 0"):
        FramePairs(deviation=0.0)
    with pytest.raises(PolyplinkError, match=r"bags\.window is 0"):
        FramePairs(window=0)
