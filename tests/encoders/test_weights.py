"""Weights travel with their record, and only whole."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import (
    EncoderConfig,
    Seen,
    TrackletEncoder,
    WeightsRecord,
    load_encoder,
    read_record,
    save_weights,
    weights_path,
)
from polyplink.tracklets import PrepareSettings

SMALL = EncoderConfig(
    frame_encoder="timm:test_resnet",
    frame_weights=Path("elsewhere.safetensors"),
    width=16,
    layers=1,
    heads=2,
    feedforward=16,
)
CPU = torch.device("cpu")


def record(config: EncoderConfig = SMALL) -> WeightsRecord:
    return WeightsRecord(
        encoder=config,
        prepare=PrepareSettings(size=32, crop_factor=None),
        recipe={"name": "x"},
        seen=Seen("key", [("d", "001-001", "p")]),
        origin={"epoch": 3},
        operating={"alpha": 0.5},
    )


@pytest.fixture
def encoder() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder(
        EncoderConfig(frame_encoder="timm:test_resnet", width=16, layers=1, heads=2, feedforward=16)
    )


def test_round_trip(tmp_path: Path, encoder: TrackletEncoder) -> None:
    path = tmp_path / "weights.safetensors"
    save_weights(path, encoder, record())
    loaded = load_encoder(tmp_path, CPU)  # the folder serves as well as the file
    assert loaded.record.encoder.frame_weights is None  # they are inside now
    assert loaded.record.prepare == PrepareSettings(size=32, crop_factor=None)
    assert loaded.record.operating == {"alpha": 0.5}
    assert not loaded.encoder.training
    for key, value in encoder.state_dict().items():
        assert torch.equal(loaded.encoder.state_dict()[key], value)
    save_weights(tmp_path / "again.safetensors", encoder, record())
    assert load_encoder(tmp_path / "again.safetensors", CPU).weights_id == loaded.weights_id


def test_weights_of_another_encoder_are_refused(tmp_path: Path, encoder: TrackletEncoder) -> None:
    wider = EncoderConfig(
        frame_encoder="timm:test_resnet", width=32, layers=1, heads=2, feedforward=16
    )
    save_weights(tmp_path / "w.safetensors", encoder, record(wider))
    with pytest.raises(PolyplinkError, match="weights of another encoder: 0 tensors missing"):
        load_encoder(tmp_path / "w.safetensors", CPU)
    other = EncoderConfig(
        frame_encoder="timm:test_convnext", width=16, layers=1, heads=2, feedforward=16
    )
    save_weights(tmp_path / "v.safetensors", encoder, record(other))
    with pytest.raises(PolyplinkError, match="tensors missing"):
        load_encoder(tmp_path / "v.safetensors", CPU)


def test_files_that_are_no_weights(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="no weights at"):
        weights_path(tmp_path)
    (tmp_path / "a.safetensors").write_bytes(b"junk")
    with pytest.raises(PolyplinkError, match="is not safetensors"):
        read_record(tmp_path / "a.safetensors")
    save_file({"x": torch.zeros(1)}, tmp_path / "b.safetensors")
    with pytest.raises(PolyplinkError, match="holds no polyplink record"):
        read_record(tmp_path / "b.safetensors")
    for text, says in (({"format": 99}, "another format"), ({"format": 1}, "is broken")):
        save_file(
            {"x": torch.zeros(1)}, tmp_path / "c.safetensors", {"polyplink": json.dumps(text)}
        )
        with pytest.raises(PolyplinkError, match=says):
            read_record(tmp_path / "c.safetensors")


@pytest.mark.parametrize("text", ["no json", "[1]", '{"format": 1, "seen": {"trained": 3}}'])
def test_a_broken_record_is_one_line(tmp_path: Path, text: str) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "a.safetensors", {"polyplink": text})
    with pytest.raises(PolyplinkError, match=r"the record of .* is broken") as caught:
        read_record(tmp_path / "a.safetensors")
    assert len(str(caught.value).splitlines()) == 1
