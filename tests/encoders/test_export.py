"""Exported encoders: the precision asked for is the precision computed."""

import builtins
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import FrameWise, NetworkEmbedder, Seen, WeightsRecord
from polyplink.encoders.export import (
    HEAD,
    ExportedEmbedder,
    export_frames,
    load_exported,
    quantise,
)
from polyplink.encoders.weights import RECORD as RECORD_KEY
from polyplink.encoders.weights import record_text
from polyplink.tracklets import PrepareSettings
from tests.encoders.small import KINDS, TRANSFORMER, crops, made

openvino = pytest.importorskip("openvino")
pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

SIDE = 32
CROPS, LENGTHS = crops(13, SIDE).numpy(), [3, 8, 2]
RECORD = WeightsRecord(
    encoder=TRANSFORMER,
    prepare=PrepareSettings(crop_factor=1.5, size=SIDE),
    recipe={"name": "tiny"},
    seen=Seen(trained=[("set", "p1", "p1")]),
    origin={"epoch": 3},
)
MULTIPLIES_BF16 = "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def tiny(kind: str = "transformer") -> FrameWise:
    encoder = made(KINDS[kind])
    assert isinstance(encoder, FrameWise)
    return encoder


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "encoder.onnx"
    return export_frames(tiny(), path, SIDE, RECORD)


@pytest.fixture(scope="module")
def narrow(exported: Path) -> Path:
    return quantise(exported, exported.with_name("int8.onnx"), CROPS)


def worst_cosine(found: np.ndarray, wanted: np.ndarray) -> float:
    norms = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
    return float(((found * wanted).sum(axis=1) / norms).min())


@pytest.mark.parametrize(
    "kind", ["frames", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sfe", "mve"))]
)
def test_float32_gives_the_vectors_of_any_encoder_of_frames(kind: str, tmp_path: Path) -> None:
    encoder = tiny(kind)
    path = export_frames(encoder, tmp_path / "encoder.onnx", SIDE)
    found = ExportedEmbedder(encoder, path)(CROPS, LENGTHS)
    np.testing.assert_allclose(found, NetworkEmbedder(encoder)(CROPS, LENGTHS), atol=1e-4)
    with pytest.raises(PolyplinkError, match=r"has no polyplink record; export it again"):
        load_exported(path)
    if kind == "frames":  # matrix products are not quantised
        with pytest.raises(PolyplinkError, match=r"no network of convolutions.*; export it wit"):
            quantise(path, tmp_path / "int8.onnx", CROPS)
        assert not (tmp_path / "int8.onnx").exists()


@pytest.mark.parametrize("frames_per_pass", [1, 4, 16])
def test_blocks_come_back_in_their_order(exported: Path, frames_per_pass: int) -> None:
    found = ExportedEmbedder(tiny(), exported, frames_per_pass=frames_per_pass)(CROPS, LENGTHS)
    np.testing.assert_allclose(found, NetworkEmbedder(tiny())(CROPS, LENGTHS), atol=1e-4)


def test_bf16_is_computed_if_asked_for_or_refused(exported: Path, tmp_path: Path) -> None:
    try:
        found = load_exported(exported, "bf16")[1](CROPS, LENGTHS)
    except PolyplinkError as refusal:
        # oneDNN held to older instructions has no kernel, whatever the processor can do.
        expected = not MULTIPLIES_BF16 or "ONEDNN_MAX_CPU_ISA" in os.environ
        if not expected or "this processor does not compute" not in str(refusal):
            raise
        pytest.skip(str(refusal))
    wide = load_exported(exported, "float32")[1](CROPS, LENGTHS)
    assert 1e-5 < np.abs(found - wide).max() < 0.2
    assert worst_cosine(found, wide) > 0.99
    path = export_frames(tiny(), tmp_path / "bf16.onnx", SIDE, RECORD, "bf16")
    by_default = load_exported(path)[1]
    assert by_default.precision == "bf16"
    np.testing.assert_array_equal(by_default(CROPS, LENGTHS), found)
    np.testing.assert_array_equal(load_exported(path, "float32")[1](CROPS, LENGTHS), wide)


def test_eight_bits_keep_the_direction_of_vectors(exported: Path, narrow: Path) -> None:
    assert narrow.stat().st_size < exported.stat().st_size
    wanted = NetworkEmbedder(tiny())(CROPS, LENGTHS)
    loaded, embedder = load_exported(narrow)
    found = embedder(CROPS, LENGTHS)
    assert worst_cosine(found, wanted) > 0.98
    assert np.abs(found - wanted).max() > 1e-6
    assert embedder.precision == "int8"
    assert record_text(loaded.record) == record_text(RECORD)
    with pytest.raises(PolyplinkError, match="holds 8-bit numbers and cannot be computed in bf16"):
        load_exported(narrow, "bf16")
    with pytest.raises(PolyplinkError, match=r"does not hold 8-bit numbers; .*--int8"):
        load_exported(exported, "int8")
    with pytest.raises(PolyplinkError, match="no precision 'float16'"):
        load_exported(exported, "float16")


def test_missing_and_broken_files_are_refused(tmp_path: Path) -> None:
    for read in (load_exported, lambda p: ExportedEmbedder(tiny(), p)):
        with pytest.raises(PolyplinkError, match=r"no exported encoder .*; export it with"):
            read(tmp_path / "none.onnx")
        broken = tmp_path / "broken.onnx"
        broken.write_bytes(b"no model")
        with pytest.raises(PolyplinkError, match=r"cannot be read .*; export it again"):
            read(broken)


@pytest.mark.parametrize("head", ["", "AAAA", "no base 64"])
def test_a_broken_head_is_refused(exported: Path, head: str, tmp_path: Path) -> None:
    model, bent = onnx.load(str(exported)), tmp_path / "bent.onnx"
    onnx.helper.set_model_props(model, {RECORD_KEY: record_text(RECORD), HEAD: head})
    onnx.save(model, str(bent))
    with pytest.raises(PolyplinkError, match=r"bent.onnx cannot be read .*; export it again"):
        load_exported(bent)


def test_a_missing_extra_says_what_to_install(
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
