"""The verb that measures: bench.

Heavy rooms are imported inside the verb, so that `polyplink --help` is instant.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from polyplink.cli.shell import AsJson, app, guarded
from polyplink.core.errors import PolyplinkError


@app.command()
@guarded
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Some paths; all by default.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Other than the usual size.")] = None,
    device: Annotated[
        str, typer.Option(help="auto, cpu or cuda, for the paths that can use a GPU.")
    ] = "auto",
    profile: Annotated[
        Path | None, typer.Option(help="Write where the time of a training step goes; with step.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Name what fell behind the recorded ratios; exit 1.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--record", help="Record the ratios to compare with later.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Time the hot paths, each against its rival, and compare their outputs."""
    from polyplink.bench import complaint, read_recorded, record, run_benches, step
    from polyplink.bench.run import bench_device
    from polyplink.core.artefacts import to_plain, write_text

    chosen = names or []
    if profile is not None and "step" not in chosen:
        raise PolyplinkError("--profile is for the path step", "name it: polyplink bench step")
    last, complaints = read_recorded(), []
    for result in run_benches(chosen, size, device):
        typer.echo(json.dumps(to_plain(result)) if as_json else result.line())
        complaints.append(complaint(result, last))
        if keep:
            record([result])
    if profile is not None:
        write_text(profile, step.profile(size or step.BAGS, bench_device(device)))
    said = [line for line in complaints if compare and line is not None]
    for line in said:
        typer.echo(line, err=True)
    if said:
        raise typer.Exit(1)
