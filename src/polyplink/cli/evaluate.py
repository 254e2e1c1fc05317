"""The verb `evaluate`: all tasks on a labelled part of a data set, with intervals and a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import TrackletRequest, option
from polyplink.cli.verb import UNMEASURED, Result, check_given, inform
from polyplink.core.artefacts import RunRecord, to_plain, write_json, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import CLUSTERERS, USUAL_CLUSTERERS
from polyplink.core.progress import Progress

if TYPE_CHECKING:
    import polars as pl

    from polyplink.encoders.encode import Encoded
    from polyplink.evaluate import Evaluation, EvaluationSettings
    from polyplink.evaluate.probing import Probed
    from polyplink.report import Comparison, Report

# Files of an evaluation that not every one writes; an earlier one's are removed.
SOMETIMES = (
    *("procedures.csv", "curve.csv"),
    *("queries.parquet", "curve.parquet", "assignment.parquet"),
)


@dataclass(frozen=True)
class EvaluateRequest(TrackletRequest):
    """What to evaluate, on which tasks, with which clusterers."""

    weights: Annotated[
        Sequence[Path] | Path,
        Argument(
            help="Weights files, or folders `polyplink train` wrote; compared with the first."
        ),
    ]
    data: options.Data
    out: options.Out = Path("evaluation")
    part: str = option("Part of the data set.", "eval")
    tasks: Sequence[str] = option(
        "retrieval, reid, counting, tracking (these by default), size, histology or all; "
        "may be repeated.",
        (),
        "--task",
    )
    clusterers: Sequence[str] = option(
        f"{', '.join(CLUSTERERS)}, all, or FILE.py:NAME of one of your own; may be repeated; "
        f"{', '.join(USUAL_CLUSTERERS)} by default.",
        (),
        "--clusterer",
    )
    grid: str = option("Settings searched for counting: paper or demo.", "paper")
    visual: Literal["l2", "raw_l2", "sigmoid"] = option(
        "Similarity that is clustered: of unit vectors, raw vectors, or the thesis's.", "l2"
    )
    time: Literal["normalised", "frames"] = option(
        "Unit of distances in time: the annotated span, or frames (the thesis's).", "normalised"
    )
    purpose: options.Purpose = "published"
    choose_on: str | None = option(
        "Part to choose settings on; by default on the other procedures."
    )
    without_own: bool = option(
        "Also retrieval without other polyps of the query's procedure.", False
    )
    curve_csv: bool = option("Also curve.csv: all figures of every setting.", False)
    metrics: Sequence[str] = option(
        "Also this metric of a plugin, or FILE.py:NAME of one of your own; may be repeated.",
        (),
        "--metric",
    )
    columns: Sequence[str] = option(
        "Figures of table.tex, of the first table of report.html and of the terminal, by name "
        "(mAP) or key; may be repeated.",
        (),
    )
    baselines: bool = option("Also an untrained encoder and a colour histogram.", True)
    device: options.Device = "auto"
    workers: options.Workers = 2

    @property
    def encoders(self) -> tuple[Path, ...]:
        """The weights to compare, with the first."""
        return (self.weights,) if isinstance(self.weights, Path) else tuple(self.weights)


@dataclass(frozen=True)
class Evaluated:
    """A finished evaluation; a notebook shows the figures, and time lines of the procedures.

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
        """What figures.csv holds: a row for each method and figure."""
        import polars as pl

        from polyplink.report.tables import figure_rows

        return pl.DataFrame(figure_rows(self.comparison), infer_schema_length=None)

    @property
    def procedures(self) -> "pl.DataFrame":
        """What procedures.csv holds: a row for each method and procedure."""
        from polyplink.report.evaluation_table import by_procedure

        return by_procedure(self.evaluation)

    def _repr_html_(self) -> str:
        from polyplink.report import render_fragment

        return render_fragment(self.page)

    def as_dict(self) -> dict[str, Any]:
        """What evaluation.json holds."""
        plain: dict[str, Any] = to_plain(self.evaluation)
        plain["probes"] = {
            task: {name: figure.as_dict() for name, figure in figures.items()}
            for task, figures in self.probed.items()
        }
        return plain


def evaluate(request: EvaluateRequest, progress: Progress = inform) -> Result[Evaluated]:
    """Evaluate all or selected tasks, with confidence intervals; writes tables and a report.

    The exit code is 1 if no figure could be measured.

    Args:
        request: Weights, data folder, tasks, and the output folder, which gets evaluation.json,
            figures.csv, table.tex, clusterers.csv (paired differences to the first),
            procedures.csv, queries.parquet (one row per query), curve.parquet (one per setting),
            assignment.parquet, trackeval (MOTChallenge files), report.html and run.json; files of
            tasks that were not requested are left out.
        progress: Called for crops, tracklets and methods.

    Raises:
        PolyplinkError: If procedures were seen in training, or what is asked for is not there.
    """
    settings, probes = _checked(request)
    folder, out, workers = request.data, request.out, request.workers
    record = RunRecord("evaluate", settings=_record_settings(request, settings, probes))
    record.claim(out)
    names, chosen_on = _procedures(request, probes)

    from polyplink.encoders.encode import encode
    from polyplink.encoders.load import baselines, load_several
    from polyplink.evaluate import evaluate_embeddings
    from polyplink.evaluate.probing import PROBES, probe_encoders
    from polyplink.evaluate.track_files import write_trackeval
    from polyplink.evaluate.truth import samples_of, tracklet_boxes
    from polyplink.report import comparison_table, write_report
    from polyplink.report.evaluation_table import comparison, notes, probe_notes, with_probes
    from polyplink.report.tables import difference_tables

    with record.stage("embed"):
        named_encoders = load_several(
            request.encoders, request.device, request.tracklet_options, folder
        )
        main_encoder = named_encoders[0]
        encoded = encode(
            [main_encoder], folder, [*chosen_on, *names], workers=workers, progress=progress
        )
        # Unknown polyps are refused before other encoders embed.
        samples = samples_of(encoded.prepared)
        encoders = [*named_encoders, *(baselines(main_encoder) if request.baselines else [])]
        encoded = encoded.add(encoders[1:], workers, progress)
    keys = {
        "weights" if encoder is main_encoder else encoder.name: encoder.key
        for encoder in named_encoders
    }
    record.inputs |= keys | {"crops": encoded.prepared.key}

    with record.stage("probe"):
        probed = {
            task: probe_encoders(
                PROBES[task], encoders, folder, request.part, workers=workers, progress=progress
            )
            for task in probes
        }
    with record.stage("evaluate"):
        evaluated_on = tuple(name for name in chosen_on if name in samples.procedures)
        PolyplinkError.unless(
            bool(evaluated_on) or not chosen_on,
            f"none of the {len(chosen_on)} procedures to choose settings on has a tracklet",
            "name another part with --choose-on",
        )
        settings = replace(settings, chosen_on=evaluated_on if settings.tasks else ())
        adenoma, missing = _adenoma(encoded)
        evaluation, tables = evaluate_embeddings(
            encoded.vectors,
            samples,
            settings,
            boxes=tracklet_boxes(encoded.prepared, samples),
            adenoma=adenoma,
        )
    missing = missing if "counting" in settings.tasks else ()
    remarks = (*notes(evaluation, settings), *missing, *probe_notes(probed))
    table = with_probes(comparison(evaluation, settings), probed).with_headline(request.columns)

    with record.stage("report"):
        page = _page(request, encoded, table, remarks, record.seconds)
        evaluated = Evaluated(out / "report.html", evaluation, page, remarks, probed)
        if "assignment" in tables and "tracking" in evaluation.tasks:
            write_trackeval(out / "trackeval", encoded.prepared, tables["assignment"], request.part)
    with record.results(out, SOMETIMES) as new:
        _write(request, new, evaluated, tables)
        write_report(new / evaluated.report.name, page)
    lines = (
        *([f"note: {table.note}"] if table.note else []),
        f"all {len(table.metrics)} figures, differences and notes: {out / 'figures.csv'}, "
        f"{out / 'clusterers.csv'}",
        f"report: {evaluated.report}",
    )
    clusterers = {
        encoder.name: evaluation.minus_clusterer[encoder.name] for encoder in named_encoders
    }
    apart = difference_tables(table, clusterers)
    first = replace(table, metrics=tuple(table.first_metrics))
    shown = [comparison_table(first), *apart, *lines]
    code = int(not table.measured)
    warnings = (*page.warnings, *(code * (UNMEASURED,)))
    return Result(evaluated, evaluated.as_dict(), shown, warnings, code=code)


def _page(
    request: EvaluateRequest,
    encoded: "Encoded",
    table: "Comparison",
    notes: tuple[str, ...],
    seconds: Mapping[str, float],
) -> "Report":
    """The report: the table, and time lines at the operating point stored in the weights."""
    from polyplink.associate import from_record
    from polyplink.counting import cover_of
    from polyplink.counting.labels import true_counts
    from polyplink.counting.link import coverage_of, link_all, link_messages
    from polyplink.data import box_source
    from polyplink.report.contents import build_report

    prepared, encoder = encoded.prepared, encoded.first
    assert encoder.record is not None
    point = from_record(encoder.record.operating)
    cover = cover_of(point, box_source(request.data, prepared.data, prepared.procedures))
    point = cover.applied(point)
    linked = link_all(prepared, encoded.embeddings[encoder.name], point)
    coverage = coverage_of(linked, true_counts(prepared.data, prepared.procedures, every=False))
    return build_report(
        "Evaluation",
        request.encoders[0],
        encoded,
        point,
        linked,
        seconds=seconds,
        comparison=table,
        notes=(*notes, *([] if coverage is None else [f"{coverage}."])),
        messages=[*cover.warnings(point), *link_messages(point, linked)],
        cover=cover,
    )


def _record_settings(
    request: EvaluateRequest, settings: "EvaluationSettings", probes: Sequence[str]
) -> dict[str, Any]:
    """What decides the figures, for run.json."""
    setting_names = ("weights", "part", "choose_on", "purpose", "grid", "visual", "time")
    return {
        "tasks": [*settings.tasks, *probes],
        "clusterers": settings.clusterers,
        "without_own": settings.without_own,
        "metrics": settings.metrics,
    } | {name: getattr(request, name) for name in setting_names}


def _procedures(request: EvaluateRequest, probes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Procedures to evaluate, and to choose settings on.

    Training data and missing labels are refused here, before crops are cut, which may take hours.
    """
    from polyplink.data import read_data
    from polyplink.encoders import read_record, weights_path
    from polyplink.encoders.leakage import guard
    from polyplink.evaluate.probing import check_labels

    data = read_data(request.data)
    for weights in request.encoders:
        guard(read_record(weights_path(weights)).seen, data, request.part)
    check_labels(probes, data, request.part)
    if request.choose_on is None:
        return data.part(request.part), []
    return data.disjoint_parts(
        request.part, request.choose_on, "choose settings on procedures that are not evaluated"
    )


def _checked(request: EvaluateRequest) -> "tuple[EvaluationSettings, list[str]]":
    """Settings of the evaluation, and the requested probes; nothing heavy is imported.

    Raises:
        PolyplinkError: If a part or file is unknown, and as `evaluation_settings`.
    """
    from polyplink.evaluate.settings import evaluation_settings

    for weights in request.encoders:
        check_given(weights)
    check_given(None, request.data, [request.part, request.choose_on], request.device)
    settings, probes = evaluation_settings(
        request.tasks,
        request.clusterers,
        grid=request.grid,
        visual=request.visual,
        time=request.time,
        purpose=request.purpose,
        without_own=request.without_own,
        threads=request.workers,
        metrics=request.metrics,
    )
    PolyplinkError.unless(
        not request.curve_csv or bool({"counting", "tracking"} & set(settings.tasks)),
        "--curve-csv is for counting and tracking, and neither is among the tasks",
        "add --task counting, or leave --curve-csv out",
    )
    return settings, probes


def _adenoma(encoded: "Encoded") -> tuple[list[bool | None] | None, tuple[str, ...]]:
    """Whether each tracklet's polyp is an adenoma, and what is to be said about it."""
    data = encoded.prepared.data
    try:
        labels = data.adenoma_labels()
    except PolyplinkError as error:  # the other figures of counting need no histology
        return None, (f"No adenoma detection rate: {error}.",)
    by_polyp = dict(zip(data.polyps["polyp_id"], labels, strict=True))
    kinds = [by_polyp.get(polyp) for polyp in encoded.table["polyp_id"]]
    return [None if kind is None else bool(kind) for kind in kinds], ()


def _write(
    request: EvaluateRequest, out: Path, evaluated: Evaluated, tables: "Mapping[str, pl.DataFrame]"
) -> None:
    """Write every file except the report."""
    from polyplink.data import csv_text, write_table
    from polyplink.report import write_csv
    from polyplink.report.latex import comparison_latex
    from polyplink.report.tables import write_clusterers

    write_json(out / "evaluation.json", evaluated.as_dict())
    write_text(out / "table.tex", comparison_latex(evaluated.comparison))
    write_csv(out / "figures.csv", evaluated.comparison)
    write_clusterers(out / "clusterers.csv", evaluated.evaluation.minus_clusterer)
    if evaluated.procedures.width:
        write_text(out / "procedures.csv", csv_text(evaluated.procedures))
    for name, table in tables.items():
        write_table(out / f"{name}.parquet", table)
    if request.curve_csv and "curve" in tables:
        write_text(out / "curve.csv", csv_text(tables["curve"]))
