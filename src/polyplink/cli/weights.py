"""The verbs about weights of others: add, list, show, cost.

Heavy rooms are imported inside the verbs, so that `polyplink --help` is instant.
"""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from polyplink.cli.shell import AsJson, app, guarded, say

verbs = typer.Typer(help="Encoders of others: add, list, show, cost.", no_args_is_help=True)
app.add_typer(verbs, name="weights")


@verbs.command()
@guarded
def add(
    file: Annotated[Path, typer.Argument(help="The file as it was published.")],
    name: Annotated[str | None, typer.Option("--as", help="What to call the weights.")] = None,
    preset: Annotated[
        Literal["own", "reference"], typer.Option(help="As pre-trained, or as NTSSL's program.")
    ] = "own",
    size: Annotated[int | None, typer.Option(help="Image size, pixels.")] = None,
    pooling: Annotated[
        Literal["cls", "mean", "patchmean", "cat"] | None, typer.Option(help="Other than usual.")
    ] = None,
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Run what the file wants to run.")
    ] = False,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Take a file with another SHA-256.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import published weights; from then on their name serves wherever WEIGHTS is asked for."""
    from polyplink.jobs.weights import add_weights

    added = add_weights(
        file,
        name=name,
        preset=preset,
        size=size,
        pooling=pooling,
        trust_pickle=trust_pickle,
        unverified=unverified,
    )
    text = "{name}: {title}, {tensors} tensors, licence {licence}\n{path}"
    say(added.as_dict(), text.format(**added.as_dict()), as_json)


@verbs.command("list")
@guarded
def list_(as_json: AsJson = False) -> None:
    """List the encoders that are known, and those that were added."""
    from polyplink.jobs.weights import list_weights

    rows = list_weights()
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        where = row["path"] or f"not here; from {row['source']}"
        typer.echo(f"{row['name']:14}{row['title']:20}{row['licence']}\n{'':14}{where}")


@verbs.command()
@guarded
def show(
    weights: Annotated[Path, typer.Argument(help="Weights file, run folder, or a name.")],
) -> None:
    """Print the record of weights as JSON: encoder, crops, origin, what they have seen."""
    from polyplink.jobs.weights import show_weights

    typer.echo(json.dumps(show_weights(weights), indent=1))


@verbs.command()
@guarded
def cost(
    name: Annotated[str, typer.Argument(help="An encoder or a recipe.")],
    size: Annotated[int | None, typer.Option(min=1, help="Image size, pixels.")] = None,
    frames: Annotated[int, typer.Option(min=1, help="Frames of the clip.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Count parameters and multiply-accumulates of an encoder."""
    from polyplink.jobs.costing import cost_of

    found = cost_of(name, size, frames)
    text = (
        "{name} at {frames} x {size} x {size}: {params_m:.2f} M parameters "
        "({published_params_m:.2f} M with unused heads; projector {projector_m:.2f} M), "
        "{published_macs_g:.2f} G multiply-accumulates as the paper counts, "
        "{all_macs_g:.2f} G with attention and without norms"
    )
    say(found, text.format(**found), as_json)
