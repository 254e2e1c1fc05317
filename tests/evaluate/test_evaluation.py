import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product, starmap
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn import cluster

from polyplink.associate.clusterers import (
    AffinityPropagation,
    Agglomerative,
    Dbscan,
    Hdbscan,
    LearnedLinks,
    Setting,
    TemporalAP,
    Threshold,
)
from polyplink.associate.links import fit_and_cross_fit
from polyplink.associate.similarity import VisualForm, visual
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import CLUSTERERS
from polyplink.evaluate.counting import count_procedure
from polyplink.evaluate.counting_figures import counting_figures, operating_curve, rates
from polyplink.evaluate.evaluation import EvaluationSettings, evaluate_embeddings
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.metric import TASKS
from polyplink.evaluate.probe_tasks import PROBES
from polyplink.evaluate.reid import reidentify
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.samples import Samples
from polyplink.evaluate.settings import evaluation_settings
from tests.evaluate.random_tracklets import boxes_of, ends, random_samples

THRESHOLDS: dict[str, list[Setting]] = {"threshold": [Threshold(v) for v in (0.3, 0.6, 0.9)]}
ONE_THRESHOLD = {"threshold": [Threshold(0.5)]}
GRID: dict[str, list[Setting]] = {
    "temporal_ap": list(starmap(TemporalAP, product((0.0, 0.5, 1.0), (1.0, 5.0), (-1.0, 0.5)))),
    **THRESHOLDS,
}
SETTINGS = EvaluationSettings(grid=GRID, resamples=200, seed=4)


@pytest.mark.usefixtures("intervals_of_few")
def test_encoders_are_compared_on_the_same_resamples() -> None:
    vectors, samples, _ = random_samples()
    worse = vectors + 3 * np.random.default_rng(1).normal(size=vectors.shape)
    result, _ = evaluate_embeddings(
        {"ours": vectors, "worse": worse, "copy": 2 * vectors}, samples, SETTINGS
    )
    assert set(result.minus_reference) == {"worse", "copy"}
    copy, difference = (result.minus_reference[name]["mAP"] for name in ("copy", "worse"))
    np.testing.assert_allclose(ends(copy), 0.0, atol=1e-12)
    weights = draw_weights(4, resamples=200, seed=4)
    average_precisions = [retrieve(v, samples).ap for v in (worse, vectors)]
    resampled = []
    for w in weights:
        rows = np.repeat(np.arange(30), w[samples.procedure])
        resampled.append(average_precisions[0][rows].mean() - average_precisions[1][rows].mean())
    low, high = np.percentile(resampled, [2.5, 97.5])
    assert difference.value == pytest.approx(
        average_precisions[0].mean() - average_precisions[1].mean()
    )
    np.testing.assert_allclose(ends(difference), [low, high])


def test_one_procedure_of_one_polyp_gives_undefined_figures() -> None:
    samples = Samples.of(["a", "b", "c"], ["v"] * 3, ["p"] * 3, [0.0, 0.5, 1.0])
    result, _ = evaluate_embeddings({"ours": np.eye(3)}, samples, SETTINGS)
    ours = result.encoders["ours"]
    assert ours.figures["AUROC"].value is None
    assert ours.figures["mAP"].low is None
    assert ours.figures["threshold/FR"].value is None
    assert ours.counting["threshold"].summary is None
    assert ours.counting["threshold"].chosen.rule == "one_polyp_each"
    one_class = Samples.of(["a", "b"], ["v", "w"], ["p", "q"], [0, 0])  # one class and no pair
    settings = EvaluationSettings(ONE_THRESHOLD, resamples=20, tasks=tuple(TASKS))
    result, _ = evaluate_embeddings(
        {"x": np.eye(2)}, one_class, settings, boxes=boxes_of(one_class)
    )
    figures = result.encoders["x"].figures
    for name in ("mAP", "mAP (as published)", "AUROC", "AUPR (as published)", "threshold/FPR"):
        assert figures[name].value is None
    for name in ("threshold/FR", "tracking/threshold/HOTA"):
        assert figures[name].value == 1.0
    assert result.encoders["x"].retrieval is not None
    assert result.encoders["x"].retrieval["unmatched"] == 2


def test_a_procedure_without_labels_is_named_and_left_out_of_counting() -> None:
    samples = Samples.of(
        ["a", "b", "c", "d"], ["v", "v", "w", "w"], ["p", "q", None, None], [0, 1, 0, 1]
    )
    result, _ = evaluate_embeddings({"ours": np.eye(4)}, samples, SETTINGS)
    assert result.encoders["ours"].not_counted == ("w",)
    figures = result.encoders["ours"].retrieval
    assert figures is not None
    assert figures["unlabelled"] == 2
    with_threshold, _ = evaluate_embeddings(
        {"ours": np.eye(4)}, samples, EvaluationSettings(grid=ONE_THRESHOLD)
    )
    assert set(with_threshold.encoders["ours"].counting) == {"threshold"}


def test_invalid_vectors_are_refused_with_the_name_of_the_encoder() -> None:
    vectors, samples, _ = random_samples()
    not_finite = vectors.copy()
    not_finite[7, 2] = np.nan
    empty = vectors.copy()
    empty[3] = 0.0
    for rows, message in [
        (not_finite, "encoder 'x': embedding row 7 is not finite"),
        (empty, "encoder 'x': embedding row 3 is zero"),
        (vectors[:5], "encoder 'x': 5 vectors for 30 tracklets"),
    ]:
        with pytest.raises(PolyplinkError, match=message):
            evaluate_embeddings({"x": rows}, samples, SETTINGS)
    with pytest.raises(PolyplinkError, match="no encoder to evaluate"):
        evaluate_embeddings({}, samples, SETTINGS)


def test_all_tasks_give_their_figures_and_tables() -> None:
    vectors, samples, names = random_samples(unknown=2)
    all_tasks = EvaluationSettings(
        {**THRESHOLDS, "ap": [AffinityPropagation(-1.0), AffinityPropagation(0.5)]},
        resamples=100,
        tasks=tuple(TASKS),
        without_own=True,
    )
    boxes, adenoma = boxes_of(samples), [bool(i % 2) for i in samples.polyp]
    encoders = {"ours": vectors, "worse": vectors + np.random.default_rng(1).normal(size=(30, 6))}
    result, tables = evaluate_embeddings(encoders, samples, all_tasks, boxes=boxes, adenoma=adenoma)
    figures = result.encoders["ours"].figures
    assert figures["mAP"].value == pytest.approx(retrieve(vectors, samples).mean_ap)
    reid = reidentify(vectors, samples)
    assert (figures["AUROC"].value, figures["AUPR"].value) == (reid.auroc, reid.aupr)
    assert result.encoders["ours"].not_converged == 0
    assert (result.tracklets, result.procedures, result.reference) == (30, 4, "ours")
    for name in ("mAP (as published)", "AUROC (as published)", "mAP (without own)", "ap/ADR"):
        assert figures[name].value is not None
    assert list(result.encoders["ours"].counting) == ["threshold", "ap"]
    assert list(result.encoders["ours"].tracking) == ["threshold", "ap"]
    assert set(result.no_different) == set(figures)
    for name, names_of_best in result.no_different.items():
        assert set(names_of_best) <= set(encoders), name
    assert result.no_different["mAP"] == ()  # four procedures
    difference = result.minus_clusterer["ours"]["ap"]["FR"].value
    values = [figures[f"{name}/FR"].value or 0 for name in ("ap", "threshold")]
    assert difference == pytest.approx(values[0] - values[1])
    assert tables["queries"]["method"].unique(maintain_order=True).to_list() == ["ours", "worse"]
    n_labelled = sum(name is not None for name in names)
    assert tables["assignment"].height == 2 * 2 * n_labelled
    assert tables["curve"].height == 2 * (3 + 2)
    json.dumps(to_plain(result), allow_nan=False)


def test_gamma_multiplies_differences_in_frames_if_times_are_frames() -> None:
    """Against scikit-learn on T of the thesis: exp(-gamma |frame_i - frame_j|), rescaled."""
    vectors, samples, _ = random_samples()
    rng = np.random.default_rng(3)
    frames = rng.integers(100, 900, 30)
    spans = {f"v{place}": 800 + place for place in range(4)}
    span = np.array([spans[samples.procedures[place]] for place in samples.procedure])
    samples = replace(samples, positions=(frames - 100) / span, spans=spans)
    gammas = (0.1, 0.002)
    grid = {"temporal_ap": [TemporalAP(0.4, g, p) for g, p in product(gammas, (0.0, -1.0))]}
    settings = EvaluationSettings(
        grid, "sigmoid", "frames", 50, tasks=("counting",), chosen_on=("v0",)
    )
    result, tables = evaluate_embeddings({"ours": vectors}, samples, settings)
    chosen = result.encoders["ours"].counting["temporal_ap"].setting
    assert isinstance(chosen, TemporalAP)
    assert chosen.gamma in gammas  # the same in each procedure
    for place, name in enumerate(samples.procedures):
        if name == "v0":
            continue
        rows = np.flatnonzero(samples.procedure == place)
        T = np.exp(-chosen.gamma * abs(frames[rows, None] - frames[None, rows]))
        T = (T - T.min()) / (T.max() - T.min())
        unit = vectors[rows] / np.linalg.norm(vectors[rows], axis=1, keepdims=True)
        S = 0.4 / (1 + np.exp(-unit @ unit.T)) + 0.6 * T
        naive = cluster.AffinityPropagation(
            affinity="precomputed",
            damping=0.9,
            max_iter=500,
            convergence_iter=50,
            preference=chosen.preference,
            random_state=42,
        ).fit_predict(S)
        assignment = tables["assignment"].filter(procedure_id=name)
        ids = [samples.tracklet_ids[row] for row in rows]
        assert assignment["tracklet_id"].to_list() == ids
        same = assignment["cluster"].to_numpy()[:, None] == assignment["cluster"].to_numpy()[None]
        assert (same == (naive[:, None] == naive[None])).all()
    with pytest.raises(PolyplinkError, match="length of every procedure's annotated span"):
        evaluate_embeddings({"ours": vectors}, replace(samples, spans={}), settings)


VECTORS, SAMPLES, _ = random_samples(unknown=2)
BOXES = boxes_of(SAMPLES)


@pytest.mark.parametrize(
    ("task", "figure"),
    [
        ("retrieval", "mAP"),
        ("reid", "AUROC"),
        ("counting", "threshold/FR"),
        ("tracking", "tracking/threshold/HOTA"),
    ],
)
def test_a_task_gives_only_its_figures_and_tables(task: str, figure: str) -> None:
    settings = EvaluationSettings(THRESHOLDS, resamples=50, tasks=(task,))
    result, tables = evaluate_embeddings({"x": VECTORS}, SAMPLES, settings, boxes=BOXES)
    figures = result.encoders["x"].figures
    kinds = {"mAP", "AUROC", "threshold/FR", "tracking/threshold/HOTA"}
    assert kinds & set(figures) == {figure}
    is_counted = task in ("counting", "tracking")
    assert list(tables) == (
        ["curve", "assignment"] if is_counted else ["queries"] if task == "retrieval" else []
    )
    if is_counted:
        assert ("fr" in tables["curve"].columns) == (task == "counting")
        assert ("HOTA" in tables["curve"].columns) == (task == "tracking")


def test_procedures_to_choose_on_are_not_evaluated() -> None:
    tasks, chosen_on = ("retrieval", "counting", "tracking"), SAMPLES.procedures[:1]
    settings = EvaluationSettings(THRESHOLDS, resamples=50, tasks=tasks, chosen_on=chosen_on)
    result, tables = evaluate_embeddings({"x": VECTORS}, SAMPLES, settings, boxes=BOXES)
    figures = result.encoders["x"].figures
    rest = np.flatnonzero(SAMPLES.procedure != 0)
    exact = retrieve(VECTORS[rest], SAMPLES.take(rest))
    assert figures["mAP"].value == pytest.approx(exact.mean_ap)
    assert figures["threshold/FR"].n == result.procedures == 3
    assert result.tracklets == rest.size
    assert set(tables["assignment"]["procedure_id"]) == set(SAMPLES.procedures[1:])
    assert tables["assignment"]["track"].null_count() == 0
    assert (tables["curve"]["clusterer"][0], tables["curve"].height) == ("threshold", 3)
    assert {"value", "fr", "fpr", "HOTA", "IDF1 mean", "MOTA"} < set(tables["curve"].columns)


@pytest.mark.parametrize(
    ("fields", "adenoma", "message"),
    [
        ({"tasks": ("trackin",)}, None, "no task 'trackin'; did you mean track"),
        ({"tasks": ("tracking",)}, None, "tracking needs boxes"),
        ({}, [None], "histology of 1 tracklets for 30 samples"),
        ({"chosen_on": ("w",)}, None, "procedure w to choose settings on"),
        ({"chosen_on": ("v0", "v1", "v2", "v3")}, None, "none is left to evaluate"),
        ({"grid": {}}, None, "the grid has no setting"),
        (
            {"grid": {"links": [LearnedLinks(3.0)]}},
            None,
            "no learned links: the times of the tracklets are unkn",
        ),
    ],
)
def test_invalid_settings_and_missing_inputs_are_refused(
    fields: dict[str, Any], adenoma: list[None], message: str
) -> None:
    with pytest.raises(PolyplinkError, match=message):
        evaluate_embeddings({"x": VECTORS}, SAMPLES, EvaluationSettings(**fields), adenoma=adenoma)


def test_without_a_task_there_are_no_figures() -> None:
    encoders = {"x": VECTORS, "y": VECTORS}
    result, tables = evaluate_embeddings(encoders, SAMPLES, EvaluationSettings(tasks=()))
    assert [encoder.figures for encoder in result.encoders.values()] == [{}, {}]
    assert (result.minus_reference, result.no_different, tables) == ({"y": {}}, {}, {})


def test_links_are_fitted_on_the_procedures_to_choose_on(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted_on: list[int] = []

    def count_procedures(procedures: Sequence[Any]) -> Any:
        fitted_on.append(len(procedures))
        return fit_and_cross_fit(procedures)

    monkeypatch.setattr("polyplink.evaluate.evaluation.fit_and_cross_fit", count_procedures)
    start = np.arange(30.0)
    timed = replace(SAMPLES, moments=np.stack([start, start + 0.5], axis=1))
    for chosen_on in ((), SAMPLES.procedures[:2]):
        settings = EvaluationSettings(
            {"links": [LearnedLinks(0.5), LearnedLinks(2.0)]},
            resamples=5,
            tasks=("counting",),
            chosen_on=chosen_on,
        )
        result, _ = evaluate_embeddings({"x": VECTORS}, timed, settings)
        assert list(result.encoders["x"].counting) == ["links"]
    assert fitted_on == [4, 2]


@pytest.mark.parametrize("form", ["l2", "raw_l2"])
def test_each_clusterer_counts_as_its_settings_separately(form: VisualForm) -> None:
    vectors, samples, names = random_samples(unknown=4)
    grid: dict[str, list[Setting]] = {
        "temporal_ap": list(starmap(TemporalAP, product((0.5, 1.0), (1.0,), (-1.0, 0.5)))),
        "ap": [AffinityPropagation(-1.0), AffinityPropagation(0.5)],
        "threshold": [Threshold(0.3), Threshold(0.6)],
        "dbscan": [Dbscan(0.3, 2)],
        "hdbscan": [Hdbscan(2, 1)],
        "agglomerative": [Agglomerative(0.3), Agglomerative(0.6)],
    }
    evaluation_settings = EvaluationSettings(grid, form, resamples=5, tasks=("counting",))
    result, tables = evaluate_embeddings({"x": vectors}, samples, evaluation_settings)
    encoder = result.encoders["x"]
    assert list(encoder.counting) == list(grid)
    parts = [samples.of_procedure(place) for place in range(len(samples.procedures))]
    for name, settings in grid.items():
        counts = []
        for part, rows in parts:
            V = visual(vectors[rows], form)
            labels = [setting.cluster(V, part.positions).labels for setting in settings]
            counts.append(count_procedure(labels, [names[r] for r in rows], part.procedures[0]))
        assert encoder.counting[name] == counting_figures(counts, settings)
        table = tables["assignment"].filter(clusterer=name)
        assert (table.height, table["track"].null_count()) == (26, 26)
        clusters = table.group_by("procedure_id", maintain_order=True).agg(
            pl.col("cluster").n_unique()
        )["cluster"]
        assert clusters.to_list() == [fold["clusters"] for fold in encoder.counting[name].folds]
        assert [row["counted"] for row in encoder.clinic[name].rows] == clusters.to_list()
        assert encoder.clinic[name].adr is None
        curve = tables["curve"].filter(clusterer=name)
        expected = operating_curve(counts, [np.ones(len(settings), dtype=np.bool_) for _ in counts])
        for rate in (metric.key for metric in rates().values()):  # null where undefined
            np.testing.assert_array_equal(
                curve[rate].fill_null(np.nan).to_numpy(), expected[rate], err_msg=name
            )


def test_all_clusterers_may_be_added_to_those_named_first() -> None:
    settings, _ = evaluation_settings(clusterers=("threshold", "all"))
    assert next(iter(settings.grid)) == "threshold"
    assert sorted(settings.grid) == sorted(CLUSTERERS)
    assert evaluation_settings(("all",))[1] == [*PROBES]
