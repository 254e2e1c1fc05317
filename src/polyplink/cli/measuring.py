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
    as_json: AsJson = False,
) -> None:
    """Time the hot paths, each against its rival, and compare their outputs."""
    from polyplink.artefacts import to_plain
    from polyplink.bench import run_benches

    for result in run_benches(name, size):
        typer.echo(json.dumps(to_plain(result)) if as_json else result.line())
