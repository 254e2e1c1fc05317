from pathlib import Path

import polars as pl
import pytest

from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet, read_data, write_data
from polyplink.jobs import evaluate
from polyplink.jobs.probed_tasks import check_labels
from polyplink.report import comparison_table
from tests.conftest import Made
from tests.jobs.probed import write_labelled


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labelled(tmp_path_factory.mktemp("probed_tasks"))


def test_size_and_histology_stand_in_the_table_of_all_methods(
    made: Made, labelled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    tasks = ["size", "retrieval", "histology"]
    done = evaluate(made.run, labelled, out, tasks=tasks, device="cpu", workers=1)
    table = pl.read_csv(out / "figures.csv")
    probes = table.filter(pl.col("unit") == "polyps")
    assert set(table["method"]) == {"ntssl-demo", "untrained encoder", "colour histogram"}
    assert probes.height == 3 * 2 * 4
    # Eight patients of two polyps: five train, three are tested on.
    assert probes["units"].unique().to_list() == [6]
    assert table.filter(pl.col("metric") == "mAP")["units"].unique().to_list() == [8]
    others = probes.filter(pl.col("method") != "ntssl-demo")
    gap = others["value"] - pl.Series([*_values(probes, "ntssl-demo")] * 2)
    assert gap.to_list() == pytest.approx(others["difference"].to_list())
    record = read_json(out / "evaluation.json")
    assert record == done.as_dict()
    assert record["probes"]["size"]["colour histogram"]["result"]["polyps"] == [3, 3]
    assert read_json(out / "run.json")["settings"]["tasks"] == ["retrieval", "size", "histology"]
    assert any(note.startswith("Histology: probes trained on 10 polyps") for note in done.notes)
    assert "6 polyps" in comparison_table(done.comparison).columns[-1]._cells
    assert "of the polyps&#39; mean probability" in (out / "report.html").read_text()


def _values(probes: pl.DataFrame, method: str) -> list[float]:
    return probes.filter(pl.col("method") == method)["value"].to_list()


def test_probes_alone_write_no_other_table(made: Made, labelled: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = {"with_baselines": False, "device": "cpu", "workers": 1}
    done = evaluate(made.run, labelled, out, tasks=["size"], **options)  # type: ignore[arg-type]
    assert {metric.group for metric in done.comparison.metrics} == {"Size, probe: larger than 5 mm"}
    assert not (out / "queries.parquet").exists()
    assert not (out / "procedures.csv").exists()
    assert (out / "report.html").is_file()


def test_a_missing_column_and_one_class_are_told_before_anything_is_cut(
    made: Made, labelled: Path, tmp_path: Path
) -> None:
    with pytest.raises(PolyplinkError, match="column size_mm is empty, and the size task"):
        evaluate(made.run, made.data, tmp_path / "a", tasks=["size"], device="cpu")
    data = read_data(labelled)
    part = {"eval": data.part("eval"), "test": data.part("eval")[:1]}
    first = pl.col("procedure_id") == part["test"][0]
    sizes = data.polyps.with_columns(size_mm=pl.when(first).then(None).otherwise("size_mm"))
    folder = tmp_path / "data"
    write_data(folder, DataSet.of(data.detections, data.procedures, sizes, part))
    with pytest.raises(PolyplinkError, match="column size_mm is empty in the part 'test'"):
        evaluate(made.run, folder, tmp_path / "b", part="test", tasks=["size"], device="cpu")
    with pytest.raises(PolyplinkError, match="histology: the 0 polyps of part 'test' to train"):
        check_labels(["histology"], read_data(folder), "test")
    assert not (folder / "prepared").exists()
    check_labels(["size", "histology"], data, "eval")  # both are there
