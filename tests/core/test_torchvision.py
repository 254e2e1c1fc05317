"""torchvision can be imported whether its compiled operators load or not."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


def test_schemas_are_declared_only_where_the_operators_do_not_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heal, declared = _torchvision.heal_torchvision.__wrapped__, list[str]()
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    library: Any = SimpleNamespace(define=declared.append)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    monkeypatch.setattr(torch.library, "Library", lambda *_: library)
    (tmp_path / "_C.so").write_bytes(b"not a library")
    assert heal() is library
    assert [schema.partition("(")[0] for schema in declared] == ["nms", "qnms"]
    monkeypatch.setattr(torch.ops, "load_library", lambda path: None)
    assert heal() is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert heal() is None
