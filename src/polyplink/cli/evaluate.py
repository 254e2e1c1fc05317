"""The verb `evaluate`: all tasks on a labelled part of a data set, with intervals and a report."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import StrPath, TrackletOptions, check_inputs
from polyplink.cli.verb import UNMEASURED, inform, verb
from polyplink.core.artefacts import to_plain, write_json, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import CLUSTERERS, USUAL_CLUSTERERS
from polyplink.core.results import Progress, Result
from polyplink.core.runs import RunRecord

if TYPE_CHECKING:
    import polars as pl

    from polyplink.encoders.encode import Encoded
    from polyplink.evaluate.evaluation import Evaluation, EvaluationSettings
    from polyplink.evaluate.probe_tasks import Probed
    from polyplink.evaluate.samples import Samples
    from polyplink.report.comparison import Comparison
    from polyplink.report.contents import Report

# Optional files and folders of an evaluation; those of an earlier evaluation are removed.
SOMETIMES = (
    "clusterers.csv",
    "procedures.csv",
    "curve.csv",
    "queries.parquet",
    "curve.parquet",
    "assignment.parquet",
    "trackeval",
)


@dataclass(frozen=True)
class Evaluated:
    """A finished evaluation; a notebook shows its figures and the procedures' time lines.

    Attributes:
        report: The report's file.
        evaluation: All figures except those of probes.
        page: The report's contents.
        notes: Notes under the table.
        probed: Size and histology, by task and method, if requested.
    """

    report: Path
    evaluation: "Evaluation"
    page: "Report" = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)
    probed: "dict[str, dict[str, Probed]]" = field(repr=False)

    @property
    def comparison(self) -> "Comparison":
        """The table of methods by figures."""
        assert self.page.comparison is not None
        return self.page.comparison

    @property
    def figures(self) -> "pl.DataFrame":
        """Contents of figures.csv: a row for each method and figure."""
        import polars as pl

        from polyplink.report.printed_tables import figure_rows

        return pl.DataFrame(figure_rows(self.comparison), infer_schema_length=None)

    @property
    def procedures(self) -> "pl.DataFrame":
        """Contents of procedures.csv: a row for each method and procedure."""
        from polyplink.report.evaluation_table import by_procedure

        return by_procedure(self.evaluation)

    @property
    def html_warnings(self) -> list[str]:
        """The warnings that a notebook shows with the figures, in English."""
        return list(map(str, self.page.warnings))

    def _repr_html_(self) -> str:
        from polyplink.report.page import render_fragment

        return render_fragment(self.page)

    def as_dict(self) -> dict[str, Any]:
        """Contents of evaluation.json."""
        plain: dict[str, Any] = to_plain(self.evaluation)
        plain["probes"] = {
            task: {name: figure.as_dict() for name, figure in figures.items()}
            for task, figures in self.probed.items()
        }
        return plain


@verb
def evaluate_weights(
    weights: Annotated[
        StrPath | Sequence[StrPath],
        Argument(
            help="Weights files, or folders `polyplink train` wrote; compared with the first."
        ),
    ],
    data: options.Data,
    *,
    out: options.Out = "evaluation",
    part: Annotated[str, Option(help="Part of the data set.")] = "eval",
    tasks: Annotated[
        Sequence[str],
        Option(
            "--task",
            help="retrieval, reid, counting, tracking (these by default), size, histology or all; "
            "may be repeated.",
        ),
    ] = (),
    clusterers: Annotated[
        Sequence[str],
        Option(
            "--clusterer",
            help=f"{', '.join(CLUSTERERS)}, all, a plugin's, or FILE.py:NAME for your own; "
            f"may be repeated; {', '.join(USUAL_CLUSTERERS)} by default.",
            autocompletion=options.complete_clusterers,
        ),
    ] = (),
    grid: Annotated[str, Option(help="Settings searched for counting: paper or demo.")] = "paper",
    visual: Annotated[
        Literal["l2", "raw_l2", "sigmoid"],
        Option(help="Similarity that is clustered: of unit vectors, raw vectors, or the thesis's."),
    ] = "l2",
    time: Annotated[
        Literal["normalised", "frames"],
        Option(help="Unit of distances in time: the annotated span, or frames (the thesis's)."),
    ] = "normalised",
    purpose: options.Purpose = "published",
    choose_on: Annotated[
        str | None,
        Option(help="Part to choose settings on; by default on the other procedures."),
    ] = None,
    without_own: Annotated[
        bool, Option(help="Also retrieval without other polyps of the query's procedure.")
    ] = False,
    curve_csv: Annotated[
        bool, Option(help="Also curve.csv: all figures of every setting.")
    ] = False,
    metrics: Annotated[
        Sequence[str],
        Option(
            "--metric",
            help="Show this metric too: a built-in one (all are computed), a plugin's, or "
            "FILE.py:NAME for your own; may be repeated.",
            autocompletion=options.names_of("polyplink.core.parts:METRICS.names"),
        ),
    ] = (),
    columns: Annotated[
        Sequence[str],
        Option(
            help="Figures of table.tex, of the first table of report.html and of the terminal, by "
            "name (mAP) or key; may be repeated."
        ),
    ] = (),
    baselines: Annotated[
        bool, Option(help="Also an untrained encoder and a colour histogram.")
    ] = True,
    device: options.Device = "auto",
    workers: options.Workers = 2,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> Result[Evaluated]:
    """Evaluate all or selected tasks, with confidence intervals; writes tables and a report.

    The exit code is 1 if no figure could be measured.

    Args:
        out: The output folder, which gets evaluation.json, figures.csv, table.tex, clusterers.csv
            (paired differences to the first), procedures.csv, queries.parquet (one row per query),
            curve.parquet (one per setting), assignment.parquet, trackeval (MOTChallenge files),
            report.html and run.json; files of tasks that were not requested are left out.
        choose_on: Part to choose settings on; by default, a procedure's settings are chosen on
            the other procedures.
        progress: Called for crops, tracklets and methods.

    Returns:
        The evaluation: `value.figures` is a table with a row for each method and figure, and
        `value.report` the file of the report.

    Raises:
        PolyplinkError: If procedures were seen in training, or a part, task, clusterer or metric
            does not exist.

    Example:
        >>> import polyplink
        >>> polyplink.evaluate_weights("run", "data").value.figures  # doctest: +SKIP
    """
    # Refuse what is wrong before torch is imported.
    paths = tuple(map(Path, (weights,) if isinstance(weights, str | Path) else weights))
    data, out = Path(data), Path(out)
    from polyplink.evaluate.settings import evaluation_settings, refuse_unread
    from polyplink.report.evaluation_table import check_columns

    for path in paths:
        check_inputs(path)
    check_inputs(None, data, [part, choose_on], device)
    settings, probes = evaluation_settings(
        tasks,
        clusterers,
        grid=grid,
        visual=visual,
        time=time,
        purpose=purpose,
        without_own=without_own,
        threads=workers,
        metrics=metrics,
    )
    check_columns(columns, settings, probes)
    refuse_unread(settings.tasks, {"--choose-on": choose_on, "--curve-csv": curve_csv})
    decisive = {
        "tasks": [*settings.tasks, *probes],
        "clusterers": tuple(settings.grid),
        "without_own": settings.without_own,
        "metrics": settings.metrics,
        "weights": paths,
        "part": part,
        "choose_on": choose_on,
        "purpose": purpose,
        "grid": grid,
        "visual": visual,
        "time": time,
    }
    record = RunRecord("evaluate", settings=decisive)
    record.claim(out)
    names, chosen_on = _procedures(paths, data, part, choose_on, probes)

    # Vectors of all methods, their probes and figures.
    from polyplink.encoders.encode import encode
    from polyplink.encoders.load import baselines as load_baselines, load_several
    from polyplink.evaluate.probe_tasks import PROBES, probe_encoders
    from polyplink.evaluate.track_files import write_trackeval
    from polyplink.evaluate.truth import samples_of
    from polyplink.report.evaluation_table import (
        comparison,
        counting_limits,
        probe_notes,
        shared_patients,
        with_probes,
    )
    from polyplink.report.page import write_report

    with record.stage("embed"):
        of_weights = load_several(paths, device, tracklets, data)
        main = of_weights[0]
        encoded = encode([main], data, [*chosen_on, *names], workers=workers, progress=progress)
        # Refuse data without polyp ids before other encoders embed them.
        samples = samples_of(encoded.prepared)
        encoders = [*of_weights, *load_baselines(main)] if baselines else of_weights
        encoded = encoded.add(encoders[1:], workers, progress)
    keys = {"weights" if encoder is main else encoder.name: encoder.key for encoder in of_weights}
    record.inputs |= keys | {"crops": encoded.prepared.key}
    record.settings = {**decisive, "tracklets": encoded.prepared.settings}
    with record.stage("probe"):
        probed = {
            task: probe_encoders(
                PROBES[task], encoders, data, part, workers=workers, progress=progress
            )
            for task in probes
        }
    with record.stage("evaluate"):
        settings = replace(settings, chosen_on=_with_tracklets(chosen_on, samples.procedures))
        evaluation, tables, remarks = _measure(encoded, samples, settings)
    limits = (
        *shared_patients(encoded.prepared.data.procedures, samples, settings),
        *counting_limits(evaluation, samples, settings),
    )
    remarks = (*limits, *remarks, *probe_notes(probed))

    # The table, the report and the other files.
    table = with_probes(comparison(evaluation, settings), probed).with_headline(columns)
    with record.stage("report"):
        page = _page(paths[0], encoded, table, remarks, record.seconds)
        evaluated = Evaluated(out / "report.html", evaluation, page, remarks, probed)
    with record.results(out, SOMETIMES) as new:
        if "assignment" in tables and "tracking" in evaluation.tasks:
            write_trackeval(new / "trackeval", encoded.prepared, tables["assignment"], part)
        _write(new, evaluated, tables, curve_csv=curve_csv)
        write_report(new / evaluated.report.name, page)
    return _result(evaluated, [encoder.name for encoder in of_weights], limits)


def _procedures(
    weights: Sequence[Path], folder: Path, part: str, choose_on: str | None, probes: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Procedures to evaluate, and procedures to choose settings on.

    Training data and missing labels are refused here, before cutting crops, which may take hours.
    """
    from polyplink.data.tables import read_data
    from polyplink.encoders.weights import guard, read_record, weights_path
    from polyplink.evaluate.probe_tasks import check_labels

    data = read_data(folder)
    for path in weights:
        guard(read_record(weights_path(path)).seen, data, part)
    check_labels(probes, data, part)
    if choose_on is None:
        return data.part(part), []
    return data.disjoint_parts(
        part, choose_on, "choose settings on procedures that are not evaluated"
    )


def _with_tracklets(chosen_on: Sequence[str], procedures: Collection[str]) -> tuple[str, ...]:
    """Procedures to choose settings on; those without tracklets are left out."""
    names = tuple(name for name in chosen_on if name in procedures)
    if not names and chosen_on:
        raise PolyplinkError(
            f"none of the {len(chosen_on)} procedures to choose settings on has a tracklet",
            "name another part with --choose-on",
        )
    return names


def _measure(
    encoded: "Encoded", samples: "Samples", settings: "EvaluationSettings"
) -> "tuple[Evaluation, Mapping[str, pl.DataFrame], tuple[str, ...]]":
    """Measure all tasks; returns figures, tables of queries, settings and tracklets, and notes.

    Args:
        encoded: Vectors of all methods.
        samples: The encoded tracklets, with their polyps.
        settings: Tasks, clusterers, and the procedures to choose settings on.
    """
    from polyplink.evaluate.evaluation import evaluate_embeddings
    from polyplink.evaluate.truth import tracklet_adenomas, tracklet_boxes
    from polyplink.report.evaluation_table import notes

    adenoma = None
    missing: list[str] = []
    try:
        adenoma = tracklet_adenomas(encoded.prepared)
    except PolyplinkError as error:  # the other figures of counting need no histology
        missing = [f"No adenoma detection rate: {error}."]
    boxes = tracklet_boxes(encoded.prepared, samples)
    evaluation, tables = evaluate_embeddings(
        encoded.vectors, samples, settings, boxes=boxes, adenoma=adenoma
    )
    adenoma_notes = missing if "counting" in settings.tasks else []
    return evaluation, tables, (*notes(evaluation, settings), *adenoma_notes)


def _page(
    weights: Path,
    encoded: "Encoded",
    table: "Comparison",
    notes: tuple[str, ...],
    seconds: Mapping[str, float],
) -> "Report":
    """The report: the table, and time lines as `count` would draw them."""
    from polyplink.counting.count_part import counted_procedures
    from polyplink.counting.link import coverage_of, known_counts, link_messages, link_part
    from polyplink.report.contents import build_report

    part = link_part(encoded, purpose="count", keep_alarms=False)
    coverage = coverage_of(part.procedures, known_counts(encoded.prepared))
    return build_report(
        "Evaluation",
        weights,
        part,
        counted_procedures(part),
        seconds=seconds,
        comparison=table,
        notes=notes if coverage is None else (*notes, f"{coverage}."),
        messages=[*part.cover.warnings(part.point), *link_messages(part.point, part.procedures)],
    )


def _write(
    out: Path, evaluated: Evaluated, tables: "Mapping[str, pl.DataFrame]", *, curve_csv: bool
) -> None:
    """Write every file except the report."""
    from polyplink.data.tables import csv_text, write_table
    from polyplink.report.latex import comparison_latex
    from polyplink.report.printed_tables import write_clusterers, write_csv

    write_json(out / "evaluation.json", evaluated.as_dict())
    write_text(out / "table.tex", comparison_latex(evaluated.comparison))
    write_csv(out / "figures.csv", evaluated.comparison)
    write_clusterers(out / "clusterers.csv", evaluated.evaluation.minus_clusterer)
    if evaluated.procedures.width:
        write_text(out / "procedures.csv", csv_text(evaluated.procedures))
    for name, table in tables.items():
        write_table(out / f"{name}.parquet", table)
    if curve_csv and "curve" in tables:
        write_text(out / "curve.csv", csv_text(tables["curve"]))


def _result(evaluated: Evaluated, names: Sequence[str], limits: Sequence[str]) -> Result[Evaluated]:
    """The terminal's summary of an evaluation of weights by these names.

    Args:
        evaluated: The evaluation.
        names: Names of the weights.
        limits: Notes to print as warnings.
    """
    from polyplink.report.printed_tables import comparison_table, difference_tables

    table, out = evaluated.comparison, evaluated.report.parent
    lines = [f"note: {table.note}"] if table.note else []
    files = [out / name for name in ("figures.csv", "clusterers.csv")]
    lines += [
        f"all {len(table.metrics)} figures and differences: "
        + ", ".join(str(file) for file in files if file.is_file()),
        f"report: {evaluated.report}",
    ]
    minus_clusterer = evaluated.evaluation.minus_clusterer
    apart = difference_tables(table, {name: minus_clusterer[name] for name in names})
    first = replace(table, metrics=tuple(table.first_metrics))
    printed = [comparison_table(first), *apart, *lines]
    warnings = [*evaluated.html_warnings, *limits]
    if not table.measured:
        warnings.append(UNMEASURED)
    code = int(not table.measured)
    return Result(evaluated, evaluated.as_dict(), printed, warnings, code)
