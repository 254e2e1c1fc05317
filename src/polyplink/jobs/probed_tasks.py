"""Size and histology as tasks of an evaluation: several methods probed on the same polyps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.encoders import Embedder
from polyplink.evaluate import no_different
from polyplink.jobs.probing import PROBES, ProbeChoice, Probed, ProbeTask, probe_embedder, sides
from polyplink.jobs.progress import Progress, silent
from polyplink.report import Comparison, Method, Metric
from polyplink.report.tables import PROBE_MEANINGS
from polyplink.tracklets import PrepareSettings

ProbedTasks = Mapping[str, Mapping[str, Probed]]  # by task, by method, the reference first


@dataclass(frozen=True)
class ProbedMethod:
    """What is probed.

    Attributes:
        key: Names its weights and the kind of device.
        embedder: Turns packed crops into vectors.
    """

    key: str
    embedder: Embedder


@dataclass(frozen=True)
class ProbesAsked:
    """Which probes, and of what.

    Attributes:
        tasks: Some of `PROBES`.
        folder: The data folder.
        how: Crops and sampling.
        part: Part of the data set; divided 70 to 30 by patient.
    """

    tasks: tuple[str, ...]
    folder: Path
    how: PrepareSettings
    part: str


def check_labels(tasks: Sequence[str], data: DataSet, part: str) -> None:
    """Refuse a probe that cannot be had, before anything is cut or embedded.

    Args:
        tasks: Some of `PROBES`.
        data: The data set.
        part: Its part that is evaluated.

    Raises:
        PolyplinkError: Naming the column that is empty, or the side that has one class alone.
    """
    for task in map(PROBES.__getitem__, tasks):
        labels = task.labels(data)
        _check_part(task, labels, data.part(part), part)
        for side, names in zip(("train", "test"), sides(data, labels, part, 0), strict=True):
            found = labels.filter(pl.col("procedure_id").is_in(names))["label"]
            PolyplinkError.unless(
                found.n_unique() == 2,
                f"{task.name}: the {len(found)} polyps of part {part!r} to {side} the probe on are "
                "not of both classes",
                f"give a part with more polyps whose {task.column} is known, or leave "
                f"{task.name} out",
            )


def _check_part(task: ProbeTask, labels: pl.DataFrame, names: Sequence[str], part: str) -> None:
    PolyplinkError.unless(
        bool(labels["procedure_id"].is_in(list(names)).any()),
        f"table polyps: column {task.column} is empty in the part {part!r}, and the "
        f"{task.name} task needs it",
        "name another --part, or leave the task out",
    )


def probe_methods(
    asked: ProbesAsked,
    methods: Mapping[str, ProbedMethod],
    *,
    workers: int = 2,
    progress: Progress = silent,
) -> ProbedTasks:
    """Probe every method for every task, as the paper does, on the same division of polyps.

    Args:
        asked: Tasks, and what they are asked of.
        methods: By name, the reference first.
        workers: Threads that cut crops.
        progress: Told of fragments and seeds.

    Raises:
        PolyplinkError: If labels are missing, or a side has no fragment or one class alone.
    """
    return {
        task: {
            name: probe_embedder(
                PROBES[task],
                asked.folder,
                asked.how,
                method.embedder,
                method.key,
                choice=ProbeChoice(asked.part),
                workers=workers,
                progress=progress,
            )
            for name, method in methods.items()
        }
        for task in asked.tasks
    }


def with_probes(table: Comparison, probed: ProbedTasks) -> Comparison:
    """The table of methods with the figures of probes as further columns.

    Args:
        table: All methods.
        probed: What `probe_methods` found, of the same methods.
    """
    metrics = [metric for task in probed for metric in _metrics(task)]
    bold = {}
    for task, found in probed.items():
        by_figure = {name: one.result.measures for name, one in found.items()}
        for key in PROBE_MEANINGS:
            own = {name: measures[key] for name, measures in by_figure.items()}
            bold[f"{task}/{key}"] = no_different(key, own)
    return replace(
        table,
        metrics=(*table.metrics, *metrics),
        methods=tuple(
            _with_figures(method, table.methods[0].name, probed) for method in table.methods
        ),
        bold={**table.bold, **bold} if len(table.methods) > 1 else table.bold,
    )


def _metrics(task: str) -> list[Metric]:
    group = f"{task.capitalize()}, probe: {PROBES[task].positive}"
    named = {name: f"{says}; mean over seeds" for name, says in PROBE_MEANINGS.items()}
    named[PROBES[task].figure] += "; the paper's figure"
    return [Metric(f"{task}/{k}", k, group, 1.0, says, "polyps") for k, says in named.items()]


def _with_figures(method: Method, reference: str, probed: ProbedTasks) -> Method:
    figures, differences = dict(method.figures), dict(method.differences)
    for task, found in probed.items():
        own, base = found[method.name].result, found[reference].result
        for key in PROBE_MEANINGS:
            figures[f"{task}/{key}"] = own.figures[key]
            if method.name != reference:
                gap = own.measures[key].minus(base.measures[key])
                differences[f"{task}/{key}"] = gap
    return replace(method, figures=figures, differences=differences)


def probe_notes(probed: ProbedTasks) -> tuple[str, ...]:
    """What a reader of the probes' figures must know, one sentence per task."""
    said = []
    for task, found in probed.items():
        one = next(iter(found.values()))
        said.append(
            f"{task.capitalize()}: probes trained on {sum(one.trained_polyps)} polyps and tested "
            f"on {sum(one.result.polyps)} of other patients, {one.result.polyps[1]} of them "
            f"{PROBES[task].positive}; {one.left_out} labelled polyps without a whole fragment "
            "left out; the independent units are the test polyps."
        )
    return tuple(said)
