from pathlib import Path

import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import NetworkEmbedder
from polyplink.encoders.export import HEAD, export_frames
from polyplink.encoders.exported import ExportedEmbedder, load_exported, read_exported_record
from polyplink.encoders.weights import RECORD as RECORD_KEY
from polyplink.encoders.weights import record_text
from tests.encoders.exports import CROPS, LENGTHS, RECORD, SIDE, tiny

pytest.importorskip("openvino")
pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")


@pytest.mark.parametrize("frames_per_pass", [1, 4, 16])
def test_blocks_come_back_in_their_order(exported: Path, frames_per_pass: int) -> None:
    encoder = tiny()
    expected = NetworkEmbedder(encoder)(CROPS, LENGTHS)
    found = ExportedEmbedder(encoder, exported, frames_per_pass=frames_per_pass)(CROPS, LENGTHS)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_file_alone_embeds(exported: Path) -> None:
    loaded, embedder = load_exported(exported)
    expected = NetworkEmbedder(tiny())(CROPS, LENGTHS)
    np.testing.assert_allclose(embedder(CROPS, LENGTHS), expected, atol=1e-4)
    assert loaded.record.prepare == RECORD.prepare
    assert loaded.record.seen.trained == [("set", "p1", "p1")]
    assert len(loaded.weights_id) == 16


def test_the_record_travels_in_the_file(exported: Path) -> None:
    found = read_exported_record(exported)
    assert record_text(found) == record_text(RECORD)


def test_what_is_no_export_is_refused(tmp_path: Path) -> None:
    for read in (read_exported_record, load_exported, lambda p: ExportedEmbedder(tiny(), p)):
        with pytest.raises(PolyplinkError, match=r"no exported encoder .*; export it with"):
            read(tmp_path / "none.onnx")
        broken = tmp_path / "broken.onnx"
        broken.write_bytes(b"no model")
        with pytest.raises(PolyplinkError, match=r"cannot be read .*; export it again"):
            read(broken)


def test_an_export_without_a_record_is_refused(tmp_path: Path) -> None:
    bare = export_frames(tiny(), tmp_path / "bare.onnx", SIDE)
    with pytest.raises(PolyplinkError, match=r"bare.onnx has no polyplink record; export it again"):
        load_exported(bare)


@pytest.mark.parametrize("head", ["", "AAAA", "no base 64"])
def test_an_export_with_a_broken_head_is_refused(exported: Path, head: str, tmp_path: Path) -> None:
    model, bent = onnx.load(str(exported)), tmp_path / "bent.onnx"
    onnx.helper.set_model_props(model, {RECORD_KEY: record_text(RECORD), HEAD: head})
    onnx.save(model, str(bent))
    with pytest.raises(PolyplinkError, match=r"bent.onnx cannot be read .*; export it again"):
        load_exported(bent)
