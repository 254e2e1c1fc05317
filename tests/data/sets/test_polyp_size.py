import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.files.video import open_video, split_frame_name
from polyplink.data.sets.polyp_size import import_polyp_size
from polyplink.data.sets.write_polyp_size import write_polyp_size
from tests.data.made_sets import data_set
from tests.data.public_sets import assert_same, picture, polyp_size_sets, unlabelled_row

WHOLE = "whole frame taken as a box, no file of boxes given"


def small() -> DataSet:
    """Two videos of four frames."""
    procedures = [unlabelled_row(n, 4, "polyp-size", fps=30.0, age=60) for n in ("01", "07")]
    boxes = [
        ("01", 0, 1, 2, 3, 4, "01"),
        ("01", 2, 1.5, 2, 3, 4.25, "01"),
        ("07", 3, 1, 1, 9, 9, "07"),
    ]
    word = "Tubulovillous Adenoma"
    polyps = [("01", "01", 5.01, None, word, word), ("07", "07", 2.8, None, None, None)]
    return data_set(boxes, polyps, procedures)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_polyp_size(small(), tmp_path / "set", frames=picture(small()))
    return tmp_path / "set"


@settings(max_examples=15, deadline=None)
@given(polyp_size_sets(), st.booleans())
def test_import_undoes_write(data: DataSet, spreadsheet: bool) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        write_polyp_size(data, root, frames=picture(data), table="xlsx" if spreadsheet else "csv")
        again = import_polyp_size(root, boxes=root / "boxes.csv").data
    assert_same(again, data)


def test_a_box_names_its_frame_in_the_video(root: Path) -> None:
    imported = import_polyp_size(root, boxes=root / "boxes.csv")
    assert imported.warnings == []
    images = imported.data.detections["image"].to_list()
    assert images == ["Video01.mp4#0", "Video01.mp4#2", "Video07.mp4#3"]
    video, frame = split_frame_name(images[1]) or ("", -1)
    with open_video(root / video) as film:
        assert film.frame(frame) is not None
    without = import_polyp_size(root, boxes=root / "boxes.csv", images=False)
    assert without.data.detections["image"].null_count() == 3


def test_without_boxes_a_frame_is_its_own_box_and_that_is_told(root: Path) -> None:
    (root / "Video01.mp4").rename(root / "01.MP4")
    imported = import_polyp_size(root, strict=True)
    boxes = imported.data.detections
    assert boxes.select("x", "y", "w", "h").unique().rows() == [(0, 0, 64, 48)]
    assert boxes["frame"].to_list() == [0, 1, 2, 3] * 2
    assert boxes["image"][1] == "01.MP4#1"
    assert imported.warnings == [f"8 x {WHOLE} (first: 01)"]


def test_official_lists_become_parts(root: Path) -> None:
    (root / "split").mkdir()
    (root / "split" / "train_1.csv").write_text("imgdir\n01_0.27_.png\n01_0.33_.png\n")
    (root / "split" / "val_1.csv").write_text("imgdir\n07_0.27_.png\n01_1.00_.png\n99_1.00_.png\n")
    imported = import_polyp_size(root)
    assert imported.data.splits == {"train_1": ["01"], "val_1": ["01", "07"]}
    line = "1 x video in both parts of an official fold (first: 01, train_1)"
    assert line in imported.warnings


def test_label_tables(root: Path) -> None:
    labels = root / "labels.xlsx"
    (root / "other").mkdir()
    moved = labels.rename(root.parent / "labels.xlsx")
    imported = import_polyp_size(root, boxes=root / "boxes.csv")
    assert imported.data.polyps["size_mm"].null_count() == 2
    assert imported.warnings[0].startswith("1 x no label table: sizes, shapes and histology are")
    assert imported.warnings[1] == "2 x video without a row in the label table (first: 01)"
    assert_same(import_polyp_size(root, cases=moved, boxes=root / "boxes.csv").data, small())
    for name in ("a.csv", "b.csv"):
        (root / name).write_text("video_id,size\n1,5mm\n")
    with pytest.raises(PolyplinkError, match=r"several label tables: a\.csv, b\.csv; say which"):
        import_polyp_size(root)
    with pytest.raises(PolyplinkError, match=r"none\.csv is missing"):
        import_polyp_size(root, cases=root / "none.csv")


def test_videos_that_cannot_be_taken_are_counted(root: Path) -> None:
    (root / "09.mp4").write_bytes(b"no video")
    (root / "intro.mp4").touch()
    (root / "a").mkdir()
    (root / "a" / "7.mp4").touch()
    with zipfile.ZipFile(root / "more.zip", "w") as archive:
        archive.writestr("03.mp4", b"")
    boxes = root / "boxes.csv"
    boxes.write_text(boxes.read_text() + "05,0,1,1,1,1\n01,4,1,1,1,1\n01,0,70,1,1,1\n")
    imported = import_polyp_size(root, boxes=boxes)
    assert_same(imported.data, small())
    assert [line.split(" (first")[0] for line in imported.warnings] == [
        "1 x second video of a number, left out",
        "1 x video whose name is no number, left out",
        "1 x video inside an archive, left out",
        "1 x video that cannot be read, left out",
        "1 x box beyond the video's 4 frames, left out",
        "1 x box of a video that is not there, left out",
        "1 x box wholly outside the image, left out",
    ]
    with pytest.raises(PolyplinkError, match=r"a/7\.mp4|09\.mp4|Video07\.mp4"):
        import_polyp_size(root, boxes=boxes, strict=True)


def test_progress_and_wrong_folders(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    import_polyp_size(root, workers=2, progress=lambda *step: seen.append(step))
    assert seen == [(1, 2), (2, 2)]
    for path in root.glob("*.mp4"):
        path.write_bytes(b"")
    with pytest.raises(PolyplinkError, match="has no video that can be read; download them"):
        import_polyp_size(root)
    with pytest.raises(PolyplinkError, match=r"no folder .*nowhere"):
        import_polyp_size(root / "nowhere")
    (root / "empty").mkdir()
    with pytest.raises(PolyplinkError, match=r"empty has no video 01\.mp4 or Video01\.mp4; check"):
        import_polyp_size(root / "empty")
