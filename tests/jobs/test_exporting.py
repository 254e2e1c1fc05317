"""Exporting an encoder, and embedding with it."""

from pathlib import Path

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import WeightsRecord, build_encoder, save_weights
from polyplink.encoders.weights import Seen
from polyplink.jobs import embed_data, export_encoder
from polyplink.jobs.exporting import typical_crops
from polyplink.tracklets import PrepareSettings
from tests.conftest import Made
from tests.encoders.small import CLIPS, FRAMES

pytest.importorskip("openvino")
pytest.importorskip("onnxruntime")


def test_a_file_embeds_as_its_weights_do(made: Made, tmp_path: Path) -> None:
    done = export_encoder(made.run, tmp_path / "wide.onnx")
    assert (done.bits, done.size, done.path.stat().st_size) == (32, 32, done.bytes)
    expected = embed_data(made.run, made.data, part="eval", device="cpu").embeddings
    found = embed_data(done.path, made.data, part="eval").embeddings
    assert list(found.tracklet_ids) == list(expected.tracklet_ids)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-4)
    assert found.weights_id != expected.weights_id == done.weights


def test_eight_bits_are_scaled_by_crops_of_a_part(made: Made, tmp_path: Path) -> None:
    done = export_encoder(made.run, tmp_path / "int8.onnx", eight_bit=made.data, part="train")
    assert done.as_dict()["bits"] == 8
    expected = embed_data(made.run, made.data, part="eval", device="cpu").embeddings.vectors
    found = embed_data(done.path, made.data, part="eval").embeddings.vectors
    norms = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    assert ((found * expected).sum(1) / norms > 0.98).all()


def test_typical_crops_are_spread_over_all(made: Made) -> None:
    prepared = embed_data(made.run, made.data, device="cpu").prepared
    names = prepared.tracklets["procedure_id"].unique(maintain_order=True).to_list()
    last = prepared.crops(names[-1])
    few = typical_crops(prepared, 3)
    assert few.shape == (3, 32, 32, 3)
    assert np.array_equal(few[0], prepared.crops(names[0])[0])
    assert np.array_equal(few[-1], last[-1])
    total = sum(len(prepared.crops(name)) for name in names)
    assert len(typical_crops(prepared, 10**6)) == total


def test_what_cannot_be_exported_is_told(made: Made, tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"is no .onnx file; name one"):
        export_encoder(made.run, tmp_path / "encoder.pt")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(PolyplinkError, match=r"folder.onnx is a folder; name a file"):
        export_encoder(made.run, tmp_path / "folder.onnx")
    with pytest.raises(PolyplinkError, match="part 'train' is of no data; give --int8 DATA too"):
        export_encoder(made.run, tmp_path / "encoder.onnx", part="train")
    clips = tmp_path / "clips.safetensors"
    record = WeightsRecord(CLIPS, PrepareSettings(size=32), {"name": "clips"}, Seen(), {})
    save_weights(clips, build_encoder(CLIPS), record)
    with pytest.raises(PolyplinkError, match="looks at whole clips"):
        export_encoder(clips, tmp_path / "encoder.onnx")
    with pytest.raises(PolyplinkError, match=r"no tracklets in .* to scale 8-bit numbers by"):
        empty = embed_data(made.run, made.data, device="cpu").prepared.select([])
        typical_crops(empty, 3)
    with pytest.raises(PolyplinkError, match="computes on the CPU; give the weights"):
        embed_data(tmp_path / "encoder.onnx", made.data, device="cuda")


def test_a_refusal_of_eight_bits_names_the_weights(made: Made, tmp_path: Path) -> None:
    weights = tmp_path / "matrices.safetensors"
    record = WeightsRecord(FRAMES, PrepareSettings(size=32), {"name": "frames"}, Seen(), {})
    save_weights(weights, build_encoder(FRAMES), record)
    with pytest.raises(PolyplinkError, match=r"^\S*/matrices.safetensors is no network of conv"):
        export_encoder(weights, tmp_path / "int8.onnx", eight_bit=made.data)
