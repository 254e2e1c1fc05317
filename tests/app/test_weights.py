"""The verbs about weights of others."""

import json
from pathlib import Path

import pytest
import torch

from tests.app.calls import assert_refused, polyplink
from tests.encoders.checkpoints import caformer_shapes, golden_state


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYPLINK_HOME", str(tmp_path / "home"))


def test_add_list_show(tmp_path: Path) -> None:
    path = tmp_path / "SurgeNetXL_checkpoint_epoch0050_teacher.pth"
    torch.save(golden_state(caformer_shapes()), path)
    added = polyplink("weights", "add", path, "--as", "mine", "--preset", "reference", "--json")
    assert json.loads(added.stdout)["name"] == "mine"
    listed = json.loads(polyplink("weights", "list", "--json").stdout)
    assert [row["name"] for row in listed if row["path"]] == ["mine"]
    assert "not here; from" in polyplink("weights", "list").stdout
    shown = json.loads(polyplink("weights", "show", "mine").stdout)
    assert shown["encoder"]["preset"] == "reference"


def test_cost() -> None:
    text = polyplink("weights", "cost", "surgenet").stdout
    assert "23.24 M parameters (24.29 M with unused heads" in text
    assert "31.00 G multiply-accumulates" in text
    found = json.loads(polyplink("weights", "cost", "surgenet", "--size", "256", "--json").stdout)
    assert round(found["macs_g"], 2) == 40.49


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.pth").write_bytes(b"no weights")
    assert_refused(polyplink("weights", "add", tmp_path / "x.pth"), "neither safetensors nor")
    assert_refused(polyplink("weights", "show", "endofm"), "not on this machine")
    assert_refused(polyplink("weights", "cost", "endofn"), "did you mean endofm")
