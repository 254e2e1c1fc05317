"""All tasks on a labelled part of a data set, beside methods that learned nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink.artefacts import RunRecord, to_plain, write_json, write_text
from polyplink.associate import CLUSTERERS, Grid, demo_grid, paper_grid
from polyplink.data import DataSet, adenoma_labels, read_data, write_table
from polyplink.encoders import Embeddings, Seen, pick_device, read_record, weights_path
from polyplink.errors import PolyplinkError, find_named
from polyplink.evaluate import (
    TASKS,
    Evaluation,
    EvaluationSettings,
    EvaluationTables,
    Facts,
    Samples,
    TrackletBoxes,
    evaluate_with_tables,
)
from polyplink.jobs.comparison import by_procedure, comparison, notes
from polyplink.jobs.embedding import Embedded, baselines, embed_data, kept
from polyplink.jobs.leakage import meetings
from polyplink.jobs.operating import from_record
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
GRIDS: Mapping[str, Callable[[], Grid]] = {"paper": paper_grid, "demo": demo_grid}


@dataclass(frozen=True)
class Evaluated:
    """A finished evaluation.

    Attributes:
        report: The report's file.
        evaluation: All figures.
        comparison: The table of methods by figures.
        notes: What a reader of the table must know.
    """

    report: Path
    evaluation: Evaluation
    comparison: Comparison
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values: what is in evaluation.json."""
        plain: dict[str, Any] = to_plain(self.evaluation)
        return plain


def find_grid(name: str) -> Grid:
    """A grid of settings by name.

    Raises:
        PolyplinkError: If there is none.
    """
    return find_named("grid", name, GRIDS)()


def guard(seen: Seen, data: DataSet, part: str) -> None:
    """Refuse to evaluate on procedures that an encoder has seen.

    Raises:
        PolyplinkError: Naming them.
    """
    met = meetings(seen, data, data.part(part))
    if met:
        raise PolyplinkError(
            f"the encoder was trained or validated on {len(met)} of these procedures, or saw "
            f"their patients: {', '.join(f'{name} ({why})' for name, why in met[:5])}",
            "evaluate on another --part",
        )


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
        labels = adenoma_labels(prepared.data)
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
        find_named("task", task, dict.fromkeys(TASKS))
    for clusterer in clusterers:
        find_named("clusterer", clusterer, dict.fromkeys(CLUSTERERS))
    PolyplinkError.unless(bool(tasks), "no task", f"name some of: {', '.join(TASKS)}")
    PolyplinkError.unless(
        bool(clusterers), "no clusterer", f"name some of: {', '.join(CLUSTERERS)}"
    )
    return EvaluationSettings(
        grid=find_grid(grid),
        threads=threads,
        tasks=tuple(dict.fromkeys(tasks)),
        clusterers=tuple(dict.fromkeys(clusterers)),
        without_own=without_own,
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


def _vectors(
    done: Embedded, with_baselines: bool, device: str, progress: Progress
) -> dict[str, np.ndarray]:
    """Vectors by the method's name, ours first."""
    ours = str(done.loaded.record.recipe.get("name", "trained"))
    vectors = {ours: aligned(done.embeddings, done.prepared)}
    if with_baselines:
        where = pick_device(device)
        for name, (own_id, embedder) in baselines(done.loaded, where).items():
            found, _ = kept(done.prepared, embedder, own_id, where, progress)
            vectors[name] = aligned(found, done.prepared)
    return vectors


def _write(out: Path, evaluation: Evaluation, table: Comparison, tables: EvaluationTables) -> None:
    write_json(out / "evaluation.json", evaluation)
    write_csv(out / "figures.csv", table)
    write_text(out / "procedures.csv", by_procedure(evaluation).write_csv())
    for name in ("queries", "curve", "assignment"):
        found: pl.DataFrame = getattr(tables, name)
        if found.width:
            write_table(out / f"{name}.parquet", found)


def _record(settings: EvaluationSettings, **asked: object) -> RunRecord:
    """A record of what was asked for."""
    names = ("tasks", "clusterers", "without_own")
    return RunRecord("evaluate", settings={n: getattr(settings, n) for n in names} | asked)


def _write_page(
    out: Path,
    weights: Path,
    done: Embedded,
    *,
    seconds: Mapping[str, float],
    table: Comparison,
    said: tuple[str, ...],
) -> None:
    operating = from_record(done.loaded.record.operating)
    page = report_on(
        "Evaluation",
        weights,
        done,
        operating,
        link_all(done, operating),
        seconds=seconds,
        comparison=table,
        notes=(*said, _TWO_CHOICES),
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
    with_baselines: bool = True,
    device: str = "auto",
    workers: int = 2,
    progress: Progress = silent,
) -> Evaluated:
    """Retrieval, re-identification, counting and tracking, with intervals over procedures.

    Writes evaluation.json, figures.csv, procedures.csv, queries.parquet (one row per query),
    curve.parquet (one per setting), assignment.parquet, trackeval (MOTChallenge files),
    report.html and run.json; those of tasks that were not asked for are left out.

    Args:
        weights: Weights file, or the folder of a training run.
        folder: The data folder.
        out: Folder to write.
        part: Part of the data set; its polyps must be known.
        grid: Settings searched for counting: "paper" or "demo".
        tasks: Some of retrieval, reid, counting, tracking.
        clusterers: Some of `CLUSTERERS`, to count and track with.
        choose_on: Part to choose the clusterers' settings on; None: each procedure's setting is
            chosen on the others of `part`.
        without_own: Also retrieval without the other polyps of the query's own procedure.
        with_baselines: Also an untrained encoder and a colour histogram.
        device: Where to embed.
        workers: Threads that cut crops and search settings.
        progress: Told of crops, tracklets and methods.

    Raises:
        PolyplinkError: If the encoder has seen these procedures, polyps are unknown, or weights,
            data folder or an image is at fault.
    """
    settings = _settings(grid, tasks, clusterers, without_own, workers)
    record = _record(settings, weights=weights, part=part, choose_on=choose_on, grid=grid)
    record.claim(out)
    # Before anything is cut or embedded, which may take a night.
    data = read_data(folder)
    guard(read_record(weights_path(weights)).seen, data, part)
    names, chosen_on = _both_parts(data, part, choose_on)
    with record.stage("embed"):
        done = embed_data(
            weights, folder, part=names, device=device, workers=workers, progress=progress
        )
        samples = samples_of(done.prepared)
        vectors = _vectors(done, with_baselines, device, progress)
    record.inputs |= {"weights": done.loaded.weights_id, "crops": done.prepared.key}
    with record.stage("evaluate"):
        facts, missing = facts_of(done.prepared, samples)
        settings = replace(settings, chosen_on=_with_tracklets(chosen_on, samples))
        evaluation, tables = evaluate_with_tables(vectors, samples, settings, facts=facts)
    table, said = comparison(evaluation), (*notes(evaluation), *missing)
    with record.stage("report"):
        _write(out, evaluation, table, tables)
        if "tracking" in settings.tasks:
            write_trackeval(out / "trackeval", done.prepared, tables.assignment, part)
        _write_page(out, weights, done, seconds=record.seconds, table=table, said=said)
    record.write(out)
    return Evaluated(out / "report.html", evaluation, table, said)
