import zipfile
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults, place_of
from polyplink.data.sets.polyp_size import import_polyp_size, read_side_boxes, write_polyp_size
from tests.data.public_sets import assert_same, small_polyp_size, write_set
from tests.data.sample_sets import data_set, procedure_row

WHOLE_FRAME_USED = "whole frame used as a box, no file of boxes given"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_set("polyp-size", small_polyp_size(), tmp_path / "set")
    return tmp_path / "set"


def test_table_and_boxes_are_written_without_videos(tmp_path: Path) -> None:
    word = "Tubular Adenoma"
    polyps = [("01", "01", 11.74, None, word, word)]
    row = procedure_row("01", 2, dataset="polyp-size")
    write_polyp_size(data_set([("01", 0, 1, 2.5, 3, 4, "01")], polyps, [row]), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["boxes.csv", "labels.csv"]
    line = (tmp_path / "labels.csv").read_text().splitlines()[1]
    assert line == "Video01,11.74mm,,60,male,Olympus,Tubular Adenoma"
    lines = (tmp_path / "boxes.csv").read_text().splitlines()
    assert lines == ["procedure_id,frame,x,y,w,h", "01,0,1.0,2.5,3.0,4.0"]


def test_without_boxes_each_frame_is_one_box(root: Path) -> None:
    (root / "Video01.mp4").rename(root / "01.MP4")
    imported = import_polyp_size(root, strict=True)
    boxes = imported.data.detections
    assert boxes.select("x", "y", "w", "h").unique().rows() == [(0, 0, 64, 48)]
    assert boxes["frame"].to_list() == [0, 1, 2, 3] * 2
    assert boxes["image"][1] == "01.MP4#1"
    assert imported.lines == [f"8 x {WHOLE_FRAME_USED} (first: 01)"]


def test_official_lists_become_parts(root: Path) -> None:
    (root / "split").mkdir()
    (root / "split" / "train_1.csv").write_text("imgdir\n01_0.27_.png\n01_0.33_.png\n")
    (root / "split" / "val_1.csv").write_text("imgdir\n07_0.27_.png\n01_1.00_.png\n99_1.00_.png\n")
    imported = import_polyp_size(root)
    assert imported.data.splits == {"train_1": ["01"], "val_1": ["01", "07"]}
    line = "1 x video in both parts of an official fold (01, train_1)"
    assert line in imported.lines


def test_label_tables_are_read_from_the_folder_or_named(root: Path) -> None:
    moved = (root / "labels.csv").rename(root.parent / "labels.csv")
    imported = import_polyp_size(root, boxes=root / "boxes.csv")
    assert imported.data.polyps["size_mm"].null_count() == 2
    assert imported.lines == [
        "2 x recording without size, histology and shape, no table given (first: 01)"
    ]
    read = import_polyp_size(root, cases=moved, boxes=root / "boxes.csv").data
    assert_same(read, small_polyp_size())
    for name in ("a.csv", "b.csv"):
        (root / name).write_text("video_id,size\n1,5mm\n")
    with pytest.raises(
        PolyplinkError, match=r"has several label tables: a\.csv, b\.csv; .*--cases"
    ):
        import_polyp_size(root)
    with pytest.raises(PolyplinkError, match=r"none\.csv is missing"):
        import_polyp_size(root, cases=root / "none.csv")


def test_unusable_videos_and_boxes_are_counted(root: Path) -> None:
    (root / "09.mp4").write_bytes(b"no video")
    (root / "intro.mp4").touch()
    (root / "a").mkdir()
    (root / "a" / "7.mp4").touch()
    with zipfile.ZipFile(root / "more.zip", "w") as archive:
        archive.writestr("03.mp4", b"")
    boxes = root / "boxes.csv"
    boxes.write_text(boxes.read_text() + "05,0,1,1,1,1\n01,4,1,1,1,1\n01,0,70,1,1,1\n")
    imported = import_polyp_size(root, boxes=boxes)
    assert sorted(line.split(" (")[0] for line in imported.lines) == [
        "1 x box beyond the last frame of its procedure, left out",
        "1 x box of a missing video, left out",
        "1 x box wholly outside the image, left out",
        "1 x second video of the same name, left out",
        "1 x video inside an archive, left out",
        "1 x video that cannot be read, left out",
        "1 x video without a number as its name, left out",
    ]
    with pytest.raises(PolyplinkError, match="or import without --strict"):
        import_polyp_size(root, boxes=boxes, strict=True)
    for path in root.glob("*.mp4"):
        path.write_bytes(b"")
    with pytest.raises(PolyplinkError, match="has no video that can be read; download them"):
        import_polyp_size(root)


def test_side_boxes_are_read_by_video(tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    path.write_bytes(
        b"\xef\xbb\xbfvideo_id,frame,x,y,w,h,score\r\nVideo01,0,1,2,3,4.5,0.5\r\n1,2,1,2,3,4,\r\n"
        b"02.mp4,5.0,0,0,1,1,\r\n"
    )
    boxes = read_side_boxes(path, Faults(strict=True))
    assert [(*box, str(place_of(at))) for *box, at in boxes.rows()] == [
        ("01", 0, 1, 2, 3, 4.5, "boxes.csv, line 2"),
        ("01", 2, 1, 2, 3, 4, "boxes.csv, line 3"),
        ("02", 5, 0, 0, 1, 1, "boxes.csv, line 4"),
    ]
