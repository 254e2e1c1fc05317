"""Tables of an evaluation: methods by figures, with notes, and a table of procedures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from polyplink.associate.clusterers import clusterer_title
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.parts import CLUSTERERS, METRICS
from polyplink.core.text import many
from polyplink.evaluate.evaluation import EncoderFigures, Evaluation, EvaluationSettings
from polyplink.evaluate.intervals import FEWEST, no_different
from polyplink.evaluate.metric import TASKS, WITHOUT_OWN, Metric, Task, metrics_of
from polyplink.evaluate.probe import PROBE_METRICS
from polyplink.evaluate.probe_tasks import PROBES, Probed
from polyplink.evaluate.samples import Samples
from polyplink.report.comparison import Comparison, FigureColumn, Method
from polyplink.report.formats import figure_text

ProbedByTask = Mapping[str, Mapping[str, Probed]]  # task -> method -> probe, the reference first

_TIMES = {
    "normalised": "shares of the annotated span, as in temporally-aware counting",
    "frames": "frames, as in the thesis",
}  # by unit of distances in time
_LOO = "setting chosen on other procedures"
_FOLD_COLUMNS = ("clusters", "fr", "fpr", "precision", "recall")


def columns(first: EncoderFigures) -> list[FigureColumn]:
    """A column for every figure of an encoder, ordered by group."""
    return [*_exact_columns(first), *_counting_columns(first), *_tracking_columns(first)]


def _exact_columns(first: EncoderFigures) -> list[FigureColumn]:
    """Columns of retrieval and re-identification: honest, without own procedure, as published."""
    retrieval, published_retrieval = _by_style("retrieval")
    reid, published_reid = _by_style("reid")
    without_own = {f"{name}{WITHOUT_OWN}": metric for name, metric in retrieval.items()}
    groups = (
        (TASKS["retrieval"], retrieval, ""),
        (TASKS["reid"], reid, ""),
        (
            f"{TASKS['retrieval']}, the query's procedure left out",
            without_own,
            "other polyps of the query's procedure left out",
        ),
        ("Retrieval and re-identification, as published", published_retrieval | published_reid, ""),
    )
    return [
        _column(name, name, metric, group, note)
        for group, metrics, note in groups
        for name, metric in metrics.items()
        if name in first.figures
    ]


def _counting_columns(first: EncoderFigures) -> list[FigureColumn]:
    """Columns of counting by every clusterer: honest figures, then figures as published."""
    figure_columns = []
    honest, published = _by_style("counting")
    for clusterer in (name for name in CLUSTERERS.in_use() if name in first.counting):
        group = f"{TASKS['counting']}, {clusterer_title(clusterer)}"
        clinic = first.clinic.get(clusterer)
        true_values = {} if clinic is None else {"PPC": clinic.ppc, "ADR": clinic.adr}
        for name, metric in honest.items():
            if (key := f"{clusterer}/{name}") in first.figures:
                column, true_value = _column(key, name, metric, group, _LOO), true_values.get(name)
                ideal = metric.ideal if true_value is None else true_value
                figure_columns.append(replace(column, ideal=ideal))
        figure_columns += [
            _column(f"{clusterer}/{name}", metric.heading, metric, f"{group}, as published")
            for name, metric in published.items()
            if f"{clusterer}/{name}" in first.figures
        ]
    return figure_columns


def _tracking_columns(first: EncoderFigures) -> list[FigureColumn]:
    """Columns of tracking by every clusterer: over all boxes, then means over procedures."""
    figure_columns = []
    honest, published = _by_style("tracking")
    metrics = honest | published
    for clusterer in (name for name in CLUSTERERS.in_use() if name in first.tracking):
        group = f"{TASKS['tracking']}, {clusterer_title(clusterer)}"
        for name, metric in metrics.items():
            if (key := f"tracking/{clusterer}/{name}") in first.figures:
                note = f"boxes of all procedures together; {_LOO}"
                figure_columns.append(_column(key, name, metric, group, note))
        for name, metric in metrics.items():
            if (key := f"tracking/{clusterer}/{name} mean") in first.figures:
                means = f"{group}, mean over procedures"
                figure_columns.append(_column(key, name, metric, means))
    return figure_columns


def _by_style(task: Task) -> tuple[dict[str, Metric], dict[str, Metric]]:
    """Metrics of a task by name: the honest ones, and those as published."""
    honest, published = dict[str, Metric](), dict[str, Metric]()
    for name, metric in METRICS.in_use().items():
        if metric.task == task:
            (honest if metric.style == "honest" else published)[name] = metric
    return honest, published


def _column(key: str, name: str, metric: Metric, group: str, note: str = "") -> FigureColumn:
    """The column of a metric; a note is appended to its meaning."""
    meaning = f"{metric.meaning}; {note}" if note else metric.meaning
    return FigureColumn(
        key, name, group, metric.ideal, meaning, style=metric.style, title=metric.title
    )


def check_columns(
    names: Sequence[str], settings: EvaluationSettings, probes: Sequence[str]
) -> None:
    """Refuse names that no figure of an evaluation can have, before it is measured.

    Args:
        names: Names or keys of figures.
        settings: Tasks and clusterers of the evaluation.
        probes: Tasks of probes.

    Raises:
        PolyplinkError: If a name is of no figure.
    """
    figures = [*PROBE_METRICS] if probes else []
    keys = {f"{task}/{name}" for task in probes for name in PROBE_METRICS}
    for name, metric in METRICS.in_use().items():
        if metric.task in settings.tasks:
            figures.append(metric.heading or name)
            keys |= {f"{name}{WITHOUT_OWN}"}
            of_clusterers = {f"{clusterer}/{name}" for clusterer in settings.grid}
            if metric.task == "counting":
                keys |= of_clusterers
            if metric.task == "tracking":
                keys |= {f"tracking/{key}{end}" for key in of_clusterers for end in ("", " mean")}
    unknown = [name for name in names if name not in figures and name not in keys]
    if unknown:
        raise PolyplinkError(
            f"there is no figure {min(unknown)!r}",
            f"--columns takes {', '.join(dict.fromkeys(figures))}, and keys such as threshold/FR",
        )


def headline(first: EncoderFigures, requested: Sequence[str] = ()) -> tuple[str, ...]:
    """Keys of the five most important figures, those of learned links if they were measured.

    Args:
        first: Figures of any encoder.
        requested: Names of further metrics that the user requested.
    """
    counted = "links" if "links" in first.counting else next(iter(first.counting), "")
    tracked = "links" if "links" in first.tracking else next(iter(first.tracking), "")
    keys = [
        "mAP",
        "AUROC",
        f"{counted}/count error",
        f"{counted}/exact",
        f"tracking/{tracked}/HOTA",
    ]
    for name in requested:
        keys += [name, f"{counted}/{name}", f"tracking/{tracked}/{name}"]
    return tuple(keys)


def comparison(evaluation: Evaluation, settings: EvaluationSettings) -> Comparison:
    """The table of methods (rows, the reference first) by figures (columns)."""
    first = evaluation.encoders[evaluation.reference]
    return Comparison(
        tuple(columns(first)),
        tuple(
            Method(name, encoder.figures, evaluation.minus_reference.get(name, {}))
            for name, encoder in evaluation.encoders.items()
        ),
        evaluation.no_different if len(evaluation.encoders) > 1 else {},
        headline(first, settings.metrics),
        _settings_note(first, settings),
    )


def _settings_note(first: EncoderFigures, settings: EvaluationSettings) -> str:
    """What the settings of counting and tracking were chosen on; "" without these tasks."""
    rows = [counting.folds for counting in first.counting.values()]
    rows += [tracking["procedures"] for tracking in first.tracking.values()]
    if not rows:
        return ""
    if not any(rows):
        return (
            "Counting and tracking are undefined, because there is no other procedure on which a "
            "setting could be chosen; choose it on another part (--choose-on)."
        )
    chosen_on = "another part" if settings.chosen_on else "the other procedures"
    return (
        f"Counting and tracking here use settings chosen on {chosen_on} for "
        f"{Message(f'purpose.{settings.purpose}')}; the counts of each procedure use the setting "
        "stored in the weights, which was chosen for counting: the numbers of polyps may differ."
    )


def notes(evaluation: Evaluation, settings: EvaluationSettings) -> tuple[str, ...]:
    """Notes under the table, one sentence each."""
    # The numbers behind the figures of vectors.
    first = evaluation.encoders[evaluation.reference]
    lines = [f"Independent units: {many(evaluation.procedures, 'procedure')}."]
    if first.retrieval is not None:
        counts = first.retrieval
        lines.append(
            f"Queries: {counts['queries']}; {many(counts['unmatched'], 'tracklet')} without "
            f"a match and {counts['unlabelled']} of unknown polyp left out."
        )
    if first.pairs is not None:
        lines.append(f"{many(first.pairs[0], 'pair')} of one polyp and {first.pairs[1]} of two.")

    # How tracklets were clustered, and what is true of them.
    if first.counting or first.tracking:
        lines.append(
            f"Clustered by visual similarity {settings.form}, "
            f"{Message(f'visual.{settings.form}')}; distances in time in {_TIMES[settings.time]}. "
            f"Settings chosen for {Message(f'purpose.{settings.purpose}')}."
        )
    for name, figures in evaluation.encoders.items():
        lines += _counting_notes(name, figures)
    clinic = next(iter(first.clinic.values()), None)
    if clinic is not None:
        true_polyps = f"True polyps per colonoscopy (with a tracklet): {clinic.ppc:.2f}."
        if clinic.adr is None:
            lines.append(f"{true_polyps} No adenoma detection rate: no histology is known.")
        else:
            lines.append(
                f"{true_polyps} True adenoma detection rate: {clinic.adr:.2f}, adenomas per "
                f"colonoscopy {clinic.apc:.2f}, over "
                f"{many(clinic.with_histology, 'procedure')} of known histology."
            )

    # How boxes were compared, and what was not counted.
    for name, counts in first.tracking.items():
        if rows := counts["procedures"]:
            general = sum(row["form"] == "general" for row in rows)
            boxes, split, doubled = (sum(r[c] for r in rows) for c in ("boxes", "split", "doubled"))
            lines.append(
                f"Tracking, {name}: {boxes:,} boxes of tracklets; {general} of "
                f"{len(rows)} procedures needed boxes matched one by one; tracklets split "
                f"off a track with another box in the same frame: {split}; second boxes of a polyp "
                f"in one frame, left out: {doubled}."
            )
    if first.not_counted:
        lines.append(f"Not counted, no polyp known: {', '.join(first.not_counted)}.")
    return tuple(lines)


def counting_limits(
    evaluation: Evaluation, samples: Samples, settings: EvaluationSettings
) -> tuple[str, ...]:
    """Why figures of counting and tracking are missing or say little, one sentence each.

    Args:
        evaluation: The figures.
        samples: The tracklets of all procedures, those to choose settings on included.
        settings: Tasks, and the procedures to choose settings on.
    """
    if not {"counting", "tracking"} & set(settings.tasks):
        return ()
    lines = []
    no_links = evaluation.encoders[evaluation.reference].no_links
    if no_links:
        lines.append(f"No learned links: {no_links}.")
    rows = {"procedure": samples.procedure, "polyp": samples.polyp, "labelled": samples.labelled}
    polyp_counts = (
        pl.DataFrame(rows).filter("labelled").group_by("procedure").agg(pl.col("polyp").n_unique())
    )
    n_polyps = {samples.procedures[place]: n for place, n in polyp_counts.rows()}
    evaluated = [n for name, n in n_polyps.items() if name not in settings.chosen_on]
    if evaluated and max(evaluated) == 1:
        lines.append(
            "Counting and tracking show nothing here: every procedure has tracklets of one polyp "
            "only, so that joining all of them is always right, and FPR is undefined. Evaluate "
            "procedures of several polyps."
        )
    chosen_on = [n_polyps[name] for name in settings.chosen_on or n_polyps if name in n_polyps]
    if chosen_on and max(chosen_on) == 1:
        lines.append(
            "The settings of the clusterers are arbitrary: they were chosen on procedures of one "
            "polyp each, where joining tracklets is never wrong."
        )
    return tuple(lines)


def shared_patients(
    procedures: pl.DataFrame, samples: Samples, settings: EvaluationSettings
) -> tuple[str, ...]:
    """Say, in a sentence, if intervals rest on fewer patients than procedures.

    Args:
        procedures: The table of procedures.
        samples: The tracklets of all procedures, those to choose settings on included.
        settings: The procedures to choose settings on.
    """
    names = [name for name in samples.procedures if name not in settings.chosen_on]
    rows = procedures.filter(pl.col("procedure_id").is_in(names))
    patients = rows.select("dataset", "patient").n_unique()
    if rows.height < FEWEST or patients == rows.height:  # fewer have no interval
        return ()
    return (
        f"{rows.height} procedures are of {many(patients, 'patient')}: intervals take procedures "
        "as independent, and are too narrow if those of one patient are alike.",
    )


def _counting_notes(name: str, figures: EncoderFigures) -> list[str]:
    lines = []
    if figures.not_converged > 0:
        lines.append(
            f"{name}: one in {round(1 / figures.not_converged):,} clusterings of the search "
            "did not converge."
        )
    for clusterer, counting in figures.counting.items():
        if clusterer == "temporal_ap" and counting.summary:
            alpha = figure_text(counting.summary["alpha"], 4)
            lines.append(f"{name}, {clusterer}: mean chosen alpha {alpha} over the folds.")
        rules = [fold["choice"].rule for fold in counting.folds]
        fallback_rules = [rule for rule in rules if rule in ("no_false_positive", "one_polyp_each")]
        if fallback_rules:
            lines.append(
                f"{name}, {clusterer}: in {len(fallback_rules)} of {len(counting.folds)} folds no "
                f"setting near FPR 0.05 could be chosen ({', '.join(sorted(set(fallback_rules)))})."
            )
        converged = figures.converged[clusterer]
        not_converged = [
            f["procedure"] for f, ok in zip(counting.folds, converged, strict=True) if not ok
        ]
        if not_converged:
            lines.append(
                f"{name}, {clusterer}: the clustering of {', '.join(not_converged)} did not "
                "converge under the setting chosen for it."
            )
    return lines


def by_procedure(evaluation: Evaluation) -> pl.DataFrame:
    """A table with a row per method and procedure; undefined figures are empty.

    Returns:
        method, procedure, queries, mAP, HR@1, HR@5 (with the procedure's tracklets as queries
        among all), AUROC, AUPR (of pairs within the procedure), polyps, tracklets, adenomas, and
        for each clusterer clusters, FR, FPR, precision and recall under the setting chosen for the
        procedure, whether the clustering converged, and the tracking figures.
    """
    all_rows = []
    for method, figures in evaluation.encoders.items():
        rows: dict[str, dict[str, Any]] = {}
        for scores in figures.retrieval["procedures"] if figures.retrieval is not None else ():
            row = rows.setdefault(scores["procedure"], {})
            row |= {"queries": scores["queries"]} | _by_name(scores, "retrieval")
        for pairs in figures.reid:
            rows.setdefault(pairs["procedure"], {}).update(_by_name(pairs, "reid"))
        for name, counting in figures.counting.items():
            for fold, settled in zip(counting.folds, figures.converged[name], strict=True):
                row = rows.setdefault(fold["procedure"], {})
                row |= {"polyps": fold["polyps"], "tracklets": fold["tracklets"]}
                row |= {f"{name} {c}": fold[c] for c in _FOLD_COLUMNS}
                row[f"{name} converged"] = settled
            clinic = figures.clinic.get(name)
            for patient in clinic.rows if clinic is not None else ():
                row = rows[patient["procedure"]]
                row["adenomas"] = patient["adenomas"]
                row[f"{name} adenomas"] = patient["adenomas_counted"]
        for name, tracking in figures.tracking.items():
            for track in tracking["procedures"]:
                row = rows.setdefault(track["procedure"], {})
                row |= {f"{name} {figure}": value for figure, value in track["figures"].items()}
                row |= {f"{name} {column}": track[column] for column in ("form", "tracks")}
        all_rows += [{"method": method, "procedure": name} | row for name, row in rows.items()]
    return pl.DataFrame(all_rows, infer_schema_length=None)


def _by_name(row: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """The figures of a task in a row of one procedure, by the names of its metrics."""
    return {name: row[metric.key] for name, metric in metrics_of(task).items() if metric.key in row}


def with_probes(table: Comparison, probed: ProbedByTask) -> Comparison:
    """The table of methods with the figures of probes as further columns.

    Args:
        table: The table of all methods.
        probed: Results by task and method, from `probe_tasks.probe_encoders`.
    """
    metrics, bold = list(table.metrics), dict(table.bold)
    methods = {row.name: (dict(row.figures), dict(row.differences)) for row in table.methods}
    reference = table.methods[0].name
    for task, by_method in probed.items():
        group = f"{task.capitalize()}, probe: {PROBES[task].positive}"
        for name, metric in PROBE_METRICS.items():
            key = f"{task}/{name}"
            measures = {k: p.result.measures[name] for k, p in by_method.items()}
            paper = "; the paper's figure" if name == PROBES[task].figure else ""
            meaning = f"{metric.meaning}; mean over seeds{paper}"
            metrics.append(FigureColumn(key, name, group, metric.ideal, meaning, "polyps"))
            for method, (figures, differences) in methods.items():
                figures[key] = by_method[method].result.figures[name]
                if method != reference:
                    differences[key] = measures[method].minus(measures[reference])
            if len(methods) > 1:
                bold[key] = no_different(measures, metric.ideal)
    rows = tuple(Method(name, *pair) for name, pair in methods.items())
    return replace(table, metrics=tuple(metrics), methods=rows, bold=bold)


def probe_notes(probed: ProbedByTask) -> tuple[str, ...]:
    """Notes on the figures of probes, one sentence per task."""
    lines = []
    for task, by_method in probed.items():
        first = next(iter(by_method.values()))
        lines.append(
            f"{task.capitalize()}: probes trained on {sum(first.trained_polyps)} polyps and tested "
            f"on {sum(first.result.polyps)} of other patients, {first.result.polyps[1]} of them "
            f"{PROBES[task].positive}; {first.left_out} labelled polyps without a whole fragment "
            "left out; the independent units are the test polyps."
        )
    return tuple(lines)
