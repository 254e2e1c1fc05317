from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.formats.procedure_rows import complete_procedures, procedure_rows, source_folder

BOXES = pl.DataFrame({"procedure_id": ["b", "c", "b"], "frame": [4, 0, 2]})


def rows_of(side: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    return procedure_rows(found, side, BOXES, {"dataset": "set", "source": "/s"})


def test_the_side_table_is_before_the_format() -> None:
    side = pl.DataFrame({"procedure_id": ["a"], "width": [1], "n_frames": [7]})
    found = pl.DataFrame({"procedure_id": ["b", "a"], "width": [2, 3], "height": [4, 5]})
    rows = rows_of(side, found)
    assert rows.select("procedure_id", "width", "height", "dataset").rows() == [
        ("a", 1, 5, "set"),
        ("b", 2, 4, "set"),
        ("c", None, None, "set"),
    ]


def test_what_is_filled_is_told_and_a_size_is_asked_for() -> None:
    side = pl.DataFrame({"procedure_id": ["b"]})
    found = pl.DataFrame({"procedure_id": ["b", "c"], "width": [2, 2], "height": [2, 2]})
    faults = Faults()
    rows = complete_procedures(rows_of(side, found), BOXES, faults)
    assert rows.select("procedure_id", "n_frames", "patient").rows() == [
        ("b", 5, "b"),
        ("c", 1, "c"),
    ]
    assert [line.split(" x ")[0] for line in faults.lines()] == ["2", "2"]
    with pytest.raises(PolyplinkError, match="procedure b: width and height of its frames are not"):
        complete_procedures(rows_of(side, side), BOXES, Faults())
    bare = pl.DataFrame({"procedure_id": ["a"], "width": [2], "height": [2]})
    with pytest.raises(PolyplinkError, match="procedure a has no box and no number of frames"):
        complete_procedures(rows_of(side, bare), BOXES, Faults())


def test_the_folder_of_a_source(tmp_path: Path) -> None:
    assert source_folder(tmp_path) == tmp_path
    assert source_folder(tmp_path / "a.csv") == tmp_path
