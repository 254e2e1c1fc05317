"""The command `demo`: all stages on simulated procedures, with a first report within a minute."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, echo

from polyplink import Evaluated, count, evaluate_weights, import_data, run, train
from polyplink.cli import options
from polyplink.cli.options import StrPath
from polyplink.cli.verb import inform, verb
from polyplink.core.artefacts import content_key, read_json, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result, silent

if TYPE_CHECKING:
    from polyplink.learn.train_config import TrainConfig
    from polyplink_lab.simulate.presets import Preset

FIRST = "first"  # folder of the small report
RECORDING = "recording"  # folder of the count with the shipped models
FIRST_SETS = ("optim.epochs=2", "validation.every=2")  # of its recipe
_MARK = "demo.json"  # identifies the demo in a folder


@verb
def demo(
    out: Annotated[StrPath, Argument(help="Folder to write.")] = "demo-out",
    *,
    seed: Annotated[int, Option(min=0, help="Seed of the simulated procedures.")] = 0,
    workers: options.Workers = 2,
    preset: "Preset | None" = None,
    sets: Sequence[str] = (),
    progress: Progress = inform,
) -> "Result[Evaluated]":
    """Run all stages on simulated procedures, and print a table and the report.

    First, a few small procedures are counted with an encoder trained on them for seconds, so that
    there is a first report (`OUT/first/report.html`) while the other stages run: simulate, import,
    prepare, train, count and evaluate. Finally, the shipped models count a simulated recording. An
    interrupted demo continues where it stopped.

    Args:
        out: The output folder, for first, raw, data, run, count, recording, and the files of the
            evaluation.
        preset: Preset of the simulation; tiny by default.
        sets: Fields of the recipe to change, NAME=VALUE.
        progress: Called for every stage.

    Raises:
        PolyplinkError: If `out` holds something else.
    """
    from polyplink.recipes.by_name import override
    from polyplink.recipes.ntssl import ntssl_demo
    from polyplink_lab.simulate.presets import smoke, tiny

    out, preset = Path(out), preset or tiny()
    recipe = override(ntssl_demo(), sets)
    key, mark = content_key("demo", preset, seed, recipe), out / _MARK
    if not mark.is_file() or read_json(mark).get("key") != key:
        new = not out.exists() or (out.is_dir() and not any(out.iterdir()))
        if not new:
            raise PolyplinkError(f"{out} holds something else", "name another folder, or remove it")
        write_json(mark, {"key": key})

    first = out / FIRST
    if not (first / "report.html").is_file():
        quick = override(recipe, [*FIRST_SETS, *sets])
        _make(first, smoke(), quick, seed=seed, workers=workers, progress=silent)
        page = count(first / "run", first / "data", out=first, device="cpu", workers=workers)
        echo(
            f"first report: {page.value.report} (4 small simulated procedures; the encoder was "
            "trained on some of them for seconds, so its links are poor)",
            err=True,
        )
    _make(out, preset, recipe, seed=seed, workers=workers, progress=progress)
    weights, data = out / "run", out / "data"
    count(weights, data, out=out / "count", part="eval", workers=workers, progress=progress)
    evaluated = evaluate_weights(weights, data, out=out, workers=workers, progress=progress)
    _run_shipped(out / RECORDING, seed, workers, progress)
    return evaluated


def _run_shipped(out: Path, seed: int, workers: int, progress: Progress) -> None:
    """Count a recording rendered by the simulator with the shipped models, into `out`."""
    from polyplink_lab.simulate.data_set import simulate
    from polyplink_lab.simulate.presets import smoke

    if find_spec("onnxruntime") is None:
        echo('no run of the shipped models: pip install "polyplink[run]"', err=True)
        return
    report, film = out / "count" / "report.html", out / "film"
    if report.is_file():
        return
    name, polyps = smoke().polyps[0]
    preset = replace(smoke(), name=RECORDING, polyps=((name, polyps),), width=240, height=210)
    preset = replace(preset, frames="all", annotations="folders")
    simulate(film, preset, seed, workers=1, progress=partial(progress, "recording rendered"))
    frames = film / f"{name}_frames"
    counted = run(frames, fps=preset.fps, out=out, replace=True, workers=workers, progress=progress)
    echo(
        f"the shipped models on a simulated recording: {counted.value.polyps} counted, {polyps} "
        f"true; {report}\n"
        "This shows that all steps from a recording to a report work on this machine. It does not "
        "show how well the models count, because they were trained on real pictures, not on "
        "rendered ones.",
        err=True,
    )


def _make(
    out: Path,
    preset: "Preset",
    recipe: "TrainConfig",
    *,
    seed: int,
    workers: int,
    progress: Progress,
) -> None:
    """Simulate, import, prepare and train into `out`/raw, data and run."""
    from polyplink.learn.train_config import LAST
    from polyplink.tracklets.prepare import prepare
    from polyplink_lab.simulate.data_set import simulate

    raw, data, weights = out / "raw", out / "data", out / "run"
    # As released, but without frames: only crops are rendered, which is a tenth of the work.
    archives = replace(preset, frames="none", annotations="archives")
    made = partial(progress, "procedures made")
    simulate(raw, archives, seed, workers=workers, progress=made)
    import_data("real-colon", raw, data, workers=1, progress=progress)
    prepare(data, recipe.prepare, workers=workers, progress=partial(progress, "crops"))
    resume = (weights / LAST).is_file()
    train(recipe, data, out=weights, resume=resume, workers=workers, progress=progress)
