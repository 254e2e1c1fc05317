from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import linear_sum_assignment

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.hota import (
    TrackingCounts,
    assign,
    best_matching,
    score_tracks,
    tracking_figures,
)
from polyplink.evaluate.metric import metrics_of
from polyplink.evaluate.samples import BoxTracks
from polyplink_lab.bench.box_cases import agree, trackeval_figures
from tests.evaluate.scenes import scene


def figures(true: BoxTracks, detected: BoxTracks) -> dict[str, float]:
    return {name: float(v) for name, v in tracking_figures(score_tracks(true, detected)).items()}


@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 7))
def test_figures_equal_trackeval_on_random_scenes(seed: int, frames: int, tracks: int) -> None:
    true, detected = scene(seed, frames=frames, tracks=tracks)
    if true.frame.size:
        assert agree(score_tracks(true, detected), trackeval_figures((true, detected)))


def test_equal_boxes_are_matched_as_trackeval_does() -> None:
    rng = np.random.default_rng(3)
    frame = np.repeat(np.arange(30), 3)
    box = np.tile([0.0, 0.0, 8.0, 8.0], (90, 1)) + np.repeat(rng.integers(0, 3, (30, 1)), 3, axis=0)
    true = BoxTracks.of(frame, np.tile([0, 1, 2], 30), box)
    tracks = np.concatenate([rng.permutation(3) for _ in range(30)])
    detected = BoxTracks.of(frame, tracks, box)
    assert agree(score_tracks(true, detected), trackeval_figures((true, detected)))
    first_two = frame[np.arange(90) % 3 < 2]  # fewer boxes on one side: tables that are not square
    fewer = BoxTracks.of(first_two, tracks[np.arange(90) % 3 < 2], box[:60])
    assert agree(score_tracks(true, fewer), trackeval_figures((true, fewer)))
    assert agree(score_tracks(fewer, true), trackeval_figures((fewer, true)))


@settings(max_examples=80)
@given(
    st.integers(1, 8),
    st.integers(1, 8),
    st.sampled_from([1, 2, 4, 1000]),
    st.integers(0, 10_000),
)
def test_assignments_equal_those_of_scipy_also_for_ties(
    rows: int, columns: int, values: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    shape = min(rows, columns), max(rows, columns)
    cost = -np.round(rng.integers(0, values, shape) / 7, rng.integers(1, 17))
    np.testing.assert_array_equal(assign(cost), linear_sum_assignment(cost)[1])
    table = rng.integers(0, values, (rows, columns))
    assert best_matching(table) == table[linear_sum_assignment(-table)].sum()


def test_weighted_counts_equal_copies_of_procedures() -> None:
    counts = [score_tracks(*scene(seed)) for seed in range(3)]
    weighted = TrackingCounts.weighted(counts, [[2, 0, 1], [0, 1, 0]])
    copies = tracking_figures(TrackingCounts.total([counts[0], counts[0], counts[2]]))
    single = tracking_figures(counts[1])
    actual = tracking_figures(weighted)
    assert set(actual) == set(metrics_of("tracking"))
    for name in actual:
        np.testing.assert_allclose(actual[name], [copies[name], single[name]], atol=1e-12)


def test_figures_without_true_boxes_are_undefined_and_without_detections_zero() -> None:
    true, detected = scene(0)
    empty = BoxTracks.of([], [], [])
    assert all(np.isnan(value) for value in figures(empty, detected).values())
    without_detections = figures(true, empty)
    assert (
        without_detections["HOTA"]
        == without_detections["IDF1"]
        == without_detections["MOTA"]
        == 0.0
    )


def test_invalid_boxes_are_refused() -> None:
    box = [0, 0, 1, 1]
    cases: list[tuple[tuple[Any, Any, Any], str]] = [
        (([1], ["a"], [box, box]), "1 frames, 1 tracks and 2 boxes"),
        (([1, 1], ["a", "a"], [box, box]), "track 'a' is in frame 1 twice"),
        (([7], ["a"], [[0, 0, 0, 1]]), "of frame 7 has no area"),
        (([7], ["a"], [[0, np.nan, 1, 1]]), "of frame 7 has no area"),
    ]
    for columns, message in cases:
        with pytest.raises(PolyplinkError, match=message):
            BoxTracks.of(*columns)
