"""`export`, and the exported folder as weights."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from polyplink import embed_data, export
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.build import build_encoder
from polyplink.encoders.config import AnyEncoderConfig
from polyplink.encoders.encode import read_embeddings
from polyplink.encoders.weights import (
    Seen,
    WeightsRecord,
    read_record,
    save_weights,
    weights_id,
    weights_path,
)
from polyplink.tracklets.prepare import typical_crops
from polyplink.tracklets.settings import PrepareSettings
from tests.cli.calls import assert_refused, polyplink, succeed
from tests.conftest import SampleRun
from tests.encoders.small import CLIPS

NAME = "ntssl-demo"
NEEDS_OPENVINO = pytest.mark.skipif(
    None in (find_spec("openvino"), find_spec("onnxruntime")), reason="needs the extra export"
)


@pytest.mark.slow
@NEEDS_OPENVINO
def test_an_exported_folder_gives_the_results_of_its_weights(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    result = export(sample_run.run, str(tmp_path / "wide")).value
    assert (result.bits, result.size) == (32, 32)
    expected = embed_data(
        sample_run.run, sample_run.data, part="eval", device="cpu"
    ).value.embeddings[NAME]
    exported = embed_data(result.path, sample_run.data, part="eval").value.embeddings[NAME]
    assert list(exported.tracklet_ids) == list(expected.tracklet_ids)
    np.testing.assert_allclose(exported.vectors, expected.vectors, atol=1e-4)
    assert exported.weights_id != expected.weights_id == result.weights
    options = ("--no-baselines", "--task", "retrieval", "--json")
    evaluations = [
        polyplink("evaluate", weights, sample_run.data, "--out", tmp_path / name, *options)
        for name, weights in (("a", result.path), ("b", sample_run.run))
    ]
    assert not any(evaluation.exit_code for evaluation in evaluations), evaluations[0].stderr
    figures = [
        json.loads(evaluation.stdout)["encoders"][NAME]["figures"] for evaluation in evaluations
    ]
    assert [evaluation["value"] for evaluation in figures[0].values()] == pytest.approx(
        [evaluation["value"] for evaluation in figures[1].values()]
    )
    part = ("--part", "train", "--json")
    calibration = succeed(
        "calibrate", result.path, sample_run.data, "--out", tmp_path / "cal", *part
    )
    point = read_record(weights_path(tmp_path / "cal")).operating
    assert point is not None
    assert point["origin"] == json.loads(calibration.stdout)["links"]
    assert weights_id(weights_path(tmp_path / "cal")) == exported.weights_id
    assert_refused(polyplink("export", result.path, tmp_path / "two"), "is an exported encoder")


@pytest.mark.slow
@NEEDS_OPENVINO
def test_an_8_bit_export_is_calibrated_on_a_part_and_used(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    file = tmp_path / "int8"
    result = succeed(
        "export", sample_run.run, file, "--int8", sample_run.data, "--part", "train", "--json"
    )
    assert json.loads(result.stdout)["bits"] == 8
    succeed("count", file, sample_run.data, "--out", tmp_path / "count", "--json")


def test_typical_crops_are_spread_over_all_procedures(sample_run: SampleRun) -> None:
    prepared = embed_data(sample_run.run, sample_run.data, device="cpu").value.prepared
    names = prepared.tracklets["procedure_id"].unique(maintain_order=True).to_list()
    last = prepared.crops(names[-1])
    three = typical_crops(prepared, 3)
    assert three.shape == (3, 32, 32, 3)
    assert np.array_equal(three[0], prepared.crops(names[0])[0])
    assert np.array_equal(three[-1], last[-1])
    total = sum(len(prepared.crops(name)) for name in names)
    assert len(typical_crops(prepared, 10**6)) == total
    with pytest.raises(PolyplinkError, match=r"no tracklets with crops in "):
        typical_crops(prepared.select([]), 3)


def write_untrained(path: Path, config: AnyEncoderConfig) -> Path:
    record = WeightsRecord(config, PrepareSettings(size=32), {"name": path.stem}, Seen(), {})
    save_weights(path, build_encoder(config), record)
    return path


def test_an_encoder_of_clips_is_not_exported(tmp_path: Path) -> None:
    clips = write_untrained(tmp_path / "clips.safetensors", CLIPS)
    assert_refused(polyplink("export", clips, tmp_path / "e.onnx"), "looks at whole clips")


@pytest.mark.slow
@NEEDS_OPENVINO
def test_a_bf16_export_prints_its_effect(sample_run: SampleRun, tmp_path: Path) -> None:
    file = tmp_path / "narrow"
    part = ("--part", "train")
    result = succeed(
        "export", sample_run.run, file, "--precision", "bf16", "--data", sample_run.data, *part
    )
    assert "narrow: bf16, crops of 32 pixels" in result.stdout
    import openvino  # noqa: PLC0415 - takes half a second

    supported = "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    assert ("mAP on a sample: float32 " in result.stdout) == supported
    if not supported:
        assert_refused(polyplink("embed", file, sample_run.data), "does not compute in bf16")
    command = ("embed", sample_run.run, sample_run.data, "--device", "cpu", "--json", *part)
    outs = {name: tmp_path / name for name in ("float32", "bf16")}
    float32_run, bf16_run = (
        polyplink(*command, "--precision", p, "--out", o) for p, o in outs.items()
    )
    assert float32_run.exit_code == bf16_run.exit_code == 0, float32_run.stderr + bf16_run.stderr
    summaries = [json.loads(run.stdout) for run in (float32_run, bf16_run)]
    assert [summary["precision"] for summary in summaries] == ["float32", "bf16"]
    assert (summaries[0]["mAP"], set(summaries[1]["mAP"])) == ({}, {"float32", "bf16"})
    assert summaries[1]["weights"] == f"{summaries[0]['weights']}-bf16"
    vectors = [read_embeddings(out).vectors for out in outs.values()]
    assert 1e-5 < np.abs(vectors[0] - vectors[1]).max() < 0.5
