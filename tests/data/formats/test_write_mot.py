from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.formats.write_mot import write_mot
from tests.data.box_sets import seen_set


def test_frames_from_one_and_numbers_for_polyps(tmp_path: Path) -> None:
    write_mot(seen_set(), tmp_path)
    lines = (tmp_path / "001-001" / "det" / "det.txt").read_text().splitlines()
    assert lines == [
        "1,1,10.5,8.0,20.0,16.0,0.5,-1,-1",
        "2,1,11.0,8.25,20.0,16.0,0.75,-1,-1",
        "2,2,40.0,30.0,10.0,10.0,-1.0,-1,-1",
    ]
    info = (tmp_path / "001-009" / "seqinfo.ini").read_text()
    assert "frameRate=25.0\nseqLength=4\nimWidth=64\nimHeight=48\n" in info
    write_mot(seen_set(), tmp_path, kind="gt")
    lines = (tmp_path / "001-009" / "gt" / "gt.txt").read_text().splitlines()
    assert lines == ["3,-1,5.0,5.0,9.0,9.0,1,1,1"]


def test_a_name_that_is_no_folder(tmp_path: Path) -> None:
    seen = seen_set()
    slash = pl.lit("a/b").alias("procedure_id")
    data = DataSet.of(
        seen.detections.clear(),
        seen.procedures.head(1).with_columns(slash),
        seen.polyps.clear(),
    )
    with pytest.raises(PolyplinkError, match="'a/b' cannot be the name of a folder"):
        write_mot(data, tmp_path)
