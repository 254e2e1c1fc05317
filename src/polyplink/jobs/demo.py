"""The whole way on simulated procedures, from nothing to a table and a report."""

from dataclasses import replace
from pathlib import Path

from polyplink.core.artefacts import content_key, read_json, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.jobs.counting import count
from polyplink.jobs.evaluation import Evaluated, evaluate
from polyplink.jobs.importing import import_data
from polyplink.jobs.progress import Progress, counter, silent
from polyplink.jobs.training import train
from polyplink.learn.loop import LAST
from polyplink.recipes import ntssl_demo, override
from polyplink.simulate import Preset, simulate, tiny
from polyplink.tracklets import prepare

_MARK = "demo.json"  # says which demo a folder holds


def _claim(out: Path, key: str) -> None:
    """Take a new folder, or go on in one of the same demo.

    Raises:
        PolyplinkError: If the folder holds something else.
    """
    mark = out / _MARK
    if mark.is_file() and read_json(mark).get("key") == key:
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise PolyplinkError(f"{out} holds something else", "name another folder, or remove it")
    write_json(mark, {"key": key})


def demo(
    out: Path,
    *,
    preset: Preset | None = None,
    seed: int = 0,
    workers: int = 2,
    overrides: tuple[str, ...] = (),
    progress: Progress = silent,
) -> Evaluated:
    """Simulate, import, prepare, train, count and evaluate; every stage as its own verb does it.

    A demo that was stopped goes on where it was.

    Args:
        out: Folder to write: raw, data, run, count, and the evaluation itself.
        preset: What to simulate; `tiny` by default.
        seed: Seed of the simulation.
        workers: Worker processes and threads.
        overrides: Fields of the recipe, as `--set` takes them.
        progress: Told of every stage.

    Raises:
        PolyplinkError: If `out` holds something else.
    """
    preset = preset or tiny()
    recipe = override(ntssl_demo(), overrides)
    PolyplinkError.unless(seed >= 0, f"seed {seed} is below 0", "give a whole number from 0")
    _claim(out, content_key("demo", preset, seed, recipe))
    raw, data, run = out / "raw", out / "data", out / "run"
    # As released, but without frames: crops are rendered where they are cut, a tenth of the work.
    archives = replace(preset, frames="none", annotations="archives")
    simulate(raw, archives, seed, workers=workers, progress=counter(progress, "procedures made"))
    import_data("real-colon", raw, data, workers=1, progress=progress)
    prepare(data, recipe.prepare, workers=workers, progress=counter(progress, "crops"))
    train(recipe, data, run, resume=(run / LAST).is_file(), workers=workers, progress=progress)
    count(run, data, out / "count", part="eval", workers=workers, progress=progress)
    return evaluate(run, data, out, workers=workers, progress=progress)
