from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.polypsset import import_polypsset, write_polypsset
from tests.data.public_sets import assert_same, small_polypsset, write_grey, write_set
from tests.data.sample_sets import data_set, procedure_row


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """With the errors of the release: wrong sizes in XML files, annotations without an image."""
    write_set("polypsset", small_polypsset(), tmp_path)
    for path in tmp_path.rglob("*.xml"):
        path.write_text(path.read_text().replace("<width>64<", "<width>65<"))
    for name in ("val2019/Annotation/10", "test2019/Annotation/10"):
        orphan = tmp_path / name / "11.xml"
        orphan.write_text((tmp_path / name / "0.xml").read_text())
    return tmp_path


def test_written_files_have_the_layout_of_the_release(tmp_path: Path) -> None:
    write_set("polypsset", small_polypsset(), tmp_path)
    text = (tmp_path / "val2019/Annotation/10/1.xml").read_text()
    assert "<xmin> 5 </xmin>" in text
    assert "<filename>1.png</filename>" in text
    assert (tmp_path / "val2019/Image/10/1.jpg").is_file()
    assert sorted(p.name for p in (tmp_path / "train2019/Image").iterdir()) == [
        "1.jpg",
        "2.jpg",
        "3.jpg",
    ]
    data = data_set([("train_8x8", 1, 1, 2, 3, 4, None)], [], [procedure_row("train_8x8", 3)])
    with pytest.raises(PolyplinkError, match="a box in frame 1 of training; number its images 0"):
        write_polypsset(data, tmp_path)


def test_errors_of_the_release_are_reported(root: Path) -> None:
    imported = import_polypsset(root, strict=True)
    assert_same(imported.data, small_polypsset())
    assert imported.lines == [
        "2 x annotation without an image, left out (first: val2019/Annotation/10/11.xml)",
        "10 x size in the XML is not the image's, which counts (first: train2019/Annotation/1.xml)",
        "2 x procedure without a known patient, treated as a separate patient (first: val_10)",
    ]


def test_training_images_have_no_polyp_ids(root: Path) -> None:
    write_grey(root / "train2019/Image/2.jpg", 50, 60)
    data = import_polypsset(root).data
    train = data.procedures.filter(patient="train")
    rows = train.select("procedure_id", "n_frames").rows()
    assert rows == [("train_60x50", 1), ("train_64x48", 3)]
    boxes = data.detections.join(train, on="procedure_id", how="semi")
    assert boxes["polyp_id"].null_count() == boxes.height == 2
    assert set(boxes["frame"]) == {0}


def test_without_images_sizes_come_from_the_xml(root: Path) -> None:
    for path in root.rglob("*.jpg"):
        path.unlink()
    imported = import_polypsset(root)
    assert imported.data.procedures["width"].to_list() == [65, 65, 65]
    kind = "12 x frame without an image, its size taken from the XML"
    assert any(line.startswith(kind) for line in imported.lines)
    path = root / "val2019/Annotation/10/1.xml"
    path.write_text(path.read_text().replace("<width>65</width>", "<width>0</width>"))
    kind = "1 x annotation without a size or an image, left out"
    assert any(line.startswith(kind) for line in import_polypsset(root).lines)


def test_the_histology_of_a_polyp_is_the_class_of_all_boxes(root: Path) -> None:
    path = root / "val2019/Annotation/10/1.xml"
    path.write_text(path.read_text().replace("adenomatous", "hyperplastic"))
    imported = import_polypsset(root)
    polyps = imported.data.polyps.select("polyp_id", "histology", "histology_class").rows()
    assert polyps == [("val_10", None, None), ("test_10", "hyperplastic", "hyperplastic")]
    line = "1 x polyp with boxes of several classes, histology left out (val_10)"
    assert line in imported.lines
    for name in ("1", "3"):
        other = root / f"val2019/Annotation/10/{name}.xml"
        text = other.read_text().replace("adenomatous", "Serrated")
        other.write_text(text.replace("hyperplastic", "serrated"))
    imported = import_polypsset(root)
    assert imported.data.polyps.row(0)[3:5] == ("serrated", None)
    line = "1 x unknown class of a box, no histology class (val_10 (serrated))"
    assert line in imported.lines


def test_misplaced_files_and_frames_of_another_size_are_counted(root: Path) -> None:
    write_grey(root / "val2019/Image/10/1.jpg", 50, 60)
    (root / "val2019/Annotation/10/0.xml").unlink()
    (root / "val2019/Image/10/2.jpg").write_bytes(b"no image")
    path = root / "val2019/Annotation/10/3.xml"
    text = path.read_text()
    box = text[text.index("\t<object>") : text.index("</annotation>")]
    path.write_text(text.replace("</annotation>", f"{box}</annotation>"))
    for name in (
        "train2019/Image/5/1",
        "val2019/Image/1",
        "val2019/Image/10/03",
        "val2019/Image/10/last",
    ):
        write_grey(root / f"{name}.jpg", 48, 64)
    imported = import_polypsset(root)
    assert imported.data.detections.filter(procedure_id="val_10")["frame"].to_list() == [3, 3]
    lines = " ".join(imported.lines)
    for kind in (
        "frame with a box of another size than most of its video, left out",
        "image without an annotation, treated as free of polyps",
        "file that is not an image, left out",
        "frame with several boxes of one polyp, all kept",
        "file of train in a folder",
        "file of val outside of a video's folder",
        "second file of a frame",
        "file without a number as its name",
    ):
        assert f"1 x {kind}" in lines
