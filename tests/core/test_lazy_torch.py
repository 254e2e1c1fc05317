"""Heavy libraries are imported late, and torchvision's operators are declared if need be."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from polyplink.core.lazy_torch import heal_torchvision
from polyplink_lab.bench.cases import imported_modules

SETTINGS_AND_TABLES = """
from polyplink.data.formats.csv import import_csv
from polyplink.data.tables import read_data
from polyplink.encoders.weights import read_record
from polyplink.recipes.by_name import find_recipe, override
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.simulate.presets import preset
override(find_recipe("ntssl"), ["loss.form=anchored"])
preset("smoke")
"""
HELP = """
import contextlib, io
from polyplink.cli.command import app
from polyplink.core.parts import VERBS
with contextlib.redirect_stdout(io.StringIO()):
    for name in VERBS.names():
        with contextlib.suppress(SystemExit):
            app([*name.split(), "--help"])
"""
HEAVY = ("torch", "numba", "timm", "sklearn", "matplotlib")


def test_settings_tables_and_help_import_no_heavy_library() -> None:
    assert imported_modules(SETTINGS_AND_TABLES, HEAVY) == []
    rooms = ("polyplink.data", "polyplink.encoders")
    assert imported_modules(HELP, (*HEAVY, "numpy", "polars", *rooms)) == []


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
