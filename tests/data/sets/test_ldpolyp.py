import zipfile
from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.ldpolyp import import_ldpolyp, write_ldpolyp
from tests.data.public_sets import assert_same, small_ldpolyp, write_grey, write_set
from tests.data.sample_sets import data_set, procedure_row
from tests.data.videos import HEIGHT, WIDTH, remux, write_video

PATIENT = "procedure without a known patient, treated as a separate patient"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_set("ldpolyp", small_ldpolyp(), tmp_path)
    return tmp_path


def test_every_frame_is_written_as_a_file(tmp_path: Path) -> None:
    data = data_set([("Test_7", 1, 1, 2, 3, 4, None), ("Test_7", 1, 5, 5, 1, 1, None)], [],
                    [procedure_row("Test_7", 3)])  # fmt: skip
    write_ldpolyp(data, tmp_path)
    texts = {p.name: p.read_text() for p in (tmp_path / "Test" / "Annotations" / "7").iterdir()}
    assert texts == {"0001.txt": "0\n", "0002.txt": "2\n1 2 4 6\n5 5 6 6\n", "0003.txt": "0\n"}


def test_a_video_has_one_polyp_or_none_with_tracklet_safe_identity(root: Path) -> None:
    assert import_ldpolyp(root).lines == [
        "1 x frame with several boxes that share the video's one identity "
        "(TrainValid/Annotations/10/0003.txt)",
        f"3 x {PATIENT} (first: TrainValid_2)",
    ]
    imported = import_ldpolyp(root, identity="tracklet-safe")
    rows = imported.data.detections.select("procedure_id", "frame", "polyp_id").rows()
    assert rows == [
        ("TrainValid_10", 1, None),
        ("TrainValid_2", 0, "TrainValid_2"),
        ("TrainValid_2", 3, "TrainValid_2"),
    ]
    assert imported.data.polyps["polyp_id"].to_list() == ["TrainValid_2"]
    line = "1 x video of several polyps, its boxes have no polyp id (TrainValid_10)"
    assert line in imported.lines
    with pytest.raises(
        PolyplinkError, match="no identity 'polyp'; give --identity video or tracklet-safe"
    ):
        import_ldpolyp(root, identity="polyp")  # type: ignore[arg-type]


def test_a_download_in_parts_is_one_set_and_equal_ids_of_two_parts_are_two_videos(
    root: Path,
) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for i, path in enumerate(files):  # a Drive download nests the folders and divides the files
        target = root / f"drive/LDPolypVideo-00{i % 2 + 1}/LDPolypVideo" / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    assert_same(import_ldpolyp(root / "drive").data, small_ldpolyp())
    for folder in sorted((root / "drive").glob("*/*/Test/*/101")):
        folder.rename(folder.with_name("2"))
    ids = import_ldpolyp(root / "drive").data.procedures["procedure_id"].to_list()
    assert ids == ["TrainValid_2", "TrainValid_10", "Test_2"]


def test_upper_case_windows_lines_and_blanks_do_not_matter(root: Path) -> None:
    texts = root / "TrainValid" / "Annotations" / "2"
    (texts / "0001.txt").write_bytes(b"\xef\xbb\xbf1\r\n10\t20 40.0 60 \r\n\r\n\r\n")
    (texts / "0004.txt").rename(texts / "0004.TXT")
    image = root / "TrainValid" / "Images" / "2" / "0001.jpg"
    image.rename(image.with_suffix(".JPG"))
    (texts / "._0001.txt").write_bytes(b"\x00\x05")
    (texts / "classes.txt").write_text("polyp\n")
    imported = import_ldpolyp(root)
    assert_same(imported.data, small_ldpolyp())
    assert "1 x file without a number from 1 as its name, left out" in " ".join(imported.lines)


def test_sizes_come_from_the_image_or_the_publication(root: Path) -> None:
    for path in (root / "TrainValid" / "Images" / "2").iterdir():
        write_grey(path, 50, 60)
    for path in (root / "Test" / "Images" / "101").iterdir():
        path.unlink()
    imported = import_ldpolyp(root)
    sizes = imported.data.procedures.select("width", "height").rows()
    assert sizes == [(60, 50), (560, 480), (560, 480)]
    lines = " ".join(imported.lines)
    assert "560 x 480 as published (Test_101)" in lines
    boxes = imported.data.detections.filter(frame=0)  # a box beyond the image is clipped
    assert boxes.select("x", "y", "w", "h").rows() == [(10, 20, 30, 30)]
    assert "2 x box that reaches beyond the image" in lines


def test_videos_without_polyps_are_procedures_without_boxes(root: Path) -> None:
    folder = root / "LDPolypVideo" / "Videos without polyps"
    folder.mkdir(parents=True)
    for name in ("10.avi", "2.avi"):
        write_video(folder / name, 3, codec="mpeg4")
    remux(write_video(root / "plain.mp4", 3), folder / "11.mp4", rotation=-90)
    (root / "plain.mp4").unlink()
    (folder / "3.avi").write_bytes(b"no video")
    (folder / "sub").mkdir()
    (folder / "sub" / "2.AVI").touch()
    (root / "videos with polyps").mkdir()
    (root / "videos with polyps" / "1.avi").touch()
    with zipfile.ZipFile(root / "more.zip", "w") as archive:
        archive.writestr("videos without polyps/4.avi", b"")
    imported = import_ldpolyp(root)
    negative = ["negative_2", "negative_10", "negative_11"]
    assert imported.data.splits == {**small_ldpolyp().splits, "negative": negative}
    rows = imported.data.procedures.tail(3)
    columns = ("procedure_id", "n_frames", "width", "height", "fps")
    assert rows.select(columns).rows() == [(name, 3, WIDTH, HEIGHT, 25.0) for name in negative]
    assert imported.data.detections.height == small_ldpolyp().detections.height
    for kind in (
        "1 x second video of the same name, left out",
        "1 x video inside an archive, left out",
        "1 x video that cannot be read, left out",
        "1 x video with a label for the whole of it and no boxes, left out",
        "1 x video with a tag to turn its frames by 90 degrees, read as stored (",
    ):
        assert any(line.startswith(kind) for line in imported.lines)
    with pytest.raises(PolyplinkError, match="remove or rename one of them"):
        import_ldpolyp(root, strict=True)
