"""torchvision's operators are declared if its library does not load."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from polyplink.core.lazy_torch import heal_torchvision


def test_schemas_are_declared_only_if_the_operators_do_not_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heal, declared = heal_torchvision.__wrapped__, list[str]()
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
