"""Figures of encoders: drawn values equal computed ones, and their parts equal loops."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from matplotlib.axes import Axes
from sklearn.metrics import roc_auc_score

from polyplink.associate.clusterers import Setting, TemporalAP, Threshold
from polyplink.associate.similarity import unit_rows
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import silent
from polyplink.data.tables import read_data, write_data
from polyplink.encoders.encode import encode
from polyplink.encoders.load import load_named
from polyplink.encoders.weights import weights_path
from polyplink.evaluate.evaluation import EvaluationSettings, evaluate_embeddings
from polyplink.evaluate.samples import Samples
from polyplink.report.figures import (
    BARS,
    STEPS,
    FigureData,
    draw_bars,
    draw_counting,
    draw_curriculum,
    draw_losses,
    draw_reid,
    draw_similarities,
    draw_targets,
    draw_vectors,
    pareto_front,
    plot_losses,
    project,
    recall_at,
    target_matrices,
)
from tests.conftest import SampleRun
from tests.evaluate.random_tracklets import boxes_of, random_samples
from tests.samples import write_procedures

RATES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20)


def test_recall_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(9, 3))
    polyps = ["a", "a", "b", "b", "b", "c", None, "d", "d"]
    samples = Samples.of([str(i) for i in range(9)], ["v"] * 9, polyps, np.linspace(0, 1, 9))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    naive = []
    for k in range(1, 6):
        hits = []
        for i, polyp in enumerate(polyps):
            if polyp is None or polyps.count(polyp) == 1:
                continue
            others = [j for j in range(9) if j != i and polyps[j] is not None]
            nearest = sorted(others, key=lambda j: -unit[i] @ unit[j])[:k]
            hits.append(any(polyps[j] == polyp for j in nearest))
        naive.append(np.mean(hits))
    assert np.allclose(recall_at(vectors, samples, 5), naive)
    without_matches = Samples.of(["0", "1"], ["v"] * 2, ["a", "b"], [0.0, 1.0])
    with pytest.raises(PolyplinkError, match="no tracklet has another of its polyp"):
        recall_at(vectors[:2], without_matches)


def test_targets_equal_a_loop_over_pairs() -> None:
    polyp, time = np.array([0, 0, 0, 1, 1]), np.array([0.0, 0.5, 1.0, 0.0, 1.0])
    targets = target_matrices(polyp, time)
    for i in range(5):
        for j in range(5):
            same = float(polyp[i] == polyp[j])
            near = same * np.exp(-abs(time[i] - time[j]))  # lambda = 1
            naive = (float(i == j), same, near, near + 0.2)  # gamma = 0.2, one procedure
            for weights, value in zip(targets.values(), naive, strict=True):
                assert weights[i, j] == pytest.approx(value)


def test_figures_of_a_procedure_show_known_polyps_at_their_time_in_the_polyp(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    data = read_data(sample_run.data)
    second = pl.col("polyp_id") == "001-001_2"
    unknown = pl.when(second & (pl.col("frame") > 200)).then(None).otherwise("polyp_id")
    folder = shutil.copytree(sample_run.data, tmp_path / "data")
    boxes = data.detections.with_columns(polyp_id=unknown)
    first = pl.col("procedure_id") == "001-001"
    write_data(folder, replace(data, detections=boxes.filter(first)))
    encoded = encode([load_named(sample_run.run, "cpu")], folder)
    figure_data = FigureData(encoded, "made", "demo", 1, silent)
    titles = [drawn(figure_data).get_suptitle() for drawn in (draw_similarities, draw_targets)]
    assert titles == ["Procedure 001-001: 5 tracklets of 2 polyps"] * 2
    axis = draw_targets(figure_data).axes[2]
    near = np.asarray(axis.images[0].get_array())
    # Three tracklets of 32 frames, ten apart: the first polyp's frames are 0 to 115.
    assert near[0, :3] == pytest.approx(np.exp([0, -42 / 115, -84 / 115]))


def test_validation_losses_with_equal_views_share_a_panel() -> None:
    losses = {"2 views": {"a": [3.0, 2.0], "b": [3.0, 2.0]}, "4 views": {"c": [2.0, 1.0]}}
    panels = plot_losses(losses).axes
    assert [panel.get_title(loc="left") for panel in panels] == list(losses)
    lines = [[np.asarray(line.get_ydata()).tolist() for line in panel.lines] for panel in panels]
    assert lines == [[[3.0, 2.0], [3.0, 2.0]], [[2.0, 1.0]]]
    assert not plot_losses({}).axes[0].lines
    (one_epoch,) = plot_losses({"2 views": {"a": [3.0]}}).axes
    assert all(tick == round(tick) for tick in one_epoch.get_xticks())


def legend_texts(axis: Axes) -> list[str]:
    box = axis.get_legend()
    return [] if box is None else [text.get_text() for text in box.get_texts()]


def test_figures_draw_the_computed_values(
    sample_run: SampleRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    encoded = encode([load_named(sample_run.run, "cpu")], sample_run.data)
    figure_data = FigureData(encoded, "made", "demo", 1, silent)
    left, right = draw_curriculum(figure_data).axes
    median, share = (np.asarray(axis.lines[0].get_xydata()) for axis in (left, right))
    assert median.shape == share.shape == (STEPS, 2)
    assert median[0, 1] < median[-1, 1]  # members are drawn from further away with progress
    assert share[0, 1] >= share[-1, 1] > 0

    axis = draw_similarities(figure_data).axes[0]
    panel = axis.images[0].get_array()
    assert panel is not None
    first = encoded.vectors["ntssl-demo"][:6]  # the first procedure is shown
    unit = first / np.linalg.norm(first, axis=1, keepdims=True)
    assert np.allclose(panel, unit @ unit.T, atol=1e-6)
    assert [text.get_text() for text in axis.texts] == ["1", "1", "2", "2"]

    (axis,) = draw_counting(figure_data).axes
    assert "temporal affinity propagation" in legend_texts(axis)
    assert "FPR 0.05" in [text.get_text() for text in axis.texts]
    with pytest.raises(PolyplinkError, match="does not show learned links"):
        draw_counting(figure_data._replace(clusterers=("links",)))

    roc, pr = draw_reid(figure_data).axes
    samples, unit = figure_data.samples, unit_rows(encoded.vectors["ntssl-demo"])
    first, second = np.triu_indices(30, 1)
    same, scores = samples.polyp[first] == samples.polyp[second], (unit @ unit.T)[first, second]
    assert legend_texts(roc)[0].endswith(f"{roc_auc_score(same, scores):.3f}")
    x, y = np.asarray(roc.lines[0].get_xydata()).T
    assert np.trapezoid(y, x) == pytest.approx(roc_auc_score(same, scores), abs=1e-3)
    assert pr.get_ylabel() == "precision"
    assert np.asarray(pr.lines[-1].get_ydata()) == pytest.approx([same.mean()] * 2)  # by chance

    history = weights_path(sample_run.run).with_name("history.csv")
    rows = pl.read_csv(history)
    (axis,) = draw_losses(figure_data._replace(weights=[sample_run.run])).axes
    assert np.asarray(axis.lines[0].get_ydata()).tolist() == rows["loss_labels"].to_list()
    broken = tmp_path / "broken"
    shutil.copytree(history.parent, broken)
    (broken / "history.csv").write_text("loss\nx\n")
    with pytest.raises(PolyplinkError, match="is not the history of a training run"):
        draw_losses(figure_data._replace(weights=[broken]))

    (axis,) = draw_vectors(figure_data, "pca").axes
    assert legend_texts(axis) == encoded.table["polyp_id"].unique(maintain_order=True).to_list()
    monkeypatch.setattr("polyplink.report.figures.MOST_IN_LEGEND", 9)
    assert legend_texts(draw_vectors(figure_data, "pca").axes[0]) == []


def test_a_curriculum_without_a_bag_is_refused(sample_run: SampleRun, tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2, polyps=1, views=1)
    loaded = load_named(sample_run.run, "cpu")
    recipe = {**loaded.record.recipe, "fragment_length": 8}  # each procedure has 8 crops
    encoder = replace(loaded, weights_record=replace(loaded.record, recipe=recipe))
    figure_data = FigureData(encode([encoder], data), "made", "demo", 1, silent)
    with pytest.raises(PolyplinkError, match="two fragments of 8 crops of one procedure"):
        draw_curriculum(figure_data)


def test_bars_have_the_figures_of_every_encoder_and_clusterer() -> None:
    vectors, samples, _ = random_samples()
    grid: dict[str, list[Setting]] = {
        "temporal_ap": [TemporalAP(0.5, 1.0, 0.5), TemporalAP(0.5, 1.0, -1.0)],
        "threshold": [Threshold(0.3), Threshold(0.7)],
    }
    settings = EvaluationSettings(grid, resamples=50, tasks=("counting", "tracking"))
    encoders = {"ours": vectors, "other": vectors[::-1]}
    result, _ = evaluate_embeddings(encoders, samples, settings, boxes=boxes_of(samples))
    axes = draw_bars(result, "made").axes
    assert [axis.get_title("left") for axis in axes] == list(BARS.values())
    for axis, key in zip(axes, BARS, strict=True):
        names = [tick.get_text() for tick in axis.get_xticklabels()]
        assert names == ["temporal AP", "threshold"]
        for name, bars in zip(encoders, axis.containers[::2], strict=True):
            figures = result.encoders[name].figures
            expected = [figures[key.format(kind)].value for kind in ("temporal_ap", "threshold")]
            assert [bar.get_height() for bar in bars] == expected


@given(RATES)
def test_no_setting_dominates_the_pareto_front(rates: list[tuple[int, int]]) -> None:
    fr, fpr = np.array(rates, dtype=float).T
    x, y = pareto_front(fr, fpr)
    naive = {
        (b, a)
        for a, b in rates
        if not any((c <= a and d <= b) and (c, d) != (a, b) for c, d in rates)
    }
    assert set(zip(x, y, strict=True)) == naive
    assert (np.diff(x) > 0).all()
    assert (np.diff(y) < 0).all()


@pytest.mark.parametrize("method", ["tsne", "pca"])
def test_projections_keep_polyps_apart(method: str) -> None:
    rng = np.random.default_rng(0)
    vectors = np.repeat(np.eye(3), 8, axis=0) + 0.05 * rng.normal(size=(24, 3))
    polyp = np.repeat(np.arange(3), 8)
    flat = project(vectors, method)  # type: ignore[arg-type]
    distances = np.linalg.norm(flat[:, None] - flat[None], axis=-1)
    np.fill_diagonal(distances, np.inf)
    assert (polyp[distances.argmin(axis=1)] == polyp).all()
    assert np.array_equal(flat, project(vectors, method))  # type: ignore[arg-type]
    # Few vectors and one dimension are projected, invalid ones refused.
    assert project(np.eye(2), "tsne").shape == (2, 2)
    assert project(np.array([[1.0], [-1.0], [1.0]]), "tsne").shape == (3, 2)
    for invalid in (np.ones((1, 3)), np.zeros((4, 3)), np.full((4, 3), np.nan)):
        with pytest.raises(PolyplinkError, match="vectors to draw"):
            project(invalid, "tsne")
