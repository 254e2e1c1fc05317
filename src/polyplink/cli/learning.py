"""The verbs about encoders of one's own: train, export, embed.

Heavy rooms are imported inside the verbs, so that `polyplink --help` is instant.
"""

from pathlib import Path
from typing import Annotated

import typer

from polyplink.cli.shell import (
    AsJson,
    Data,
    Device,
    Out,
    Sets,
    Weights,
    Workers,
    app,
    bars,
    guarded,
    say,
)


@app.command()
@guarded
def train(
    recipe: Annotated[str, typer.Argument(help="Its name: ntssl, sfe, tpc, ...")],
    data: Data,
    out: Out = Path("run"),
    set_: Sets = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    init_from: Annotated[
        Path | None,
        typer.Option(help="Start anew from weights of another run: file, folder or name."),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option("--log", help="tensorboard or wandb (offline), beside history.csv."),
    ] = None,
    device: Device = "auto",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Train an encoder by a recipe; --resume goes on with a run that was stopped."""
    from polyplink import jobs
    from polyplink.recipes import find_recipe, override

    start = [] if init_from is None else [f"init_from={init_from}"]
    chosen = override(find_recipe(recipe), [*start, *(set_ or [])])
    with bars() as progress:
        trained = jobs.train(
            chosen,
            data,
            out,
            device=device,
            resume=resume,
            workers=workers,
            log=log or (),
            progress=progress,
        )
    for warning in trained.warnings:
        typer.echo(f"warning: {warning}", err=True)
    text = (
        f"{trained.weights}: epoch {trained.epoch + 1} of {trained.epochs}, "
        f"loss {trained.loss:.3f}; operating point: {trained.operating}"
    )
    say(trained.as_dict(), text, as_json)


@app.command()
@guarded
def export(
    weights: Weights,
    out: Annotated[Path, typer.Argument(help="File to write: NAME.onnx.")],
    int8: Annotated[
        Path | None,
        typer.Option("--int8", metavar="DATA", help="In 8 bits, scaled by crops of this data."),
    ] = None,
    part: Annotated[str | None, typer.Option(help="Part of that data; all by default.")] = None,
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Write an encoder for fast embedding on CPUs; embed and count take the file as WEIGHTS."""
    from polyplink import jobs

    with bars() as progress:
        done = jobs.export_encoder(
            weights, out, eight_bit=int8, part=part, workers=workers, progress=progress
        )
    text = (
        f"{done.path}: {done.bits} bits, crops of {done.size} pixels, {done.bytes / 1e6:.1f} MB; "
        f"weights {done.weights}"
    )
    say(done.as_dict(), text, as_json)


@app.command()
@guarded
def embed(
    weights: Weights,
    data: Data,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Parquet file to write.")] = None,
    part: Annotated[str | None, typer.Option(help="Part of the data set; all by default.")] = None,
    device: Device = "auto",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Turn every tracklet into a vector."""
    from polyplink import jobs

    with bars() as progress:
        done = jobs.embed_data(
            weights, data, part=part, out=out, device=device, workers=workers, progress=progress
        )
    n, d = done.embeddings.vectors.shape
    counts = {
        "out": str(done.path),
        "tracklets": n,
        "width": d,
        "weights": done.embeddings.weights_id,
        "crops": done.embeddings.crops_id,
    }
    say(counts, "{out}: {tracklets} vectors of {width}".format(**counts), as_json)
