import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.files.write_frames import write_image
from polyplink.data.sets.ldpolyp import import_ldpolyp
from polyplink.data.sets.write_ldpolyp import write_ldpolyp
from tests.data.films import write_film
from tests.data.made_sets import data_set
from tests.data.public_sets import assert_same, ldpolyp_sets, picture, unlabelled_row

PATIENT = "video whose patient is not published, taken as its own patient"


def small() -> DataSet:
    """Two videos of training, the second with two polyps, and one of test without any."""
    rows = [unlabelled_row(n, 4, "ldpolyp", width=560, height=480)
            for n in ("TrainValid_2", "TrainValid_10", "Test_101")]  # fmt: skip
    boxes = [
        ("TrainValid_2", 0, 10, 20, 30, 40, "TrainValid_2"),
        ("TrainValid_2", 3, 12, 20, 30, 40, "TrainValid_2"),
        ("TrainValid_10", 1, 1, 2, 3, 4, "TrainValid_10"),
        ("TrainValid_10", 2, 1, 2, 3, 4, "TrainValid_10"),
        ("TrainValid_10", 2, 100, 200, 30, 40, "TrainValid_10"),
    ]
    polyps = [(n, n, None, None, None, None) for n in ("TrainValid_2", "TrainValid_10")]
    splits = {"train": ["TrainValid_2", "TrainValid_10"], "test": ["Test_101"]}
    return data_set(boxes, polyps, rows, splits)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_ldpolyp(small(), tmp_path, frames=picture(small()))
    return tmp_path


@settings(max_examples=30, deadline=None)
@given(ldpolyp_sets())
def test_import_undoes_write(data: DataSet) -> None:
    with TemporaryDirectory() as folder:
        write_ldpolyp(data, Path(folder))
        assert_same(import_ldpolyp(Path(folder)).data, data)


def test_images_are_named_and_warnings_count(root: Path) -> None:
    imported = import_ldpolyp(root)
    assert_same(imported.data, small())
    images = imported.data.detections["image"].to_list()
    assert images[:2] == ["TrainValid/Images/10/0002.jpg", "TrainValid/Images/10/0003.jpg"]
    assert all((root / image).is_file() for image in images)
    assert imported.warnings == [
        "1 x frame with several boxes that share the video's one identity "
        "(first: TrainValid/Annotations/10/0003.txt)",
        f"3 x {PATIENT} (first: TrainValid_2)",
    ]
    without = import_ldpolyp(root, images=False).data.detections["image"]
    assert without.null_count() == 5
    # Several boxes are the only loss of the safe identity: no pair of two polyps is left.
    safe = import_ldpolyp(root, identity="tracklet-safe")
    named = safe.data.detections.select("procedure_id", "frame", "polyp_id").rows()
    assert named == [
        ("TrainValid_10", 1, None),
        ("TrainValid_2", 0, "TrainValid_2"),
        ("TrainValid_2", 3, "TrainValid_2"),
    ]
    assert safe.data.polyps["polyp_id"].to_list() == ["TrainValid_2"]
    assert (
        "1 x video of several polyps, its boxes name none (first: TrainValid_10)" in safe.warnings
    )


def test_siblings_of_one_download_and_archives_are_the_same_set(root: Path) -> None:
    """Parts of a Drive download nest the tree one deeper, and the files of a video are spread."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    drive = root / "drive"
    for i, path in enumerate(files):
        place = f"LDPolypVideo-20240101T000000Z-00{i % 2 + 1}/LDPolypVideo"
        new = drive / place / path.relative_to(root)
        new.parent.mkdir(parents=True, exist_ok=True)
        path.rename(new)
    assert_same(import_ldpolyp(drive).data, small())
    packed = root / "packed"
    packed.mkdir()
    for part in sorted(drive.iterdir()):
        with zipfile.ZipFile(packed / f"{part.name}.zip", "w") as archive:
            for path in sorted(part.rglob("*.*")):
                archive.write(path, path.relative_to(part))
    imported = import_ldpolyp(packed)
    assert_same(imported.data, small())
    name = imported.data.detections["image"][0]
    assert ".zip!/LDPolypVideo/TrainValid/Images/10/0002.jpg" in name


def test_one_id_in_both_parts_is_two_videos(root: Path) -> None:
    (root / "Test" / "Annotations" / "101").rename(root / "Test" / "Annotations" / "2")
    (root / "Test" / "Images" / "101").rename(root / "Test" / "Images" / "2")
    ids = import_ldpolyp(root).data.procedures["procedure_id"].to_list()
    assert ids == ["TrainValid_2", "TrainValid_10", "Test_2"]


def test_upper_case_windows_and_blank_lines(root: Path) -> None:
    texts = root / "TrainValid" / "Annotations" / "2"
    (texts / "0001.txt").write_bytes(b"\xef\xbb\xbf1\r\n10 20 40 60\r\n\r\n\r\n")
    (texts / "0004.txt").rename(texts / "0004.TXT")
    image = root / "TrainValid" / "Images" / "2" / "0001.jpg"
    image.rename(image.with_suffix(".JPG"))
    (texts / "._0001.txt").write_bytes(b"\x00\x05")
    (texts / "classes.txt").write_text("polyp\n")
    imported = import_ldpolyp(root)
    assert_same(imported.data, small())
    assert "1 x file whose name is no number from 1, left out" in " ".join(imported.warnings)


def test_size_is_of_the_image_else_as_published(root: Path) -> None:
    for path in (root / "TrainValid" / "Images" / "2").iterdir():
        write_image(path, np.zeros((50, 60, 3), np.uint8))
    for path in (root / "Test" / "Images" / "101").iterdir():
        path.unlink()
    imported = import_ldpolyp(root)
    sizes = imported.data.procedures.select("width", "height").rows()
    assert sizes == [(60, 50), (560, 480), (560, 480)]
    assert "560 x 480 as published (first: Test_101)" in " ".join(imported.warnings)
    # A box that does not fit is cut at the border, and that is told.
    assert imported.data.detections.filter(frame=0).select("x", "y", "w", "h").rows() == [
        (10, 20, 30, 30)
    ]
    assert (
        "2 x box that reaches beyond the image, cut at its border "
        "(first: TrainValid/Annotations/2/0001.txt (10, 20, 40, 60))"
    ) in imported.warnings


FAULTS = [
    ("0001.txt", b"2\n10 20 40 60\n", "annotation file that cannot be read, left out", "says 2"),
    ("0001.txt", b"-3\n", "annotation file that cannot be read, left out", "'-3', not a number"),
    ("0001.txt", b"1\n10 20 10 60\n", "box of no area, left out", "of no area; correct"),
    ("0001.txt", b"1\n600 20 700 60\n", "box wholly outside the image, left out", "outside"),
    ("0001.txt", b"1\nnan 20 700 60\n", "box with an edge that is not finite", "not finite"),
    ("1.txt", b"0\n", "second file of a frame, left out", "second file of a frame; remove"),
    ("0000.txt", b"0\n", "file whose name is no number from 1, left out", "no number from 1"),
    ("0009.txt", b"1\n1 2 3 4\n", "frame with a box without an image, left out", "unpack the"),
]


@pytest.mark.parametrize(("name", "text", "kind", "message"), FAULTS)
def test_faults_are_counted_or_raised(
    root: Path, name: str, text: bytes, kind: str, message: str
) -> None:
    (root / "TrainValid" / "Annotations" / "2" / name).write_bytes(text)
    imported = import_ldpolyp(root)
    assert any(line.startswith(f"1 x {kind}") for line in imported.warnings)
    with pytest.raises(PolyplinkError, match=message):
        import_ldpolyp(root, strict=True)


def test_strict_takes_what_is_whole(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    imported = import_ldpolyp(
        root, strict=True, workers=2, progress=lambda done, total: seen.append((done, total))
    )
    assert_same(imported.data, small())
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_an_unknown_identity(root: Path) -> None:
    with pytest.raises(PolyplinkError, match="no identity 'polyp'; choose: video, tracklet-safe"):
        import_ldpolyp(root, identity="polyp")  # type: ignore[arg-type]


def test_wrong_folders(root: Path, tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"no folder .*nowhere; check the path"):
        import_ldpolyp(tmp_path / "nowhere")
    other = root / "other" / "val2019" / "Image" / "1"
    other.mkdir(parents=True)
    (other / "1.jpg").touch()
    with pytest.raises(PolyplinkError, match=r"other has no files TrainValid/.*like polypsset"):
        import_ldpolyp(root / "other")


def test_videos_without_polyps_are_procedures_without_boxes(root: Path) -> None:
    (root / "videos without polyps").mkdir()
    write_film(root / "videos without polyps" / "1.avi", 5, codec="mpeg4")
    imported = import_ldpolyp(root)
    assert imported.data.splits == {**small().splits, "negative": ["negative_1"]}
    row = imported.data.procedures.row(3, named=True)
    assert (row["procedure_id"], row["n_frames"], row["fps"]) == ("negative_1", 5, 25.0)
    assert imported.data.detections.height == small().detections.height
