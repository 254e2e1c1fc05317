"""The verb that draws figures."""

import json
from pathlib import Path
from typing import Annotated

import typer

from polyplink.cli.shell import (
    AsJson,
    Data,
    Device,
    Weights,
    Workers,
    app,
    bars,
    guarded,
    named_files,
)


@app.command()
@guarded
def figures(
    weights: Weights,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("figures"),
    beside: Annotated[
        list[str] | None, typer.Option(help="NAME=WEIGHTS: another encoder to compare with.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="curriculum, similarity, counting, recall, map or pca; all by default."),
    ] = None,
    part: Annotated[str, typer.Option(help="Part of the data set.")] = "eval",
    grid: Annotated[str, typer.Option(help="Settings searched: paper or demo.")] = "demo",
    device: Device = "auto",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Draw ranks and purity, similarities, FR against FPR, recall at k, and a map of vectors."""
    from polyplink.jobs.drawing import draw

    others = named_files("--beside", beside or [])
    with bars() as progress:
        written = draw(
            weights,
            data,
            out,
            beside=others,
            only=only or (),
            part=part,
            grid=grid,
            device=device,
            workers=workers,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps([str(path) for path in written]))
        return
    typer.echo("\n".join(map(str, written)))
