"""The verbs that make and check data: simulate, import, doctor, prepare.

Heavy rooms are imported inside the verbs, so that `polyplink --help` is instant.
"""

import functools
import json
from pathlib import Path
from typing import Annotated

import typer

from polyplink.cli.shell import AsJson, Data, Sets, Workers, app, bars, guarded, say


@app.command()
@guarded
def simulate(
    out: Annotated[Path, typer.Argument(help="Folder to write, laid out as REAL-Colon is.")],
    preset: Annotated[str, typer.Option(help="How much: tiny or smoke.")] = "tiny",
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Render procedures with known identities."""
    from polyplink import simulate as room

    with bars() as progress:
        data = room.simulate(
            out,
            room.preset(preset),
            seed,
            device=device,
            workers=workers,
            progress=functools.partial(progress, "procedures"),
        )
    counts = {
        "out": str(out),
        "procedures": data.procedures.height,
        "polyps": data.polyps.height,
        "frames": int(data.procedures["n_frames"].sum()),
        "boxes": data.detections.height,
    }
    text = "{out}: {procedures} procedures, {polyps} polyps, {frames} frames, {boxes} boxes"
    say(counts, text.format(**counts), as_json)


@app.command("import")
@guarded
def import_(
    data_format: Annotated[str, typer.Argument(metavar="FORMAT", help="real-colon")],
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The data set as released.")],
    out: Annotated[Path, typer.Argument(help="Folder for the tables.")],
    images: Annotated[bool, typer.Option(help="Use the images where they are there.")] = True,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Stop at what cannot be used, instead of leaving it out."),
    ] = False,
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Read a data set as it was released into tables."""
    from polyplink import jobs

    with bars() as progress:
        imported = jobs.import_data(
            data_format,
            source,
            out,
            images=images,
            strict=strict,
            workers=workers,
            progress=progress,
        )
    for warning in imported.warnings:
        typer.echo(f"warning: {warning}", err=True)
    data = imported.data
    counts = {
        "out": str(out),
        "procedures": data.procedures.height,
        "polyps": data.polyps.height,
        "boxes": data.detections.height,
        "warnings": imported.warnings,
        "splits": {name: len(ids) for name, ids in data.splits.items()},
    }
    text = "{out}: {procedures} procedures, {polyps} polyps, {boxes} boxes".format(**counts)
    say(counts, text, as_json)


@app.command()
@guarded
def doctor(
    data: Data,
    images: Annotated[bool, typer.Option(help="Also look for the image files.")] = True,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with a data set, worst first."""
    from polyplink.artefacts import to_plain
    from polyplink.data import diagnose, read_data

    findings = diagnose(read_data(data), images=images)
    if as_json:
        typer.echo(json.dumps(to_plain(findings)))
    else:
        for f in findings:
            typer.echo(f"{f.severity:8}{f.check} ({f.count}): {f.what}\n        {f.mend}")
        if not findings:
            typer.echo("nothing found")
    if any(f.severity == "error" for f in findings):
        raise typer.Exit(1)


@app.command()
@guarded
def prepare(
    data: Data,
    recipe: Annotated[str, typer.Option(help="Recipe whose settings to use.")] = "ntssl",
    set_: Sets = None,
    crops: Annotated[bool, typer.Option(help="Cut crops; without, tracklets alone.")] = True,
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Build tracklets and cut their crops, once."""
    from polyplink import tracklets
    from polyplink.recipes import find_recipe, override

    settings = override(find_recipe(recipe), set_ or []).prepare
    with bars() as progress:
        prepared = tracklets.prepare(
            data,
            settings,
            with_crops=crops,
            workers=workers,
            progress=functools.partial(progress, "crops"),
        )
    counts = {
        "out": str(prepared.folder),
        "tracklets": prepared.tracklets.height,
        "crops": int(prepared.tracklets["n_crops"].sum()),
    }
    say(counts, "{out}: {tracklets} tracklets, {crops} crops".format(**counts), as_json)
