import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from polyplink import probe
from polyplink.core.artefacts import read_json
from polyplink.core.errors import PolyplinkError
from polyplink.data.origin import BoxesOrigin, write_origin
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.evaluate.probe import ProbeSettings
from polyplink.evaluate.probe_tasks import PROBES, divide, probe_vectors
from tests.cli.calls import assert_refused, polyplink, succeed
from tests.cli.labelled_polyps import write_labelled
from tests.conftest import SampleRun

COMMON_OPTIONS: dict[str, Any] = {
    "length": 4,
    "seeds": 2,
    "rate": 1e-2,
    "device": "cpu",
    "workers": 1,
}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labelled(tmp_path_factory.mktemp("probed"))


def test_a_probe_writes_its_figures_and_uses_cached_vectors(
    sample_run: SampleRun, labelled: Path, tmp_path: Path
) -> None:
    stages: list[str] = []
    probe_size = partial(
        probe, "size", sample_run.run, str(labelled), out=tmp_path / "p", **COMMON_OPTIONS
    )
    result = probe_size(progress=lambda stage, done, total: stages.append(stage))
    first, facts = result.value, result.json
    assert facts["task"] == "size"
    assert len(facts["result"]["per_seed"]["accuracy"]) == COMMON_OPTIONS["seeds"]
    assert "embed fragments of 4" in stages
    assert sum(first.trained_polyps) + sum(first.result.polyps) == 16
    assert first.left_out == 0
    assert set(first.result.figures) == {"F1", "accuracy", "majority", "AUROC"}
    assert first.result.figures["F1"].n == sum(first.result.polyps)
    assert read_json(tmp_path / "p" / "probe.json")["result"]["polyps"] == [*first.result.polyps]
    table = pl.read_csv(tmp_path / "p" / "figures.csv")
    assert table.filter("published_figure")["figure"].to_list() == ["F1"]
    stages.clear()
    second = probe_size(progress=lambda stage, done, total: stages.append(stage)).value
    assert second.result == first.result
    assert set(stages) == {"probe size"}  # crops and vectors are cached


def test_tracks_have_the_thresholds_of_their_detector_as_in_evaluate(
    sample_run: SampleRun, labelled: Path, tmp_path: Path
) -> None:
    data = shutil.copytree(labelled, tmp_path / "data")
    write_origin(data, BoxesOrigin("d", "d", high=0.9, low=0.2, min_seconds=1.0))
    options = ("--part", "eval", "--device", "cpu", "--workers", "1", "--out")
    succeed("evaluate", sample_run.run, data, "--task", "retrieval", *options, tmp_path / "e")
    crops = {*(data / "prepared").iterdir()}
    probe("size", sample_run.run, data, out=tmp_path / "p", **COMMON_OPTIONS)
    assert {*(data / "prepared").iterdir()} == crops


def test_a_probe_of_histology_prints_a_table(
    sample_run: SampleRun, labelled: Path, tmp_path: Path
) -> None:
    options = ("--length", "4", "--seeds", "1", "--workers", "1", "--device", "cpu")
    command = ("probe", "histology", sample_run.run, labelled, "-o", tmp_path / "p", *options)
    result = succeed(*command)
    assert "Probe: histology" in result.stdout
    assert "(negative, positive)" in result.stdout


def test_a_polyp_and_a_patient_on_both_sides_are_refused(labelled: Path) -> None:
    parts = {"rsp-train": ["001-001", "001-002"], "rsp-test": ["001-001"]}
    data = replace(read_data(labelled), splits=parts)
    with pytest.raises(PolyplinkError, match=r"patient real-colon/001-001 would be on both sides"):
        divide(PROBES["size"], data, "rsp")


def test_polyps_of_the_test_side_are_not_trained_on() -> None:
    """Vectors identify the polyp but not its class, so that a leak would score 1."""
    rng = np.random.default_rng(0)
    polyps, per_polyp = 80, 6
    ids = np.repeat(np.arange(polyps), per_polyp)
    vectors = rng.normal(size=(polyps, 16))[ids] + 0.01 * rng.normal(size=(len(ids), 16))
    fragments = pl.DataFrame(
        {"procedure_id": [f"v{i}" for i in ids], "polyp_id": [f"v{i}_1" for i in ids]}
    )
    labels = pl.DataFrame(
        {
            "procedure_id": [f"v{i}" for i in range(polyps)],
            "polyp_id": [f"v{i}_1" for i in range(polyps)],
            "label": rng.permutation(polyps) % 2 == 0,
        }
    )
    settings = ProbeSettings(rate=1e-2, epochs=15)

    def auroc(train: pl.DataFrame) -> float:
        result, _ = probe_vectors(
            fragments, vectors.astype(np.float32), train, labels[50:], settings=settings, seeds=[0]
        )
        return float(result.figures["AUROC"].value or 0)

    assert auroc(labels[:50]) < 0.8
    assert auroc(labels) > 0.95  # with the leak


def test_a_split_file_divides_the_polyps(
    sample_run: SampleRun, labelled: Path, tmp_path: Path
) -> None:
    data = read_data(labelled)
    names = data.polyps["polyp_id"].to_list()
    # Procedure 4 is on both sides; one polyp is left out.
    lists = {"train": names[:7], "test": names[7:15]}
    path = tmp_path / "split.json"

    def assert_split_refused(content: Any, message: str) -> None:
        path.write_text(json.dumps(content))
        args = (sample_run.run, labelled, "-o", tmp_path / "p", "--split", path)
        assert_refused(polyplink("probe", "size", *args), message)

    missing = polyplink(
        "probe", "size", sample_run.run, labelled, "--split", tmp_path / "none.json"
    )
    assert_refused(missing, "none.json that divides polyps; give a JSON file")
    assert_split_refused(
        lists | {"test": ["x_9", names[1]]}, "names polyps that are not in the data set: x_9;"
    )
    assert_split_refused(lists | {"test": names[6:]}, f"names polyp {names[6]} twice")
    assert_split_refused([lists], 'does not divide polyps; write {"train": [polyp ids]')
    assert_split_refused({"train": names}, "does not divide polyps")
    assert_split_refused(lists | {"train": names[0:6:2]}, "the 3 labelled polyps of")

    path.write_text(json.dumps(lists))
    result = probe(
        "size", sample_run.run, labelled, out=tmp_path / "p", split=path, **COMMON_OPTIONS
    )
    large = {name for name in names if name.endswith("_2")}
    for side, count in zip(
        ("train", "test"), (result.value.trained_polyps, result.value.result.polyps), strict=True
    ):
        assert count == (len(set(lists[side]) - large), len(set(lists[side]) & large))
    assert any("1 patient with polyps on both sides" in warning for warning in result.warnings)


def test_invalid_input_is_refused(sample_run: SampleRun, labelled: Path, tmp_path: Path) -> None:
    def assert_probe_refused(message: str, task: str, data: Path, **changes: Any) -> None:
        with pytest.raises(PolyplinkError, match=message):
            probe(task, sample_run.run, data, out=tmp_path / "out", **(COMMON_OPTIONS | changes))

    assert_probe_refused("seeds is 0", "size", labelled, seeds=0)
    assert_probe_refused("no tracklet has 90 crops", "size", labelled, length=90)
    data = read_data(labelled)
    only_large = data.polyps.with_columns(size_mm=pl.lit(9.0))
    write_data(
        tmp_path / "one", DataSet.of(data.detections, data.procedures, only_large, data.splits)
    )
    assert_probe_refused("not of both classes", "size", tmp_path / "one")
    trained_data = read_data(sample_run.data)
    polyps = trained_data.polyps.with_columns(size_mm=pl.Series([3.0, 8.0] * 5))
    write_data(
        tmp_path / "d",
        DataSet.of(trained_data.detections, trained_data.procedures, polyps, trained_data.splits),
    )
    assert_probe_refused("trained or validated on", "size", tmp_path / "d", part="train")
