"""Published files are read without running their code."""

import argparse
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.published import read_published, unwrap
from tests.encoders.published import write_endofm

TENSORS = {"a": torch.arange(3.0), "b": torch.ones(2, 2)}


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("layout", ["safetensors", "zip", "legacy"])
def test_all_containers_are_read(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "file"
    if layout == "safetensors":
        save_file(TENSORS, path)
    else:
        torch.save(TENSORS, path, _use_new_zipfile_serialization=layout == "zip")
    found = unwrap(read_published(path))
    assert all(torch.equal(found[name], value) for name, value in TENSORS.items())


def test_harmless_values_pass(tmp_path: Path) -> None:
    found = read_published(write_endofm(tmp_path / "endo_fm.pth", TENSORS))
    assert found["args"].arch == "timesformer"
    assert found["optimizer"]["param_groups"][0]["lr"] == pytest.approx(1e-3)
    values = {"n": argparse.Namespace(x=np.float32(2.0)), "t": torch.ones(1)}
    torch.save(values, tmp_path / "b.pth")
    assert read_published(tmp_path / "b.pth")["n"].x == 2.0


def test_code_is_run_on_the_users_word_alone(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1), "evil": Evil(tmp_path / "made")}, tmp_path / "e.pth")
    with pytest.raises(PolyplinkError, match=r"wants to run code .*mkdir.*--trust-pickle"):
        read_published(tmp_path / "e.pth")
    assert not (tmp_path / "made").exists()
    read_published(tmp_path / "e.pth", trust_pickle=True)
    assert (tmp_path / "made").is_dir()


def test_files_that_are_nothing_of_the_kind(tmp_path: Path) -> None:
    path = tmp_path / "f.pth"
    with pytest.raises(PolyplinkError, match="no file"):
        read_published(path)
    path.write_bytes(b"hello, world")
    with pytest.raises(PolyplinkError, match="neither safetensors nor a file of torch"):
        read_published(path)
    torch.save([torch.ones(1)], path)
    with pytest.raises(PolyplinkError, match="holds a list, not tensors by name"):
        read_published(path)


@pytest.mark.parametrize("layout", ["safetensors", "zip", "legacy"])
def test_truncated_files_are_one_line(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "file"
    if layout == "safetensors":
        save_file(TENSORS, path)
    else:
        torch.save(TENSORS, path, _use_new_zipfile_serialization=layout == "zip")
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    with pytest.raises(PolyplinkError, match="truncated or broken") as caught:
        read_published(path)
    assert len(str(caught.value).splitlines()) == 1


def test_wrappings_and_prefixes_come_off() -> None:
    inner = {"module.backbone.x": torch.ones(1), "head.y": torch.ones(1), "epoch": 3}
    for loaded in (
        {"teacher": inner, "student": {}},
        {"state_dict": inner},
        {"model": inner},
        inner,
    ):
        assert set(unwrap(loaded)) == {"x", "head.y"}
