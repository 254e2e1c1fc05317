import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import FrameWise, NetworkEmbedder
from polyplink.encoders.export import export_frames, quantise
from polyplink.encoders.exported import ExportedEmbedder, read_exported_record
from tests.encoders.exports import CROPS, LENGTHS, SIDE, tiny
from tests.encoders.small import FRAMES, KINDS, crops, made

pytest.importorskip("openvino")
pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("kind", ["sfe", "mve", "frames"])
def test_an_export_gives_the_vectors_of_any_encoder_of_frames(kind: str, tmp_path: Path) -> None:
    encoder = made(KINDS[kind])
    assert isinstance(encoder, FrameWise)
    path = export_frames(encoder, tmp_path / "encoder.onnx", 32)
    expected = NetworkEmbedder(encoder)(crops(13).numpy(), LENGTHS)
    found = ExportedEmbedder(encoder, path)(crops(13).numpy(), LENGTHS)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_eight_bits_keep_the_direction_but_not_the_digits(exported: Path, tmp_path: Path) -> None:
    encoder = tiny()
    narrow = quantise(exported, tmp_path / "int8.onnx", CROPS)
    assert narrow.stat().st_size < exported.stat().st_size
    expected = NetworkEmbedder(encoder)(CROPS, LENGTHS)
    found = ExportedEmbedder(encoder, narrow)(CROPS, LENGTHS)
    cosine = (found * expected).sum(1) / np.linalg.norm(found, axis=1)
    assert (cosine / np.linalg.norm(expected, axis=1) > 0.98).all()
    assert np.abs(found - expected).max() > 1e-6


def test_the_record_survives_quantising(exported: Path, tmp_path: Path) -> None:
    narrow = quantise(exported, tmp_path / "int8.onnx", CROPS)
    assert read_exported_record(narrow) == read_exported_record(exported)


def test_products_of_matrices_do_not_become_narrow(tmp_path: Path) -> None:
    encoder = made(FRAMES)
    assert isinstance(encoder, FrameWise)
    path = export_frames(encoder, tmp_path / "encoder.onnx", 32)
    with pytest.raises(PolyplinkError, match=r"no network of convolutions.*; export it without"):
        quantise(path, tmp_path / "int8.onnx", crops(8).numpy())
    assert not (tmp_path / "int8.onnx").exists()


def test_without_the_extra_it_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == "onnx":
            raise ModuleNotFoundError("No module named 'onnx'")
        return plain(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(PolyplinkError, match=r"No module named 'onnx'.*polyplink\[export\]"):
        export_frames(tiny(), tmp_path / "encoder.onnx", SIDE)
