"""The command `reproduce`: compute a published table and compare it with the printed one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import StrPath, check_inputs, named_files, names_of
from polyplink.cli.verb import inform, verb
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.results import Progress, Result

if TYPE_CHECKING:
    from polyplink_lab.reproduce.published_tables import PublishedTable
    from polyplink_lab.reproduce.reproduced_table import ReproducedTable
    from polyplink_lab.reproduce.reproduction import ReproductionSettings
    from polyplink_lab.reproduce.reproduction_plan import Step


@verb
def reproduce(
    table: Annotated[
        str,
        Argument(
            help="A table (ntssl/1, ta/2, thesis/5.4), all or list.",
            autocompletion=names_of("polyplink_lab.reproduce.published_tables:published"),
        ),
    ],
    data: Annotated[StrPath | None, Argument(help="Data folder; none for list.")] = None,
    *,
    out: Annotated[
        StrPath | None,
        Option("--out", "-o", help="Folder to write; WORKSPACE/TABLE by default."),
    ] = None,
    workspace: Annotated[StrPath, Option(help="Folder for training runs.")] = "reproduced",
    part: Annotated[str | None, Option(help="Part; by default rc19 if present, else eval.")] = None,
    only: Annotated[Sequence[str], Option(help="Only this encoder or method.")] = (),
    columns: Annotated[
        Sequence[str], Option(help="Only this column of the table; may be repeated.")
    ] = (),
    weights: Annotated[
        Sequence[str], Option(help="NAME=FILE: weights of an encoder or method.")
    ] = (),
    stand_in: Annotated[bool, Option(help="Replace every encoder by a small one.")] = False,
    as_published: Annotated[
        bool,
        Option(
            help="Allow checkpoints chosen on evaluated procedures, as in the papers; marks "
            "their cells."
        ),
    ] = False,
    sets: options.Sets = (),
    train: Annotated[bool, Option(help="Train encoders that have a recipe.")] = True,
    anyway: Annotated[bool, Option(help="Print differences even if not comparable.")] = False,
    grid: Annotated[str, Option(help="Settings searched: paper or demo.")] = "paper",
    preset: Annotated[
        Literal["reference", "own"],
        Option(help="Feed published encoders as NTSSL's program does, or as pre-trained."),
    ] = "reference",
    time: Annotated[
        Literal["normalised", "frames"],
        Option(help="Unit of distances in time: the annotated span, or frames (thesis, 2.3)."),
    ] = "normalised",
    precision: Annotated[
        Literal["tf32", "float32", "bf16"],
        Option(help="Precision of vectors on a GPU; for trainings, --set optim.precision=NAME."),
    ] = "tf32",
    seeds: Annotated[int, Option(min=1, help="Training runs of each probe.")] = 3,
    split: Annotated[
        Sequence[str],
        Option(
            help="File that divides the polyps of size and histology, see probe; TASK=FILE for one."
        ),
    ] = (),
    dry_run: Annotated[
        bool, Option(help="Only list the work, what is missing, and its cost.")
    ] = False,
    device: options.Device = "auto",
    workers: options.Workers = 2,
    progress: Progress = inform,
) -> "Result[ReproducedTable] | Result[list[dict[str, Any]]] | Result[list[Step]]":
    """Compute a published table and compare it with the printed one. `list` shows all tables.

    `all` computes every table, those with the fewest trainings first; a table that was written with
    the same settings, data and encoders is not computed again, unless a cell failed. Trained
    encoders, crops and vectors are cached in the workspace and the data folder. Missing cells state
    the reason.

    Args:
        out: The output folder; by default one of the table's name in the workspace.
        weights: NAME=FILE of an encoder or method.
        preset: Input of published encoders: "reference", as in NTSSL's program, or "own", as in
            their pre-training.
        split: Files that divide the polyps of size and histology: FILE or TASK=FILE.
        progress: Called for crops, epochs and tracklets.

    Raises:
        PolyplinkError: If there is no such table, column, part or data folder, `only` names no
            row, `weights` name no encoder of a table or no file, or no polyp of the part is known.
    """
    from polyplink_lab.reproduce.published_tables import published_table, published_tables

    if table == "list":
        if data is not None:
            raise PolyplinkError("`reproduce list` reads no data folder", f"leave {data} out")
        from polyplink_lab.reproduce.encoders_under_test import list_tables
        from polyplink_lab.reproduce.reproduced_table import states_table

        states = list_tables()
        return Result(states, printed=[states_table(states)])
    if data is None:
        raise PolyplinkError(f"no data folder to reproduce {table} on", "give TABLE and DATA")
    if dry_run and out is not None:
        raise PolyplinkError("--dry-run writes nothing to --out", "leave one of them out")
    all_tables = table == "all"
    tables = list(published_tables().values()) if all_tables else [published_table(table)]
    tables = _select_cells(table, tables, only, columns)
    from polyplink.associate.grid_search import find_grid

    find_grid(grid)
    named_weights = named_files("--weights", weights)
    encoders = dict.fromkeys(
        name for paper in published_tables().values() for name in paper.subjects
    )
    of_tables = {name for paper in tables for name in paper.subjects}
    computed = [name for name in encoders if name in of_tables and (not only or name in only)]
    for encoder, path in named_weights.items():
        find_named("encoder or method in the tables", encoder, encoders)
        if encoder not in computed:
            raise PolyplinkError(
                f"--weights {encoder}=FILE has no effect: no row of {encoder} is computed",
                f"leave it out, or give weights of {', '.join(computed)}",
            )
        check_inputs(path)
    check_inputs(data=Path(data), parts=[part], device=device)
    from polyplink_lab.reproduce.encoders_under_test import Workspace, has_recipe
    from polyplink_lab.reproduce.reproduction import (
        ReproductionSettings,
        divided_by,
        plan,
        reproduce_table,
    )

    sources = Workspace(
        Path(workspace),
        Path(data),
        weights=named_weights,
        stand_in=stand_in,
        sets=tuple(sets),
        may_train=train,
        device=device,
        workers=workers,
        preset=preset,
        as_published=as_published,
        precision=precision,
    )
    settings = ReproductionSettings(
        sources,
        part=part,
        only=tuple(only),
        columns=tuple(columns),
        anyway=anyway,
        grid=grid,
        time=time,
        seeds=seeds,
        splits=divided_by(split, Path(data)),
    )
    tables.sort(key=lambda table: sum(map(has_recipe, table.subjects)))
    if dry_run:
        return plan(settings, tables)
    if all_tables:
        return _reproduce_all(settings, tables, Path(out or workspace), progress)
    folder = Path(workspace) / tables[0].name if out is None else Path(out)
    return reproduce_table(settings, tables[0], folder, progress)


def _select_cells(
    name: str,
    tables: "Sequence[PublishedTable]",
    only: Sequence[str],
    columns: Sequence[str],
) -> "list[PublishedTable]":
    """The tables, reduced to the requested rows and columns."""
    from polyplink_lab.reproduce.published_tables import both_precisions, in_columns

    subjects = list(dict.fromkeys(subject for table in tables for subject in table.subjects))
    for subject in only:
        if subject not in subjects:
            raise PolyplinkError(
                f"{name} has no row of {subject!r}", f"choose among {', '.join(subjects)}"
            )
    headings = {cell.column for table in tables for cell in both_precisions(table.cells)}
    for column in columns:
        if column not in headings:
            raise PolyplinkError(
                f"{name} has no column {column!r}", f"choose among {', '.join(sorted(headings))}"
            )
    cut = [replace(table, cells=in_columns(table.cells, columns)) for table in tables]
    chosen = [
        table for table in cut if table.cells and (not only or set(only) & set(table.subjects))
    ]
    if not chosen:
        raise PolyplinkError(
            f"{', '.join(only)} has no cell in the columns {', '.join(columns)}",
            "leave --only or --columns out",
        )
    return chosen


def _reproduce_all(
    settings: "ReproductionSettings",
    tables: "Sequence[PublishedTable]",
    folder: Path,
    progress: Progress,
) -> "Result[list[dict[str, Any]]]":
    """Compute all tables, except those already written, see `reproduction.earlier_summary`."""
    from polyplink_lab.reproduce import reproduction

    rows, printed = [], []
    for table in tables:
        out = folder / table.name
        summary = (
            reproduction.earlier_summary(settings, table, out)
            or reproduction.reproduce_table(settings, table, out, progress).value.summary
        )
        rows.append({"table": table.name, **summary, "files": str(out)})
        printed.append(f"{table.name}: {summary['computed']} of {summary['cells']} cells computed")
    code = int(not any(row["computed"] for row in rows))
    return Result(rows, printed=[*printed, f"files: {folder}"], code=code)
