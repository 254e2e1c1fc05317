"""Pairs of SFE, MVE and TPC: distances, places and shares as in the papers."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chisquare, norm

from polyplink.learn.bags import rng_of
from polyplink.learn.pairs import (
    FramePairs,
    PolypParts,
    draw_tracklets,
    gaussian_partner,
    one_part,
    siblings,
    two_parts,
    uniform_partner,
)
from tests.learn.sets import bare_set


@pytest.mark.parametrize(("place", "count"), [(0, 12), (5, 12)])
@pytest.mark.parametrize("deviation", [0.7, 30.0])
def test_distances_of_pairs_are_gaussian(place: int, count: int, deviation: float) -> None:
    n = 20_000
    drawn = gaussian_partner(np.full(n, place), np.full(n, count), deviation, rng_of(1))
    steps = np.arange(count) - place
    p = norm.cdf(steps + 0.5, scale=deviation) - norm.cdf(steps - 0.5, scale=deviation)
    p[place] = 0
    expected = n * p / p.sum()
    observed = np.bincount(drawn, minlength=count).astype(float)
    assert observed[place] == 0
    frequent = expected >= 5
    observed = np.append(observed[frequent], observed[~frequent].sum())
    expected = np.append(expected[frequent], expected[~frequent].sum())
    keep = expected > 1e-9
    assert chisquare(observed[keep], expected[keep]).pvalue > 1e-3


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 39)), min_size=1, max_size=30),
    st.sampled_from([1e-3, 0.5, 30.0, 1e6]),
)
def test_the_partner_is_another_frame_of_the_same_tracklet(
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


def test_distances_in_a_uniform_window_are_uniform() -> None:
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
        unpaired = ~drawn.bags.valid[:, 1]
        assert drawn.clips[drawn.bags.members[unpaired, 0], 0].tolist() == [89]


def test_distances_are_in_frames_for_every_stride() -> None:
    distances = []
    for stride in (1, 4):
        data = bare_set([4000 // stride], [0], fragment=1, stride=stride)
        clips = FramePairs().draw(data, 0.0, 8, rng_of(0)).clips.reshape(-1, 2)
        distances.append(np.std(np.diff(clips, axis=1) * stride))
    assert distances == pytest.approx([30, 30], rel=0.1)


counts = st.lists(st.integers(1, 90), min_size=1, max_size=20).map(np.array)


@given(counts, st.integers(1, 9), st.integers(1, 4))
def test_two_parts_share_no_crop_and_have_one_stride(
    count: np.ndarray, s: int, longest: int
) -> None:
    places = two_parts(count, s, longest, rng_of(0))
    assert ((places >= 0) & (places < count[:, None, None])).all()
    for m, (first, second) in zip(count, places, strict=True):
        if m >= 2:
            assert first.max() < second.min()
        if m // 2 > s > 1:
            steps = {*np.diff(first), *np.diff(second)}
            assert len(steps) == 1
            assert 1 <= steps.pop() <= longest
    single = one_part(count, s, longest, rng_of(0))
    assert ((single >= 0) & (single < count[:, None])).all()


def strides_of(places: np.ndarray) -> np.ndarray:
    """Number of parts (n, s) with each stride from 1."""
    return np.bincount(places[..., 1] - places[..., 0], minlength=5)[1:]


@pytest.mark.parametrize(
    ("crops", "shares_of_two_parts", "shares_of_one_part"),
    [
        (100, [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]),
        (40, [1 / 3, 2 / 3, 0, 0], [0.25, 0.25, 0.25, 0.25]),  # 8 q < 40 // 2, and 8 q < 40
        (32, [1, 0, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0]),  # 8 x 2 and 8 x 4 are not below 16 and 32
    ],
)
def test_longer_strides_are_likelier_only_for_two_parts_of_a_tracklet(
    crops: int, shares_of_two_parts: list[float], shares_of_one_part: list[float]
) -> None:
    """As in TPC's program: in proportion to the stride for two parts, evenly for one."""
    n = 20_000
    count = np.full(n, crops)
    pairs = two_parts(count, 8, 4, rng_of(1))
    assert (strides_of(pairs[:, 0]) == strides_of(pairs[:, 1])).all()
    for observed, shares in (
        (strides_of(pairs[:, 0]), shares_of_two_parts),
        (strides_of(one_part(count, 8, 4, rng_of(2))), shares_of_one_part),
    ):
        assert not observed[np.array(shares) == 0].any()
        assert observed / n == pytest.approx(np.array(shares), abs=0.015)


def test_parts_start_uniformly_where_the_program_allows() -> None:
    """Half of 17 crops is 8: a part of 3 starts at 0 to 4, the other 0 to 4 after its end."""
    places = two_parts(np.full(30_000, 17), 3, 1, rng_of(2))
    starts_of_pairs, observed = np.unique(places[:, :, 0], axis=0, return_counts=True)
    assert starts_of_pairs.tolist() == [[i, i + 3 + j] for i in range(5) for j in range(5)]
    assert chisquare(observed).pvalue > 1e-3
    starts = np.bincount(one_part(np.full(30_000, 10), 3, 1, rng_of(3))[:, 0])
    assert len(starts) == 7
    assert chisquare(starts).pvalue > 1e-3


def test_a_batch_has_one_pair_per_polyp_and_tracklets_by_the_root_of_their_length() -> None:
    """Polyps are equally likely, as with `random.sample`, however many crops they have."""
    crops = [1, 4, 9, 100, 400, 50, 50, 25]
    data = bare_set(crops, [0, 0, 0, 1, 2, 2, 3, 3], labelled=[True] * 6 + [False] * 2, fragment=1)
    n, size = 30_000, 3
    rows = draw_tracklets(data.tracklets, n, size, rng_of(0))
    polyp = np.array([0, 0, 0, 1, 2, 2, 3, 4])  # an unknown tracklet is a polyp by itself
    batches = np.sort(polyp[rows].reshape(-1, size))
    assert (np.diff(batches) > 0).all()
    assert np.bincount(polyp[rows]) / n == pytest.approx(np.full(5, 0.2), abs=0.01)
    for polyp_code in range(5):
        tracklets_of_polyp = np.flatnonzero(polyp == polyp_code)
        roots = np.sqrt(np.array(crops)[tracklets_of_polyp])
        observed = np.bincount(rows, minlength=8)[tracklets_of_polyp]
        assert observed / observed.sum() == pytest.approx(roots / roots.sum(), abs=0.025)
    rows_of_large_batch = draw_tracklets(
        data.tracklets, 12, 12, rng_of(0)
    )  # more pairs than polyps
    assert sorted(np.bincount(polyp[rows_of_large_batch])) == [2, 2, 2, 3, 3]


DATA = bare_set(
    [40, 40, 40, 40, 40, 40], [0, 0, 0, 1, 2, 2], labelled=[True, True, True, True, False, False]
)


def tracklets_of_pairs(progress: float) -> np.ndarray:
    """Tracklets of both views (pairs, 2), over many epochs."""
    owners = []
    for seed in range(60):
        drawn = PolypParts().draw(DATA, progress, 8, rng_of(seed))
        owners.append(DATA.tracklet_of[drawn.clips[:, 0]].reshape(-1, 2))
    return np.concatenate(owners)


def test_alpha_falls_linearly() -> None:
    assert PolypParts().draw(DATA, 0.4, 8, rng_of(0)).figures == pytest.approx({"alpha": 0.6})


@pytest.mark.parametrize(("progress", "share"), [(0.0, 1.0), (0.3, 0.7), (0.9999, 0.0)])
def test_a_share_alpha_of_pairs_comes_from_one_tracklet(progress: float, share: float) -> None:
    pairs = tracklets_of_pairs(progress)
    several = pairs[pairs[:, 0] < 3]  # the polyp with three tracklets
    same = (several[:, 0] == several[:, 1]).mean()
    assert same == pytest.approx(share, abs=0.04)
    single = pairs[pairs[:, 0] >= 3]  # one tracklet, or unknown
    assert (single[:, 0] == single[:, 1]).all()


def test_siblings_are_drawn_by_the_root_of_their_length() -> None:
    data = bare_set([40, 90, 10, 40, 9, 9], [0, 0, 0, 1, 2, 2], labelled=[True] * 4 + [False] * 2)
    for tracklet, others in ((0, [1, 2]), (1, [0, 2]), (2, [0, 1])):
        drawn = np.bincount(
            siblings(data.tracklets, np.full(9000, tracklet), rng_of(0)), minlength=6
        )
        assert drawn.sum() == drawn[others].sum()
        roots = np.sqrt(data.tracklets.count[others])
        assert chisquare(drawn[others], 9000 * roots / roots.sum()).pvalue > 1e-3
    assert siblings(data.tracklets, np.arange(6), rng_of(1))[3:].tolist() == [3, 4, 5]


def test_validation_pairs_do_not_depend_on_the_epoch() -> None:
    first, second = (PolypParts().draw_validation(DATA, 3.0, 8, rng_of(5)) for _ in range(2))
    assert (first.clips == second.clips).all()
    assert first.figures == {"alpha": 0.5}
