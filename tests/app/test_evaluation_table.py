"""From an evaluation to the table."""

import numpy as np

from polyplink.app.evaluation_table import by_procedure, comparison, notes
from polyplink.associate import Grid
from polyplink.evaluate import TASKS, EvaluationSettings, Samples, evaluate_embeddings
from polyplink.evaluate.intervals import IDEALS
from tests.evaluate.made import boxes_of, made


def test_every_figure_has_a_column_and_the_reference_comes_first() -> None:
    rng = np.random.default_rng(0)
    samples = Samples.of(
        [f"t{i}" for i in range(12)],
        ["v"] * 6 + ["w"] * 6,
        ["a", "a", "b", "b", "b", "a", "c", "c", "d", "d", "d", None],
        np.tile(np.linspace(0, 1, 6), 2),
    )
    settings = EvaluationSettings(Grid((0.5,), (1.0,), (0.5, -1.0), (0.3, 0.7)), resamples=50)
    evaluation, _ = evaluate_embeddings(
        {"one": rng.random((12, 4)), "two": rng.random((12, 4))}, samples, settings, reference="two"
    )
    table = comparison(evaluation)
    assert [method.name for method in table.methods] == ["two", "one"]
    keys = [metric.key for metric in table.metrics]
    assert keys[:5] == ["mAP", "HR@1", "HR@5", "AUROC", "AUPR"]
    assert set(keys) == set(evaluation.encoders["one"].figures)
    assert not table.methods[0].differences
    difference = table.methods[1].differences["mAP"].value
    values = [method.figures["mAP"].value for method in table.methods]
    assert difference is not None
    assert values[0] is not None
    assert values[1] is not None
    assert abs(difference - (values[1] - values[0])) < 1e-12
    rows = by_procedure(evaluation)
    assert rows.select("method", "procedure").rows() == [
        ("one", "v"),
        ("one", "w"),
        ("two", "v"),
        ("two", "w"),
    ]
    first = evaluation.encoders["one"]
    assert first.retrieval is not None
    assert rows["mAP"][0] == first.retrieval["procedures"][0]["mean_ap"]
    assert rows["AUROC"][1] == first.reid[1]["auroc"]
    assert rows["threshold fr"][1] == first.counting["threshold"].folds[1]["fr"]
    assert rows["polyps"].to_list() == [2, 2, 2, 2]
    said = " ".join(notes(evaluation, settings))
    assert "1 of unknown polyp left out" in said
    assert "2 procedures" in said


def test_all_tasks_have_columns_and_what_is_no_different_is_bold() -> None:
    vectors, samples, _ = made(unknown=2)
    settings = EvaluationSettings(
        Grid((1.0,), (1.0,), (0.5, -1.0), (0.3, 0.7)), resamples=50, tasks=TASKS, without_own=True
    )
    adenoma = [bool(i % 2) for i in samples.polyp]
    noise = np.random.default_rng(2).normal(size=vectors.shape)
    evaluation, _ = evaluate_embeddings(
        {"ours": vectors, "noise": noise},
        samples,
        settings,
        boxes=boxes_of(samples),
        adenoma=adenoma,
    )
    table = comparison(evaluation)
    keys = {metric.key: metric for metric in table.metrics}
    assert set(keys) == set(evaluation.encoders["ours"].figures)
    lowest = {m.key for m in table.metrics if m.ideal == 0 and not m.key.endswith("PPC")}
    assert lowest == {key for key in keys if IDEALS.get(key.rsplit("/", 1)[-1]) == 0}  # in bold
    assert keys["mAP (as published)"].style == "published"
    clinic = evaluation.encoders["ours"].clinic["threshold"]
    assert keys["threshold/PPC"].ideal == clinic.ppc
    assert keys["threshold/ADR"].ideal == clinic.adr
    assert keys["tracking/ap/IDSW"].ideal == 0.0
    assert table.bold["mAP"][0] == "ours"
    assert dict(table.bold) == {key: evaluation.no_different[key] for key in keys}
    rows = by_procedure(evaluation)
    assert rows.height == 8
    assert {"threshold HOTA", "ap converged", "adenomas", "ap adenomas"} <= set(rows.columns)
    said = " ".join(notes(evaluation, settings))
    assert f"True polyps per colonoscopy (with a tracklet): {clinic.ppc:.2f}" in said
    assert "Tracking, threshold:" in said
