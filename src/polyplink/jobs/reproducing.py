"""A published table beside ours: what can be computed is, and the rest says why not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from polyplink.associate import VisualForm
from polyplink.core.artefacts import RunRecord, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet, read_data
from polyplink.data.vocabulary import SIMULATED
from polyplink.evaluate import Figure
from polyplink.jobs.costing import cost_of
from polyplink.jobs.evaluation import find_grid
from polyplink.jobs.measured import Asked, Measured, of_interval
from polyplink.jobs.probing import PROBES, ProbeChoice, probe_embedder
from polyplink.jobs.progress import Progress, silent
from polyplink.jobs.subjects import Workspace, find_subject
from polyplink.jobs.variants import Subject, Variant, measure_variant
from polyplink.recipes.published import Cell, PublishedTable, published_table
from polyplink.report.reproduced import ReproducedCell, ReproducedTable, write_reproduced

COSTS = "cost/"
PARTS_UNKNOWN = ("val/", "test/")  # measured on parts that were never published
SCALE = {"%": 100.0, "1": 1.0, "M": 1e-6, "G": 1e-9}  # from ours to the unit of the table
PROBE_PARTS = {"size": "rsp", "histology": "rspp"}


@dataclass(frozen=True)
class Choices:
    """How to reproduce.

    Attributes:
        part: Part of the data set; None for rc19 where it is there, else "eval".
        grid: Settings searched for counting: "paper" or "demo".
        anyway: Print differences that compare different things.
        seeds: Trainings of each probe.
        only: Names of subjects; others are left out. None for all.
    """

    part: str | None = None
    grid: str = "paper"
    anyway: bool = False
    seeds: int = 3
    only: Sequence[str] | None = None


@dataclass(frozen=True)
class _Job:
    """A table on a data set."""

    table: PublishedTable
    workspace: Workspace
    data: DataSet
    part: str
    choices: Choices
    progress: Progress

    @property
    def own_crops(self) -> bool:
        """Whether small encoders keep their crops: unless crops are what the table is about."""
        crops = {cell.crop for cell in self.table.cells if not cell.measure.startswith(COSTS)}
        return self.workspace.stand_in and len(crops) == 1


def find_part(data: DataSet, part: str | None) -> str:
    """The part to measure on: rc19 where all its procedures are there, else "eval".

    Raises:
        PolyplinkError: If there is no such part.
    """
    wanted = part
    if wanted is None:
        try:
            data.part("rc19")
            wanted = "rc19"
        except PolyplinkError:
            wanted = "eval"
    data.part(wanted)
    return wanted


def is_simulated(data: DataSet) -> bool:
    """Whether any procedure comes from the simulator."""
    return any(name.startswith(SIMULATED) for name in data.procedures["dataset"].unique())


def incomparable(data: DataSet, part: str, workspace: Workspace) -> str:
    """Why differences to the published values would compare different things; "" if not."""
    why = []
    if is_simulated(data):
        why.append("SIMULATED data")
    elif part != "rc19":
        why.append(f"the part {part}, not rc19")
    if workspace.stand_in:
        why.append("stand-in encoders")
    return ", ".join(why)


def _task(measure: str) -> str | None:
    task = measure.partition("/")[0]
    return task if task in PROBES else None


def _of_vectors(cell: Cell) -> bool:
    return not cell.measure.startswith((COSTS, *PARTS_UNKNOWN)) and _task(cell.measure) is None


Found = dict[tuple[Variant, str], Measured]


def _measure_subject(job: _Job, name: str) -> Found:
    """All that a table asks of one subject; what fails says why."""
    cells = [cell for cell in job.table.cells if cell.subject == name]
    found: Found = _costs(name, [cell for cell in cells if cell.measure.startswith(COSTS)])
    cells = [cell for cell in cells if not cell.measure.startswith(COSTS)]
    try:
        subject = find_subject(name, job.workspace, job.part, job.progress)
    except PolyplinkError as error:
        missing = Measured(None, why=str(error))
        return found | {(Variant(cell.crop, cell.clip), cell.measure): missing for cell in cells}
    variants = dict.fromkeys(Variant(c.crop, c.clip) for c in cells if _of_vectors(c))
    for variant in variants:
        wanted = [c.measure for c in cells if _of_vectors(c) and Variant(c.crop, c.clip) == variant]
        ours = _on_variant(job, subject, variant, wanted)
        found |= {(variant, name): measured for name, measured in ours.items()}
    for cell in cells:
        if not _of_vectors(cell):
            key = (Variant(cell.crop, cell.clip), cell.measure)
            found[key] = _otherwise(job, subject, cell)
    return found


def _costs(name: str, cells: Sequence[Cell]) -> Found:
    """What an encoder costs, counted as the paper does; no weights are needed."""
    if not cells:
        return {}
    try:
        cost = cost_of(name)
    except PolyplinkError as error:
        why = Measured(None, why=str(error))
        return {(Variant(cell.crop, cell.clip), cell.measure): why for cell in cells}
    values = {
        f"{COSTS}parameters": cost["published_params_m"] * 1e6,
        f"{COSTS}macs": cost["published_macs_g"] * 1e9,
    }
    return {
        (Variant(c.crop, c.clip), c.measure): Measured(values[c.measure], units=1, unit="encoder")
        for c in cells
    }


def _on_variant(
    job: _Job, subject: Subject, variant: Variant, wanted: Sequence[str]
) -> dict[str, Measured]:
    seen = replace(variant, crop=subject.how.crop_factor) if job.own_crops else variant
    form: VisualForm = "cosine" if job.table.name.startswith("thesis/") else "l2"
    asked = Asked(find_grid(job.choices.grid), form, job.workspace.workers)
    try:
        ours = measure_variant(
            subject,
            job.workspace.data,
            job.part,
            seen,
            wanted,
            asked=asked,
            workers=job.workspace.workers,
            progress=job.progress,
        )
    except PolyplinkError as error:
        return {name: Measured(None, why=str(error)) for name in wanted}
    return {name: ours.get(name, Measured(None, why="no such figure")) for name in wanted}


def _otherwise(job: _Job, subject: Subject, cell: Cell) -> Measured:
    """A cell that is no figure of vectors: a probe, or what cannot be known."""
    task = _task(cell.measure)
    if task is not None:
        return _probed(job, subject, task, cell)
    return Measured(None, why="the parts that the paper measured on were not published")


def _probed(job: _Job, subject: Subject, task: str, cell: Cell) -> Measured:
    part = job.part
    if part == "rc19" and not is_simulated(job.data):
        part = PROBE_PARTS[task]
    how = subject.how if job.own_crops else replace(subject.how, crop_factor=cell.crop)
    try:
        probed = probe_embedder(
            PROBES[task],
            job.workspace.data,
            how,
            subject.embedder,
            f"{subject.key}-{subject.device.type}",
            choice=ProbeChoice(part, cell.clip or 8, job.choices.seeds),
            workers=job.workspace.workers,
            progress=job.progress,
        )
    except PolyplinkError as error:
        return Measured(None, why=str(error))
    return of_interval(probed.result.figures[cell.measure.partition("/")[2]], "polyps")


def _beside(cell: Cell, ours: Measured, comparable: bool) -> ReproducedCell:
    scale = SCALE[cell.unit]

    def scaled(value: float | None) -> float | None:
        return None if value is None else value * scale

    value = scaled(ours.value)
    return ReproducedCell(
        group=cell.group,
        row=cell.row,
        column=cell.column,
        unit=cell.unit,
        published=cell.value,
        published_text=cell.text,
        published_spread=cell.spread,
        ours=Figure(
            value, scaled(ours.low), scaled(ours.high), ours.units, scaled(ours.spread), ours.why
        ),
        units_of=ours.unit,
        difference=value - cell.value if comparable and value is not None else None,
        remark=cell.remark,
    )


def reproduce(
    name: str,
    workspace: Workspace,
    out: Path | None = None,
    *,
    choices: Choices | None = None,
    progress: Progress = silent,
) -> ReproducedTable:
    """Compute what can be computed of a published table, and set it beside.

    Writes table.html, table.csv, table.tex, table.json and run.json. What is trained, cut and
    embedded is kept in the workspace and beside the data, and used again.

    Args:
        name: The table, "ntssl/1".
        workspace: Where encoders and data come from.
        out: Folder to write; None to write nothing.
        choices: Part, grid and the like.
        progress: Told of every stage.

    Raises:
        PolyplinkError: If there is no such table, part or data folder, or `only` names no row.
    """
    table, choices = published_table(name), choices or Choices()
    for wanted in choices.only or ():
        PolyplinkError.unless(
            wanted in table.subjects,
            f"{name} has no row of {wanted!r}",
            f"choose among {', '.join(table.subjects)}",
        )
    find_grid(choices.grid)
    told = {"table": name, "workspace": workspace, "choices": choices}
    record = RunRecord("reproduce", settings=told)
    if out is not None:
        record.claim(out)
    data = read_data(workspace.data)
    part = find_part(data, choices.part)
    job = _Job(table, workspace, data, part, choices, progress)
    found: dict[str, Found] = {}
    for subject in table.subjects:
        if choices.only is None or subject in choices.only:
            with record.stage(subject):
                found[subject] = _measure_subject(job, subject)
    why_not = incomparable(data, part, workspace)
    left_out = Measured(None, why="left out by --only")
    cells = tuple(
        _beside(
            cell,
            found.get(cell.subject, {}).get(
                (Variant(cell.crop, cell.clip), cell.measure), left_out
            ),
            # What an encoder costs has nothing to do with data.
            choices.anyway or not why_not or cell.measure.startswith(COSTS),
        )
        for cell in table.cells
    )
    result = ReproducedTable(
        name, table.source, table.caption, part, why_not, choices.anyway, cells
    )
    record.inputs["data"] = data.key
    if out is not None:
        write_json(out / "table.json", result)
        write_reproduced(out, result)
        record.write(out)
    return result
