from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.evaluate.tracking import score_tracks
from polyplink.evaluate.tracking_scores import TrackingCounts
from polyplink.evaluate.tracking_sweep import tracks_of_all
from polyplink.evaluate.tracking_sweep_boxes import SameBoxes, score_same_boxes
from polyplink.evaluate.tracking_table import true_and_found
from polyplink.evaluate.tracklet_boxes import TrackletBoxes, meetings


def crowd(seed: int, apart: float, jitter: float) -> TrackletBoxes:
    """Up to 12 tracklets of up to four polyps, most of which are seen at one time."""
    rng = np.random.default_rng(seed)
    n, at = int(rng.integers(1, 13)), np.zeros(4, dtype=np.int64)
    polyp, frames = rng.integers(0, 4, n), []
    for which in polyp:
        start, length = at[which] + rng.integers(0, 4), int(rng.integers(1, 15))
        frames.append(np.arange(start, start + length))
        at[which] = start + length
    offset = np.concatenate([[0], np.cumsum([f.size for f in frames])])
    corner = apart * np.repeat(polyp, np.diff(offset))[:, None] + np.zeros(2)
    box = np.hstack([corner + jitter * rng.random(corner.shape), np.full(corner.shape, 40.0)])
    return TrackletBoxes(polyp, offset, np.concatenate(frames), box)


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.0, 2.0, 5.0, 15.0, 30.0, 90.0]),
    st.sampled_from([0.0, 3.0, 20.0]),
)
def test_boxes_that_compete_are_scored_to_the_bit_as_one_by_one(
    seed: int, apart: float, jitter: float
) -> None:
    tracklets = crowd(seed, apart, jitter)
    n = tracklets.polyp.size
    labels = np.random.default_rng(seed).integers(0, max(n // 2, 1), (15, n)).astype(np.int32)
    tracks = tracks_of_all(labels, meetings(tracklets))[0]
    found = score_same_boxes(tracklets, tracks)
    for i, track in enumerate(tracks):
        plain = score_tracks(*true_and_found(tracklets, track.astype(np.int64)))
        for field in fields(TrackingCounts):
            np.testing.assert_array_equal(
                getattr(found, field.name)[i], getattr(plain, field.name), err_msg=field.name
            )


def test_the_cases_above_are_met() -> None:
    for_hota, for_clear = np.array(
        [SameBoxes.of(crowd(seed, 5.0, 3.0)).contested.any(axis=1) for seed in range(40)]
    ).T
    assert for_hota.sum() > 20
    assert for_clear.sum() > 20
    alone = SameBoxes.of(crowd(1, 90.0, 3.0))
    assert not alone.contested.any()
    assert (alone.similarity == pytest.approx(1), set(alone.level)) == (True, {19})


def test_no_partition_has_no_counts() -> None:
    found = score_same_boxes(crowd(0, 5.0, 0.0), np.empty((0, 3), dtype=np.int32))
    assert found.tp.shape == (0, 19)
