from pathlib import Path

import pytest

from polyplink.encoders.foundation import FOUNDATION
from polyplink.jobs.reproducible import list_tables, table_state
from polyplink.jobs.subjects import Workspace
from polyplink.recipes.published import published


def test_every_table_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYPLINK_HOME", str(tmp_path))
    states = {state.name: state for state in list_tables()}
    assert list(states) == list(published())
    one = states["ntssl/1"]
    assert one.cells == 162
    assert one.runs == "not"  # neither weights nor the backbone's
    assert "backbone" in one.missing["ntssl"]
    assert "ntssl" in one.recipes
    assert "dinov2-s" in one.weights
    assert "; " in one.missing["dinov2-s"]  # what is missing, and the mend
    assert states["ta/1"].runs == "in part"  # a row without any encoder
    assert "ta384-tpc" in states["ta/1"].recipes
    every = [name for state in states.values() for name in state.weights]
    assert set(every) <= set(FOUNDATION)  # whatever is no recipe can be added by name
    place = Workspace(tmp_path, tmp_path, stand_in=True)
    assert table_state(published()["thesis/5.3"], place).runs == "whole"
