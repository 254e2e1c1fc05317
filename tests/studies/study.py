"""A study: several recipes over several seeds on one data set, in one table with intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from polyplink.app.encoded import baselines, encode, load_named
from polyplink.app.evaluate import find_grid
from polyplink.app.leakage import guard
from polyplink.app.request import Progress, silent
from polyplink.app.train import TrainRequest, train
from polyplink.core.artefacts import content_key, read_json, write_json, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data import read_data
from polyplink.encoders import WEIGHTS_FILE
from polyplink.evaluate import EvaluationSettings, evaluate_embeddings
from polyplink.learn import TrainConfig
from polyplink.learn.loop import LAST

FIGURES = ("mAP", "HR@1", "AUROC", "AUPR", "temporal_ap/FR", "temporal_ap/FPR")
_RECIPE = "recipe.json"


@dataclass(frozen=True)
class Study:
    """A finished study.

    Attributes:
        runs: One row per method and seed and figure: method, seed, figure, value, low, high (the
            95 % interval over procedures), and difference, difference_low, difference_high: the
            method minus the first one of the same seed, paired.
        table: One row per method and figure: the means of these over the seeds, and lowest and
            highest value of a seed.
        frames: Frames seen in training, and seconds of it, by method.
    """

    runs: pl.DataFrame
    table: pl.DataFrame
    frames: pl.DataFrame


@dataclass(frozen=True)
class _On:
    """On what, and with what, everything is done."""

    folder: Path
    part: str
    grid: str
    device: str
    workers: int


def run_study(
    recipes: Sequence[TrainConfig],
    folder: Path,
    out: Path,
    *,
    seeds: Sequence[int] = (42, 43, 44),
    part: str = "eval",
    grid: str = "demo",
    device: str = "auto",
    workers: int = 2,
    progress: Progress = silent,
) -> Study:
    """Train every recipe over every seed, evaluate all, and write one table.

    `out` gets runs/NAME-SEED, one folder for each training, evaluation-SEED.json, runs.csv,
    table.csv and table.md. Called again, it goes on where it was: a training that is done is
    used, one that was stopped is resumed.

    Args:
        recipes: What to compare; the others are compared with the first.
        folder: The data folder.
        out: Where to write.
        seeds: Seeds of initial weights, bags and order.
        part: Part of the data set to evaluate on.
        grid: Settings searched for counting: "paper" or "demo".
        device: Where to compute.
        workers: Threads for crops and for the search of settings.
        progress: Told of every training ("NAME-SEED", epochs) and evaluation.

    Raises:
        PolyplinkError: If `out` holds a run of another recipe, or data or a recipe is at fault.
    """
    on = _On(folder, part, grid, device, workers)
    rows: list[dict[str, Any]] = []
    spent: list[dict[str, Any]] = []
    for seed in seeds:
        runs = {}
        for recipe in recipes:
            run = out / "runs" / f"{recipe.name}-{seed}"
            _trained(replace(recipe, seed=seed), run, on, progress)
            runs[recipe.name] = run
            spent.append({"method": recipe.name} | _spent(run))
        progress(f"evaluate seed {seed}", 0, 1)
        found = _evaluated(runs, out / f"evaluation-{seed}.json", on)
        progress(f"evaluate seed {seed}", 1, 1)
        rows += [{"seed": seed} | row for row in found]
    study = Study(pl.DataFrame(rows), _summary(rows), _means(spent))
    write_text(out / "runs.csv", study.runs.write_csv())
    write_text(out / "table.csv", study.table.write_csv())
    write_text(out / "table.md", markdown(study))
    return study


def _trained(config: TrainConfig, run: Path, on: _On, progress: Progress) -> None:
    """Train, go on, or see that it is done."""
    mark = run / _RECIPE
    key = content_key("study", config)
    if mark.is_file() and read_json(mark)["key"] != key:
        raise PolyplinkError(
            f"{run} holds a run of another recipe", "name another folder for the study"
        )
    if (run / WEIGHTS_FILE).is_file():
        return
    write_json(mark, {"key": key})

    def tick(stage: str, done: int, total: int) -> None:
        progress(run.name if stage == "epochs" else stage, done, total)

    resume = (run / LAST).is_file()
    request = TrainRequest(
        config, on.folder, run, resume=resume, device=on.device, workers=on.workers
    )
    train(request, tick)


def _spent(run: Path) -> dict[str, float]:
    history = pl.read_csv(run / "history.csv")
    return {name: sum(history[name].to_list()) for name in ("frames", "seconds")}


def _evaluated(runs: Mapping[str, Path], path: Path, on: _On) -> list[dict[str, Any]]:
    """Figures of all methods of a seed, made once."""
    key = content_key(
        "study", on.part, on.grid, *(read_json(run / _RECIPE) for run in runs.values())
    )
    if path.is_file():
        known = read_json(path)
        if known["key"] == key:
            rows: list[dict[str, Any]] = known["rows"]
            return rows
    data = read_data(on.folder)
    encoders = []
    for name, run in runs.items():
        encoder = load_named(run, on.device, name)
        assert encoder.record is not None
        guard(encoder.record.seen, data, on.part)
        encoders.append(encoder)
    encoders += baselines(encoders[0])
    encoded = encode(encoders, on.folder, on.part, workers=on.workers)
    settings = EvaluationSettings(grid=find_grid(on.grid), threads=on.workers)
    found, _ = evaluate_embeddings(encoded.vectors, encoded.samples, settings)
    rows = [
        {"method": name, "figure": figure}
        | _columns(one.figures[figure], "value", "")
        | _columns(found.minus_reference.get(name, {}).get(figure), "difference", "difference_")
        for name, one in found.encoders.items()
        for figure in FIGURES
    ]
    write_json(path, {"key": key, "rows": rows})
    return rows


def _columns(interval: Any, value: str, prefix: str) -> dict[str, float | None]:
    return {
        value: getattr(interval, "value", None),
        f"{prefix}low": getattr(interval, "low", None),
        f"{prefix}high": getattr(interval, "high", None),
    }


def _summary(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Means over the seeds, by method and figure."""
    table = pl.DataFrame(list(rows), infer_schema_length=None)
    means = [
        pl.col(name).cast(pl.Float64).mean()
        for name in table.columns
        if name not in ("seed", "method", "figure")
    ]
    return table.group_by("method", "figure", maintain_order=True).agg(
        *means,
        pl.col("value").min().alias("lowest_seed"),
        pl.col("value").max().alias("highest_seed"),
        pl.len().alias("seeds"),
    )


def _means(spent: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    table = pl.DataFrame(list(spent))
    return table.group_by("method", maintain_order=True).agg(pl.col("frames", "seconds").mean())


def markdown(study: Study) -> str:
    """The table as Markdown: mean over seeds, and the mean of the seeds' 95 % intervals."""
    heads = ["method", *FIGURES, "frames", "seconds"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    spent = {row["method"]: row for row in study.frames.iter_rows(named=True)}
    for name in study.table["method"].unique(maintain_order=True):
        own = study.table.filter(pl.col("method") == name)
        cells = {row["figure"]: _cell(row) for row in own.iter_rows(named=True)}
        budget = spent.get(name)
        cost = [f"{budget['frames']:.0f}", f"{budget['seconds']:.0f}"] if budget else ["", ""]
        lines.append(f"| {' | '.join([name, *(cells[f] for f in FIGURES), *cost])} |")
    return "\n".join(lines) + "\n"


def _cell(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return "undefined"
    if row["low"] is None:
        return f"{row['value']:.3f}"
    return f"{row['value']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
