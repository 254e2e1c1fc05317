"""Weights of others: added once, then known by name."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from polyplink.core.artefacts import file_key
from polyplink.core.errors import PolyplinkError
from polyplink.encoders import FoundationConfig, build_frame_encoder, load_encoder, read_record
from polyplink.encoders.foundation import FOUNDATION
from polyplink.jobs import embed_data
from polyplink.jobs.weights import (
    add_weights,
    check_published,
    list_weights,
    show_weights,
)
from tests.encoders.checkpoints import caformer_shapes, golden_state
from tests.samples import write_procedures

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYPLINK_HOME", str(tmp_path / "home"))


@pytest.fixture
def surgenet(tmp_path: Path) -> Path:
    path = tmp_path / "SurgeNetXL_checkpoint_epoch0050_teacher.pth"
    torch.save(golden_state(caformer_shapes()), path)
    return path


def test_added_weights_are_listed_shown_and_loaded_by_name(surgenet: Path) -> None:
    added = add_weights(surgenet, preset="reference")
    assert (added.name, added.tensors) == ("surgenet", 152)
    assert added.sha256 == file_key(surgenet)
    rows = {row["name"]: row for row in list_weights()}
    assert rows["surgenet"]["path"] == str(added.path)
    assert rows["endofm"]["path"] == ""
    assert set(rows) == set(FOUNDATION)
    record = read_record(added.path)
    assert record.prepare.size == 224
    assert "NC" in record.origin["licence"]
    config = record.encoder
    assert isinstance(config, FoundationConfig)
    assert (config.mean, config.clip) == ((0.45,) * 3, 0)  # the preset's, filled in
    shown = show_weights(Path("surgenet"))
    assert json.dumps(shown)
    assert shown["origin"]["sha256"] == added.sha256
    loaded = load_encoder(Path("surgenet"), CPU)
    crops = torch.zeros(2, 224, 224, 3, dtype=torch.uint8)
    with torch.no_grad():
        assert loaded.encoder(crops, [2]).tracklet.shape == (1, 512)


def test_a_data_set_is_embedded_by_a_name(surgenet: Path, tmp_path: Path) -> None:
    add_weights(surgenet, name="mine", size=32)
    data = write_procedures(tmp_path, procedures=2, views=1)
    done = embed_data(Path("mine"), data, device="cpu")
    assert done.prepared.settings.size == 32
    assert done.embeddings.vectors.shape == (4, 512)
    assert np.isfinite(done.embeddings.vectors).all()
    with pytest.raises(PolyplinkError, match="Endo-FM are not on this machine"):
        embed_data(Path("endofm"), data, device="cpu")


def test_a_tampered_file_is_noticed(surgenet: Path) -> None:
    path = add_weights(surgenet).path
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    for read in (lambda: load_encoder(Path("surgenet"), CPU), lambda: show_weights(path)):
        with pytest.raises(PolyplinkError, match="not the file that was added"):
            read()


def test_what_is_known_of_a_digest_is_held_against_it() -> None:
    check_published(Path("x.pth"), "ab12", "")
    check_published(Path("m-0123abcd.pth"), "0123abcd99", "")
    for path, wanted in ((Path("x.pth"), "cd"), (Path("m-0123abcd.pth"), "")):
        with pytest.raises(PolyplinkError, match=r"not the published file.*--unverified"):
            check_published(path, "ab12" * 16, wanted)


def test_a_backbone_is_found_by_the_recipes(tmp_path: Path) -> None:
    model, width = build_frame_encoder("timm:resnet50")
    state = dict(model.state_dict()) | {"fc.weight": torch.zeros(1000, width)}
    state |= {"fc.bias": torch.zeros(1000)}
    path = tmp_path / "resnet50-11ad3fa6.pth"
    torch.save(state, path)
    with pytest.raises(PolyplinkError, match="its SHA-256 begins with"):
        add_weights(path)
    added = add_weights(path, unverified=True)
    assert added.name == "resnet50.tv2_in1k"
    again, _ = build_frame_encoder("timm:resnet50.tv2_in1k", Path("resnet50.tv2_in1k.safetensors"))
    assert torch.equal(again.state_dict()["conv1.weight"], state["conv1.weight"])
    assert {row["name"]: row for row in list_weights()}[added.name]["path"] == str(added.path)
