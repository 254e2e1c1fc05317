from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.hota import (
    TrackingCounts,
    score_tracks,
    tracking_figures,
)
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.metric import Metric, metrics_of
from polyplink.evaluate.samples import TrackletBoxes, find_concurrent
from polyplink.evaluate.tracking import (
    TrackingTruth,
    make_tracks,
    tracking_curve,
    tracking_measures,
    tracking_rows,
    true_and_detected,
    without_doubles,
)
from polyplink_lab.bench.box_cases import agree, trackeval_figures
from tests.evaluate.random_tracklets import ends
from tests.evaluate.scenes import procedure

FIGURES = metrics_of("tracking")
MEANS = [name for name, metric in FIGURES.items() if metric.with_mean]


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_scores_equal_trackeval_and_do_not_depend_on_other_clusterings(
    seed: int, touching: bool, overlapping: bool
) -> None:
    tracklets, labels = procedure(seed, touching=touching, overlapping=overlapping)
    truth = TrackingTruth.of("v", tracklets)
    n = labels.size
    clusterings = np.stack([labels, *np.random.default_rng(seed).integers(0, n, (3, n))])
    scored = truth.score(clusterings)
    without_overlaps, rows = without_doubles(tracklets)
    for p, track in enumerate(scored.track):
        scene = true_and_detected(without_overlaps, track[rows])
        general_counts = score_tracks(*scene)  # equals the table form where that applies
        scored_alone = truth.score(clusterings[[p]]).take(0)
        scored_one = scored.take(p)
        for field in fields(TrackingCounts):
            values = getattr(scored_one.counts, field.name)
            np.testing.assert_array_equal(values, getattr(scored_alone.counts, field.name))
            np.testing.assert_allclose(values, getattr(general_counts, field.name), atol=1e-9)
        assert scored_one.tracks == track.max() + 1
        if p == 0:
            assert agree(scored_one.counts, trackeval_figures(scene))
    pairs, _, touch = find_concurrent(tracklets)
    polyp = tracklets.polyp[pairs]
    ambiguous = touch.any() or (polyp[:, 0] == polyp[:, 1]).any()
    assert scored.form == ("general" if ambiguous else "table")
    assert scored.doubled == tracklets.frame.size - without_overlaps.frame.size


def test_of_two_boxes_of_a_polyp_in_a_frame_one_is_scored() -> None:
    frame, box = np.array([0, 1, 2, 1, 2, 3]), np.ones((6, 4))
    tracklets = TrackletBoxes(np.array([5, 5]), np.array([0, 3, 6]), frame, box)
    truth = TrackingTruth.of("v", tracklets)
    assert not truth.table
    without_overlaps, rows = without_doubles(tracklets)
    assert without_overlaps.frame.tolist() == [0, 1, 2, 3]
    assert (without_overlaps.offset.tolist(), rows.tolist()) == ([0, 3, 4], [0, 1])
    scored = truth.score([[0, 0]]).take(0)
    assert (scored.doubled, int(scored.split), int(scored.tracks)) == (2, 1, 2)
    assert scored.counts.true == 4


@given(st.integers(0, 10_000), st.booleans(), st.integers(1, 5))
def test_a_track_has_one_box_per_frame_and_one_cluster(
    seed: int, overlapping: bool, p: int
) -> None:
    tracklets, _ = procedure(seed, touching=True, overlapping=overlapping)
    (pairs, together, _), n = find_concurrent(tracklets), tracklets.polyp.size
    labels = np.random.default_rng(seed).integers(0, n, (p, n))
    tracks, n_tracks, split = make_tracks(labels, pairs[together])
    owner = tracklets.owner()
    for row in range(p):
        track = tracks[row]
        places = list(zip(track[owner].tolist(), tracklets.frame.tolist(), strict=True))
        assert len(set(places)) == len(places)
        assert all(np.unique(labels[row][track == k]).size == 1 for k in range(n_tracks[row]))
        assert list(dict.fromkeys(track.tolist())) == list(range(n_tracks[row]))
        assert (split[row] == 0) == (n_tracks[row] == np.unique(labels[row]).size)


def test_the_second_of_two_concurrent_tracklets_gets_a_separate_track() -> None:
    tracks, n_tracks, split = make_tracks([[4, 4, 4], [0, 1, 0]], np.array([[0, 1]]))
    assert tracks.tolist() == [[0, 1, 0], [0, 1, 0]]
    assert (n_tracks.tolist(), split.tolist()) == ([2, 2], [1, 0])


def boxes_by_frame(tracklets: TrackletBoxes, i: int) -> dict[int, np.ndarray]:
    """Boxes (4,) of tracklet i by frame."""
    rows = range(tracklets.offset[i], tracklets.offset[i + 1])
    return {int(tracklets.frame[row]): tracklets.box[row] for row in rows}


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_concurrent_pairs_equal_a_naive_loop(seed: int, touching: bool, overlapping: bool) -> None:
    tracklets, _ = procedure(seed, touching=touching, overlapping=overlapping)
    expected = {}
    for i in range(tracklets.polyp.size):
        for j in range(i + 1, tracklets.polyp.size):
            a, b = boxes_by_frame(tracklets, i), boxes_by_frame(tracklets, j)
            common = a.keys() & b.keys()
            if common:
                corner = [np.maximum(a[f][:2], b[f][:2]) for f in common]
                opposite_corner = [
                    np.minimum(a[f][:2] + a[f][2:], b[f][:2] + b[f][2:]) for f in common
                ]
                expected[i, j] = bool(
                    (np.array(opposite_corner) > np.array(corner)).all(axis=1).any()
                )
    pairs, *flags = find_concurrent(tracklets)
    pairs_with_flags = zip(pairs.tolist(), *flags, strict=True)
    actual = {
        (min(pair), max(pair)): bool(touch) for pair, shared, touch in pairs_with_flags if shared
    }
    assert actual == expected


def test_invalid_boxes_of_tracklets_are_refused() -> None:
    box = np.ones((3, 4))
    polyp = np.array([0])
    with pytest.raises(PolyplinkError, match=r"frame 1 .box 2. does not come after"):
        TrackletBoxes(polyp, np.array([0, 3]), np.array([0, 1, 1]), box)
    for offset in ([0, 2], [1, 3], [0, 1, 3]):
        with pytest.raises(PolyplinkError, match="1 tracklets, offsets"):
            TrackletBoxes(polyp, np.array(offset), np.array([0, 1, 2]), box)
    with pytest.raises(PolyplinkError, match="2 tracklets"):
        TrackletBoxes(np.array([0, 0]), np.array([0, 3, 3]), np.array([0, 1, 2]), box)


@pytest.mark.usefixtures("intervals_of_few")
def test_figures_and_means_over_procedures_equal_trackeval() -> None:
    procedures = {f"v{seed}": procedure(seed, touching=seed > 2) for seed in (1, 2, 3, 4)}
    truths = {
        name: TrackingTruth.of(name, tracklets) for name, (tracklets, _) in procedures.items()
    }
    folds = [truths[name].score(labels[None]).take(0) for name, (_, labels) in procedures.items()]
    scenes = []
    for fold in folds:
        without_overlaps, rows = without_doubles(truths[fold.procedure].tracklets)
        scenes.append(true_and_detected(without_overlaps, fold.track[rows]))
    expected = trackeval_figures(*scenes)
    measures = tracking_measures("threshold", folds, draw_weights(4, resamples=300), FIGURES)
    for name in FIGURES:
        measure = measures[f"tracking/threshold/{name}"]
        assert measure.value == pytest.approx(expected[name], abs=1e-9)
        assert measure.n == 4
        low, high = ends(measure.figure())
        assert low - 1e-9 <= expected[name] <= high + 1e-9
    tracking = tracking_rows(folds, truths, FIGURES)
    for name in MEANS:
        values = [trackeval_figures(scene)[name] for scene in scenes]
        assert measures[f"tracking/threshold/{name} mean"].value == pytest.approx(np.mean(values))
        assert tracking["spreads"][name].sd == pytest.approx(np.std(values), abs=1e-9)
    assert {row["form"] for row in tracking["procedures"]} == {"table", "general"}
    assert tracking["procedures"][0]["boxes"] == truths["v1"].tracklets.frame.size


def test_a_row_of_the_tracking_curve_equals_its_setting() -> None:
    truths = [TrackingTruth.of(f"v{s}", procedure(s, touching=s > 2)[0]) for s in (1, 2, 3)]
    rng = np.random.default_rng(0)
    clusterings = [rng.integers(0, 3, (4, t.tracklets.polyp.size)) for t in truths]
    tracked = [
        truth.score(clustering) for truth, clustering in zip(truths, clusterings, strict=True)
    ]
    rows = [rng.integers(0, 4, 7) for _ in truths]
    curve = tracking_curve(tracked, rows)
    assert list(curve) == [*FIGURES, *(f"{name} mean" for name in MEANS)]
    for setting in range(7):
        counts = [
            scored.take(setting_rows[setting]).counts
            for scored, setting_rows in zip(tracked, rows, strict=True)
        ]
        total = tracking_figures(TrackingCounts.total(counts))
        assert all(curve[name][setting] == total[name] for name in FIGURES)
        for name in MEANS:
            values = [float(tracking_figures(scored)[name]) for scored in counts]
            assert curve[f"{name} mean"][setting] == pytest.approx(np.mean(values))


def test_tracking_without_folds_is_undefined() -> None:
    measures = tracking_measures("ap", [], draw_weights(1, resamples=5), FIGURES)
    assert len(measures) == len(FIGURES) + len(MEANS)
    assert all(measure.value is None for measure in measures.values())


def test_a_metric_is_averaged_over_procedures_where_it_is_defined() -> None:
    truths = {f"v{s}": TrackingTruth.of(f"v{s}", procedure(s, touching=False)[0]) for s in (1, 2)}
    folds = [truth.score([[0] * truth.tracklets.polyp.size]).take(0) for truth in truths.values()]
    boxes, others = (float(fold.counts.true) for fold in folds)
    assert boxes != others

    def value(counts: TrackingCounts) -> np.ndarray:
        return np.where(counts.true == boxes, np.nan, counts.true)

    metrics = {"boxes": Metric(task="tracking", meaning="boxes", value=value, with_mean=True)}
    rows = tracking_rows(folds, truths, metrics)
    assert [row["figures"]["boxes"] for row in rows["procedures"]] == [None, others]
    measures = tracking_measures("ap", folds, draw_weights(2, resamples=5), metrics)
    assert measures["tracking/ap/boxes mean"].value == others == rows["spreads"]["boxes"].value
