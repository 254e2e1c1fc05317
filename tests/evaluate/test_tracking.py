from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.hota import (
    TrackingCounts,
    score_table,
    score_tracks,
    tracking_figures,
)
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.metric import metrics_of
from polyplink.evaluate.samples import TrackletBoxes, find_concurrent
from polyplink.evaluate.tracking import (
    TrackingTruth,
    make_tracks,
    tracking_curve,
    tracking_measures,
    tracking_rows,
    true_and_found,
    without_doubles,
)
from polyplink_lab.bench.box_cases import agree, trackeval_figures
from tests.evaluate.made import ends
from tests.evaluate.scenes import procedure

FIGURES = metrics_of("tracking")
MEANS = [name for name, metric in FIGURES.items() if metric.with_mean]


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_both_forms_equal_trackeval_and_many_clusterings_each_alone(
    seed: int, touching: bool, doubled: bool
) -> None:
    tracklets, labels = procedure(seed, touching=touching, doubled=doubled)
    truth = TrackingTruth.of("v", tracklets)
    n = labels.size
    every = np.stack([labels, *np.random.default_rng(seed).integers(0, n, (6, n))])
    found = truth.score(every)
    left, rows = without_doubles(tracklets)
    for p, track in enumerate(found.track):
        scene = true_and_found(left, track[rows])
        plain = score_tracks(*scene)  # the table form is a case of the general one
        alone = truth.score(every[[p]]).take(0)
        one = found.take(p)
        for field in fields(TrackingCounts):
            mine = getattr(one.counts, field.name)
            np.testing.assert_array_equal(mine, getattr(alone.counts, field.name))
            np.testing.assert_allclose(mine, getattr(plain, field.name), atol=1e-9)
        assert one.tracks == track.max() + 1
        if p == 0:
            assert agree(one.counts, trackeval_figures(scene))
    pairs, _, touch = find_concurrent(tracklets)
    polyp = tracklets.polyp[pairs]
    unsure = touch.any() or (polyp[:, 0] == polyp[:, 1]).any()
    assert found.form == ("general" if unsure else "table")
    assert found.doubled == tracklets.frame.size - left.frame.size


def test_boxes_that_could_swap_need_the_general_form() -> None:
    """Two polyps that overlap for a moment, and clusters that take one for the other."""
    lengths, polyp = (20, 2, 20, 2), (0, 1, 1, 0)
    starts, corners = (0, 30, 40, 30), (0.0, 0.5, 0.5, 0.0)
    frame = np.concatenate([np.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)])
    box = np.concatenate(
        [np.tile([x, 0.0, 9.0, 9.0], (n, 1)) for x, n in zip(corners, lengths, strict=True)]
    )
    offset = np.concatenate([[0], np.cumsum(lengths)])
    tracklets = TrackletBoxes(np.array(polyp), offset, frame, box)
    found = TrackingTruth.of("v", tracklets).score([[0, 0, 1, 1]])
    assert found.form == "general"
    by_table = tracking_figures(score_table(tracklets, found.track, found.tracks))
    # HOTA matches each overlapping box with the other polyp's: the table would be wrong.
    assert tracking_figures(found.counts)["AssA"][0] > by_table["AssA"][0] + 0.01


def test_one_box_of_a_polyp_in_a_frame_is_kept() -> None:
    frame, box = np.array([0, 1, 2, 1, 2, 3]), np.ones((6, 4))
    tracklets = TrackletBoxes(np.array([5, 5]), np.array([0, 3, 6]), frame, box)
    truth = TrackingTruth.of("v", tracklets)
    assert not truth.table
    left, rows = without_doubles(tracklets)
    assert left.frame.tolist() == [0, 1, 2, 3]
    assert (left.offset.tolist(), rows.tolist()) == ([0, 3, 4], [0, 1])
    found = truth.score([[0, 0]]).take(0)
    assert (found.doubled, int(found.split), int(found.tracks)) == (2, 1, 2)
    assert found.counts.true == 4


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.booleans(), st.integers(1, 5))
def test_a_track_is_in_one_place_and_in_one_cluster(seed: int, doubled: bool, p: int) -> None:
    tracklets, _ = procedure(seed, touching=True, doubled=doubled)
    (pairs, together, _), n = find_concurrent(tracklets), tracklets.polyp.size
    labels = np.random.default_rng(seed).integers(0, n, (p, n))
    tracks, made, split = make_tracks(labels, pairs[together])
    owner = tracklets.owner()
    for row in range(p):
        track = tracks[row]
        places = list(zip(track[owner].tolist(), tracklets.frame.tolist(), strict=True))
        assert len(set(places)) == len(places)
        assert all(np.unique(labels[row][track == k]).size == 1 for k in range(made[row]))
        assert list(dict.fromkeys(track.tolist())) == list(range(made[row]))
        assert (split[row] == 0) == (made[row] == np.unique(labels[row]).size)


def test_the_later_of_two_at_one_time_moves_to_a_track_of_its_own() -> None:
    tracks, made, split = make_tracks([[4, 4, 4], [0, 1, 0]], np.array([[0, 1]]))
    assert tracks.tolist() == [[0, 1, 0], [0, 1, 0]]
    assert (made.tolist(), split.tolist()) == ([2, 2], [1, 0])


def boxes_by_frame(tracklets: TrackletBoxes, i: int) -> dict[int, np.ndarray]:
    rows = range(tracklets.offset[i], tracklets.offset[i + 1])
    return {int(tracklets.frame[row]): tracklets.box[row] for row in rows}


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_meetings_equal_a_naive_loop(seed: int, touching: bool, doubled: bool) -> None:
    tracklets, _ = procedure(seed, touching=touching, doubled=doubled)
    expected = {}
    for i in range(tracklets.polyp.size):
        for j in range(i + 1, tracklets.polyp.size):
            a, b = boxes_by_frame(tracklets, i), boxes_by_frame(tracklets, j)
            common = a.keys() & b.keys()
            if common:
                low = [np.maximum(a[f][:2], b[f][:2]) for f in common]
                high = [np.minimum(a[f][:2] + a[f][2:], b[f][:2] + b[f][2:]) for f in common]
                expected[i, j] = bool((np.array(high) > np.array(low)).all(axis=1).any())
    pairs, *flags = find_concurrent(tracklets)
    each = zip(pairs.tolist(), *flags, strict=True)
    found = {(min(pair), max(pair)): bool(touch) for pair, shared, touch in each if shared}
    assert found == expected


def test_boxes_that_are_no_tracklets_are_refused() -> None:
    box = np.ones((3, 4))
    polyp = np.array([0])
    with pytest.raises(PolyplinkError, match=r"frame 1 .box 2. does not come after"):
        TrackletBoxes(polyp, np.array([0, 3]), np.array([0, 1, 1]), box)
    for offset in ([0, 2], [1, 3], [0, 1, 3]):
        with pytest.raises(PolyplinkError, match="1 tracklets, offsets"):
            TrackletBoxes(polyp, np.array(offset), np.array([0, 1, 2]), box)
    with pytest.raises(PolyplinkError, match="2 tracklets"):
        TrackletBoxes(np.array([0, 0]), np.array([0, 3, 3]), np.array([0, 1, 2]), box)


def test_some_tracklets_keep_their_boxes() -> None:
    tracklets, _ = procedure(3, touching=True)
    rows = np.arange(tracklets.polyp.size)[::-1]
    part = tracklets.take(rows)
    assert part.polyp.tolist() == tracklets.polyp[rows].tolist()
    for place, row in enumerate(rows):
        a, b = boxes_by_frame(part, place), boxes_by_frame(tracklets, int(row))
        assert a.keys() == b.keys()
        assert all((a[f] == b[f]).all() for f in a)
    assert tracklets.take(rows[:0]).frame.size == 0


def test_figures_are_trackevals_of_all_procedures_and_of_each() -> None:
    made = {f"v{seed}": procedure(seed, touching=seed > 2) for seed in (1, 2, 3, 4)}
    truths = {name: TrackingTruth.of(name, tracklets) for name, (tracklets, _) in made.items()}
    folds = [truths[name].score(labels[None]).take(0) for name, (_, labels) in made.items()]
    scenes = []
    for one in folds:
        left, rows = without_doubles(truths[one.procedure].tracklets)
        scenes.append(true_and_found(left, one.track[rows]))
    theirs = trackeval_figures(*scenes)
    measures = tracking_measures("threshold", folds, draw_weights(4, resamples=300))
    for name in FIGURES:
        measure = measures[f"tracking/threshold/{name}"]
        assert measure.value == pytest.approx(theirs[name], abs=1e-9)
        assert measure.n == 4
        low, high = ends(measure.figure())
        assert low - 1e-9 <= theirs[name] <= high + 1e-9
    rows_of = tracking_rows(folds, truths)
    for name in MEANS:
        each = [trackeval_figures(scene)[name] for scene in scenes]
        assert measures[f"tracking/threshold/{name} mean"].value == pytest.approx(np.mean(each))
        assert rows_of["spreads"][name].sd == pytest.approx(np.std(each), abs=1e-9)
    assert {row["form"] for row in rows_of["procedures"]} == {"table", "general"}
    assert rows_of["procedures"][0]["boxes"] == truths["v1"].tracklets.frame.size


def test_every_setting_of_the_curve_is_that_setting_alone() -> None:
    truths = [TrackingTruth.of(f"v{s}", procedure(s, touching=s > 2)[0]) for s in (1, 2, 3)]
    rng = np.random.default_rng(0)
    cuts = [rng.integers(0, 3, (4, t.tracklets.polyp.size)) for t in truths]
    tracked = [truth.score(cut) for truth, cut in zip(truths, cuts, strict=True)]
    rows = [rng.integers(0, 4, 7) for _ in truths]
    curve = tracking_curve(tracked, rows)
    assert list(curve) == [*FIGURES, *(f"{name} mean" for name in MEANS)]
    for setting in range(7):
        alone = [one.take(of[setting]).counts for one, of in zip(tracked, rows, strict=True)]
        total = tracking_figures(TrackingCounts.total(alone))
        assert all(curve[name][setting] == total[name] for name in FIGURES)
        for name in MEANS:
            each = [float(tracking_figures(one)[name]) for one in alone]
            assert curve[f"{name} mean"][setting] == pytest.approx(np.mean(each))


def test_without_folds_tracking_is_undefined_not_zero() -> None:
    measures = tracking_measures("ap", [], draw_weights(1, resamples=5))
    assert len(measures) == len(FIGURES) + len(MEANS)
    assert all(measure.value is None for measure in measures.values())
