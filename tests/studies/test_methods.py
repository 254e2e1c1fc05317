"""Every method of NTSSL's table 1 at one budget over three seeds. Run by `make study`: an hour.

It can be killed and run again: POLYPLINK_STUDY names a folder that keeps the trainings. Its table
is POLYPLINK_STUDY/table.md; docs/results.md says where the published order holds.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from polyplink.app.encoded import baselines, encode, load_named
from polyplink.app.train import TrainRequest, train
from polyplink.associate import demo_grid
from polyplink.core.artefacts import write_text
from polyplink.evaluate import EvaluationSettings, evaluate_embeddings
from polyplink.learn import TrainConfig
from polyplink.learn.loop import LAST
from polyplink.recipes import RECIPES, override
from polyplink.simulate import preset, simulate
from tests.conftest import Made, recipe

METHODS = ("ntssl", "sfe", "mve", "tpc", "supervised", "temporally-aware", "intra-inter")
FIGURES = ("mAP", "HR@1", "AUROC", "AUPR", "temporal_ap/FR", "temporal_ap/FPR")


def simulate_small(folder: Path, seed: int) -> Path:
    """The preset `small`, unless it is there."""
    if not (folder / "detections.parquet").is_file():
        simulate(folder, preset("small"), seed, workers=2)
    return folder


def train_or_resume(recipe: TrainConfig, data: Path, run: Path) -> None:
    """Train, or continue a training that was stopped."""
    train(TrainRequest(recipe, data, run, resume=(run / LAST).is_file(), device="cpu"))
    print(f"trained {run.name}", flush=True)


def compare(
    recipes: Sequence[TrainConfig], data: Path, out: Path, seeds: Sequence[int]
) -> pl.DataFrame:
    """Train every recipe with every seed, or resume it, and evaluate all on the part "eval".

    Writes runs.csv (a row per seed, method and figure, with the interval over procedures and the
    paired difference from the first recipe) and table.md (means over the seeds); returns the means
    by method and figure.
    """
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        encoders, spent = [], {}
        for one in recipes:
            run = out / "runs" / f"{one.name}-{seed}"
            train_or_resume(replace(one, seed=seed), data, run)
            encoders.append(load_named(run, "cpu", one.name))
            spent[one.name] = pl.read_csv(run / "history.csv")["frames"].sum()
        encoded = encode([*encoders, *baselines(encoders[0])], data, "eval")
        settings = EvaluationSettings(grid=demo_grid())
        found, _ = evaluate_embeddings(encoded.vectors, encoded.samples, settings)
        for name, encoder in found.encoders.items():
            for figure in FIGURES:
                row = {"seed": seed, "method": name, "figure": figure, "frames": spent.get(name)}
                difference = found.minus_reference.get(name, {}).get(figure)
                for prefix, interval in (("", encoder.figures[figure]), ("minus_", difference)):
                    for end in ("value", "low", "high"):
                        row[prefix + end] = getattr(interval, end, None)
                rows.append(row)
    runs = pl.DataFrame(rows, infer_schema_length=None)
    write_text(out / "runs.csv", runs.write_csv())
    means = runs.group_by("method", "figure", maintain_order=True).agg(
        pl.col("frames", "value", "low", "high").cast(pl.Float64).mean()
    )
    lines = [f"| method | {' | '.join(FIGURES)} | frames |", "|---" * (len(FIGURES) + 2) + "|"]
    for (name,), own in means.group_by("method", maintain_order=True):
        cells = []
        for value, low, high in own.select("value", "low", "high").iter_rows():
            text = "undefined" if value is None else f"{value:.3f}"
            cells.append(text if low is None else f"{text} ({low:.3f} to {high:.3f})")
        frames = own["frames"][0]
        cells.append("" if frames is None else f"{frames:.0f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    write_text(out / "table.md", "\n".join(lines) + "\n")
    return means


@pytest.mark.study
def test_every_method_beats_an_untrained_encoder(tmp_path: Path) -> None:
    out = Path(os.environ.get("POLYPLINK_STUDY", str(tmp_path)))
    data = simulate_small(out / "small", 0)
    recipes = [RECIPES[f"{name}-small"]() for name in METHODS]
    means = compare(recipes, data, out, (42, 43, 44)).filter(figure="AUROC")
    print((out / "table.md").read_text())
    auroc = dict(means.select("method", "value").iter_rows())
    untrained = auroc["untrained encoder"]
    for name in METHODS:
        assert auroc[f"{name}-small"] > untrained, name


@pytest.mark.slow
def test_a_comparison_is_resumed_and_its_table_has_all_methods(made: Made, tmp_path: Path) -> None:
    first = override(recipe(), ["optim.epochs=1"])
    recipes = [replace(first, name="first"), replace(first, name="second")]
    means = compare(recipes, made.data, tmp_path, (1, 2))
    names = ["first", "second", "untrained encoder", "colour histogram"]
    assert means["method"].unique(maintain_order=True).to_list() == names
    runs = pl.read_csv(tmp_path / "runs.csv")
    assert runs.height == 2 * means.height == 2 * len(names) * len(FIGURES)
    assert runs.filter(figure="mAP")["minus_value"].null_count() == 2  # the first of each seed
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {name}" for name in names]
    weights = {path: path.read_bytes() for path in tmp_path.rglob("weights.safetensors")}
    compare(recipes, made.data, tmp_path, (1,))
    assert pl.read_csv(tmp_path / "runs.csv").equals(runs.filter(seed=1))
    assert {path: path.read_bytes() for path in weights} == weights
