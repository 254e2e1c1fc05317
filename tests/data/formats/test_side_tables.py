from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.faults import Faults
from polyplink.data.formats.side_tables import read_side_tables, tracks_of, write_side_tables
from tests.data.box_sets import box_sets


@settings(max_examples=15, deadline=None)
@given(box_sets())
def test_reading_undoes_writing_and_tracks_are_unique(data: DataSet) -> None:
    tracks = tracks_of(data)
    assert not tracks.select("procedure_id", "track").is_duplicated().any()
    assert set(data.polyps["polyp_id"]) <= set(tracks["polyp_id"])
    with TemporaryDirectory() as folder:
        write_side_tables(data, Path(folder), tracks)
        side = read_side_tables(Path(folder), Faults())
    assert side.procedures.equals(data.procedures)
    assert side.polyps.drop("track").equals(data.polyps)
    assert side.polyps["track"].to_list() == [str(t) for t in tracks["track"]]
    own = tracks.filter(tracks["polyp_id"] == tracks["procedure_id"] + "_2")
    assert own["track"].is_in([2]).all()


def test_no_files_and_odd_files(tmp_path: Path) -> None:
    side = read_side_tables(tmp_path, Faults())
    assert side.procedures.is_empty()
    assert side.polyps.is_empty()
    (tmp_path / "procedures.csv").write_text("procedure_id,width,widht\nv,64,1\n")
    faults = Faults()
    assert read_side_tables(tmp_path, faults).procedures["width"].to_list() == [64]
    assert faults.lines() == [
        "1 x column of procedures.csv that is not known, not read (first: widht)"
    ]
    (tmp_path / "procedures.csv").write_text("procedure_id,width\nv,wide\n")
    with pytest.raises(PolyplinkError, match=r"procedures\.csv: column width, row 0: 'wide'"):
        read_side_tables(tmp_path, Faults())
    (tmp_path / "procedures.csv").write_text("width\n64\n")
    with pytest.raises(PolyplinkError, match="column procedure_id is missing"):
        read_side_tables(tmp_path, Faults())
