"""The verb `reproduce`: compare a published table with ours; missing cells give the reason."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from polyplink.app.evaluate import find_grid
from polyplink.app.request import Device, Progress, Result, Sets, Workers, named_files, silent
from polyplink.core.artefacts import RunRecord, write_json
from polyplink.core.errors import PolyplinkError

if TYPE_CHECKING:
    from polyplink.app.crop_variants import Variant
    from polyplink.app.encoders_under_test import Workspace
    from polyplink.data import DataSet
    from polyplink.evaluate import Figure
    from polyplink.recipes.published import Cell, PublishedTable
    from polyplink.report.reproduced import ReproducedCell, ReproducedTable

COSTS, PARAMETERS, MACS = "cost/", "cost/parameters", "cost/macs"
PARTS_UNKNOWN = ("val/", "test/")  # measured on parts that were never published
SCALE = {"%": 100.0, "1": 1.0, "M": 1e-6, "G": 1e-9}  # from ours to the unit of the table
PROBE_PARTS = {"size": "rsp", "histology": "rspp"}


@dataclass(frozen=True)
class ReproduceRequest:
    """Which table to reproduce, on which data, with which encoders."""

    table: Annotated[str, Argument(help="A table (ntssl/1, ta/2, thesis/5.4), or list.")]
    data: Annotated[Path | None, Argument(help="Data folder; none for list.")] = None
    out: Annotated[
        Path | None, Option("--out", "-o", help="Folder to write; WORKSPACE/TABLE by default.")
    ] = None
    workspace: Annotated[Path, Option(help="Folder for training runs.")] = Path("reproduced")
    part: Annotated[str | None, Option(help="Part; by default rc19 if present, else eval.")] = None
    only: Annotated[Sequence[str], Option(help="Only this encoder or method.")] = ()
    weights: Annotated[
        Sequence[str], Option(help="NAME=FILE: weights of an encoder or method.")
    ] = ()
    stand_in: Annotated[
        bool, Option("--stand-in", help="Replace every encoder by a small one.")
    ] = False
    sets: Sets = ()
    train: Annotated[bool, Option(help="Train encoders that have a recipe.")] = True
    anyway: Annotated[
        bool, Option("--anyway", help="Print differences even if not comparable.")
    ] = False
    grid: Annotated[str, Option(help="Settings searched: paper or demo.")] = "paper"
    seeds: Annotated[int, Option(min=1, help="Training runs of each probe.")] = 3
    device: Device = "auto"
    workers: Workers = 2

    def encoders(self) -> "Workspace":
        """Where the encoders of the table come from.

        Raises:
            PolyplinkError: If a value of `weights` names no file.
        """
        from polyplink.app.encoders_under_test import Workspace

        assert self.data is not None
        given = named_files("--weights", self.weights)
        return Workspace(
            self.workspace,
            self.data,
            given,
            self.stand_in,
            tuple(self.sets),
            self.train,
            self.device,
            self.workers,
        )


def reproduce(
    request: ReproduceRequest, progress: Progress = silent
) -> "Result[ReproducedTable] | Result[list[dict[str, Any]]]":
    """Set a published table beside ours; writes HTML, CSV and LaTeX. `list` shows all tables.

    Trained encoders, crops and vectors are cached in the workspace and data folder, and reused.

    Raises:
        PolyplinkError: If there is no such table, part or data folder, or `only` names no row.
    """
    from polyplink.app.crop_variants import Variant
    from polyplink.app.encoders_under_test import list_tables
    from polyplink.data import read_data
    from polyplink.evaluate import Figure
    from polyplink.recipes.published import published_table
    from polyplink.report.reproduced import (
        ReproducedTable,
        places,
        reproduced_table,
        states_table,
        write_reproduced,
    )

    name = request.table
    if name == "list":
        states = list_tables()
        return Result(states, shown=[states_table(states)])
    if request.data is None:
        raise PolyplinkError(f"no data folder to reproduce {name} on", "give TABLE and DATA")
    workspace, table = request.encoders(), published_table(name)
    for wanted in request.only:
        PolyplinkError.unless(
            wanted in table.subjects,
            f"{name} has no row of {wanted!r}",
            f"choose among {', '.join(table.subjects)}",
        )
    find_grid(request.grid)
    out = request.out or request.workspace / name
    names = ("part", "grid", "anyway", "seeds", "only")
    choices = {name: getattr(request, name) for name in names}
    asked = {"table": name, "workspace": workspace, "choices": choices}
    record = RunRecord("reproduce", settings=asked)
    record.claim(out)
    data = read_data(request.data)
    part = find_part(data, request.part)
    found: dict[tuple[str, Variant, str], Figure] = {}
    for encoder in table.subjects:
        if not request.only or encoder in request.only:
            with record.stage(encoder):
                ours = _measured(encoder, request, workspace, table, data, part, progress)
                found |= {(encoder, *key): figure for key, figure in ours.items()}
    why_not = incomparable(data, part, stand_in=request.stand_in)
    left_out = Figure(None, why="left out by --only")
    cells = tuple(
        _beside(
            cell,
            found.get((cell.subject, Variant(cell.crop, cell.clip), cell.measure), left_out),
            # The cost of an encoder does not depend on data.
            request.anyway or not why_not or cell.measure.startswith(COSTS),
        )
        for cell in table.cells
    )
    result = ReproducedTable(
        name, table.source, table.caption, part, why_not, request.anyway, cells
    )
    record.inputs["data"] = data.key
    write_json(out / "table.json", result)
    write_reproduced(out, result)
    record.write(out)
    counted = f"{result.computed} of {len(cells)} cells computed on the part {part}"
    why = [f"not computed: {places(missing)}: {why}" for why, missing in result.reasons.items()]
    remarks = [f"* {places(odd)}: {remark}" for remark, odd in result.remarks.items()]
    banner = [result.banner] if result.banner else []
    files = f"files: {out}/table.html, .csv, .tex"
    shown = [*banner, reproduced_table(result), counted, *why, *remarks, files]
    return Result(result, shown=shown)


def find_part(data: "DataSet", part: str | None) -> str:
    """The part to measure on: the one named, or rc19 if its procedures are present, else "eval".

    Raises:
        PolyplinkError: If there is no such part.
    """
    if part is None:
        with suppress(PolyplinkError):
            data.part("rc19")
            return "rc19"
    wanted = part or "eval"
    data.part(wanted)
    return wanted


def is_simulated(data: "DataSet") -> bool:
    """Whether any procedure comes from the simulator."""
    from polyplink.data import SIMULATED

    return any(name.startswith(SIMULATED) for name in data.procedures["dataset"].unique())


def incomparable(data: "DataSet", part: str, *, stand_in: bool) -> str:
    """Why differences to the published values would be meaningless; "" if they are not."""
    why = []
    if is_simulated(data):
        why.append("SIMULATED data")
    elif part != "rc19":
        why.append(f"the part {part}, not rc19")
    if stand_in:
        why.append("stand-in encoders")
    return ", ".join(why)


def _measured(
    name: str,
    request: ReproduceRequest,
    workspace: "Workspace",
    table: "PublishedTable",
    data: "DataSet",
    part: str,
    progress: Progress,
) -> "dict[tuple[Variant, str], Figure]":
    """All figures of a table for one encoder, by variant and measure; a failed one says why."""
    from polyplink.app.crop_variants import Variant, compare_variants
    from polyplink.app.encoders_under_test import find_encoder
    from polyplink.app.probing import PROBES, probe_encoders
    from polyplink.evaluate import EvaluationSettings, Figure

    found: dict[tuple[Variant, str], Figure] = {}
    of_vectors: dict[Variant, list[str]] = {}
    of_probes: list[tuple[Variant, str]] = []
    costs: dict[str, Figure] = {}
    for cell in (cell for cell in table.cells if cell.subject == name):
        variant, task = Variant(cell.crop, cell.clip), cell.measure.partition("/")[0]
        if cell.measure.startswith(COSTS):
            costs = costs or _costs(name)
            found[variant, cell.measure] = costs[cell.measure]
        elif task in PROBES:
            of_probes.append((variant, cell.measure))
        elif cell.measure.startswith(PARTS_UNKNOWN):
            why = "the parts that the paper measured on were not published"
            found[variant, cell.measure] = Figure(None, why=why)
        else:
            of_vectors.setdefault(variant, []).append(cell.measure)
    try:
        encoder = find_encoder(name, workspace, part, progress)
    except PolyplinkError as error:
        every = {(Variant(c.crop, c.clip), c.measure) for c in table.cells if c.subject == name}
        missing = {key for key in every if not key[1].startswith(COSTS)}
        return found | dict.fromkeys(missing, Figure(None, why=str(error)))

    # Stand-ins keep their crop factor unless the table is about crop factors.
    crops = {cell.crop for cell in table.cells if not cell.measure.startswith(COSTS)}
    keeps = request.stand_in and len(crops) == 1
    seen = {
        variant: replace(variant, crop=encoder.prepare.crop_factor) if keeps else variant
        for variant in [*of_vectors, *(variant for variant, _ in of_probes)]
    }
    ours = compare_variants(
        encoder,
        workspace.data,
        part,
        {seen[variant]: wanted for variant, wanted in of_vectors.items()},
        settings=EvaluationSettings(
            grid=find_grid(request.grid),
            form="sigmoid" if table.name.startswith("thesis/") else "raw_l2",
            threads=request.workers,
        ),
        workers=request.workers,
        progress=progress,
    )
    for variant, wanted in of_vectors.items():
        found |= {(variant, measure): ours[seen[variant]][measure] for measure in wanted}
    for variant, measure in of_probes:
        task, _, figure = measure.partition("/")
        crop = seen[variant].crop
        own = replace(encoder, prepare=replace(encoder.prepare, crop_factor=crop))
        try:
            (probed,) = probe_encoders(
                PROBES[task],
                [own],
                workspace.data,
                PROBE_PARTS[task] if part == "rc19" and not is_simulated(data) else part,
                length=variant.clip or 8,
                seeds=request.seeds,
                workers=workspace.workers,
                progress=progress,
            ).values()
            found[variant, measure] = probed.result.figures[figure]
        except PolyplinkError as error:
            found[variant, measure] = Figure(None, why=str(error))
    return found


def _costs(name: str) -> "dict[str, Figure]":
    """Parameters and multiply-accumulates of an encoder, counted as in the paper."""
    from polyplink.app.weights import cost_of
    from polyplink.evaluate import Figure

    try:
        cost = cost_of(name)
    except PolyplinkError as error:
        return dict.fromkeys((PARAMETERS, MACS), Figure(None, why=str(error)))
    return {
        PARAMETERS: Figure(cost["published_params_m"] * 1e6, n=1),
        MACS: Figure(cost["published_macs_g"] * 1e9, n=1),
    }


def _beside(cell: "Cell", ours: "Figure", comparable: bool) -> "ReproducedCell":
    """A published number and ours in its unit."""
    from polyplink.report.reproduced import ReproducedCell

    scale = SCALE[cell.unit]
    names = ("value", "low", "high", "sd")
    known = {name: getattr(ours, name) for name in names if getattr(ours, name) is not None}
    scaled = replace(ours, **{name: value * scale for name, value in known.items()})
    if scaled.value is None and not scaled.why:
        scaled = replace(scaled, why="undefined on these data")
    kind = cell.measure.partition("/")[0]
    return ReproducedCell(
        group=cell.group,
        row=cell.row,
        column=cell.column,
        unit=cell.unit,
        published=cell.text,
        spread=cell.spread,
        ours=scaled,
        units_of={"cost": "encoder", "size": "polyps", "histology": "polyps"}.get(
            kind, "procedures"
        ),
        difference=scaled.value - cell.value if comparable and scaled.value is not None else None,
        remark=cell.remark,
    )
