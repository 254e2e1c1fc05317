"""From an evaluation to the table of methods by figures, and to one of procedures."""

from typing import Any

import polars as pl

from polyplink.evaluate import Evaluation, Interval
from polyplink.report import Comparison, Figure, Method, Metric

COUNTING = {
    "temporal_ap": "Counting, temporal affinity propagation",
    "threshold": "Counting, threshold",
}
_LOO = "setting chosen on the other procedures at FPR nearest to 0.05"

RETRIEVAL = (
    Metric("mAP", "mAP", "Retrieval", 1.0, "mean average precision over all queries"),
    Metric("HR@1", "HR@1", "Retrieval", 1.0, "share of queries whose nearest is a match"),
    Metric("HR@5", "HR@5", "Retrieval", 1.0, "share with a match among the five nearest"),
    Metric("AUROC", "AUROC", "Re-identification", 1.0, "over all pairs of tracklets"),
    Metric("AUPR", "AUPR", "Re-identification", 1.0, "average precision over all pairs"),
)


def _counting(name: str) -> tuple[Metric, ...]:
    group = COUNTING[name]
    published = f"{group}, as published"
    return (
        Metric(f"{name}/FR", "FR", group, 1.0, f"clusters over polyps; {_LOO}"),
        Metric(f"{name}/FPR", "FPR", group, 0.0, f"pairs of two polyps in one cluster; {_LOO}"),
        Metric(f"{name}/precision", "precision", group, 1.0, "of linked pairs"),
        Metric(f"{name}/recall", "recall", group, 1.0, "of pairs of one polyp"),
        Metric(
            f"{name}/count error", "count error", group, 0.0, "mean |clusters - polyps|; " + _LOO
        ),
        Metric(f"{name}/exact", "exact", group, 1.0, "share of procedures counted exactly"),
        Metric(
            f"{name}/precision with self",
            "precision",
            published,
            1.0,
            "as published: every tracklet's pair with itself counts as a true positive",
            style="reference",
        ),
        Metric(
            f"{name}/recall with self",
            "recall",
            published,
            1.0,
            "as published: every tracklet's pair with itself counts as a true positive",
            style="reference",
        ),
    )


def _figure(interval: Interval) -> Figure:
    why = "" if interval.value is not None else "undefined on these procedures"
    return Figure(interval.value, interval.low, interval.high, interval.n_units, why)


def comparison(evaluation: Evaluation) -> Comparison:
    """Methods in rows, the reference first, and every figure in a column."""
    names = [evaluation.reference]
    names += [name for name in evaluation.encoders if name != evaluation.reference]
    clusterers = [name for name in COUNTING if name in evaluation.encoders[names[0]].counting]
    metrics = RETRIEVAL + tuple(metric for name in clusterers for metric in _counting(name))
    return Comparison(
        metrics,
        tuple(
            Method(
                name,
                {m.key: _figure(evaluation.encoders[name].figures[m.key]) for m in metrics},
                {
                    m.key: _figure(difference[m.key])
                    for difference in (evaluation.minus_reference.get(name),)
                    if difference is not None
                    for m in metrics
                },
            )
            for name in names
        ),
    )


def notes(evaluation: Evaluation) -> tuple[str, ...]:
    """What a reader of the table must know, one sentence each."""
    first = evaluation.encoders[evaluation.reference]
    retrieval = first.retrieval
    said = [
        f"{retrieval.queries} queries; {retrieval.unmatched} tracklets without a match and "
        f"{retrieval.unlabelled} of unknown polyp left out.",
        f"{first.pairs[0]} pairs of one polyp and {first.pairs[1]} of two; the independent units "
        f"are the {evaluation.procedures} procedures.",
    ]
    for name, figures in evaluation.encoders.items():
        if figures.not_converged > 0:
            said.append(
                f"{name}: one in {round(1 / figures.not_converged):,} clusterings of the search "
                "did not converge."
            )
        for clusterer, counting in figures.counting.items():
            odd = [fold.choice.rule for fold in counting.folds if fold.choice.rule != "nearest"]
            if odd:
                said.append(
                    f"{name}, {clusterer}: in {len(odd)} of {len(counting.folds)} folds no setting "
                    f"near FPR 0.05 could be chosen ({', '.join(sorted(set(odd)))})."
                )
    if first.not_counted:
        said.append(f"Not counted, no polyp known: {', '.join(first.not_counted)}.")
    return tuple(said)


def by_procedure(evaluation: Evaluation) -> pl.DataFrame:
    """One row per method and procedure; empty where a figure is undefined there.

    Returns:
        method, procedure, queries, mAP, HR@1, HR@5 (its tracklets as queries among all),
        AUROC, AUPR (its own pairs), polyps, tracklets, and for each clusterer its clusters, FR,
        FPR, precision and recall under the setting chosen on the other procedures.
    """
    rows = []
    for method, figures in evaluation.encoders.items():
        folds = {
            name: {fold.procedure: fold for fold in found.folds}
            for name, found in figures.counting.items()
        }
        for own, pairs in zip(figures.retrieval.procedures, figures.reid, strict=True):
            row: dict[str, Any] = {"method": method, "procedure": own.procedure}
            row |= {"queries": own.queries, "mAP": own.mean_ap, "HR@1": own.hr1, "HR@5": own.hr5}
            row |= {"AUROC": pairs.auroc, "AUPR": pairs.aupr, "polyps": None, "tracklets": None}
            for name, by_name in folds.items():
                fold = by_name.get(own.procedure)
                for column in ("clusters", "fr", "fpr", "precision", "recall"):
                    row[f"{name} {column}"] = getattr(fold, column, None)
                if fold is not None:
                    row |= {"polyps": fold.polyps, "tracklets": fold.tracklets}
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)
