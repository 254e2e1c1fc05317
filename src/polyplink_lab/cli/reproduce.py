"""The verb `reproduce`: compare a published table with ours; missing cells give the reason."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import Request, names_of, option
from polyplink.cli.verb import Result, check_given, inform, named_files
from polyplink.core.artefacts import RunRecord, file_key, read_json, to_plain, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.progress import Progress
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.associate import VisualForm
    from polyplink.data import DataSet
    from polyplink.encoders.load import NamedEncoder
    from polyplink.evaluate import Figure
    from polyplink_lab.reproduce.crop_variants import Measured, Variant
    from polyplink_lab.reproduce.encoders_under_test import Workspace
    from polyplink_lab.reproduce.published import Cell, PublishedTable
    from polyplink_lab.reproduce.reproduced import ReproducedCell, ReproducedTable
    from polyplink_lab.reproduce.reproduction_plan import Step

UNASKED = "left out by --only"
PROBED = ("size", "histology")
COSTS, PARAMETERS, MACS = "cost/", "cost/parameters", "cost/macs"
SCALE = {"%": 100.0, "1": 1.0, "M": 1e-6, "G": 1e-9}  # from ours to the unit of the table
# Parts by the first word of a measure, where rc19 is measured on. The thesis does not publish its
# division of rc19 in validation and test, so TPC's public one is used.
TASK_PARTS = {"size": "rsp", "histology": "rspp", "val": "tpc-val", "test": "tpc-test"}


@dataclass(frozen=True)
class ReproduceRequest(Request):
    """Which table to reproduce, on which data, with which encoders."""

    table: Annotated[
        str,
        Argument(
            help="A table (ntssl/1, ta/2, thesis/5.4), all or list.",
            autocompletion=names_of("polyplink_lab.reproduce.published", "published"),
        ),
    ]
    data: Path | None = option("Data folder; none for list.", kind=Argument)
    out: Path | None = option("Folder to write; WORKSPACE/TABLE by default.", None, "--out", "-o")
    workspace: Path = option("Folder for training runs.", Path("reproduced"))
    part: str | None = option("Part; by default rc19 if present, else eval.")
    only: Sequence[str] = option("Only this encoder or method.", ())
    columns: Sequence[str] = option("Only this column of the table; may be repeated.", ())
    weights: Sequence[str] = option("NAME=FILE: weights of an encoder or method.", ())
    stand_in: bool = option("Replace every encoder by a small one.", False)
    as_published: bool = option(
        "Let checkpoints be chosen on evaluated procedures, as in the papers; marks their cells.",
        False,
    )
    sets: options.Sets = ()
    train: bool = option("Train encoders that have a recipe.", True)
    anyway: bool = option("Print differences even if not comparable.", False)
    grid: str = option("Settings searched: paper or demo.", "paper")
    preset: Literal["reference", "own"] = option(
        "Feed published encoders as NTSSL's program does, or as pre-trained.", "reference"
    )
    time: Literal["normalised", "frames"] = option(
        "Unit of distances in time: the annotated span, or frames (thesis, 2.3).", "normalised"
    )
    precision: Literal["tf32", "float32", "bf16"] = option(
        "What a GPU embeds in; trainings: --set optim.precision=NAME.", "tf32"
    )
    seeds: int = option("Training runs of each probe.", 3, min=1)
    split: Sequence[str] = option(
        "File that divides the polyps of size and histology, see probe; TASK=FILE for one.", ()
    )
    dry_run: bool = option("Only list the work, what is missing, and its cost.", False)
    device: options.Device = "auto"
    workers: options.Workers = 2

    def splits(self) -> dict[str, Path]:
        """Files that divide polyps, by probe: of `split`, each FILE or TASK=FILE."""
        files: dict[str, Path] = {}
        for value in self.split:
            task, equals, file = value.partition("=")
            names_task = equals and task in PROBED
            files |= {task: Path(file)} if names_task else dict.fromkeys(PROBED, Path(value))
        return files

    def encoders(self) -> "Workspace":
        """Where the encoders of the table come from.

        Raises:
            PolyplinkError: If a value of `weights` names no file.
        """
        from polyplink_lab.reproduce.encoders_under_test import Workspace

        assert self.data is not None
        weights = named_files("--weights", self.weights)
        return Workspace(
            self.workspace,
            self.data,
            weights,
            self.stand_in,
            tuple(self.sets),
            self.train,
            self.device,
            self.workers,
            self.preset,
            as_published=self.as_published,
            precision=self.precision,
        )


def reproduce(
    request: ReproduceRequest, progress: Progress = inform
) -> "Result[ReproducedTable] | Result[list[dict[str, Any]]] | Result[list[Step]]":
    """Set a published table beside ours; writes HTML, CSV and LaTeX. `list` shows all tables.

    `all` computes every table, those that need the fewest trainings first; a table that was written
    with the same settings and data is not computed again. Trained encoders, crops and vectors are
    cached in the workspace and data folder, and reused.

    Raises:
        PolyplinkError: If there is no such table, column, part or data folder, `only` names no
            row, or no polyp of the part is known.
    """
    from polyplink_lab.reproduce.published import published, published_table

    if request.table == "list":
        from polyplink_lab.reproduce.encoders_under_test import list_tables
        from polyplink_lab.reproduce.reproduced import states_table

        states = list_tables()
        return Result(states, shown=[states_table(states)])
    if request.data is None:
        raise PolyplinkError(
            f"no data folder to reproduce {request.table} on", "give TABLE and DATA"
        )
    all_tables = request.table == "all"
    tables = list(published().values()) if all_tables else [published_table(request.table)]
    subjects = list(dict.fromkeys(name for table in tables for name in table.subjects))
    for requested in request.only:
        PolyplinkError.unless(
            requested in subjects,
            f"{request.table} has no row of {requested!r}",
            f"choose among {', '.join(subjects)}",
        )
    headings = {item.column for table in tables for item in both_precisions(table.cells)}
    for requested in request.columns:
        PolyplinkError.unless(
            requested in headings,
            f"{request.table} has no column {requested!r}",
            f"choose among {', '.join(sorted(headings))}",
        )
    from polyplink.associate.search import find_grid

    tables = [replace(item, cells=_in_columns(item.cells, request.columns)) for item in tables]
    tables = [table for table in tables if table.cells]
    find_grid(request.grid)
    named_files("--weights", request.weights)
    check_given(data=request.data, parts=[request.part], device=request.device)
    from polyplink_lab.reproduce.encoders_under_test import has_recipe

    if request.split:
        from polyplink.data import read_data
        from polyplink.evaluate.probing import PROBES, divide

        for task, path in request.splits().items():
            divide(PROBES[task], read_data(request.data), "", split=path)
    if request.only:
        tables = [table for table in tables if set(request.only) & set(table.subjects)]
    PolyplinkError.unless(
        bool(tables),
        f"{', '.join(request.only)} has no cell in the columns {', '.join(request.columns)}",
        "leave --only or --columns out",
    )
    tables.sort(key=lambda table: sum(map(has_recipe, table.subjects)))
    if request.dry_run:
        return plan(request, tables)
    if not all_tables:
        return reproduce_table(request, tables[0], progress)
    folder, rows, shown = request.out or request.workspace, [], []
    for table in tables:
        table_request = replace(request, table=table.name, out=folder / table.name)
        summary = (
            _earlier_summary(table_request)
            or reproduce_table(table_request, table, progress).value.summary
        )
        rows.append({"table": table.name, **summary, "files": str(folder / table.name)})
        shown.append(f"{table.name}: {summary['computed']} of {summary['cells']} cells computed")
    code = int(not any(row["computed"] for row in rows))
    return Result(rows, shown=[*shown, f"files: {folder}"], code=code)


def plan(request: ReproduceRequest, tables: "Sequence[PublishedTable]") -> "Result[list[Step]]":
    """The steps that tables need; nothing is computed or written. Errors as of `reproduce`."""
    from polyplink_lab.reproduce.reproduction_plan import (
        BASIS,
        Planner,
        gigabytes,
        hours,
        steps_table,
    )

    workspace = request.encoders()
    data = workspace.tables
    part = find_part(data, request.part)
    check_polyps(data, part, request.table)
    probe_parts = {task: task_part(task, data, part) for task in PROBED}
    planner = Planner(workspace, part, probe_parts, request.grid, request.splits())
    steps = planner.plan(tables, request.only)

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
        total.append(f"{count['waits']} wait for what is missing: {cost_of('waits')}")
    return Result(steps, shown=[steps_table(steps), *total, BASIS])


def task_part(task: str, data: "DataSet", part: str) -> str:
    """The part that a task is measured on: its own in `TASK_PARTS` where `part` is rc19.

    Simulated probes stay on `part`: the other data sets of theirs are not simulated.
    """
    if part != "rc19" or (task in {"size", "histology"} and is_simulated(data)):
        return part
    return TASK_PARTS.get(task, part)


def _record_settings(request: ReproduceRequest, table: str) -> dict[str, Any]:
    """What decides the figures of a table, for its run.json."""
    names = ("part", "grid", "time", "anyway", "seeds", "only", "columns")
    choices = {name: getattr(request, name) for name in names}
    splits = {task: [path, file_key(path)] for task, path in request.splits().items()}
    with_splits = {"splits": splits} if splits else {}
    return {"table": table, "workspace": request.encoders(), "choices": choices, **with_splits}


def _earlier_summary(request: ReproduceRequest) -> dict[str, int] | None:
    """How much of a table was computed, if it was written with these settings and data."""
    from polyplink.data import read_data

    assert request.data is not None
    assert request.out is not None
    try:
        run, table = (read_json(request.out / f"{name}.json") for name in ("run", "table"))
    except PolyplinkError:
        return None
    unchanged = run["settings"] == to_plain(_record_settings(request, request.table))
    if not unchanged or run["inputs"].get("data") != read_data(request.data).key:
        return None
    cells = table["cells"]
    computed = sum(cell["ours"]["value"] is not None for cell in cells)
    return {"computed": computed, "cells": len(cells)}


def reproduce_table(
    request: ReproduceRequest, table: "PublishedTable", progress: Progress = inform
) -> "Result[ReproducedTable]":
    """Compute one table and write it; errors as of `reproduce`."""
    from polyplink_lab.reproduce.reproduced import (
        ReproducedTable,
        lines_below,
        reproduced_table,
        write_reproduced,
    )

    workspace, name = request.encoders(), table.name
    out = request.out or request.workspace / name
    record = RunRecord("reproduce", settings=_record_settings(request, name))
    record.claim(out)
    data = workspace.tables
    part = find_part(data, request.part)
    check_polyps(data, part, name)
    table = replace(table, cells=_extended(table, request.columns))
    measured: dict[tuple[str, Variant, str], Measured] = {}
    encoders: dict[str, NamedEncoder] = {}
    for subject in table.subjects:
        if not request.only or subject in request.only:
            with record.stage(subject):
                figures, encoder = _measured(
                    subject, request, workspace, table, data, part, progress
                )
                if encoder is not None:
                    encoders[subject] = encoder
                measured |= {(subject, *key): figure for key, figure in figures.items()}
    why_not = incomparable(data, part, table, stand_in=request.stand_in)
    cells = _compared(table, measured, encoders, comparable=request.anyway or not why_not)
    result = ReproducedTable(
        name,
        table.source,
        table.caption,
        part,
        why_not,
        request.anyway,
        cells,
        f"Published encoders are fed with --preset {request.preset}; visual similarity: "
        f"{similarity_form(name)}; times: {request.time}."
        + "".join(f" Polyps of {task}: {path}." for task, path in request.splits().items()),
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
            f"{many(absent, 'cell')} not computed: `polyplink reproduce {name} {request.data} "
            "--dry-run` lists what each needs, and where to get it"
        )
    only_costs = all(cell.units_of == "encoder" for cell in cells)
    code = int(not (result.computed if only_costs else result.of_data))
    banner = [result.banner] if result.banner else []
    files = f"files: {out}/table.html, .csv, .tex"
    shown = [*banner, reproduced_table(result), *lines_below(result), files]
    return Result(result, shown=shown, warnings=warnings, code=code)


def _compared(
    table: "PublishedTable",
    measured: "Mapping[tuple[str, Variant, str], Measured]",
    encoders: "Mapping[str, NamedEncoder]",
    *,
    comparable: bool,
) -> "tuple[ReproducedCell, ...]":
    """The cells with our figures beside the published ones, the best of each column marked.

    Args:
        table: The published table.
        measured: Our figures by encoder, variant and measure.
        encoders: The encoders that were measured.
        comparable: Whether differences are shown for figures that depend on the data.
    """
    from polyplink.evaluate import Figure
    from polyplink_lab.reproduce.crop_variants import Variant
    from polyplink_lab.reproduce.reproduced import best_cells

    nothing: Measured = Figure(None, why=UNASKED), None
    figures = [
        measured.get((cell.subject, Variant(cell.crop, cell.clip), cell.measure), nothing)
        for cell in table.cells
    ]
    best = best_cells(table.cells, [resampled for _, resampled in figures])
    return tuple(
        _beside(
            cell,
            figure,
            # The cost of an encoder does not depend on data.
            comparable or cell.measure.startswith(COSTS),
            i in best,
            encoders.get(cell.subject),
        )
        for i, (cell, (figure, _)) in enumerate(zip(table.cells, figures, strict=True))
    )


def similarity_form(table: str) -> "VisualForm":
    """The form of the visual similarity that a table's paper counts with, see `visual`."""
    return "sigmoid" if table.startswith("thesis/") else "raw_l2"


def check_polyps(data: "DataSet", part: str, table: str) -> None:
    """Refuse data without true polyps before anything is trained."""
    in_part = data.detections["procedure_id"].is_in(data.part(part))
    PolyplinkError.unless(
        data.detections["polyp_id"].filter(in_part).is_not_null().any(),
        f"table detections: column polyp_id is empty in the part {part!r}, and {table} needs it",
        "name a labelled part with --part",
    )


def both_precisions(cells: "Sequence[Cell]") -> "Iterator[Cell]":
    """The cells of a table, every mAP also as torchmetrics averages it, at the end of its row."""
    from polyplink_lab.reproduce.published import PUBLISHED_MAP

    for _, row in groupby(cells, key=lambda cell: (cell.group, cell.row)):
        row_cells = list(row)
        yield from row_cells
        for cell in row_cells:
            if cell.measure == "mAP":
                name, column = (
                    text.replace("mAP", PUBLISHED_MAP) for text in (cell.row, cell.column)
                )
                yield replace(cell, row=name, column=column, measure=PUBLISHED_MAP, remark="")


def _extended(table: "PublishedTable", columns: Sequence[str]) -> "tuple[Cell, ...]":
    """The cells of a table with those that are added to the paper's, all or of some columns."""
    cells = tuple(both_precisions(table.cells))
    cells = cells if table.ranked_by else tuple(with_learned_links(cells))
    return tuple(cell for cell in cells if not columns or cell.column in columns)


def _in_columns(cells: "Sequence[Cell]", columns: Sequence[str]) -> "tuple[Cell, ...]":
    """The cells that columns need: theirs, and the mAP that another precision is made from."""

    def needed(cell: "Cell") -> bool:
        return any(form.column in columns for form in both_precisions([cell]))

    return tuple(cell for cell in cells if not columns or needed(cell))


def with_learned_links(cells: "Sequence[Cell]") -> "Iterator[Cell]":
    """The cells of a table, its last row of temporal affinity propagation also with learned links.

    These cells have no published number.
    """
    rows = [list(row) for _, row in groupby(cells, key=lambda cell: (cell.group, cell.row))]
    clustered = [[c for c in row if c.measure.startswith("temporal_ap/")] for row in rows]
    last = max((i for i, is_clustered in enumerate(clustered) if is_clustered), default=None)
    for i, row in enumerate(rows):
        yield from row
        if i == last:
            for cell in clustered[i]:
                measure = cell.measure.replace("temporal_ap/", "links/")
                name = f"{cell.row}, learned links of polyplink"
                yield replace(
                    cell, row=name, text="", spread="", remark="", bold=False, measure=measure
                )


def find_part(data: "DataSet", part: str | None) -> str:
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


def is_simulated(data: "DataSet") -> bool:
    """Whether any procedure comes from the simulator."""
    from polyplink.data import SIMULATED

    return any(name.startswith(SIMULATED) for name in data.procedures["dataset"].unique())


def incomparable(data: "DataSet", part: str, table: "PublishedTable", *, stand_in: bool) -> str:
    """Why differences to the published values would be meaningless; "" if they are not."""
    reasons = []
    if is_simulated(data):
        reasons.append("SIMULATED data")
    elif part != "rc19":
        reasons.append(f"the part {part}, not rc19")
    if part == "rc19" and any(cell.measure.startswith("val/") for cell in table.cells):
        reasons.append("TPC's parts tpc-val and tpc-test, not the thesis's")
    if stand_in:
        reasons.append("stand-in encoders")
    return ", ".join(reasons)


def _measured(
    name: str,
    request: ReproduceRequest,
    workspace: "Workspace",
    table: "PublishedTable",
    data: "DataSet",
    part: str,
    progress: Progress,
) -> "tuple[dict[tuple[Variant, str], Measured], NamedEncoder | None]":
    """All figures of a table for one encoder, by variant and measure; a failed one says why.

    The encoder, if there is one, comes second.
    """
    from polyplink.evaluate import EvaluationSettings, Figure
    from polyplink.evaluate.probing import PROBES
    from polyplink_lab.reproduce.crop_variants import Variant, compare_variants
    from polyplink_lab.reproduce.encoders_under_test import find_encoder

    measured: dict[tuple[Variant, str], Measured] = {}
    of_vectors: dict[str, dict[Variant, dict[str, str]]] = {}  # by part; measure to figure
    of_probes: list[tuple[Variant, str]] = []
    for cell in (cell for cell in table.cells if cell.subject == name):
        variant, task = Variant(cell.crop, cell.clip), cell.measure.partition("/")[0]
        if cell.measure.startswith(COSTS):
            measured[variant, cell.measure] = _costs(name)[cell.measure], None
        elif task in PROBES:
            of_probes.append((variant, cell.measure))
        else:
            figure = cell.measure.removeprefix(f"{task}/") if task in TASK_PARTS else cell.measure
            on_part = of_vectors.setdefault(task_part(task, data, part), {})
            on_part.setdefault(variant, {})[cell.measure] = figure
    try:
        encoder = find_encoder(name, workspace, part, progress)
    except PolyplinkError as error:
        keys = {(Variant(c.crop, c.clip), c.measure) for c in table.cells if c.subject == name}
        missing = {key for key in keys if not key[1].startswith(COSTS)}
        return measured | dict.fromkeys(missing, (Figure(None, why=str(error)), None)), None

    # Stand-ins keep their crop factor unless the table is about crop factors.
    crops = {cell.crop for cell in table.cells if not cell.measure.startswith(COSTS)}
    keeps = request.stand_in and len(crops) == 1

    def fed(variant: Variant) -> Variant:
        return replace(variant, crop=encoder.prepare.crop_factor) if keeps else variant

    from polyplink.associate.search import find_grid

    settings = EvaluationSettings(
        grid=find_grid(request.grid),
        form=similarity_form(table.name),
        time=request.time,
        threads=request.workers,
    )
    for part_of_task, variants in of_vectors.items():
        compared = compare_variants(
            encoder,
            workspace.data,
            part_of_task,
            {fed(variant): list(figures.values()) for variant, figures in variants.items()},
            settings=settings,
            workers=request.workers,
            progress=progress,
        )
        for variant, figures in variants.items():
            measured |= {(variant, m): compared[fed(variant)][f] for m, f in figures.items()}
    for variant, measure in of_probes:
        cut = replace(encoder.prepare, crop_factor=fed(variant).crop)
        try:
            measured[variant, measure] = _probed(
                measure,
                replace(encoder, prepare=cut),
                variant.clip,
                request,
                workspace,
                part,
                progress,
            )
        except PolyplinkError as error:
            measured[variant, measure] = Figure(None, why=str(error)), None
    return measured, encoder


def _probed(
    measure: str,
    encoder: "NamedEncoder",
    length: int | None,
    request: ReproduceRequest,
    workspace: "Workspace",
    part: str,
    progress: Progress,
) -> "Measured":
    """A figure of a probe ("size/accuracy") on an encoder, for fragments of `length` crops."""
    from polyplink.evaluate.probing import PROBES, divide, probe_encoders
    from polyplink_lab.reproduce.encoders_under_test import guard_training

    data = workspace.tables
    task, _, figure = measure.partition("/")
    split = request.splits().get(task)
    if split is not None:
        sides = divide(PROBES[task], data, part, split=split)
        guard_training(encoder, data, [name for side in sides for name in side["procedure_id"]])
    (probed,) = probe_encoders(
        PROBES[task],
        [encoder],
        workspace.data,
        task_part(task, data, part),
        length=length or 8,
        seeds=request.seeds,
        split=split,
        workers=workspace.workers,
        progress=progress,
    ).values()
    result = probed.result
    return result.figures[figure], result.measures.get(figure)


@cache
def _cost(name: str) -> dict[str, Any]:
    from polyplink.recipes.cost import cost_of

    return cost_of(name)


@cache
def _parameters(name: str) -> dict[str, float]:
    from polyplink.recipes.cost import parameters_of

    return parameters_of(name)


def _costs(name: str) -> "dict[str, Figure]":
    """Parameters and multiply-accumulates of an encoder, counted as in the paper."""
    from polyplink.evaluate import Figure

    try:
        cost = _cost(name)
    except PolyplinkError as error:
        return dict.fromkeys((PARAMETERS, MACS), Figure(None, why=str(error)))
    return {
        PARAMETERS: Figure(cost["published_params_m"] * 1e6, n=1),
        MACS: Figure(cost["published_macs_g"] * 1e9, n=1),
    }


def _remark(cell: "Cell") -> str:
    """The remark on a published number; on parameters also how many the vectors need."""
    if cell.measure != PARAMETERS:
        return cell.remark
    try:
        count = _parameters(cell.subject)
    except PolyplinkError:
        return cell.remark
    needed = ""
    if count["published_params_m"] - count["params_m"] > 0.005:
        needed = f"{count['params_m']:.2f} M without projectors and unused heads"
    return "; ".join(filter(None, (needed, cell.remark)))


def _beside(
    cell: "Cell", ours: "Figure", comparable: bool, best: bool, encoder: "NamedEncoder | None"
) -> "ReproducedCell":
    """A published number and ours in its unit; `encoder` is that of the row, if it was there."""
    from polyplink_lab.reproduce.reproduced import ReproducedCell

    scale = SCALE[cell.unit]
    names = ("value", "low", "high", "sd")
    values = {name: getattr(ours, name) for name in names if getattr(ours, name) is not None}
    scaled = replace(ours, **{name: value * scale for name, value in values.items()})
    if scaled.value is None and not scaled.why:
        scaled = replace(scaled, why="undefined on these data")
    kind = cell.measure.partition("/")[0]
    used = encoder if kind != "cost" else None  # costs are those of the network that is named
    return ReproducedCell(
        group=cell.group,
        row=cell.row,
        column=cell.column,
        unit=cell.unit,
        published=cell.text,
        spread=cell.spread,
        ours=scaled,
        units_of="encoder"
        if kind == "cost"
        else ("polyps" if kind in TASK_PARTS else "procedures"),
        difference=scaled.value - cell.value
        if comparable and cell.text and scaled.value is not None
        else None,
        remark="; ".join(filter(None, (used.remark if used else "", _remark(cell)))),
        best=best,
        stand_in=used.stand_in if used else "",
        published_bold=cell.bold,
    )
