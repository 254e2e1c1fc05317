"""The verbs that make and check data: simulate, import, merge, doctor, prepare.

Heavy rooms are imported inside the verbs, so that `polyplink --help` is instant.
"""

import functools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyplink.cli.shell import AsJson, Data, Sets, Workers, app, bars, guarded, say
from polyplink.core.errors import PolyplinkError, find_named

if TYPE_CHECKING:
    from polyplink.data import Imported

Format = Annotated[
    str,
    typer.Argument(
        metavar="FORMAT",
        help="real-colon, ldpolyp, sun, polypsset, polyp-size, coco, mot, yolo, cvat or csv.",
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at what cannot be used, instead of leaving it out.")
]
Identity = Annotated[
    str | None, typer.Option(help="What a polyp is, where the set does not say: video, ...")
]
Cases = Annotated[Path | None, typer.Option(help="Table of cases (sun) or labels (polyp-size).")]
Size = Annotated[
    str | None, typer.Option(metavar="WxH", help="Size of the frames, where no file tells it.")
]
DataSets = Annotated[
    list[str] | None, typer.Option(help="ID=NAME: the set that an id stands for (coco).")
]
FirstFrame = Annotated[int | None, typer.Option(help="Number that a video's first frame has.")]
HistologyMap = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        help="Which histology is adenoma: papers (the default), tsa-adenoma, or a JSON file.",
    ),
]

# Names of `simulate.PRESETS` and of `simulate.WRITINGS`, known before that room is imported.
PRESETS = dict.fromkeys(("tiny", "smoke", "small", "real-colon-sim"))
WRITINGS = dict.fromkeys(("tables", "archives", "frames"))


@app.command()
@guarded
def simulate(
    ctx: typer.Context,
    out: Annotated[
        Path | None, typer.Argument(help="Folder to write; --check needs none.", show_default=False)
    ] = None,
    preset: Annotated[str, typer.Option(help="tiny, small, real-colon-sim or smoke.")] = "tiny",
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    difficulty: Annotated[
        float | None, typer.Option(help="From 0, easy, to 1; the preset's own by default.")
    ] = None,
    write: Annotated[
        str | None,
        typer.Option(help="tables, archives or frames; the preset's own by default."),
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Also a contact sheet and a short film.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Hold real-colon-sim against what is published.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Make procedures with known identities, or check that they are as published."""
    from polyplink.core.workers import HEAVY, start_server

    # What can be refused is refused before seconds of imports.
    find_named("preset", preset, PRESETS)
    if write is not None:
        find_named("way to write", write, WRITINGS)
    if check:
        _only_check(ctx, out)
    elif out is None:
        raise PolyplinkError("no folder to write to", "name one: polyplink simulate OUT")
    if workers > 1 and seed >= 0 and 0 <= (difficulty or 0) <= 1:
        start_server(HEAVY)  # beside this process's own imports, which take as long
    if out is None:
        _check_simulation(seed, workers, as_json)
        return
    from polyplink.simulate import simulate_data

    with bars() as progress:
        made = simulate_data(
            preset,
            out,
            seed=seed,
            difficulty=difficulty,
            write=write,
            with_preview=preview,
            device=device,
            workers=workers,
            progress=progress,
        )
    counts = made.as_dict()
    text = "{out}: {procedures} procedures, {polyps} polyps, {frames} frames, {boxes} boxes"
    lines = [text.format(**counts), *(f"{name}: {path}" for name, path in made.preview.items())]
    say(counts, "\n".join(lines), as_json)


def _only_check(ctx: typer.Context, out: Path | None) -> None:
    """Refuse what --check does not read."""
    if out is not None:
        raise PolyplinkError("--check writes nothing", f"leave {out} out, or leave --check out")
    for name in ("preset", "difficulty", "write", "preview", "device"):
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise PolyplinkError(
                f"--check lays out real-colon-sim as it is and does not read --{name}",
                f"leave --{name} out, or leave --check out",
            )


def _check_simulation(seed: int, workers: int, as_json: bool) -> None:
    """Print published figures beside simulated ones; end with 1 unless all hold."""
    from polyplink import jobs
    from polyplink.core.artefacts import to_plain
    from polyplink.simulate import real_colon_sim

    with bars() as progress:
        rows = jobs.check_simulation(real_colon_sim(), seed, workers=workers, progress=progress)
    typer.echo(json.dumps(to_plain(rows)) if as_json else jobs.rows_text(rows))
    if not all(row.holds for row in rows):
        raise typer.Exit(1)


@app.command("import")
@guarded
def import_(
    data_format: Format,
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The data set as released.")],
    out: Annotated[Path, typer.Argument(help="Folder for the tables.")],
    images: Annotated[bool, typer.Option(help="Use the images where they are there.")] = True,
    strict: Strict = False,
    identity: Identity = None,
    boxes: Annotated[Path | None, typer.Option(help="File with the boxes (polyp-size).")] = None,
    cases: Cases = None,
    size: Size = None,
    dataset: Annotated[str | None, typer.Option(help="Name of the data set.")] = None,
    datasets: DataSets = None,
    first_frame: FirstFrame = None,
    kind: Annotated[str | None, typer.Option(help="gt or det (mot).")] = None,
    attribute: Annotated[str | None, typer.Option(help="Where the polyp is named (cvat).")] = None,
    sixth: Annotated[str | None, typer.Option(help="What a sixth number is (yolo).")] = None,
    histology_map: HistologyMap = None,
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Read a data set as it was released, or boxes of any source, into tables."""
    from polyplink import jobs

    with bars() as progress:
        imported = jobs.import_data(
            data_format,
            source,
            out,
            images=images,
            strict=strict,
            histology_map=histology_map,
            workers=workers,
            progress=progress,
            identity=identity,
            boxes=boxes,
            cases=cases,
            size=None if size is None else _size(size),
            dataset=dataset,
            datasets=_pairs(datasets),
            first_frame=first_frame,
            kind=kind,
            attribute=attribute,
            sixth=sixth,
        )
    _say_imported(out, imported, as_json)


def _say_imported(out: Path, imported: "Imported", as_json: bool) -> None:
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
def merge(
    out: Annotated[Path, typer.Argument(help="Folder for the tables.")],
    data: Annotated[list[Path], typer.Argument(help="Data folders that `polyplink import` wrote.")],
    histology_map: HistologyMap = None,
    as_json: AsJson = False,
) -> None:
    """Put several data folders into one; images stay where they are."""
    from polyplink import jobs

    merged = jobs.merge_data(out, data, histology_map=histology_map)
    _say_imported(out, merged, as_json)


def _size(text: str) -> tuple[int, int]:
    """Width and height from `1352x1080`."""
    found = re.fullmatch(r"([1-9]\d{0,8})x([1-9]\d{0,8})", text)
    if found is None:
        raise PolyplinkError(f"--size {text} is no size", "give WIDTHxHEIGHT, as in 1352x1080")
    return int(found.group(1)), int(found.group(2))


def _pairs(texts: list[str] | None) -> dict[str, str] | None:
    """ID -> name from `ID=NAME`."""
    pairs = [text.partition("=") for text in texts or []]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise PolyplinkError(f"--datasets {name}{sign}{value} is no pair", "give ID=NAME")
    return {name: value for name, _, value in pairs} or None


@app.command()
@guarded
def doctor(
    data: Data,
    images: Annotated[
        bool, typer.Option(help="Also look for the images, and open a sample of them.")
    ] = True,
    deep: Annotated[
        bool, typer.Option("--deep", help="Open all images; takes as long as decoding them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with a data set, worst first."""
    from polyplink.core.artefacts import to_plain
    from polyplink.data import diagnose, read_data

    found = read_data(data)  # ahead of the bars: a mistake is one line and nothing else
    with bars() as progress:
        findings = diagnose(
            found,
            images=images,
            deep=deep,
            folder=data,
            progress=functools.partial(progress, "images opened"),
        )
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
    part: Annotated[str | None, typer.Option(help="Part to crop; all by default.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a frame that does not decode.")
    ] = False,
    device: Annotated[
        str, typer.Option(help="cpu or cuda: where crops of simulated sets are rendered.")
    ] = "cpu",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Build tracklets and cut their crops, once."""
    from polyplink import tracklets
    from polyplink.data import read_data
    from polyplink.recipes import find_recipe, override

    settings = override(find_recipe(recipe), set_ or []).prepare
    procedures = None if part is None else read_data(data).part(part)
    with bars() as progress:
        prepared = tracklets.prepare(
            data,
            settings,
            procedures=procedures,
            with_crops=crops,
            strict=strict,
            workers=workers,
            device=device,
            progress=functools.partial(progress, "crops"),
        )
    counts = {
        "out": str(prepared.folder),
        "procedures": len(prepared.procedures),
        "tracklets": prepared.tracklets.height,
        "crops": int(prepared.tracklets["n_crops"].sum()),
        "broken_frames": {name: len(frames) for name, frames in prepared.broken().items()},
    }
    for name, frames in prepared.broken().items():
        first = f"first: {frames[0].image}, {frames[0].why}"
        typer.echo(
            f"warning: procedure {name}: {len(frames)} frames do not decode ({first}); "
            "tracklets are cut there",
            err=True,
        )
    say(counts, "{out}: {tracklets} tracklets, {crops} crops".format(**counts), as_json)
