"""The shipped models: verified, described, and known by name."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from polyplink.core.artefacts import file_key
from polyplink.core.errors import PolyplinkError
from polyplink.detect.onnx import DetectorRecord, read_record as read_detector_record
from polyplink.encoders.embed import NetworkEmbedder
from polyplink.encoders.export import ExportedEncoder
from polyplink.encoders.load import load_named
from polyplink.encoders.weights import read_record, stored_path, weights_path
from polyplink.models import shipped
from polyplink.models.shipped import DETECTOR, ENCODER, is_shipped, models, shipped_model
from tests.cli.calls import assert_refused, polyplink


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the shipped files that a test may spoil."""
    folder = Path(shutil.copytree(shipped.FOLDER, tmp_path / "models"))
    monkeypatch.setattr(shipped, "FOLDER", folder)
    return folder


def test_the_package_has_a_detector_and_an_encoder_that_are_what_they_are_said_to_be() -> None:
    assert {one.name: one.kind for one in models()} == {DETECTOR: "detector", ENCODER: "encoder"}
    assert sum(one.bytes for one in models()) <= 12_000_000
    for one in models():
        assert file_key(one.path) == one.sha256
        graphs = [*one.graphs.glob("*")]
        assert sum(path.stat().st_size for path in (one.path, *graphs)) == one.bytes
        assert one.card.startswith(f"# {one.name}\n")
        assert "not a medical device" in one.card
        for name in one.trained_on:
            assert name in one.card
            assert any(name in line for line in one.data)
    assert isinstance(read_detector_record(shipped_model(DETECTOR).path), DetectorRecord)
    assert read_record(weights_path(Path(ENCODER))).name == ENCODER


def test_a_changed_file_is_refused_in_one_line(copied: Path, tmp_path: Path) -> None:
    for one in models():
        one.verify()
        size = one.path.stat().st_size
        with one.path.open("r+b") as file:
            file.seek(size // 2)
            (byte,) = file.read(1)
            file.seek(size // 2)
            file.write(bytes([byte ^ 1]))
        with pytest.raises(PolyplinkError, match="not the file that was shipped"):
            shipped_model(one.name)
    refused = polyplink("weights", "show", ENCODER)
    assert_refused(refused, "its SHA-256 is another; install polyplink")
    (tmp_path / "a.png").write_bytes(b"")
    refused = polyplink("run", tmp_path, "-o", tmp_path / "o")
    assert_refused(refused, "not the file that was shipped")
    (copied / f"{DETECTOR}.onnx").unlink()
    with pytest.raises(PolyplinkError, match="is missing"):
        shipped_model(DETECTOR)
    (copied / shipped.LIST).write_text('[{"name": "x"}]')
    with pytest.raises(PolyplinkError, match="broken"):
        models()


def test_the_graphs_of_the_encoder_compute_what_its_weights_do(copied: Path) -> None:
    weights = Path(ENCODER)
    quick = load_named(weights, "cpu")
    slow = load_named(weights_path(weights), "cpu")
    assert isinstance(quick.embedder, ExportedEncoder)
    assert isinstance(slow.embedder, NetworkEmbedder)
    assert (quick.key, quick.record, quick.prepare) == (slow.key, slow.record, slow.prepare)
    assert quick.embedder.record == slow.record
    side = slow.prepare.size
    crops = np.random.default_rng(0).integers(0, 256, (5, side, side, 3), np.uint8)
    wanted = slow.embedder(crops, [2, 3])
    np.testing.assert_allclose(quick.embedder(crops, [2, 3]), wanted, atol=1e-5)
    assert not any(b".py" in path.read_bytes() for path in (copied / ENCODER).glob("*.onnx"))
    config = copied / ENCODER / "config.json"
    config.write_text(config.read_text().replace('"vectors"', '"vector"', 1))
    with pytest.raises(PolyplinkError, match=r"config\.json is not the file that was shipped"):
        load_named(weights, "cpu")
    shutil.rmtree(config.parent)
    with pytest.raises(PolyplinkError, match=r"config\.json is missing"):
        load_named(weights, "cpu")


def test_a_file_of_the_name_goes_before_the_shipped_model(
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


def test_the_command_line_shows_cards_and_lists_the_encoder_first() -> None:
    shown = polyplink("models")
    assert shown.exit_code == 0, shown.output
    assert re.findall(r"^# (\S+)$", shown.stdout, re.M) == [DETECTOR, ENCODER]
    assert "asks for permission for commercial use" in shown.stdout
    (one,) = json.loads(polyplink("models", DETECTOR, "--json").stdout)
    assert one["sha256"] == shipped_model(DETECTOR).sha256
    assert_refused(polyplink("models", "detector-v0"), f"did you mean {DETECTOR}?")
    first, *_ = json.loads(polyplink("weights", "list", "--json").stdout)
    assert (first["name"], first["path"]) == (ENCODER, str(shipped_model(ENCODER).path))
