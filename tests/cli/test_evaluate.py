"""`evaluate`: all tasks, beside baselines without training."""

import json
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from typing import Any

import polars as pl
import pytest
import torch

from polyplink import Result, evaluate_weights
from polyplink.cli.evaluate import Evaluated
from polyplink.cli.verb import UNMEASURED
from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.encoders.load import load_encoder
from polyplink.encoders.weights import read_record, save_weights
from polyplink.evaluate.probe_tasks import check_labels
from polyplink.report.printed_tables import comparison_table
from tests.cli.calls import assert_refused, polyplink, succeed
from tests.cli.labelled_polyps import write_labelled
from tests.conftest import SampleRun
from tests.samples import write_procedures

NAMES = [f"001-00{i}" for i in range(1, 6)]


@pytest.fixture(scope="module")
def renamed_data(sample_run: SampleRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same procedures under another data set name, so that all five can be evaluated."""
    folder, data = tmp_path_factory.mktemp("another"), read_data(sample_run.data)
    other = data.procedures.with_columns(dataset=pl.lit("another"))
    parts = {"eval": NAMES, "val": NAMES[:2], "test": NAMES[2:]}
    write_data(folder, DataSet.of(data.detections, other, data.polyps, parts))
    return folder


def evaluate(weights: Path, data: Path, out: Path, **options: Any) -> Result[Evaluated]:
    """Evaluate on a CPU, by default without baselines."""
    settings: dict[str, Any] = {"baselines": False, "device": "cpu", **options}
    return evaluate_weights(weights, data, out=out, **settings)


@pytest.fixture(autouse=True)
def without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chart of the methods takes most of the time of a report; tests/report draws it."""
    monkeypatch.setattr("polyplink.report.page._methods_svg", lambda comparison: "")


def test_three_methods_are_evaluated_with_all_tables(
    sample_run: SampleRun, renamed_data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    options: dict[str, Any] = {"grid": "demo", "curve_csv": True, "device": "cpu", "part": "test"}
    # Paths as text, and a single encoder.
    result = evaluate_weights(
        str(sample_run.weights), str(renamed_data), out=str(out), **options
    ).value
    figures = result.as_dict()
    assert set(figures["encoders"]) == {"ntssl-demo", "untrained encoder", "colour histogram"}
    # Polyps have plain colours, so that the histogram re-identifies all of them.
    histogram = figures["encoders"]["colour histogram"]["figures"]
    assert (histogram["mAP"]["value"], histogram["mAP"]["n"]) == (pytest.approx(1.0), 3)
    assert set(pl.read_csv(out / "figures.csv")["method"]) == set(figures["encoders"])
    assert json.loads((out / "evaluation.json").read_text()) == figures
    assert "colour histogram" in (out / "report.html").read_text()
    # Every clip is tracked and scored.
    tracking = histogram["tracking/threshold/HOTA"]
    assert 0 < tracking["value"] <= 1
    assert tracking["n"] == 3
    # A row for each method and procedure, tracklet, clusterer and setting.
    assert pl.read_csv(out / "procedures.csv").height == 3 * 3
    assert pl.read_parquet(out / "queries.parquet").height == 3 * 18
    assert pl.read_parquet(out / "assignment.parquet").height == 3 * 3 * 18
    curve = pl.read_parquet(out / "curve.parquet")
    sizes = curve.group_by("method", "clusterer").len()["len"].sort().unique()
    assert sizes.to_list() == [33, 51, 325]
    # Every setting has counting and tracking figures.
    written = pl.read_csv(out / "curve.csv", infer_schema_length=None)
    assert (written.columns, written.height) == (curve.columns, curve.height)
    assert {"alpha", "gamma", "preference", "value", "fr", "fpr", "recall"} < set(curve.columns)
    assert {"HOTA", "AssA", "IDF1", "IDSW", "MOTA", "HOTA mean"} < set(curve.columns)
    assert curve["HOTA"].null_count() == 0
    assert curve["HOTA"].is_between(0, 1).all()
    assert (out / "trackeval/gt/mot_challenge/polyplink-test/001-005/gt/gt.txt").is_file()
    assert "no adenoma map" in " ".join(result.notes) or "no histology" in " ".join(result.notes)


def test_settings_chosen_on_another_part_and_tasks_by_name(
    sample_run: SampleRun, renamed_data: Path, tmp_path: Path
) -> None:
    # A file of the user, and some of an earlier evaluation.
    (tmp_path / "out" / "trackeval" / "trackers").mkdir(parents=True)
    for name in ("mine.csv", "queries.parquet", "trackeval/trackers/a.txt"):
        (tmp_path / "out" / name).touch()
    options: dict[str, Any] = {"part": "test", "choose_on": "val", "tasks": ["counting"]}
    options |= {"grid": "demo", "clusterers": ["dbscan", "ap"], "visual": "sigmoid"}
    evaluated = evaluate(
        sample_run.weights, renamed_data, tmp_path / "out", time="frames", **options
    )
    result = evaluated.value
    ours = result.evaluation.encoders["ntssl-demo"]
    assert list(ours.counting) == ["dbscan", "ap"]
    for name, counting in ours.counting.items():
        assert [fold["procedure"] for fold in counting.folds] == NAMES[2:], name
        assert len(set(counting.settings)) == 1
    text = (tmp_path / "out" / "report.html").read_text()
    assert "visual similarity sigmoid, sigmoid of cosines, as in the thesis" in text
    assert "distances in time in frames, as in the thesis" in text
    assert "learned links" in text  # the operating point of the weights
    assert ours.retrieval is None
    assert not (tmp_path / "out" / "trackeval").exists()
    assert not (tmp_path / "out" / "queries.parquet").exists()
    assert (tmp_path / "out" / "mine.csv").exists()
    assert not (tmp_path / "out" / "curve.csv").exists()
    assert "HOTA" not in pl.read_parquet(tmp_path / "out" / "curve.parquet").columns


def test_the_report_has_intervals_only_of_boxes_that_the_calibration_covers(
    sample_run: SampleRun, renamed_data: Path, tmp_path: Path
) -> None:
    record = read_record(sample_run.weights)
    assert record.operating is not None
    encoder = load_encoder(sample_run.weights, torch.device("cpu")).encoder
    for boxes, covered in (("annotated", True), ("another detector", False)):
        calibration = {**record.operating["calibration"], "boxes": boxes}
        operating = {**record.operating, "spread": 2.0, "calibration": calibration}
        weights = tmp_path / boxes / "weights.safetensors"
        save_weights(weights, encoder, replace(record, operating=operating))
        out = tmp_path / boxes / "out"
        evaluated = evaluate(weights, renamed_data, out, part="val", tasks=["retrieval"])
        lows = [procedure.counted.low for procedure in evaluated.value.page.procedures]
        assert [low is not None for low in lows] == [covered, covered]


def test_unknown_polyps_and_a_part_without_procedures_are_refused(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    data = read_data(sample_run.data)
    unknown = data.detections.with_columns(polyp_id=pl.lit(None, dtype=pl.String))
    parts = {"eval": NAMES[4:], "none": []}
    write_data(tmp_path, DataSet.of(unknown, data.procedures, data.polyps, parts))
    with pytest.raises(PolyplinkError, match="column polyp_id is empty"):
        evaluate(sample_run.weights, tmp_path, tmp_path)
    with pytest.raises(PolyplinkError, match="the part has no procedure to evaluate"):
        evaluate(sample_run.weights, tmp_path, tmp_path, part="none")


def test_one_procedure_has_no_counting_figures(sample_run: SampleRun, tmp_path: Path) -> None:
    inputs = sample_run.weights, sample_run.data, tmp_path / "out"
    result = evaluate(*inputs, grid="demo", clusterers=["threshold", "links"]).value
    figures = result.evaluation.encoders["ntssl-demo"].figures
    assert figures["threshold/FR"].value is None
    assert figures["tracking/threshold/HOTA"].value is None
    assert "but only one has known polyps" in " ".join(result.notes)
    assert result.comparison.note.startswith("Counting and tracking are undefined")
    assert not (tmp_path / "out" / "trackeval").exists()
    assert (tmp_path / "out" / "report.html").is_file()
    counting: dict[str, Any] = {"tasks": ("counting",), "clusterers": ["threshold"]}
    earlier = tmp_path / "out" / "clusterers.csv"
    earlier.touch()
    counting_only = evaluate(*inputs, grid="demo", **counting)
    assert not earlier.exists()  # one clusterer has none to be compared with
    assert str(counting_only.printed[-2]).endswith(f"differences: {tmp_path / 'out/figures.csv'}")
    uncovered, unmeasured = counting_only.warnings
    assert (counting_only.code, unmeasured) == (1, UNMEASURED)
    assert uncovered.startswith("No 90 % interval is given: the model was calibrated on 4 record")


def test_counting_of_procedures_of_one_polyp_each_is_said_to_show_nothing(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    data = write_procedures(tmp_path / "data", procedures=3, polyps=1)
    tables = read_data(data)
    parts = {"one": tables.part(None)}
    other = tables.procedures.with_columns(dataset=pl.lit("another"))
    write_data(data, DataSet.of(tables.detections, other, tables.polyps, parts))
    options = {"part": "one", "tasks": ["counting"], "clusterers": ["threshold", "links"]}
    result = evaluate(sample_run.weights, data, tmp_path / "out", grid="demo", **options)
    no_links, nothing, arbitrary = result.warnings[-3:]
    assert no_links.startswith("No learned links: ")
    assert nothing.startswith("Counting and tracking show nothing here")
    assert arbitrary.startswith("The settings of the clusterers are arbitrary")
    assert {no_links, nothing, arbitrary} <= {*result.value.notes}


def test_procedures_of_one_patient_are_said_to_make_intervals_too_narrow(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    data = write_procedures(tmp_path / "data", procedures=7, polyps=1, views=2)
    tables = read_data(data)
    patients = pl.Series(["a", "a", "b", "c", "d", "e", "f"])
    other = tables.procedures.with_columns(dataset=pl.lit("another"), patient=patients)
    names = other["procedure_id"].to_list()
    parts = {"shared": names[:6], "five": names[:5], "apart": names[1:]}
    write_data(data, DataSet.of(tables.detections, other, tables.polyps, parts))

    def warnings_of(part: str) -> list[str]:
        options = {"part": part, "tasks": ["retrieval"]}
        result = evaluate(sample_run.weights, data, tmp_path / part, **options)
        return [w for w in result.warnings if "independent" in w and w in result.value.notes]

    (warning,) = warnings_of("shared")
    assert warning.startswith("6 procedures are of 5 patients: ")
    assert warnings_of("five") == warnings_of("apart") == []  # five have no interval


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labelled(tmp_path_factory.mktemp("probed_tasks"), procedures=6)


def test_size_and_histology_are_in_the_table_of_all_methods(
    sample_run: SampleRun, labelled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    tasks = ["size", "retrieval", "histology"]
    options: dict[str, Any] = {"device": "cpu", "workers": 1}
    result = evaluate_weights(sample_run.weights, labelled, out=out, tasks=tasks, **options).value
    table = pl.read_csv(out / "figures.csv")
    probes = table.filter(pl.col("unit") == "polyps")
    assert set(table["method"]) == {"ntssl-demo", "untrained encoder", "colour histogram"}
    assert probes.height == 3 * 2 * 4
    # Six patients with two polyps each: four for training, two for the test.
    assert probes["units"].unique().to_list() == [4]
    assert table.filter(pl.col("metric") == "mAP")["units"].unique().to_list() == [6]
    others = probes.filter(pl.col("method") != "ntssl-demo")
    ours = probes.filter(pl.col("method") == "ntssl-demo")["value"]
    difference = others["value"] - pl.concat([ours, ours])
    assert difference.to_list() == pytest.approx(others["difference"].to_list())
    record = read_json(out / "evaluation.json")
    assert record == result.as_dict()
    assert record["probes"]["size"]["colour histogram"]["result"]["polyps"] == [2, 2]
    assert read_json(out / "run.json")["settings"]["tasks"] == ["retrieval", "size", "histology"]
    assert any(note.startswith("Histology: probes trained on 8 polyps") for note in result.notes)
    assert "4 polyps" in comparison_table(result.comparison).columns[-1]._cells
    assert "of the polyps&#39; mean probability" in (out / "report.html").read_text()


def test_an_evaluation_of_probes_writes_no_other_tables(
    sample_run: SampleRun, labelled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = evaluate(sample_run.weights, labelled, out, tasks=["size"]).value
    assert {metric.group for metric in result.comparison.metrics} == {
        "Size, probe: larger than 5 mm"
    }
    assert not (out / "queries.parquet").exists()
    assert not (out / "procedures.csv").exists()
    assert (out / "report.html").is_file()


def test_missing_columns_and_classes_are_refused_before_crops_are_cut(
    sample_run: SampleRun, labelled: Path, tmp_path: Path
) -> None:
    data = read_data(labelled)
    part = {"eval": data.part("eval"), "test": data.part("eval")[:1]}
    first = pl.col("procedure_id") == part["test"][0]
    sizes = data.polyps.with_columns(size_mm=pl.when(first).then(None).otherwise("size_mm"))
    folder = tmp_path / "data"
    write_data(folder, DataSet.of(data.detections, data.procedures, sizes, part))
    with pytest.raises(PolyplinkError, match="column size_mm is empty in the part 'test'"):
        evaluate(sample_run.weights, folder, tmp_path / "b", part="test", tasks=["size"])
    with pytest.raises(
        PolyplinkError, match="histology: the 0 labelled polyps of part 'test' to train"
    ):
        check_labels(["histology"], read_data(folder), "test")
    assert not (folder / "prepared").exists()
    check_labels(["size", "histology"], data, "eval")  # both columns exist


@pytest.mark.usefixtures("intervals_of_few")
def test_encoders_and_clusterers_are_compared_in_pairs(
    sample_run: SampleRun, renamed_data: Path, tmp_path: Path
) -> None:
    copy = Path(copyfile(sample_run.weights, tmp_path / "again.safetensors"))
    options = ("--grid=demo", "--no-baselines", "--device=cpu", "--task=counting")
    kinds = ("--clusterer=threshold", "--clusterer=agglomerative")
    result = succeed(
        "evaluate", sample_run.weights, copy, renamed_data, "-o", tmp_path / "out", *options, *kinds
    )
    names = [f"ntssl-demo ({path})" for path in (sample_run.weights, copy)]
    assert f"minus {names[0]}" in result.stdout
    figures = read_json(tmp_path / "out" / "evaluation.json")
    assert list(figures["encoders"]) == names
    for difference in figures["minus_reference"][names[1]].values():  # equal weights
        assert difference["value"] in (0.0, None)
    rows = pl.read_csv(tmp_path / "out" / "clusterers.csv")
    assert rows["clusterer"].unique().to_list() == ["agglomerative"]
    for name in names:
        figures_of_encoder = figures["encoders"][name]["figures"]
        difference = figures["minus_clusterer"][name]["agglomerative"]["FR"]
        expected = (
            figures_of_encoder["agglomerative/FR"]["value"]
            - figures_of_encoder["threshold/FR"]["value"]
        )
        assert difference["value"] == pytest.approx(expected)
        assert difference["low"] <= difference["value"] <= difference["high"]
        assert f"clusterers on the vectors of {name}, minus threshold:" in result.stdout
    assert_refused(polyplink("evaluate", copy, copy, renamed_data), "weights are given twice")
