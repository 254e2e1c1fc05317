"""The verb that measures: bench.

Heavy rooms are imported inside the verb, so that `polyplink --help` is instant.
"""

import json
from typing import Annotated

import typer

from polyplink.cli.shell import AsJson, app, guarded


@app.command()
@guarded
def bench(
    name: Annotated[str | None, typer.Argument(help="One path; all by default.")] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Other than the usual size.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Name what fell behind the recorded ratios; exit 1.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--record", help="Record the ratios to compare with later.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Time the hot paths, each against its rival, and compare their outputs."""
    from polyplink.artefacts import to_plain
    from polyplink.bench import complaint, read_recorded, record, run_benches

    last, complaints = read_recorded(), []
    for result in run_benches(name, size):
        typer.echo(json.dumps(to_plain(result)) if as_json else result.line())
        complaints.append(complaint(result, last))
        if keep:
            record([result])
    said = [line for line in complaints if compare and line is not None]
    for line in said:
        typer.echo(line, err=True)
    if said:
        raise typer.Exit(1)
