from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.evaluate.partitions import partitions
from polyplink.evaluate.tracking_scores import FIGURES, TrackingCounts, tracking_figures
from polyplink.evaluate.tracking_sweep import tracks_of_all
from polyplink.evaluate.tracking_table import look_at
from polyplink.evaluate.tracklet_boxes import TrackletBoxes, lanes, meetings
from tests.evaluate.scenes import procedure


def many(seed: int, n: int, polyps: int) -> TrackletBoxes:
    """Tracklets of some polyps, boxes apart: those of a polyp one after the other."""
    rng = np.random.default_rng(seed)
    polyp, at = rng.integers(0, polyps, n), np.zeros(polyps, dtype=np.int64)
    frames = []
    for which in polyp:
        start, length = at[which] + rng.integers(0, 9), int(rng.integers(1, 12))
        frames.append(np.arange(start, start + length))
        at[which] = start + length
    offset = np.concatenate([[0], np.cumsum([f.size for f in frames])])
    box = np.tile([0.0, 0.0, 9.0, 9.0], (offset[-1], 1))
    box[:, 0] = 50.0 * np.repeat(polyp, np.diff(offset))
    return TrackletBoxes(polyp + 3, offset, np.concatenate(frames), box)


def clusterings(seed: int, n: int) -> np.ndarray:
    """20 clusterings, some of them the same with other numbers."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, rng.integers(1, n + 1), (12, n))
    numbers = rng.permuted(np.tile(np.arange(n), (8, 1)), axis=1)
    again = np.take_along_axis(numbers, labels[rng.integers(0, 12, 8)], axis=1)
    return np.concatenate([labels, again])


def assert_equal_one_by_one(tracklets: TrackletBoxes, labels: np.ndarray) -> None:
    truth = look_at("v", tracklets)
    found = truth.score_settings(partitions(labels))
    every = found.settings()
    for i, row in enumerate(labels):
        alone = truth.score(row)
        for field in fields(TrackingCounts):
            mine, plain = (getattr(c, field.name) for c in (every, alone.counts))
            np.testing.assert_array_equal(mine[i], plain, err_msg=field.name)
        at = found.of[i]
        assert (found.tracks[at], found.split[at]) == (alone.tracks, alone.split)
        assert (found.procedure, found.form, found.doubled) == ("v", alone.form, alone.doubled)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 12))
def test_every_setting_is_scored_to_the_bit_as_alone(seed: int, n: int, polyps: int) -> None:
    tracklets = many(seed, n, polyps)
    assert look_at("v", tracklets).table
    assert_equal_one_by_one(tracklets, clusterings(seed, n))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_so_is_it_in_the_general_form(seed: int, touching: bool, doubled: bool) -> None:
    tracklets, _ = procedure(seed, touching=touching, doubled=doubled)
    assert_equal_one_by_one(tracklets, clusterings(seed, tracklets.polyp.size))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 30))
def test_tracks_are_the_lanes_of_each_clustering(seed: int, n: int) -> None:
    met = meetings(many(seed, n, max(n // 2, 1)))  # many at one time
    labels = partitions(clusterings(seed, n)).labels
    tracks, made, split = tracks_of_all(labels, met)
    for p, row in enumerate(labels):
        plain = lanes(row, met)
        np.testing.assert_array_equal(tracks[p], plain.track)
        assert (made[p], split[p]) == (plain.track.max() + 1, plain.split)


def test_procedures_are_added_up_setting_by_setting() -> None:
    truths = [look_at(f"v{seed}", many(seed, n, 3)) for seed, n in enumerate((5, 9, 14))]
    labels = [clusterings(seed, n) for seed, n in enumerate((5, 9, 14))]
    found = [t.score_settings(partitions(rows)) for t, rows in zip(truths, labels, strict=True)]
    figures = tracking_figures(TrackingCounts.total(one.settings() for one in found))
    for i in range(20):
        alone = [t.score(rows[i]).counts for t, rows in zip(truths, labels, strict=True)]
        plain = tracking_figures(TrackingCounts.total(alone))
        for name in FIGURES:
            assert figures[name].shape == (20,)
            assert figures[name][i] == plain[name], name
