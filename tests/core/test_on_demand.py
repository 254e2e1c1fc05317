"""Faces import what they hand on when it is asked for, and torch is imported at its first use."""

import importlib
import sys
from pathlib import Path

import pytest

from polyplink_lab.bench.cases import imported


def test_a_function_keeps_its_place_beside_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = tmp_path / "facade"
    pack.mkdir()
    (pack / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from polyplink.core.on_demand import hand_on\n"
        "if TYPE_CHECKING:\n"
        "    from facade.embed import WIDTH, embed\n"
        "hand_on(__name__)\n"
    )
    (pack / "embed.py").write_text("WIDTH = 8\n\n\ndef embed() -> int:\n    return 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    facade = importlib.import_module("facade")
    assert "facade.embed" not in sys.modules
    assert {"WIDTH", "embed"} <= {*dir(facade)}
    importlib.import_module("facade.embed")
    assert (facade.embed(), facade.WIDTH) == (3, 8)
    with pytest.raises(AttributeError, match="'facade' has no attribute 'depth'"):
        _ = facade.depth


def test_settings_and_tables_import_no_heavy_library() -> None:
    code = """
from polyplink.data.formats.csv import import_csv
from polyplink.data.tables import read_data
from polyplink.encoders.weights import read_record
from polyplink.recipes.by_name import find_recipe, override
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.simulate.presets import preset
override(find_recipe("ntssl"), ["loss.form=anchored"])
preset("smoke")
"""
    assert imported(code, ("torch", "numba", "timm", "sklearn", "matplotlib")) == []
