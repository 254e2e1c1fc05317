from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.sets.polyp_size_boxes import SideBox, read_side_boxes


def test_rows_by_video(tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    path.write_bytes(
        b"\xef\xbb\xbfvideo_id,frame,x,y,w,h,score\r\nVideo01,0,1,2,3,4.5,0.5\r\n1,2,1,2,3,4,\r\n"
        b"02.mp4,5.0,0,0,1,1,\r\n"
    )
    faults = Faults(strict=True)
    assert read_side_boxes(path, faults) == {
        1: [
            SideBox(0, 1, 2, 3, 4.5, "boxes.csv, line 2"),
            SideBox(2, 1, 2, 3, 4, "boxes.csv, line 3"),
        ],
        2: [SideBox(5, 0, 0, 1, 1, "boxes.csv, line 4")],
    }


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("1,,1,2,3,4", "box without a frame number"),
        ("1,0.5,1,2,3,4", "box without a frame number"),
        ("1,-1,1,2,3,4", "box without a frame number"),
        ("1,0,1,b,3,4", "box with a side that is no number"),
        ("polyp,0,1,2,3,4", "box of no video"),
        (",0,1,2,3,4", "box of no video"),
    ],
)
def test_rows_that_cannot_be_read_are_counted(tmp_path: Path, row: str, kind: str) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text(f"procedure_id,frame,x,y,w,h\n{row}\n7,0,1,2,3,4\n")
    faults = Faults()
    assert list(read_side_boxes(path, faults)) == [7]
    (line,) = faults.lines()
    assert line.startswith(f"1 x {kind}, left out (first: boxes.csv, line 2")
    with pytest.raises(PolyplinkError, match=rf"line 2.*: {kind}"):
        read_side_boxes(path, Faults(strict=True))


def test_missing_file_and_column(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"boxes\.csv is missing"):
        read_side_boxes(tmp_path / "boxes.csv", Faults())
    (tmp_path / "boxes.csv").write_text("procedure_id,frame,x,y,w\n")
    with pytest.raises(PolyplinkError, match="has no column 'h'; its columns: procedure_id, frame"):
        read_side_boxes(tmp_path / "boxes.csv", Faults())
