"""The shipped models: their checksums, cards and names."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyplink.associate.identities import recorded_point
from polyplink.core.artefacts import file_key, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.counting.count_part import shipped_messages, used_models
from polyplink.data.origin import write_origin
from polyplink.detect.folder import open_detector
from polyplink.detect.onnx import DetectorRecord, read_record as read_detector_record
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.export import ExportedEncoder
from polyplink.encoders.load import load_named
from polyplink.encoders.pretrained import save_pretrained
from polyplink.encoders.weights import (
    RECORD,
    Seen,
    read_record,
    read_tensors,
    record_text,
    stored_path,
    weights_path,
    write_tensors,
)
from polyplink.models import shipped
from polyplink.models.shipped import DETECTOR, ENCODER, is_shipped, models, shipped_model
from tests.cli.calls import assert_refused, polyplink
from tests.detect.models import write_model


@pytest.fixture
def copied_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the shipped files that a test may damage."""
    folder = Path(shutil.copytree(shipped.FOLDER, tmp_path / "models"))
    monkeypatch.setattr(shipped, "FOLDER", folder)
    return folder


def test_the_shipped_detector_and_encoder_match_their_records_and_cards() -> None:
    assert {model.name: model.kind for model in models()} == {
        DETECTOR: "detector",
        ENCODER: "encoder",
    }
    assert sum(model.bytes for model in models()) <= 12_000_000
    for model in models():
        assert file_key(model.path) == model.sha256
        graphs = [*model.graphs.glob("*")]
        assert sum(path.stat().st_size for path in (model.path, *graphs)) == model.bytes
        assert model.card.startswith(f"# {model.name}\n")
        assert "not a medical device" in model.card
        for name in model.trained_on:
            assert name in model.card
            assert any(name in line for line in model.data)
    assert isinstance(read_detector_record(shipped_model(DETECTOR).path), DetectorRecord)
    assert read_record(weights_path(Path(ENCODER))).name == ENCODER


def test_changed_and_missing_model_files_are_refused(copied_models: Path, tmp_path: Path) -> None:
    for model in models():
        model.verify()
        size = model.path.stat().st_size
        with model.path.open("r+b") as file:
            file.seek(size // 2)
            (byte,) = file.read(1)
            file.seek(size // 2)
            file.write(bytes([byte ^ 1]))
        with pytest.raises(PolyplinkError, match="not the file that was shipped"):
            shipped_model(model.name)
    refused = polyplink("weights", "show", ENCODER)
    assert_refused(refused, "its SHA-256 is another; install polyplink")
    (tmp_path / "a.png").write_bytes(b"")
    refused = polyplink("run", tmp_path, "-o", tmp_path / "o")
    assert_refused(refused, "not the file that was shipped")
    (copied_models / f"{DETECTOR}.onnx").unlink()
    with pytest.raises(PolyplinkError, match="is missing"):
        shipped_model(DETECTOR)
    (copied_models / shipped.LIST).write_text('[{"name": "x"}]')
    with pytest.raises(PolyplinkError, match="broken"):
        models()


def test_the_exported_encoder_computes_the_same_as_its_weights(copied_models: Path) -> None:
    weights = Path(ENCODER)
    exported = load_named(weights, "cpu")
    pytorch = load_named(weights_path(weights), "cpu")
    assert isinstance(exported.embedder, ExportedEncoder)
    assert isinstance(pytorch.embedder, NetworkEmbedder)
    assert (exported.key, exported.record, exported.prepare) == (
        pytorch.key,
        pytorch.record,
        pytorch.prepare,
    )
    assert exported.embedder.record == pytorch.record
    side = pytorch.prepare.size
    crops = np.random.default_rng(0).integers(0, 256, (5, side, side, 3), np.uint8)
    expected = pytorch.embedder(crops, [2, 3])
    np.testing.assert_allclose(exported.embedder(crops, [2, 3]), expected, atol=1e-5)
    assert not any(b".py" in path.read_bytes() for path in (copied_models / ENCODER).glob("*.onnx"))
    config = copied_models / ENCODER / "config.json"
    config.write_text(config.read_text().replace('"vectors"', '"vector"', 1))
    with pytest.raises(PolyplinkError, match=r"config\.json is not the file that was shipped"):
        load_named(weights, "cpu")
    shutil.rmtree(config.parent)
    with pytest.raises(PolyplinkError, match=r"config\.json is missing"):
        load_named(weights, "cpu")


def test_weights_made_with_the_shipped_encoder_carry_the_notice_in_counts_and_cards(
    tmp_path: Path,
) -> None:
    shipped_path = weights_path(Path(ENCODER))
    record, tensors = read_record(shipped_path), read_tensors(shipped_path)
    point, rows = recorded_point(record.operating), record.seen.trained
    further = replace(record.seen, trained=[("mine", "1", "1"), *rows])
    on_part_of_its_data = replace(record.seen, trained=rows[:-1])
    for name, change, notice in (
        ("calibrated", {"operating": None}, True),
        ("trained further", {"seen": further, "origin": {}}, True),
        ("trained on part of its data", {"seen": on_part_of_its_data}, False),
    ):
        path, changed = tmp_path / f"{name}.safetensors", replace(record, **change)
        write_tensors(path, tensors, {RECORD: record_text(changed)})
        used = used_models(path, name, changed, tmp_path)
        texts = [str(message) for message in shipped_messages(used, point)]
        assert len(texts) == notice
        assert all(f"compare their views ({name}) were trained on still" in text for text in texts)
        card = (save_pretrained(path, tmp_path / name) / "README.md").read_text()
        assert ("Research use only" in card) == notice
        assert ("asks for permission for commercial use" in card) == notice


def test_detectors_trained_further_from_the_shipped_one_carry_the_notice_in_counts(
    tmp_path: Path,
) -> None:
    encoder = read_record(weights_path(Path(ENCODER)))
    point = recorded_point(encoder.operating)
    others = replace(encoder, seen=Seen())  # an encoder without a notice
    record = read_detector_record(shipped_model(DETECTOR).path)
    rows = record.trained_on
    for name, trained_on, notice in (
        ("further", ("mine", *rows), True),
        ("others", ("mine", *rows[:-1]), False),
    ):
        path = tmp_path / f"{name}.onnx"
        write_model(path, {"output0": np.zeros((1, 5, 1))}, [1, 3, 64, 64])
        changed = replace(record, size=(64, 64), trained_on=trained_on, name=name)
        write_json(path.with_suffix(".json"), changed)
        write_origin(tmp_path, open_detector(str(path), None).origin)
        used = used_models(path, "mine", others, tmp_path)
        texts = [str(message) for message in shipped_messages(used, point)]
        assert len(texts) == notice
        start = "Research use only: the models that find polyps and compare their views (further)"
        assert all(text.startswith(start) for text in texts)
        assert all("Kvasir-SEG" in text for text in texts)


def test_a_file_of_the_same_name_takes_precedence_over_a_shipped_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_shipped(Path(ENCODER), "encoder")
    assert not is_shipped(Path(ENCODER), "detector")
    assert not is_shipped(Path("elsewhere") / ENCODER, "encoder")
    Path(ENCODER).write_bytes(b"")
    assert not is_shipped(Path(ENCODER), "encoder")
    assert weights_path(Path(ENCODER)) == Path(ENCODER)
    with pytest.raises(PolyplinkError, match="is the name of a shipped encoder"):
        stored_path(ENCODER)


def test_models_shows_cards_and_weights_list_has_the_encoder_first() -> None:
    result = polyplink("models")
    assert result.exit_code == 0, result.output
    assert re.findall(r"^# (\S+)$", result.stdout, re.M) == [DETECTOR, ENCODER]
    assert "asks for permission for commercial use" in result.stdout
    (model,) = json.loads(polyplink("models", DETECTOR, "--json").stdout)
    assert model["sha256"] == shipped_model(DETECTOR).sha256
    assert_refused(polyplink("models", "detector-v0"), f"did you mean {DETECTOR}?")
    first, *_ = json.loads(polyplink("weights", "list", "--json").stdout)
    assert (first["name"], first["path"]) == (ENCODER, str(shipped_model(ENCODER).path))
