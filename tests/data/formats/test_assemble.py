from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.boxes import BOXES, box_table
from polyplink.data.faults import Faults
from polyplink.data.formats.assemble import Found, Options, assemble


def boxes(**more: object) -> pl.DataFrame:
    row = {"at": "line 1", "procedure_id": "v", "frame": 3, "x": 1, "y": 2, "w": 3, "h": 4}
    return box_table(pl.DataFrame([row | more]))


def test_columns_that_are_absent_are_null() -> None:
    table = boxes()
    assert table.schema == dict(BOXES)
    assert table["polyp_id"].null_count() == 1


def test_a_size_that_is_said_is_before_all(tmp_path: Path) -> None:
    procedures = pl.DataFrame({"procedure_id": ["v"], "width": [9], "height": [9]})
    found = Found(boxes(track="5"), procedures, splits={"a": ["v"], "b": ["v"]})
    imported = assemble(found, tmp_path, "set", Options(size=(64, 48)), Faults())
    row = imported.data.procedures.row(0, named=True)
    assert (row["width"], row["height"], row["dataset"]) == (64, 48, "set")
    assert imported.data.polyps["polyp_id"].to_list() == ["v_5"]
    assert "1 x procedure in more than one part (first: v)" in imported.warnings
    named = assemble(found, tmp_path, "set", Options(dataset="mine", identity="none"), Faults())
    assert named.data.procedures["dataset"].to_list() == ["mine"]
    assert named.data.polyps.is_empty()


def test_facts_are_not_used_without_identities(tmp_path: Path) -> None:
    facts = pl.DataFrame({"procedure_id": ["v"], "polyp_id": ["p"], "size_mm": [3.0]})
    found = Found(boxes(polyp_id="p"), polyps=facts)
    assert assemble(found, tmp_path, "s", Options(size=(9, 9)), Faults()).data.polyps.height == 1
    none = Options(size=(9, 9), identity="none")
    assert assemble(found, tmp_path, "s", none, Faults()).data.polyps.is_empty()


def test_numbers_that_begin_elsewhere(tmp_path: Path) -> None:
    options = Options(size=(9, 9), first_frame=3)
    data = assemble(Found(boxes()), tmp_path, "s", options, Faults()).data
    assert data.detections["frame"].to_list() == [0]
    with pytest.raises(PolyplinkError, match="no identity 'x'; choose one of: track, none"):
        Options(identity="x")


def test_boxes_none_of_which_can_be_used(tmp_path: Path) -> None:
    message = r"none of 1 boxes can be used: 1 x box of no area, left out \(first: line 1 .*; mend"
    with pytest.raises(PolyplinkError, match=message):
        assemble(Found(boxes(w=0)), tmp_path, "s", Options(size=(9, 9)), Faults())
    empty = Found(boxes().clear(), pl.DataFrame({"procedure_id": ["v"], "n_frames": [3]}))
    data = assemble(empty, tmp_path, "s", Options(size=(9, 9)), Faults()).data
    assert (data.detections.height, data.procedures.height) == (0, 1)
