"""The verb that sets published tables beside ours."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyplink.cli.shell import AsJson, Device, Sets, Workers, app, bars, guarded, named_files
from polyplink.core.errors import PolyplinkError

if TYPE_CHECKING:
    from polyplink.report.reproduced import ReproducedTable


@app.command()
@guarded
def reproduce(
    table: Annotated[str, typer.Argument(help="A table (ntssl/1, ta/2, thesis/5.4), or list.")],
    data: Annotated[Path | None, typer.Argument(help="Data folder; none for list.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write; WORKSPACE/TABLE if left.")
    ] = None,
    workspace: Annotated[Path, typer.Option(help="Folder where runs are kept.")] = Path(
        "reproduced"
    ),
    part: Annotated[str | None, typer.Option(help="Part; rc19 where it is, else eval.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this encoder or method.")] = None,
    weights: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE: weights of an encoder or method.")
    ] = None,
    stand_in: Annotated[
        bool, typer.Option("--stand-in", help="Small encoders in every one's place.")
    ] = False,
    set_: Sets = None,
    train: Annotated[bool, typer.Option(help="Train what a recipe makes.")] = True,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Differences even of what is not comparable.")
    ] = False,
    grid: Annotated[str, typer.Option(help="Settings searched: paper or demo.")] = "paper",
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each probe.")] = 3,
    device: Device = "auto",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Set a published table beside ours; writes HTML, CSV and LaTeX. `list` shows all tables."""
    from polyplink.jobs.reproducing import Choices
    from polyplink.jobs.reproducing import reproduce as run
    from polyplink.jobs.subjects import Workspace

    if table == "list":
        _list(as_json)
        return
    if data is None:
        raise PolyplinkError(f"no data folder to reproduce {table} on", "give TABLE and DATA")
    given = named_files("--weights", weights or [])
    place = Workspace(workspace, data, given, stand_in, tuple(set_ or ()), train, device, workers)
    folder = out if out is not None else workspace / table
    with bars() as progress:
        result = run(
            table,
            place,
            folder,
            choices=Choices(part, grid, anyway, seeds, only),
            progress=progress,
        )
    if as_json:
        from polyplink.core.artefacts import to_plain

        typer.echo(json.dumps(to_plain(result)))
        return
    _print(result)
    typer.echo(f"files: {folder}/table.html, .csv, .tex")


def _list(as_json: bool) -> None:
    from polyplink.core.artefacts import to_plain
    from polyplink.jobs.reproducible import list_tables

    states = list_tables()
    if as_json:
        typer.echo(json.dumps(to_plain(states)))
        return
    from rich.console import Console

    from polyplink.report.reproduced import states_table

    Console().print(states_table([to_plain(state) for state in states]))


def _print(result: "ReproducedTable") -> None:
    from rich.console import Console

    from polyplink.report.reproduced import places, reproduced_table

    if result.banner:
        typer.echo(result.banner)
    Console().print(reproduced_table(result))
    typer.echo(f"{result.computed} of {len(result.cells)} cells computed on the part {result.part}")
    for why, cells in result.reasons.items():
        typer.echo(f"not computed: {places(cells)}: {why}")
    for remark, cells in result.remarks.items():
        typer.echo(f"* {places(cells)}: {remark}")
