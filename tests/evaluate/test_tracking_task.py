import numpy as np
import pytest

from polyplink.associate.clusterers import threshold_components
from polyplink.associate.search import Grid
from polyplink.associate.similarity import unit_rows
from polyplink.bench.tracking import trackeval_figures
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.counting_task import count_task, counted_scenes, fold_rows
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.tracking_scores import FIGURES, TrackingCounts, tracking_figures
from polyplink.evaluate.tracking_table import true_and_found
from polyplink.evaluate.tracking_task import (
    MEANS,
    choose_by_tracking,
    track_rows,
    track_settings,
    track_task,
    tracking_curve,
    tracking_measures,
    truths,
)
from tests.evaluate.made import boxes_of, ends, made

GRID = Grid(thresholds=(0.3, 0.5, 0.7, 0.9))


def test_figures_are_trackevals_of_all_procedures_and_of_each() -> None:
    vectors, samples, _ = made(unknown=4, noise=2.0)
    scenes, _ = counted_scenes(unit_rows(vectors), samples, "l2")
    counted = count_task(scenes, samples, GRID)["threshold"]
    seen = truths(scenes, boxes_of(samples))
    done = track_task(counted, scenes, seen)
    pairs = []
    for scene, clustering in fold_rows(counted, scenes):
        truth = seen[scene.procedure]
        assert truth.tracklets.polyp.tolist() == samples.polyp[scene.rows].tolist()
        pairs.append(true_and_found(truth.tracklets, truth.tracks(clustering.labels).track))
    theirs = trackeval_figures(*pairs)
    measures = tracking_measures("threshold", done, draw_weights(4, resamples=300))
    for name in FIGURES:
        measure = measures[f"tracking/threshold/{name}"]
        assert measure.value == pytest.approx(theirs[name], abs=1e-9)
        assert measure.n == 4
    rows = track_rows(done, seen)
    for name in MEANS:
        each = [trackeval_figures(pair)[name] for pair in pairs]
        assert measures[f"tracking/threshold/{name} mean"].value == pytest.approx(np.mean(each))
        assert rows.spreads[name].sd == pytest.approx(np.std(each))
        low, high = ends(measures[f"tracking/threshold/{name}"].figure())
        assert low <= theirs[name] <= high
    assert sum(row.boxes for row in rows.procedures) == 26 * 12
    assert {row.form for row in rows.procedures} == {"table"}


def test_every_setting_of_the_curve_is_that_setting_alone() -> None:
    vectors, samples, _ = made(unknown=4, noise=2.0)
    scenes, _ = counted_scenes(unit_rows(vectors), samples, "l2")
    counted = count_task(scenes, samples, GRID)["threshold"]
    seen = truths(scenes, boxes_of(samples))
    tracked = track_settings(counted, scenes, seen)
    curve = tracking_curve(tracked)
    assert list(curve) == [*FIGURES, *(f"{name} mean" for name in MEANS)]
    for row, setting in enumerate(GRID.thresholds):
        labels = [threshold_components(s.V, [setting])[0][s.known] for s in scenes]
        alone = [
            seen[scene.procedure].score(own).counts
            for scene, own in zip(scenes, labels, strict=True)
        ]
        total = tracking_figures(TrackingCounts.total(alone))
        for name in FIGURES:
            assert curve[name][row] == total[name]
        for name in MEANS:
            each = [float(tracking_figures(one)[name]) for one in alone]
            assert curve[f"{name} mean"][row] == pytest.approx(np.mean(each))
    for name in ("HOTA", "IDF1 mean"):
        assert choose_by_tracking(tracked, name) == np.argmax(curve[name])
    assert choose_by_tracking(tracked[:1]) == np.argmax(tracking_curve(tracked[:1])["HOTA"])


def test_no_setting_is_chosen_on_nothing_or_by_an_unknown_figure() -> None:
    with pytest.raises(PolyplinkError, match="no procedure to choose a setting on"):
        choose_by_tracking([])
    vectors, samples, _ = made()
    scenes, _ = counted_scenes(unit_rows(vectors), samples, "l2")
    counted = count_task(scenes, samples, GRID)["threshold"]
    tracked = track_settings(counted, scenes, truths(scenes, boxes_of(samples)))
    with pytest.raises(PolyplinkError, match="no figure 'HOTTA'; did you mean HOTA"):
        choose_by_tracking(tracked, "HOTTA")


def test_without_folds_tracking_is_undefined_not_zero() -> None:
    measures = tracking_measures("ap", [], draw_weights(1, resamples=5))
    assert len(measures) == len(FIGURES) + len(MEANS)
    assert all(measure.value is None for measure in measures.values())
