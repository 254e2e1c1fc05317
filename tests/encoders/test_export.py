from pathlib import Path

import numpy as np
import pytest
import torch

from polyplink.encoders import EncoderConfig, NetworkEmbedder, TrackletEncoder
from polyplink.encoders.export import (
    ExportedEmbedder,
    export_frames,
    quantise,
    read_exported_record,
)
from polyplink.errors import PolyplinkError

pytest.importorskip("openvino")
pytest.importorskip("onnxruntime")
SIDE = 64
TINY = EncoderConfig(frame_encoder="timm:test_resnet", width=32, layers=1, heads=4, feedforward=64)
CROPS = np.random.default_rng(0).integers(0, 256, (13, SIDE, SIDE, 3), dtype=np.uint8)
LENGTHS = [3, 8, 2]


@pytest.fixture(scope="module")
def encoder() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder(TINY).eval()


@pytest.fixture(scope="module")
def exported(encoder: TrackletEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "encoder.onnx"
    return export_frames(encoder, path, SIDE, {"crop_factor": 5.0, "size": SIDE})


@pytest.mark.parametrize("frames_per_pass", [4, 16])
def test_an_export_gives_the_vectors_of_the_encoder(
    encoder: TrackletEncoder, exported: Path, frames_per_pass: int
) -> None:
    expected = NetworkEmbedder(encoder)(CROPS, LENGTHS)
    found = ExportedEmbedder(encoder, exported, frames_per_pass=frames_per_pass)(CROPS, LENGTHS)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_eight_bits_keep_the_direction_but_not_the_digits(
    encoder: TrackletEncoder, exported: Path, tmp_path: Path
) -> None:
    narrow = quantise(exported, tmp_path / "int8.onnx", CROPS)
    assert narrow.stat().st_size < exported.stat().st_size
    expected = NetworkEmbedder(encoder)(CROPS, LENGTHS)
    found = ExportedEmbedder(encoder, narrow)(CROPS, LENGTHS)
    cosine = (found * expected).sum(1) / np.linalg.norm(found, axis=1)
    assert (cosine / np.linalg.norm(expected, axis=1) > 0.98).all()
    assert np.abs(found - expected).max() > 1e-6


def test_the_crop_rule_travels_in_the_file(exported: Path) -> None:
    assert read_exported_record(exported) == {"crop_factor": 5.0, "size": SIDE}


def test_what_is_no_export_is_refused(encoder: TrackletEncoder, tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"no exported encoder .*; export it first"):
        ExportedEmbedder(encoder, tmp_path / "none.onnx")
    with pytest.raises(PolyplinkError, match=r"no exported encoder .*; export it first"):
        read_exported_record(tmp_path / "none.onnx")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(PolyplinkError, match=r"cannot be read .*; export it again"):
        ExportedEmbedder(encoder, broken)
