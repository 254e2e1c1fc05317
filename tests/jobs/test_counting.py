"""The count, its tables and its report."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet, read_data, write_data
from polyplink.jobs import count
from tests.conftest import Made


@pytest.fixture(scope="module")
def counted(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("count")
    count(made.run, made.data, out, device="cpu")
    return out


def test_every_tracklet_is_in_one_group_of_its_procedure(counted: Path, made: Made) -> None:
    summary = json.loads((counted / "count.json").read_text())
    assert [p["procedure_id"] for p in summary["procedures"]] == [f"001-00{i}" for i in range(1, 6)]
    for procedure in summary["procedures"]:
        ids = [t["tracklet_id"] for g in procedure["groups"] for t in g["tracklets"]]
        assert len(ids) == len(set(ids)) == procedure["tracklets"] == 6
        assert len(procedure["groups"]) == procedure["polyps"]
        assert all(t["sureness"] is not None for g in procedure["groups"] for t in g["tracklets"])
        firsts = [g["tracklets"][0]["first_frame"] for g in procedure["groups"]]
        assert firsts == sorted(firsts)  # polyps are numbered as they appear
    assert summary["polyps"] == sum(p["polyps"] for p in summary["procedures"])


def test_tables_agree_with_the_summary(counted: Path) -> None:
    summary = json.loads((counted / "count.json").read_text())
    counts = pl.read_csv(counted / "counts.csv")
    assert counts["polyps"].to_list() == [p["polyps"] for p in summary["procedures"]]
    assignment = pl.read_parquet(counted / "assignment.parquet")
    assert assignment.columns == ["procedure_id", "tracklet_id", "label", "score", "converged"]
    assert assignment.height == 30
    per_procedure = assignment.group_by("procedure_id", maintain_order=True).agg(
        pl.col("label").n_unique()
    )
    assert per_procedure["label"].to_list() == counts["polyps"].to_list()


def test_the_report_warns_of_procedures_that_were_trained_on(counted: Path) -> None:
    text = (counted / "report.html").read_text()
    assert "trained or validated on 4 of these procedures" in text
    assert "001-005" in text


def test_counting_again_gives_the_same(counted: Path, made: Made, tmp_path: Path) -> None:
    again = count(made.run / "weights.safetensors", made.data, tmp_path, device="cpu")
    assert again.as_dict() == json.loads((counted / "count.json").read_text())


def test_a_part_without_any_tracklet_counts_nothing(made: Made, tmp_path: Path) -> None:
    data = read_data(made.data)
    none = data.detections.filter(pl.col("procedure_id") != "001-005")
    write_data(tmp_path / "d", DataSet.of(none, data.procedures, data.polyps, data.splits))
    counted = count(made.run, tmp_path / "d", tmp_path / "c", part="eval", device="cpu")
    assert counted.as_dict()["procedures"][0]["polyps"] == 0
    assert "001-005" in counted.report.read_text()


def test_another_commands_folder_and_a_broken_history_are_refused(
    made: Made, tmp_path: Path
) -> None:
    with pytest.raises(PolyplinkError, match="holds a run of `train`"):
        count(made.run, made.data, made.run, device="cpu")
    shutil.copytree(made.run, tmp_path / "run")
    (tmp_path / "run" / "history.csv").write_text("a,b\n1,2\n")
    with pytest.raises(PolyplinkError, match="is no history of a training run"):
        count(tmp_path / "run", made.data, tmp_path / "c", device="cpu")
