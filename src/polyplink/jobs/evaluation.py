"""All tasks on a labelled part of a data set, beside methods that learned nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink.associate import CLUSTERERS, Grid, demo_grid, paper_grid
from polyplink.core.artefacts import RunRecord, to_plain, write_json, write_text
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.data import DataSet, read_data, write_table
from polyplink.encoders import Embeddings, NetworkEmbedder, pick_device, read_record, weights_path
from polyplink.evaluate import (
    TASKS,
    Evaluation,
    EvaluationSettings,
    EvaluationTables,
    Facts,
    Samples,
    TrackletBoxes,
    evaluate_with_tables,
    nothing_evaluated,
)
from polyplink.jobs.comparison import by_procedure, comparison, notes
from polyplink.jobs.embedding import Embedded, baselines, embed_data, kept
from polyplink.jobs.leakage import guard
from polyplink.jobs.operating import from_record
from polyplink.jobs.probed_tasks import (
    ProbedMethod,
    ProbedTasks,
    ProbesAsked,
    check_labels,
    probe_methods,
    probe_notes,
    with_probes,
)
from polyplink.jobs.probing import PROBES
from polyplink.jobs.progress import Progress, silent
from polyplink.jobs.reporting import link_all, report_on
from polyplink.jobs.track_files import write_trackeval
from polyplink.report import Comparison, write_csv, write_report
from polyplink.tracklets import Prepared

_TWO_CHOICES = (
    "The table chooses each procedure's setting on the others; the time lines below are at the "
    "operating point that travels with the weights."
)
DEFAULT_CLUSTERERS = ("temporal_ap", "threshold")
ALL_TASKS = (*TASKS, *PROBES)
GRIDS: Mapping[str, Callable[[], Grid]] = {"paper": paper_grid, "demo": demo_grid}


@dataclass(frozen=True)
class Evaluated:
    """A finished evaluation.

    Attributes:
        report: The report's file.
        evaluation: All figures but those of probes.
        comparison: The table of methods by figures.
        notes: What a reader of the table must know.
        probed: Size and histology, where they were asked for.
    """

    report: Path
    evaluation: Evaluation
    comparison: Comparison
    notes: tuple[str, ...]
    probed: ProbedTasks = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values: what is in evaluation.json."""
        plain: dict[str, Any] = to_plain(self.evaluation)
        plain["probes"] = {
            task: {name: one.as_dict() for name, one in found.items()}
            for task, found in self.probed.items()
        }
        return plain


def find_grid(name: str) -> Grid:
    """A grid of settings by name.

    Raises:
        PolyplinkError: If there is none.
    """
    return find_named("grid", name, GRIDS)()


def samples_of(prepared: Prepared) -> Samples:
    """The tracklets as the tasks see them.

    Raises:
        PolyplinkError: If there is no tracklet, or no polyp is known.
    """
    table = prepared.tracklets
    if table.is_empty():
        raise PolyplinkError(
            f"no tracklet of {prepared.settings.min_length} frames or more to evaluate on",
            "name a --part with longer tracklets",
        )
    if table["polyp_id"].is_null().all():
        raise PolyplinkError(
            "table detections: column polyp_id is empty, and evaluation needs true polyps",
            "give labelled procedures, or use `polyplink count`",
        )
    return Samples.of(
        table["tracklet_id"].to_list(),
        table["procedure_id"].to_list(),
        table["polyp_id"].to_list(),
        table["position"].to_numpy(),
    )


def facts_of(prepared: Prepared, samples: Samples) -> tuple[Facts, tuple[str, ...]]:
    """Boxes and histology of the samples, and what is to be said about them."""
    table = prepared.tracklets
    sizes = table["n"].to_numpy().astype(np.int64)
    offset = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.repeat(table["offset"].to_numpy() - offset[:-1], sizes) + np.arange(offset[-1])
    found = prepared.detections.select("frame", "x", "y", "w", "h")[rows]
    boxes = TrackletBoxes(
        samples.polyp,
        offset,
        found["frame"].to_numpy().astype(np.int64),
        found.select("x", "y", "w", "h").to_numpy().astype(np.float64),
    )
    try:
        labels = prepared.data.adenoma_labels()
    except PolyplinkError as error:  # counting does without
        return Facts(boxes), (f"No adenoma detection rate: {error}.",)
    by_polyp = dict(zip(prepared.data.polyps["polyp_id"], labels, strict=True))
    kinds = [by_polyp.get(polyp) for polyp in table["polyp_id"]]
    return Facts(boxes, [None if kind is None else bool(kind) for kind in kinds]), ()


def _settings(
    grid: str, tasks: Sequence[str], clusterers: Sequence[str], without_own: bool, threads: int
) -> EvaluationSettings:
    """Check what was asked for by name.

    Raises:
        PolyplinkError: If a grid, task or clusterer is unknown, or none is named.
    """
    for task in tasks:
        find_named("task", task, dict.fromkeys(ALL_TASKS))
    for clusterer in clusterers:
        find_named("clusterer", clusterer, dict.fromkeys(CLUSTERERS))
    PolyplinkError.unless(bool(tasks), "no task", f"name some of: {', '.join(ALL_TASKS)}")
    PolyplinkError.unless(
        bool(clusterers), "no clusterer", f"name some of: {', '.join(CLUSTERERS)}"
    )
    return EvaluationSettings(
        grid=find_grid(grid),
        threads=threads,
        tasks=tuple(task for task in TASKS if task in tasks),
        clusterers=tuple(dict.fromkeys(clusterers)),
        without_own=without_own,
    )


def _check_curve(curve_csv: bool, settings: EvaluationSettings) -> None:
    PolyplinkError.unless(
        not curve_csv or bool({"counting", "tracking"} & set(settings.tasks)),
        "--curve-csv is for counting and tracking, and neither is among the tasks",
        "add --task counting, or leave --curve-csv out",
    )


def _both_parts(
    data: DataSet, part: str, choose_on: str | None
) -> tuple[list[str], tuple[str, ...]]:
    """Procedures to embed, and those of them to choose settings on.

    Raises:
        PolyplinkError: If a part is unknown, or the two overlap.
    """
    own = data.part(part)
    if choose_on is None:
        return own, ()
    other = data.part(choose_on)
    both = [name for name in other if name in own]
    PolyplinkError.unless(
        not both,
        f"procedure {both[:1]} is in {part!r} and in {choose_on!r}",
        "choose settings on procedures that are not evaluated",
    )
    return [*other, *own], tuple(other)


def _with_tracklets(chosen_on: tuple[str, ...], samples: Samples) -> tuple[str, ...]:
    """Those procedures to choose on that have a tracklet.

    Raises:
        PolyplinkError: If none of them has.
    """
    there = tuple(name for name in chosen_on if name in samples.procedures)
    PolyplinkError.unless(
        bool(there) or not chosen_on,
        f"none of the {len(chosen_on)} procedures to choose settings on has a tracklet",
        "choose on another part",
    )
    return there


def aligned(embeddings: Embeddings, prepared: Prepared) -> np.ndarray:
    """The vectors (n, d), if they are those of these tracklets, in their order.

    Raises:
        PolyplinkError: If they come from other crops, or belong to other tracklets.
    """
    PolyplinkError.unless(
        embeddings.crops_id == prepared.key,
        f"vectors of crops {embeddings.crops_id} for crops {prepared.key}",
        "embed the data set again",
    )
    ids = prepared.tracklets["tracklet_id"].to_list()
    PolyplinkError.unless(
        list(embeddings.tracklet_ids) == ids,
        f"vectors of {len(embeddings.tracklet_ids)} tracklets are not those of the {len(ids)} "
        "to evaluate",
        f"remove {prepared.folder / 'embeddings'}",
    )
    return embeddings.vectors


def _methods(done: Embedded, with_baselines: bool, device: str) -> dict[str, ProbedMethod]:
    """By name, ours first: what turns crops into vectors, and the key of these."""
    where = pick_device(device)
    ours = str(done.loaded.record.recipe.get("name", "trained"))
    methods = {ours: ProbedMethod(done.loaded.weights_id, NetworkEmbedder(done.loaded.encoder))}
    if with_baselines:
        for name, (own_id, embedder) in baselines(done.loaded, where).items():
            methods[name] = ProbedMethod(own_id, embedder)
    return methods


def _vectors(
    done: Embedded, methods: Mapping[str, ProbedMethod], device: str, progress: Progress
) -> dict[str, np.ndarray]:
    """Vectors of tracklets by the method's name, ours first."""
    where, vectors = pick_device(device), {}
    for name, method in methods.items():
        found, _ = kept(done.prepared, method.embedder, method.key, where, progress)
        vectors[name] = aligned(found, done.prepared)
    return vectors


def _all_tasks(
    vectors: Mapping[str, np.ndarray],
    prepared: Prepared,
    settings: EvaluationSettings,
    chosen_on: tuple[str, ...],
) -> tuple[Evaluation, EvaluationTables, tuple[str, ...]]:
    """Figures and tables of all tasks but the probes, and what is to be said beside them."""
    samples = samples_of(prepared)
    if not settings.tasks:
        nothing = EvaluationTables(*(pl.DataFrame() for _ in range(3)))
        return nothing_evaluated(list(vectors), samples), nothing, ()
    facts, missing = facts_of(prepared, samples)
    settings = replace(settings, chosen_on=_with_tracklets(chosen_on, samples))
    evaluation, tables = evaluate_with_tables(vectors, samples, settings, facts=facts)
    return evaluation, tables, missing if "counting" in settings.tasks else ()


def _gathered(
    out: Path, evaluation: Evaluation, missing: tuple[str, ...], probed: ProbedTasks
) -> Evaluated:
    said = (*notes(evaluation), *missing, *probe_notes(probed))
    table = with_probes(comparison(evaluation), probed)
    return Evaluated(out / "report.html", evaluation, table, said, probed)


def _on(methods: Mapping[str, ProbedMethod], device: str) -> dict[str, ProbedMethod]:
    """The same, keyed by the kind of device too, whose last digits differ."""
    kind = pick_device(device).type
    return {name: replace(one, key=f"{one.key}-{kind}") for name, one in methods.items()}


def _write(out: Path, found: Evaluated, tables: EvaluationTables, curve_csv: bool) -> None:
    write_json(out / "evaluation.json", found.as_dict())
    write_csv(out / "figures.csv", found.comparison)
    by_name = by_procedure(found.evaluation)
    if by_name.width:
        write_text(out / "procedures.csv", by_name.write_csv())
    for name in ("queries", "curve", "assignment"):
        table: pl.DataFrame = getattr(tables, name)
        if table.width:
            write_table(out / f"{name}.parquet", table)
    if curve_csv and tables.curve.width:
        write_text(out / "curve.csv", tables.curve.write_csv())


def _record(settings: EvaluationSettings, probes: Sequence[str], **asked: object) -> RunRecord:
    """A record of what was asked for."""
    own = {name: getattr(settings, name) for name in ("clusterers", "without_own")}
    return RunRecord("evaluate", settings={"tasks": [*settings.tasks, *probes], **own, **asked})


def _checked(weights: Path, folder: Path, part: str, probes: Sequence[str]) -> DataSet:
    """The data set, once it is known that nothing forbids to evaluate on it.

    All of it is told before anything is cut or embedded, which may take a night.
    """
    data = read_data(folder)
    guard(read_record(weights_path(weights)).seen, data, part)
    check_labels(probes, data, part)
    return data


def _write_page(
    out: Path,
    weights: Path,
    done: Embedded,
    *,
    seconds: Mapping[str, float],
    found: Evaluated,
) -> None:
    operating = from_record(done.loaded.record.operating)
    page = report_on(
        "Evaluation",
        weights,
        done,
        operating,
        link_all(done, operating),
        seconds=seconds,
        comparison=found.comparison,
        notes=(*found.notes, _TWO_CHOICES),
    )
    write_report(out / "report.html", page)


def evaluate(
    weights: Path,
    folder: Path,
    out: Path,
    *,
    part: str = "eval",
    grid: str = "paper",
    tasks: Sequence[str] = TASKS,
    clusterers: Sequence[str] = DEFAULT_CLUSTERERS,
    choose_on: str | None = None,
    without_own: bool = False,
    curve_csv: bool = False,
    with_baselines: bool = True,
    device: str = "auto",
    workers: int = 2,
    progress: Progress = silent,
) -> Evaluated:
    """Retrieval, re-identification, counting, tracking, size and histology, with intervals.

    Writes evaluation.json, figures.csv, procedures.csv, queries.parquet (one row per query),
    curve.parquet (one per setting), assignment.parquet, trackeval (MOTChallenge files),
    report.html and run.json; those of tasks that were not asked for are left out.

    Args:
        weights: Weights file, or the folder of a training run.
        folder: The data folder.
        out: Folder to write.
        part: Part of the data set; its polyps must be known.
        grid: Settings searched for counting: "paper" or "demo".
        tasks: Some of `ALL_TASKS`; all but the probes (size, histology) if left.
        clusterers: Some of `CLUSTERERS`, to count and track with.
        choose_on: Part to choose settings on; None: each procedure's on the others of `part`.
        without_own: Also retrieval without the other polyps of the query's own procedure.
        curve_csv: Also curve.csv, with what curve.parquet holds.
        with_baselines: Also an untrained encoder and a colour histogram.
        device: Where to embed.
        workers: Threads that cut crops and search settings.
        progress: Told of crops, tracklets and methods.

    Raises:
        PolyplinkError: If procedures were seen in training, or what is asked is not there.
    """
    settings = _settings(grid, tasks, clusterers, without_own, workers)
    _check_curve(curve_csv, settings)
    probes = [task for task in PROBES if task in tasks]
    record = _record(settings, probes, weights=weights, part=part, choose_on=choose_on, grid=grid)
    record.claim(out)
    data = _checked(weights, folder, part, probes)
    names, chosen_on = _both_parts(data, part, choose_on)
    with record.stage("embed"):
        done = embed_data(
            weights, folder, part=names, device=device, workers=workers, progress=progress
        )
        samples_of(done.prepared)  # told before the baselines are embedded
        methods = _methods(done, with_baselines, device)
        vectors = _vectors(done, methods, device, progress)
    record.inputs |= {"weights": done.loaded.weights_id, "crops": done.prepared.key}
    with record.stage("probe"):
        asked = ProbesAsked(tuple(probes), folder, done.loaded.record.prepare, part)
        probed = probe_methods(asked, _on(methods, device), workers=workers, progress=progress)
    with record.stage("evaluate"):
        evaluation, tables, missing = _all_tasks(vectors, done.prepared, settings, chosen_on)
    found = _gathered(out, evaluation, missing, probed)
    with record.stage("report"):
        _write(out, found, tables, curve_csv)
        if tables.assignment.width and "tracking" in settings.tasks:
            write_trackeval(out / "trackeval", done.prepared, tables.assignment, part)
        _write_page(out, weights, done, seconds=record.seconds, found=found)
    record.write(out)
    return found
