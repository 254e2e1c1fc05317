import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.files.write_frames import write_image
from polyplink.data.sets.polypsset import import_polypsset
from polyplink.data.sets.write_polypsset import write_polypsset
from tests.data.made_sets import data_set
from tests.data.public_sets import assert_same, picture, polypsset_sets, unlabelled_row

NO_PATIENT = "video whose patient is not published, taken as its own patient"


def small() -> DataSet:
    """Two videos and three images of training."""
    procedures = [
        unlabelled_row("train_64x48", 5, "polypsset", patient="train"),
        unlabelled_row("val_10", 4, "polypsset"),
        unlabelled_row("test_10", 3, "polypsset"),
    ]
    boxes = [
        ("train_64x48", 0, 1, 2, 10, 12, None),
        ("train_64x48", 2, 1, 2, 10, 12, None),
        ("val_10", 1, 5, 6, 7, 8, "val_10"),
        ("val_10", 3, 5, 6, 9, 8, "val_10"),
        ("test_10", 0, 0, 0, 64, 48, "test_10"),
    ]
    polyps = [
        ("val_10", "val_10", None, None, "adenomatous", "adenomatous"),
        ("test_10", "test_10", None, None, "hyperplastic", "hyperplastic"),
    ]
    parts = {"train": ["train_64x48"], "val": ["val_10"], "test": ["test_10"]}
    return data_set(boxes, polyps, procedures, parts)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_polypsset(small(), tmp_path / "PolypsSet", frames=picture(small()), odd=True)
    return tmp_path


def xml(root: Path, name: str) -> Path:
    return root / "PolypsSet" / name


@settings(max_examples=30, deadline=None)
@given(polypsset_sets())
def test_import_undoes_write(data: DataSet) -> None:
    with TemporaryDirectory() as folder:
        write_polypsset(data, Path(folder))
        assert_same(import_polypsset(Path(folder)).data, data)


def test_the_release_with_all_that_is_odd_in_it(root: Path) -> None:
    """Orphan annotations, sizes and endings that disagree, numbers between blanks."""
    imported = import_polypsset(root, strict=True)
    assert_same(imported.data, small())
    images = imported.data.detections["image"].to_list()
    assert images[0] == "PolypsSet/test2019/Image/10/0.jpg"
    assert all((root / image).is_file() for image in images)
    assert imported.warnings == [
        "2 x annotation without an image, left out (first: PolypsSet/val2019/Annotation/10/11.xml)",
        "10 x size in the XML is not the image's, which counts "
        "(first: PolypsSet/train2019/Annotation/1.xml)",
        f"2 x {NO_PATIENT} (first: val_10)",
    ]
    assert import_polypsset(root, images=False).data.detections["image"].null_count() == 5


def test_training_images_have_no_identity_and_are_never_linked(root: Path) -> None:
    write_image(xml(root, "train2019/Image/2.jpg"), np.zeros((50, 60, 3), np.uint8))
    data = import_polypsset(root).data
    train = data.procedures.filter(patient="train")
    rows = train.select("procedure_id", "n_frames").rows()
    assert rows == [("train_60x50", 1), ("train_64x48", 3)]
    boxes = data.detections.join(train, on="procedure_id", how="semi")
    assert boxes["polyp_id"].null_count() == boxes.height == 2
    assert set(boxes["frame"]) == {0}


def test_an_archive_is_the_same_set(root: Path) -> None:
    packed = root.parent / "kumc.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(root.rglob("*.*")):
            archive.write(path, path.relative_to(root))
    imported = import_polypsset(packed)
    assert_same(imported.data, small())
    assert imported.data.detections["image"][0] == ("kumc.zip!/PolypsSet/test2019/Image/10/0.jpg")


def test_without_images_sizes_are_those_of_the_xml(root: Path) -> None:
    for path in root.rglob("*.jpg"):
        path.unlink()
    imported = import_polypsset(root)
    assert imported.data.procedures["width"].to_list() == [65, 65, 65]  # as odd as it is written
    kind = "12 x frame without an image, its size taken from the XML"
    assert any(line.startswith(kind) for line in imported.warnings)
    path = xml(root, "val2019/Annotation/10/1.xml")
    path.write_text(path.read_text().replace("<width>65</width>", "<width>0</width>"))
    kind = "1 x annotation without a size or an image, left out"
    assert any(line.startswith(kind) for line in import_polypsset(root).warnings)


def test_histology_is_the_word_of_all_boxes(root: Path) -> None:
    path = xml(root, "val2019/Annotation/10/1.xml")
    text = path.read_text()
    path.write_text(text.replace("adenomatous", "hyperplastic"))
    imported = import_polypsset(root)
    polyps = imported.data.polyps.select("polyp_id", "histology", "histology_class").rows()
    assert polyps == [("val_10", None, None), ("test_10", "hyperplastic", "hyperplastic")]
    line = "1 x polyp with boxes of several classes, histology not taken (first: val_10)"
    assert line in imported.warnings
    for name in ("1", "3"):
        other = xml(root, f"val2019/Annotation/10/{name}.xml")
        other.write_text(
            other.read_text().replace("adenomatous", "Serrated").replace("hyperplastic", "serrated")
        )
    imported = import_polypsset(root)
    assert imported.data.polyps.row(0)[3:5] == ("serrated", None)
    line = "1 x class of a box that is not known, no histology class (first: val_10 (serrated))"
    assert line in imported.warnings


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("</annotation>", "", "annotation file that cannot be read"),
        ("<xmin> 5 <", "<xmin> five <", "annotation file that cannot be read"),
        ("<xmin> 5 <", "<xmin> 12 <", "box of no area"),
        ("<xmin> 5 <", "<xmin> nan <", "box with an edge that is not finite"),
    ],
)
def test_faults_are_counted_or_raised(root: Path, old: str, new: str, kind: str) -> None:
    path = xml(root, "val2019/Annotation/10/1.xml")
    text = path.read_text().replace(old, new)
    assert text != path.read_text()
    path.write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    imported = import_polypsset(root)
    assert any(line.startswith(f"1 x {kind}, left out") for line in imported.warnings)
    assert imported.data.detections.filter(procedure_id="val_10")["frame"].to_list() == [3]
    with pytest.raises(PolyplinkError, match=r"10/1\.xml"):
        import_polypsset(root, strict=True)


def test_frames_that_do_not_fit_their_video(root: Path) -> None:
    write_image(xml(root, "val2019/Image/10/1.jpg"), np.zeros((50, 60, 3), np.uint8))
    xml(root, "val2019/Annotation/10/0.xml").unlink()
    xml(root, "val2019/Image/10/2.jpg").write_bytes(b"no image")
    imported = import_polypsset(root)
    assert imported.data.detections.filter(procedure_id="val_10")["frame"].to_list() == [3]
    lines = " ".join(imported.warnings)
    assert "1 x frame with a box of another size than most of its video, left out" in lines
    assert "1 x image without an annotation, taken as without polyp" in lines
    assert "1 x file that is no image, left out" in lines
    assert not import_polypsset(root).data.procedures["n_frames"].is_null().any()


def test_several_boxes_in_a_frame_are_kept(root: Path) -> None:
    path = xml(root, "val2019/Annotation/10/1.xml")
    text = path.read_text()
    box = text[text.index("\t<object>") : text.index("</annotation>")]
    path.write_text(text.replace("</annotation>", f"{box}</annotation>"))
    imported = import_polypsset(root)
    assert imported.data.detections.filter(procedure_id="val_10").height == 3
    assert "1 x frame with several boxes of one polyp, all kept" in " ".join(imported.warnings)


def test_progress_and_wrong_folders(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    import_polypsset(root, workers=2, progress=lambda *step: seen.append(step))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    (root / "other" / "TrainValid" / "Images" / "1").mkdir(parents=True)
    (root / "other" / "TrainValid" / "Images" / "1" / "0001.jpg").touch()
    with pytest.raises(PolyplinkError, match=r"has no folder train2019.*this looks like ldpolyp"):
        import_polypsset(root / "other")
