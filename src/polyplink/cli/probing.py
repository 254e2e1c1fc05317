"""The verb that probes: size and histology from frozen vectors."""

import json
from pathlib import Path
from typing import Annotated

import typer

from polyplink.cli.shell import AsJson, Data, Device, Weights, Workers, app, bars, guarded


@app.command()
@guarded
def probe(
    task: Annotated[str, typer.Argument(help="size or histology.")],
    weights: Weights,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("probe"),
    part: Annotated[
        str, typer.Option(help="Part divided 70 to 30 by patient; rsp and rspp are the papers'.")
    ] = "eval",
    length: Annotated[int, typer.Option(min=1, help="Crops of a fragment.")] = 8,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of the probe, averaged.")] = 3,
    split_seed: Annotated[int, typer.Option(help="Another one, another division.")] = 0,
    rate: Annotated[float | None, typer.Option(help="Learning rate; the paper's if left.")] = None,
    epochs: Annotated[int | None, typer.Option(help="The paper's 20 if left out.")] = None,
    device: Device = "auto",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Probe frozen vectors for the size or the histology of polyps; writes figures."""
    from polyplink.jobs.probing import ProbeChoice
    from polyplink.jobs.probing import probe as run

    choice = ProbeChoice(part, length, seeds, split_seed, rate, epochs)
    with bars() as progress:
        found = run(
            task,
            weights,
            data,
            out,
            choice=choice,
            device=device,
            workers=workers,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps(found.as_dict()))
        return
    from rich.console import Console

    from polyplink.report.tables import probe_table

    result = found.result
    Console().print(probe_table(found.task, result.figures))
    typer.echo(
        f"trained on {sum(found.trained_polyps)} polyps {found.trained_polyps}, tested on "
        f"{sum(result.polyps)} {result.polyps}: (negative, positive); {found.left_out} labelled "
        "polyps without a whole fragment left out"
    )
