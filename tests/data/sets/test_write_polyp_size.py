from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.write_polyp_size import write_polyp_size
from tests.data.made_sets import data_set, procedure_row, small_set


def test_table_and_boxes_without_videos(tmp_path: Path) -> None:
    polyps = [("01", "01", 11.74, None, "Tubular Adenoma", "Tubular Adenoma")]
    data = data_set(
        [("01", 0, 1, 2.5, 3, 4, "01")], polyps, [procedure_row("01", 2, dataset="polyp-size")]
    )
    write_polyp_size(data, tmp_path, table="csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["boxes.csv", "labels.csv"]
    assert (tmp_path / "labels.csv").read_text().splitlines()[1] == (
        '"Video01","11.74mm","","60","male","Olympus","Tubular Adenoma"'
    )
    assert (tmp_path / "boxes.csv").read_text().splitlines() == [
        "procedure_id,frame,x,y,w,h",
        "01,0,1.0,2.5,3.0,4.0",
    ]


def test_what_the_layout_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="'001-001' is no video of Polyp-Size; name it by two"):
        write_polyp_size(small_set(), tmp_path)
    odd = data_set([], [], [procedure_row("01", 1, width=63)])
    with pytest.raises(PolyplinkError, match="63 x 48 cannot be a video; give it even sides"):
        write_polyp_size(odd, tmp_path, frames=lambda *_: None)
    even = data_set([], [], [procedure_row("01", 1)])
    with pytest.raises(PolyplinkError, match="01, frame 0: no image; give every frame"):
        write_polyp_size(even, tmp_path, frames=lambda *_: None)
