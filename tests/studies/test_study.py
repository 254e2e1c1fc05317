"""A study goes on where it was, and its table tells means and intervals."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.learn import TrainConfig
from polyplink.recipes import override
from tests.conftest import Made, recipe
from tests.studies.study import FIGURES, run_study


def methods() -> list[TrainConfig]:
    one = override(recipe(), ["optim.epochs=1"])
    return [replace(one, name="first"), replace(one, name="second", bags=replace(one.bags))]


def test_a_study_is_made_once_and_resumed(made: Made, tmp_path: Path) -> None:
    said: list[str] = []

    def tell(stage: str, done: int, total: int) -> None:
        said.append(stage)

    study = run_study(
        methods(), made.data, tmp_path, seeds=(1, 2), device="cpu", workers=1, progress=tell
    )
    assert {"first-1", "second-1", "first-2", "second-2", "evaluate seed 2"} <= set(said)
    names = ["first", "second", "untrained encoder", "colour histogram"]
    assert study.table["method"].unique(maintain_order=True).to_list() == names
    assert study.table.height == len(names) * len(FIGURES)
    assert (study.table["seeds"] == 2).all()
    for row in study.table.drop_nulls("value").iter_rows(named=True):
        own = study.runs.filter(method=row["method"], figure=row["figure"])["value"]
        assert row["value"] == pytest.approx(own.mean())
        assert row["lowest_seed"] <= row["value"] <= row["highest_seed"]
    assert (study.frames["frames"] > 0).all()
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert len(lines) == 2 + len(names)
    assert lines[2].startswith("| first | ")

    written = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("weights.safetensors")}
    said.clear()
    again = run_study(
        methods(), made.data, tmp_path, seeds=(1, 2), device="cpu", workers=1, progress=tell
    )
    assert again.table.equals(study.table)
    assert {p: p.stat().st_mtime_ns for p in written} == written
    assert not [stage for stage in said if stage.startswith(("first", "second"))]

    other = [replace(methods()[0], fragment_length=2)]
    with pytest.raises(PolyplinkError, match="first-1 holds a run of another recipe"):
        run_study(other, made.data, tmp_path, seeds=(1,), device="cpu", workers=1)
    assert isinstance(again.runs, pl.DataFrame)
