from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.formats.write_yolo import write_yolo
from tests.data.box_sets import seen_set


def test_shares_of_the_image(tmp_path: Path) -> None:
    write_yolo(seen_set(), tmp_path)
    folder = tmp_path / "labels" / "001-001"
    assert sorted(path.name for path in folder.iterdir()) == ["000000.txt", "000001.txt"]
    text = (folder / "000001.txt").read_text().splitlines()
    assert text[1].split() == [
        "0",
        "0.703125",
        repr(35 / 48),
        "0.15625",
        repr(10 / 48),
        "-1.0",
        "2",
    ]
    assert "width: 64\nheight: 48\n" in (tmp_path / "data.yaml").read_text()
    with pytest.raises(PolyplinkError, match="labels exists already"):
        write_yolo(seen_set(), tmp_path)


def test_boxes_alone_are_five_values(tmp_path: Path) -> None:
    seen = seen_set()
    bare = seen.detections.drop("score", "polyp_id")
    write_yolo(DataSet.of(bare, seen.procedures, seen.polyps.clear()), tmp_path)
    text = (tmp_path / "labels" / "001-009" / "000002.txt").read_text()
    assert len(text.split()) == 5
