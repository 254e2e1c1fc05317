"""The command line: one verb per stage, nothing else.

Heavy rooms are imported inside the verbs, so that `polyplink --help` is instant.
"""

import errno
import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec, TypeVar

import typer

from polyplink import __version__
from polyplink.errors import INTERRUPTED, MISTAKE, PolyplinkError

if TYPE_CHECKING:
    from polyplink.jobs import Evaluated, Progress

P = ParamSpec("P")
R = TypeVar("R")

app = typer.Typer(
    help="One identity for every polyp of a colonoscopy. Not a medical device.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # a coloured help page would take twice as long to come
)


Data = Annotated[Path, typer.Argument(help="Data folder that `polyplink import` wrote.")]
Weights = Annotated[Path, typer.Argument(help="Weights file, or a folder `polyplink train` wrote.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="Change a field of the recipe: NAME=VALUE.")
]
Workers = Annotated[int, typer.Option(min=1, help="Worker processes or threads.")]


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(f"polyplink: {message}", err=True)
    raise typer.Exit(code)


def _disk(error: OSError) -> str:
    where = f" at {error.filename}" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full{where}; free some space and give the same command again"
    return f"{error.strerror or error}{where}; check the path and its permissions"


def _guarded(verb: Callable[P, R]) -> Callable[P, R]:
    """A user's mistake becomes one line and exit code 2; Ctrl-C becomes 130."""

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except PolyplinkError as error:
            _stop(str(error), MISTAKE)
        except KeyboardInterrupt:
            _stop("interrupted; what was finished is kept", INTERRUPTED)
        except BrokenPipeError:
            raise typer.Exit(0) from None
        except OSError as error:
            _stop(_disk(error), MISTAKE)

    return run


@contextmanager
def _bars() -> Iterator["Progress"]:
    """Progress bars on stderr, one per stage, each with its total."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def tick(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield tick


def _say(result: dict[str, Any], text: str, as_json: bool) -> None:
    typer.echo(json.dumps(result) if as_json else text)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"polyplink {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command()
@_guarded
def demo(
    out: Annotated[Path, typer.Argument(help="Folder to write.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the simulated procedures.")] = 0,
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """The whole way on simulated procedures; ends in a table and a report."""
    from polyplink import jobs

    with _bars() as progress:
        result = jobs.demo(out, seed=seed, workers=workers, progress=progress)
    if as_json:
        typer.echo(json.dumps(result.as_dict()))
        return
    _print_figures(result)
    typer.echo(f"report: {result.report}")


@app.command()
@_guarded
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

    with _bars() as progress:
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
    _say(counts, text.format(**counts), as_json)


@app.command("import")
@_guarded
def import_(
    data_format: Annotated[str, typer.Argument(metavar="FORMAT", help="real-colon")],
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The data set as released.")],
    out: Annotated[Path, typer.Argument(help="Folder for the tables.")],
    images: Annotated[bool, typer.Option(help="Use the images where they are there.")] = True,
    lenient: Annotated[
        bool, typer.Option(help="Leave out and count what cannot be read, instead of stopping.")
    ] = False,
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Read a data set as it was released into tables."""
    from polyplink import jobs

    with _bars() as progress:
        imported = jobs.import_data(
            data_format,
            source,
            out,
            images=images,
            lenient=lenient,
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
    _say(counts, text, as_json)


@app.command()
@_guarded
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
@_guarded
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
    with _bars() as progress:
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
    _say(counts, "{out}: {tracklets} tracklets, {crops} crops".format(**counts), as_json)


@app.command()
@_guarded
def train(
    recipe: Annotated[str, typer.Argument(help="ntssl or ntssl-demo.")],
    data: Data,
    out: Out = Path("run"),
    set_: Sets = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    device: Device = "auto",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Train an encoder by a recipe; --resume goes on with a run that was stopped."""
    from polyplink import jobs
    from polyplink.recipes import find_recipe, override

    chosen = override(find_recipe(recipe), set_ or [])
    with _bars() as progress:
        trained = jobs.train(
            chosen, data, out, device=device, resume=resume, workers=workers, progress=progress
        )
    for warning in trained.warnings:
        typer.echo(f"warning: {warning}", err=True)
    text = (
        f"{trained.weights}: epoch {trained.epoch + 1} of {trained.epochs}, "
        f"loss {trained.loss:.3f}; operating point: {trained.operating}"
    )
    _say(trained.as_dict(), text, as_json)


@app.command()
@_guarded
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

    with _bars() as progress:
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
    _say(counts, "{out}: {tracklets} vectors of {width}".format(**counts), as_json)


@app.command()
@_guarded
def count(
    weights: Weights,
    data: Data,
    out: Out = Path("count"),
    part: Annotated[str | None, typer.Option(help="Part of the data set; all by default.")] = None,
    device: Device = "auto",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Count the polyps of every procedure; writes count.json, tables and a report."""
    from polyplink import jobs

    with _bars() as progress:
        counted = jobs.count(
            weights, data, out, part=part, device=device, workers=workers, progress=progress
        )
    if as_json:
        typer.echo(json.dumps(counted.as_dict()))
        return
    from rich.console import Console

    from polyplink.report import count_table

    Console().print(count_table(counted.page))
    typer.echo(f"report: {counted.report}")


@app.command()
@_guarded
def evaluate(
    weights: Weights,
    data: Data,
    out: Out = Path("evaluation"),
    part: Annotated[str, typer.Option(help="Part of the data set.")] = "eval",
    grid: Annotated[str, typer.Option(help="Settings searched for counting: paper or demo.")] = (
        "paper"
    ),
    baselines: Annotated[
        bool, typer.Option(help="Also an untrained encoder and a colour histogram.")
    ] = True,
    device: Device = "auto",
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Retrieval, re-identification and counting with intervals; writes tables and a report."""
    from polyplink import jobs

    with _bars() as progress:
        result = jobs.evaluate(
            weights,
            data,
            out,
            part=part,
            grid=grid,
            with_baselines=baselines,
            device=device,
            workers=workers,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps(result.as_dict()))
        return
    _print_figures(result)
    typer.echo(f"report: {result.report}")


def _print_figures(result: "Evaluated") -> None:
    from rich.console import Console

    from polyplink.report import comparison_table

    Console().print(comparison_table(result.comparison))
    for note in result.notes:
        typer.echo(f"note: {note}")


@app.command()
@_guarded
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
