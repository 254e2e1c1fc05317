"""A study: recipes with several seeds, compared in pairs."""

from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import polars as pl
import pytest

from polyplink.core.artefacts import read_json, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import read_data, write_data
from polyplink.learn.train_config import TrainConfig
from polyplink_lab.reproduce import encoders_under_test
from tests.cli.calls import assert_refused, polyplink, succeed
from tests.conftest import TINY, SampleRun
from tests.samples import write_procedures

RECIPES = """
from polyplink.learn.train_config import TrainConfig
from polyplink.recipes.by_name import override
from polyplink.recipes.ntssl import ntssl_demo


def shuffled() -> TrainConfig:
    return override(ntssl_demo(), ["name=shuffled", "bags.tau_max=9"])


def broken() -> TrainConfig:
    return override(ntssl_demo(), ["name=broken", "init_from=nowhere"])
"""
CHANGES = (*TINY, "optim.epochs=1", "validation.every=0", "validation.select=last")
SETS = tuple(f"--set={change}" for change in CHANGES)
FAST = ("--grid=demo", "--device=cpu", "--task=retrieval", "--task=counting")
KINDS = ("--clusterer=threshold", "--clusterer=agglomerative")


@pytest.mark.slow
def test_recipes_are_trained_once_and_compared(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=5)
    names = sorted(read_data(data).procedures["procedure_id"])
    write_json(data / "splits.json", {"train": names[:3], "eval": names[3:]})
    recipes = tmp_path / "study_recipes.py"
    recipes.write_text(RECIPES)
    out = tmp_path / "study"
    options: tuple[str | Path, ...] = (data, "-o", out, "--seeds=2", *SETS, *FAST, *KINDS)
    result = succeed("study", "ntssl-demo", f"{recipes}:shuffled", f"{recipes}:broken", *options)
    # A mistake in one recipe is reported, and the others are trained.
    assert result.stderr.count("warning: broken, seed ") == 2
    assert "minus ntssl-demo:" in result.stdout
    study = read_json(out / "study.json")
    assert len(study["failed"]) == 2
    runs = pl.read_csv(out / "runs.csv")
    assert runs["seed"].unique().sort().to_list() == [42, 43]
    table = pl.read_csv(out / "figures.csv").filter(metric="mAP")
    for name in ("ntssl-demo", "shuffled"):
        values = runs.filter(recipe=name, figure="mAP")["value"].to_list()
        row = table.filter(method=name).row(0, named=True)
        assert row["value"] == pytest.approx(mean(values))
        assert row["sd"] == pytest.approx(stdev(values))
    ours, other = table.rows(named=True)
    assert other["difference"] == pytest.approx(other["value"] - ours["value"])
    assert other["difference_low"] is None  # of fewer than six procedures
    assert {"study.svg", "study.png", "clusterers.csv", "run.json", "table.tex", "report.html"} <= {
        path.name for path in out.iterdir()
    }
    assert "mean of 2 seeds" in (out / "report.html").read_text().partition("<details")[0]
    # With the mistake corrected, only that recipe is trained.
    weights = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/weights.safetensors")}
    assert len(weights) == 4
    corrected = recipes.with_name("corrected_recipes.py")
    corrected.write_text(RECIPES.replace("init_from=nowhere", "seed=43"))
    second = succeed("study", "ntssl-demo", f"{corrected}:broken", *options, "--seeds=1")
    assert second.stderr.count("epoch 1 of 1") == 1
    after = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/weights.safetensors")}
    assert weights.items() <= after.items()


def test_data_without_polyps_are_refused_before_training(tmp_path: Path) -> None:
    data = write_procedures(tmp_path, procedures=2, images=False)
    original = read_data(data)
    boxes = original.detections.with_columns(polyp_id=pl.lit(None, pl.String))
    write_data(data, replace(original, detections=boxes))
    refused = polyplink("study", "ntssl-demo", data, "-o", tmp_path / "out")
    assert_refused(refused, "needs true polyps")
    short = write_procedures(tmp_path / "short", procedures=2, length=8, images=False)
    refused = polyplink("study", "ntssl-demo", short, "-o", tmp_path / "out")
    assert_refused(refused, "or --set prepare.min_length=N")
    assert not list(tmp_path.glob("out/runs/*"))


def test_checkpoints_are_not_chosen_on_the_evaluated_procedures(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--task=retrieval", "--device=cpu", "-o", tmp_path / "out")
    command = ("study", "ntssl-demo", sample_run.data, *options)
    refused = polyplink(*command, "--set", "validation.part=eval")
    assert_refused(refused, "would be trained or validated on 1 of the procedures of the part eval")
    assert not (tmp_path / "out").exists()
    # Weights from which a training started may have seen them too.
    monkeypatch.setattr(encoders_under_test, "train_or_resume", lambda *_: sample_run.run)
    assert_refused(polyplink(*command, "--part=train", "--set=part=eval"), "or saw their patients")


def test_an_unknown_column_is_refused_before_training(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained_seeds: list[int] = []

    def trained(recipe: TrainConfig, *_: object) -> Path:
        trained_seeds.append(recipe.seed)
        return sample_run.run

    monkeypatch.setattr(encoders_under_test, "train_or_resume", trained)
    options = ("--columns", "mpa", "--task", "retrieval", "--device", "cpu")
    refused = polyplink("study", "ntssl-demo", sample_run.data, "-o", tmp_path / "out", *options)
    assert_refused(refused, "there is no figure 'mpa'; --columns takes mAP")
    assert trained_seeds == []


def test_a_mean_over_fewer_seeds_than_asked_for_is_said_to_be(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(recipe: TrainConfig, *_: object) -> Path:
        if recipe.seed == 43:
            raise PolyplinkError("the loss is not finite", "lower optim.lr")
        return sample_run.run

    monkeypatch.setattr(encoders_under_test, "train_or_resume", trained)
    options = ("--seeds=2", "--task=retrieval", "--device=cpu", "-o", tmp_path / "out")
    result = succeed("study", "ntssl-demo", sample_run.data, *options)
    assert "seed 43: the loss is not finite" in result.stderr
    assert "mean of up to 2 seeds" in result.stdout
