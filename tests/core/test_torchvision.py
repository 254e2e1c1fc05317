"""torchvision can be imported whether its compiled operators load or not."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from polyplink.core import _torchvision

AFTER_HEALING = """
from polyplink.core._torchvision import heal_torchvision
heal_torchvision()
import torchvision
from torchvision.transforms.v2 import functional
print(torchvision.__version__)
"""


def test_torchvision_imports_after_healing() -> None:
    """In a process of its own, because declaring operators cannot be undone."""
    done = subprocess.run(
        [sys.executable, "-c", AFTER_HEALING], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_nothing_is_declared_where_the_operators_load_or_without_torchvision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_torchvision, "_compiled_operators_load", lambda folder: True)
    assert _torchvision.heal_torchvision.__wrapped__() is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert _torchvision.heal_torchvision.__wrapped__() is None


def test_a_library_that_does_not_load_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not _torchvision._compiled_operators_load(tmp_path)
    (tmp_path / "_C.so").write_bytes(b"not a library")
    assert not _torchvision._compiled_operators_load(tmp_path)
    monkeypatch.setattr(torch.ops, "load_library", lambda path: None)
    assert _torchvision._compiled_operators_load(tmp_path)
