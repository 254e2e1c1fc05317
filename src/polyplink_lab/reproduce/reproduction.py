"""Reproduce a published table: measure the figures of each encoder, cell by cell."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from shutil import disk_usage
from typing import Any

from polyplink.associate.grid_search import find_grid
from polyplink.associate.similarity import VisualForm
from polyplink.core.artefacts import file_key, file_state, read_json, to_plain, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result
from polyplink.core.runs import RunRecord
from polyplink.core.text import many
from polyplink.data.tables import DataSet, read_data
from polyplink.data.vocabulary import is_simulated
from polyplink.encoders.load import NamedEncoder
from polyplink.encoders.weights import weights_path
from polyplink.evaluate.evaluation import EvaluationSettings, TimeUnit
from polyplink.evaluate.intervals import Figure
from polyplink.evaluate.probe_tasks import PROBES, divide, probe_encoders
from polyplink.recipes.paper_cost import cost_of
from polyplink_lab.reproduce.crop_variants import Measured, Variant, compare_variants
from polyplink_lab.reproduce.encoders_under_test import (
    EncoderUnderTest,
    Workspace,
    find_encoder,
    guard_training,
    what_is_missing,
)
from polyplink_lab.reproduce.published_tables import (
    Cell,
    PublishedTable,
    extended_cells,
    task_of,
)
from polyplink_lab.reproduce.reproduced_table import (
    ReproducedCell,
    ReproducedTable,
    best_cells,
    lines_below,
    reproduced_table,
    write_reproduced,
)
from polyplink_lab.reproduce.reproduction_plan import (
    BASIS,
    Planner,
    Step,
    gigabytes,
    hours,
    steps_table,
)

UNASKED = "left out by --only"
PROBED = ("size", "histology")
PARAMETERS, MACS = "cost/parameters", "cost/macs"
SCALE = {"%": 100.0, "1": 1.0, "M": 1e-6, "G": 1e-9}  # factors from our figures to the unit
# Parts by the first word of a measure, used in place of rc19. The thesis does not publish its
# division of rc19 into validation and test, so TPC's public division is used.
TASK_PARTS = {"size": "rsp", "histology": "rspp", "val": "tpc-val", "test": "tpc-test"}


@dataclass(frozen=True)
class ReproductionSettings:
    """How tables are reproduced.

    Attributes:
        workspace: The data, and the sources of encoders.
        part: Part to measure on; None for rc19 if its procedures are present, else eval.
        only: Encoders or methods; all if empty.
        columns: Columns; all if empty.
        anyway: Whether differences are shown even if figures are not comparable.
        grid: Settings searched: paper or demo.
        time: Unit of distances in time: the annotated span, or frames (thesis, 2.3).
        seeds: Training runs of each probe.
        splits: Name of a probe -> file that divides its polyps.
    """

    workspace: Workspace
    part: str | None = None
    only: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    anyway: bool = False
    grid: str = "paper"
    time: TimeUnit = "normalised"
    seeds: int = 3
    splits: Mapping[str, Path] = field(default_factory=dict)


def plan(settings: ReproductionSettings, tables: Sequence[PublishedTable]) -> Result[list[Step]]:
    """The steps to reproduce tables, without computing them; errors are those of `reproduce`."""
    workspace = settings.workspace
    data = workspace.tables
    part = find_part(data, settings.part)
    check_polyps(data, part, tables[0].name)
    probe_parts = {task: task_part(task, data, part) for task in PROBED}
    planner = Planner(workspace, part, probe_parts, settings.grid, settings.splits)
    steps = planner.plan(tables, settings.only)

    def cost_of(state: str) -> str:
        of_state = [step for step in steps if step.state == state]
        memory = gigabytes(max((step.memory for step in of_state), default=0))
        return (
            f"about {hours(sum(step.seconds for step in of_state))} on {planner.device}, "
            f"{memory or 'no'} memory at most, "
            f"{gigabytes(sum(step.disk for step in of_state)) or 'nothing'} to write"
        )

    count = Counter(step.state for step in steps)
    free = gigabytes(disk_usage(workspace.data).free)
    total = [
        f"{count['to do']} steps to do, {count['done']} done, {count['missing']} missing; "
        f"{cost_of('to do')} ({free} free)"
    ]
    if count["refused"]:
        total.append(f"{many(count['refused'], 'encoder')} will be refused")
    if count["waits"]:
        total.append(f"{count['waits']} wait for missing files: {cost_of('waits')}")
    return Result(steps, printed=[steps_table(steps), *total, BASIS])


def divided_by(values: Sequence[str], data: Path) -> dict[str, Path]:
    """Name of a probe -> file that divides its polyps.

    Args:
        values: FILE for all probes, or TASK=FILE.
        data: The data folder; files that do not divide its polyps into two sides are refused.

    Raises:
        PolyplinkError: If a file does not divide the polyps.
    """
    files: dict[str, Path] = {}
    for value in values:
        task, equals, file = value.partition("=")
        names_task = equals and task in PROBED
        files |= {task: Path(file)} if names_task else dict.fromkeys(PROBED, Path(value))
    for task, path in files.items():
        divide(PROBES[task], read_data(data), "", split=path)
    return files


def task_part(task: str, data: DataSet, part: str) -> str:
    """The part for a task: that of `TASK_PARTS` if `part` is rc19, else `part`.

    Simulated probes use `part`, because their other data sets are not simulated.
    """
    if part != "rc19" or (task in PROBED and has_simulated(data)):
        return part
    return TASK_PARTS.get(task, part)


def _record_settings(settings: ReproductionSettings, table: PublishedTable) -> dict[str, Any]:
    """All settings that determine the figures of a table, for its run.json."""
    measured = [name for name in table.subjects if not settings.only or name in settings.only]
    names = ("part", "grid", "time", "anyway", "seeds", "only", "columns")
    choices = {name: getattr(settings, name) for name in names}
    splits = {task: [path, file_key(path)] for task, path in settings.splits.items()}
    with_splits = {"splits": splits} if splits else {}
    return {
        "table": table.name,
        "workspace": settings.workspace,
        "choices": choices,
        "encoders": {name: _encoder_state(name, settings.workspace) for name in measured},
        **with_splits,
    }


def _encoder_state(name: str, workspace: Workspace) -> str:
    """What determines an encoder: "missing", the SHA-256 of its weights, or "" for its recipe."""
    try:
        if what_is_missing(name, workspace):
            return "missing"
    except PolyplinkError:  # a field of --set that its recipe does not have
        return "missing"
    if workspace.stand_in and name not in workspace.weights:
        return ""
    try:
        path = weights_path(workspace.weights.get(name, Path(name)))
    except PolyplinkError:
        return ""
    return _content(path, *file_state(path))


@cache
def _content(path: Path, *state: int) -> str:
    """SHA-256 of a file, which is read again only if its size or time of change differs."""
    return file_key(path)


def earlier_summary(
    settings: ReproductionSettings, table: PublishedTable, out: Path
) -> dict[str, int] | None:
    """The summary of a table that was written with these settings, data and encoders.

    None if there is no such table, or if a cell failed, for example because images were not there:
    a cell that was neither left out nor waits for a missing encoder.
    """
    try:
        run, written = (read_json(out / f"{name}.json") for name in ("run", "table"))
    except PolyplinkError:
        return None
    unchanged = run["settings"] == to_plain(_record_settings(settings, table))
    if not unchanged or run["inputs"].get("data") != settings.workspace.tables.key:
        return None
    states = run["settings"]["encoders"]
    ours = [cell["ours"] for cell in written["cells"]]
    subjects = [cell.subject for cell in extended_cells(table, settings.columns)]
    failed = (
        figure["value"] is None and figure["why"] != UNASKED and states[subject] != "missing"
        for subject, figure in zip(subjects, ours, strict=False)
    )
    if len(ours) != len(subjects) or any(failed):
        return None
    return {"computed": sum(figure["value"] is not None for figure in ours), "cells": len(ours)}


def reproduce_table(
    settings: ReproductionSettings,
    table: PublishedTable,
    out: Path,
    progress: Progress,
) -> Result[ReproducedTable]:
    """Compute one table and write it to `out`; errors are those of the command `reproduce`."""
    workspace, name = settings.workspace, table.name
    record = RunRecord("reproduce", settings=_record_settings(settings, table))
    record.claim(out)
    data = workspace.tables
    part = find_part(data, settings.part)
    check_polyps(data, part, name)
    table = replace(table, cells=extended_cells(table, settings.columns))
    measured: dict[tuple[str, Variant, str], Measured] = {}
    encoders: dict[str, EncoderUnderTest] = {}
    for subject in table.subjects:
        if not settings.only or subject in settings.only:
            with record.stage(subject):
                figures, encoder = _measure_encoder(subject, settings, table, part, progress)
                if encoder is not None:
                    encoders[subject] = encoder
                measured |= {(subject, *key): figure for key, figure in figures.items()}
    why_not = incomparable(data, part, table, stand_in=workspace.stand_in)
    cells = _compare(table, measured, encoders, comparable=settings.anyway or not why_not)
    result = ReproducedTable(
        name,
        table.source,
        table.caption,
        part,
        why_not,
        settings.anyway,
        cells,
        f"Published encoders are fed with --preset {workspace.preset}; visual similarity: "
        f"{similarity_form(name)}; times: {settings.time}."
        + "".join(f" Polyps of {task}: {path}." for task, path in settings.splits.items()),
        table.ranked_by,
    )
    record.inputs["data"] = data.key
    write_json(out / "table.json", result)
    write_reproduced(out, result)
    record.write(out)
    absent = sum(cell.ours.value is None and cell.ours.why != UNASKED for cell in cells)
    warnings = []
    if absent:
        warnings.append(
            f"{many(absent, 'cell')} not computed: `polyplink reproduce {name} {workspace.data} "
            "--dry-run` lists their requirements, and where to get them"
        )
    only_costs = all(cell.units_of == "encoder" for cell in cells)
    code = int(not (result.computed if only_costs else result.of_data))
    banner = [result.banner] if result.banner else []
    files = f"files: {out}/table.html, .csv, .tex"
    printed = [*banner, reproduced_table(result), *lines_below(result), files]
    return Result(result, printed=printed, warnings=warnings, code=code)


def _compare(
    table: PublishedTable,
    measured: Mapping[tuple[str, Variant, str], Measured],
    encoders: Mapping[str, EncoderUnderTest],
    *,
    comparable: bool,
) -> tuple[ReproducedCell, ...]:
    """The cells with published and our figures, and the best of each column marked.

    Args:
        table: The published table.
        measured: Our figures by encoder, variant and measure.
        encoders: The encoders that were measured.
        comparable: Whether differences are shown for figures that depend on the data.
    """
    nothing: Measured = Figure(None, why=UNASKED), None
    figures = [
        measured.get((cell.subject, Variant(cell.crop, cell.clip), cell.measure), nothing)
        for cell in table.cells
    ]
    best = best_cells(table.cells, [resampled for _, resampled in figures])
    return tuple(
        _reproduced_cell(
            cell,
            figure,
            comparable or cell.is_cost,
            i in best,
            encoders.get(cell.subject),
        )
        for i, (cell, (figure, _)) in enumerate(zip(table.cells, figures, strict=True))
    )


def similarity_form(table: str) -> VisualForm:
    """The form of the visual similarity in the paper of a table, see `visual`."""
    return "sigmoid" if table.startswith("thesis/") else "raw_l2"


def check_polyps(data: DataSet, part: str, table: str) -> None:
    """Refuse data without true polyps before anything is trained."""
    in_part = data.detections["procedure_id"].is_in(data.part(part))
    if not data.detections["polyp_id"].filter(in_part).is_not_null().any():
        raise PolyplinkError(
            f"table detections: column polyp_id is empty in the part {part!r}, and {table} needs "
            "it",
            "name a labelled part with --part",
        )


def find_part(data: DataSet, part: str | None) -> str:
    """The part to measure on: the one named, or rc19 if its procedures are present, else "eval".

    Raises:
        PolyplinkError: If there is no such part.
    """
    if part is None:
        with suppress(PolyplinkError):
            data.part("rc19")
            return "rc19"
    name = part or "eval"
    data.part(name)
    return name


def has_simulated(data: DataSet) -> bool:
    """Whether any procedure comes from the simulator."""
    return any(map(is_simulated, data.procedures["dataset"].unique()))


def incomparable(data: DataSet, part: str, table: PublishedTable, *, stand_in: bool) -> str:
    """Why differences to the published values would be meaningless; "" if they are not."""
    reasons = []
    if has_simulated(data):
        reasons.append("SIMULATED data")
    elif part != "rc19":
        reasons.append(f"the part {part}, not rc19")
    if part == "rc19" and any(cell.measure.startswith("val/") for cell in table.cells):
        reasons.append("TPC's parts tpc-val and tpc-test, not the thesis's")
    if stand_in:
        reasons.append("stand-in encoders")
    return ", ".join(reasons)


def _measure_encoder(
    name: str,
    settings: ReproductionSettings,
    table: PublishedTable,
    part: str,
    progress: Progress,
) -> tuple[dict[tuple[Variant, str], Measured], EncoderUnderTest | None]:
    """All figures of a table for one encoder, by variant and measure, and the encoder.

    Figures that cannot be measured state the reason; the encoder is None if it is missing.
    """
    workspace = settings.workspace
    of_costs, of_vectors, of_probes = _measures(name, table, workspace.tables, part)
    measured: dict[tuple[Variant, str], Measured] = {
        (variant, measure): (_costs(name)[measure], None) for variant, measure in of_costs
    }
    try:
        encoder = find_encoder(name, workspace, part, progress)
    except PolyplinkError as error:
        missing = [*of_probes]
        for variants in of_vectors.values():
            missing += [(variant, measure) for variant in variants for measure in variants[variant]]
        return measured | dict.fromkeys(missing, (Figure(None, why=str(error)), None)), None

    keeps_crop = workspace.stand_in and not table.compares_crops

    def fed(variant: Variant) -> Variant:
        return replace(variant, crop=encoder.prepare.crop_factor) if keeps_crop else variant

    # Figures of its vectors, by part.
    evaluation = EvaluationSettings(
        grid=find_grid(settings.grid),
        form=similarity_form(table.name),
        time=settings.time,
        threads=workspace.workers,
    )
    for part_of_task, variants in of_vectors.items():
        compared = compare_variants(
            encoder,
            workspace.data,
            part_of_task,
            {fed(variant): list(figures.values()) for variant, figures in variants.items()},
            settings=evaluation,
            workers=workspace.workers,
            progress=progress,
        )
        for variant, figures in variants.items():
            measured |= {
                (variant, measure): compared[fed(variant)][figure]
                for measure, figure in figures.items()
            }

    # Figures of probes on it.
    for variant, measure in of_probes:
        cut = replace(encoder.prepare, crop_factor=fed(variant).crop)
        try:
            measured[variant, measure] = _measure_probe(
                measure,
                replace(encoder, prepare=cut),
                length=variant.clip,
                settings=settings,
                part=part,
                progress=progress,
            )
        except PolyplinkError as error:
            measured[variant, measure] = Figure(None, why=str(error)), None
    return measured, encoder


def _measures(
    name: str, table: PublishedTable, data: DataSet, part: str
) -> tuple[
    list[tuple[Variant, str]],
    dict[str, dict[Variant, dict[str, str]]],
    list[tuple[Variant, str]],
]:
    """The measures of a table for one encoder, by how they are measured.

    Returns:
        Costs; the figures of vectors, by part, variant and measure; and figures of probes.
    """
    of_costs: list[tuple[Variant, str]] = []
    of_vectors: dict[str, dict[Variant, dict[str, str]]] = {}
    of_probes: list[tuple[Variant, str]] = []
    for cell in (cell for cell in table.cells if cell.subject == name):
        variant, task = Variant(cell.crop, cell.clip), task_of(cell.measure)
        if cell.is_cost:
            of_costs.append((variant, cell.measure))
        elif task in PROBES:
            of_probes.append((variant, cell.measure))
        else:
            figure = cell.measure.removeprefix(f"{task}/") if task in TASK_PARTS else cell.measure
            on_part = of_vectors.setdefault(task_part(task, data, part), {})
            on_part.setdefault(variant, {})[cell.measure] = figure
    return of_costs, of_vectors, of_probes


def _measure_probe(
    measure: str,
    encoder: NamedEncoder,
    *,
    length: int | None,
    settings: ReproductionSettings,
    part: str,
    progress: Progress,
) -> Measured:
    """A figure of a probe ("size/accuracy") on an encoder, for fragments of `length` crops."""
    workspace = settings.workspace
    data = workspace.tables
    task, _, figure = measure.partition("/")
    split, probe_part = settings.splits.get(task), task_part(task, data, part)
    sides = divide(PROBES[task], data, probe_part, split=split)
    guard_training(encoder, data, [name for side in sides for name in side["procedure_id"]])
    (probed,) = probe_encoders(
        PROBES[task],
        [encoder],
        workspace.data,
        probe_part,
        length=length or 8,
        seeds=settings.seeds,
        split=split,
        workers=workspace.workers,
        progress=progress,
    ).values()
    result = probed.result
    return result.figures[figure], result.measures.get(figure)


_cost = cache(cost_of)


def _costs(name: str) -> dict[str, Figure]:
    """Parameters and multiply-accumulates of an encoder, counted as in the paper."""
    try:
        cost = _cost(name)
    except PolyplinkError as error:
        return dict.fromkeys((PARAMETERS, MACS), Figure(None, why=str(error)))
    return {
        PARAMETERS: Figure(cost["published_params_m"] * 1e6, n=1),
        MACS: Figure(cost["published_macs_g"] * 1e9, n=1),
    }


def _remark(cell: Cell, ours: Figure) -> str:
    """The remark on a published number; for our parameters also the number without unused ones."""
    if cell.measure != PARAMETERS or not ours.is_defined:
        return cell.remark
    count = _cost(cell.subject)
    used_parameters = ""
    if count["published_params_m"] - count["params_m"] > 0.005:
        used_parameters = f"{count['params_m']:.2f} M without projectors and unused heads"
    return "; ".join(filter(None, (used_parameters, cell.remark)))


def _reproduced_cell(
    cell: Cell, ours: Figure, comparable: bool, best: bool, encoder: EncoderUnderTest | None
) -> ReproducedCell:
    """A published number and ours in its unit; `encoder` is the measured one, if any."""
    scale = SCALE[cell.unit]
    names = ("value", "low", "high", "sd")
    values = {name: getattr(ours, name) for name in names if getattr(ours, name) is not None}
    scaled = replace(ours, **{name: value * scale for name, value in values.items()})
    if scaled.value is None and not scaled.why:
        scaled = replace(scaled, why="undefined on these data")
    model = None if cell.is_cost else encoder  # costs are those of the named network
    units = "polyps" if task_of(cell.measure) in TASK_PARTS else "procedures"
    return ReproducedCell(
        group=cell.group,
        row=cell.row,
        column=cell.column,
        unit=cell.unit,
        published=cell.text,
        spread=cell.spread,
        ours=scaled,
        units_of="encoder" if cell.is_cost else units,
        difference=scaled.value - cell.value
        if comparable and cell.text and scaled.value is not None
        else None,
        remark="; ".join(filter(None, (model.remark if model else "", _remark(cell, ours)))),
        best=best,
        stand_in=model.stand_in if model else "",
        published_bold=cell.bold,
    )
