from pathlib import Path
from xml.etree import ElementTree as ET

import polars as pl

from polyplink.data import DataSet
from polyplink.data.formats.write_cvat import write_cvat
from tests.data.box_sets import seen_set


def test_a_track_ends_where_its_polyp_is_not_seen(tmp_path: Path) -> None:
    write_cvat(seen_set(), tmp_path)
    root = ET.parse(tmp_path / "001-001.xml").getroot()
    assert root.findtext("meta/task/name") == "001-001"
    assert root.findtext("meta/task/original_size/width") == "64"
    tracks = [
        [(box.get("frame"), box.get("outside")) for box in track] for track in root.iter("track")
    ]
    assert tracks == [[("0", "0"), ("1", "0"), ("2", "1")], [("1", "0"), ("2", "1")]]
    first = next(root.iter("box"))
    assert [first.get(edge) for edge in ("xtl", "ytl", "xbr", "ybr")] == [
        "10.5",
        "8.0",
        "30.5",
        "24.0",
    ]
    assert [(a.get("name"), a.text) for a in first] == [("polyp_id", "001-001_1"), ("score", "0.5")]


def test_a_name_with_a_slash_is_a_file_all_the_same(tmp_path: Path) -> None:
    seen = seen_set()
    names = pl.Series("procedure_id", ["a/b", "a_b"])
    data = DataSet.of(seen.detections.clear(), seen.procedures.with_columns(names),
                      seen.polyps.clear())  # fmt: skip
    write_cvat(data, tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.xml")) == ["a%2Fb.xml", "a_b.xml"]
