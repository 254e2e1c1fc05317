"""The table of an evaluation."""

from dataclasses import replace

import numpy as np
import pytest

from polyplink.associate.clusterers import AffinityPropagation, Setting, TemporalAP, Threshold
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.choosing import Rule
from polyplink.evaluate.evaluation import EvaluationSettings, evaluate_embeddings
from polyplink.evaluate.metric import TASKS, ideal_of
from polyplink.report.evaluation_table import (
    by_procedure,
    check_columns,
    columns,
    comparison,
    counting_limits,
    notes,
)
from polyplink.report.printed_tables import difference_tables
from tests.evaluate.random_tracklets import boxes_of, random_samples


def test_all_tasks_have_columns_and_the_best_figures_are_bold() -> None:
    vectors, samples, _ = random_samples(unknown=2)
    grid: dict[str, list[Setting]] = {
        "temporal_ap": [TemporalAP(1.0, 1.0, 0.5), TemporalAP(1.0, 1.0, -1.0)],
        "ap": [AffinityPropagation(0.5), AffinityPropagation(-1.0)],
        "threshold": [Threshold(0.3), Threshold(0.7)],
    }
    settings = EvaluationSettings(grid, resamples=50, tasks=tuple(TASKS), without_own=True)
    adenoma = [bool(i % 2) for i in samples.polyp]
    noise = np.random.default_rng(2).normal(size=vectors.shape)
    encoders, boxes = {"ours": vectors, "noise": noise}, boxes_of(samples)
    evaluation, _ = evaluate_embeddings(encoders, samples, settings, boxes=boxes, adenoma=adenoma)
    table = comparison(evaluation, settings)
    ours, other = table.methods
    assert (ours.name, other.name) == ("ours", "noise")
    assert not ours.differences
    difference, values = other.differences["mAP"].value, (ours.figures, other.figures)
    left, right = (figures["mAP"].value for figures in values)
    assert left is not None
    assert right is not None
    assert difference == pytest.approx(right - left)
    keys = {metric.key: metric for metric in table.metrics}
    first_keys = [metric.key for metric in table.first_metrics]
    clusterer = "links" if "links/exact" in keys else first_keys[2].partition("/")[0]
    assert first_keys == [
        *("mAP", "AUROC", f"{clusterer}/count error", f"{clusterer}/exact"),
        f"tracking/{clusterer}/HOTA",
    ]
    assert list(keys)[:2] == ["mAP", "HR@1"]
    assert set(keys) == set(evaluation.encoders["ours"].figures)
    lowest = {m.key for m in table.metrics if m.ideal == 0 and not m.key.endswith("PPC")}
    assert lowest == {k for k in keys if ideal_of(k) == 0 and not k.endswith("PPC")}  # in bold
    assert keys["mAP (as published)"].style == "published"
    assert columns(evaluation.encoders["noise"]) == [*table.metrics]  # the same for all methods
    first = evaluation.encoders["ours"]
    clinic = first.clinic["threshold"]
    assert (keys["threshold/PPC"].ideal, keys["threshold/ADR"].ideal) == (clinic.ppc, clinic.adr)
    assert keys["tracking/ap/IDSW"].ideal == 0.0
    assert dict(table.bold) == {key: evaluation.no_different[key] for key in keys}
    rows = by_procedure(evaluation)
    assert rows.height == 8
    assert {"threshold HOTA", "ap converged", "adenomas", "ap adenomas"} <= set(rows.columns)
    rows_of_ours = rows.filter(method="ours")
    assert rows_of_ours["procedure"].to_list() == list(samples.procedures)
    polyps = dict(rows_of_ours.select("procedure", "polyps").iter_rows())
    assert polyps == {"v0": 2, "v1": 1, "v2": 3, "v3": 2}
    assert first.retrieval is not None
    assert rows_of_ours["mAP"][0] == first.retrieval["procedures"][0]["mean_ap"]
    assert rows_of_ours["AUROC"][2] == first.reid[2]["auroc"]
    assert rows_of_ours["threshold fr"][1] == first.counting["threshold"].folds[1]["fr"]
    clinic_rows = {row["procedure"]: row for row in clinic.rows}
    for row in rows_of_ours.iter_rows(named=True):
        counted = clinic_rows[row["procedure"]]
        assert row["adenomas"] == counted["adenomas"]
        assert row["threshold adenomas"] == counted["adenomas_counted"]
    # Each figure may be named for --columns before it is measured.
    check_columns([*keys, *(metric.name for metric in table.metrics)], settings, ())
    check_columns(["size/F1", "AUROC"], replace(settings, tasks=()), ["size"])
    tasks_of = {"mpa": settings.tasks, "mAP": ("counting",), "ap/HOTA": settings.tasks}
    for name, tasks in tasks_of.items():
        with pytest.raises(PolyplinkError, match=f"no figure '{name}'; --columns takes "):
            check_columns([name], replace(settings, tasks=tasks), ())
    # Differences to print: of the headline, and of clusterers also some that are always printed.
    with_headline = table.with_headline(["threshold/FR"])
    _, between_methods, _, between_clusterers = difference_tables(
        with_headline, {name: evaluation.minus_clusterer[name] for name in ("ours", "noise")}
    )[:4]
    assert [str(cell) for cell in between_methods.columns[0].cells] == ["threshold/FR"]
    names = [str(cell) for cell in between_clusterers.columns[0].cells]
    assert sorted(names) == ["FR", "count error", "exact", "tracking/HOTA"]
    assert counting_limits(evaluation, samples, settings) == ()
    text = " ".join(notes(evaluation, settings))
    for expected in ("2 of unknown polyp left out", "4 procedures", "Tracking, threshold:"):
        assert expected in text
    assert f"True polyps per colonoscopy (with a tracklet): {clinic.ppc:.2f}" in text
    rules: tuple[Rule, ...] = ("one_polyp_each", "nearest", "no_false_positive", "nearest")
    for fold, rule in zip(first.counting["threshold"].folds, rules, strict=True):
        fold["choice"] = replace(fold["choice"], rule=rule)
    text = " ".join(notes(evaluation, settings))
    assert (
        "ours, threshold: in 2 of 4 folds no setting near FPR 0.05 could be chosen "
        "(no_false_positive, one_polyp_each)." in text
    )
