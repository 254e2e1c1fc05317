import shutil
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data import DataSet
from polyplink.data.sets.sun import import_sun
from polyplink.data.sets.write_sun import Packaging, write_sun
from tests.data.made_sets import data_set
from tests.data.public_sets import assert_same, picture, sun_sets, unlabelled_row

SIZE = (60, 50)


def small() -> DataSet:
    """Two cases, the first in two segments, and a video without polyp."""
    row = {"width": 60, "height": 50, "fps": 30.0}
    procedures = [
        unlabelled_row("case2", 5, "sun", **row),
        unlabelled_row("case10", 1, "sun", **row, patient="p"),
        unlabelled_row("negative2", 2, "sun", **row),
    ]
    boxes = [("case2", f, 1 + f, 2, 10, 12, "case2") for f in (0, 1, 3, 4)]
    boxes += [("case10", 0, 5, 6, 7, 8, "case10"), ("case10", 0, 20, 6, 7, 8, "case10")]
    polyps = [
        ("case2", "case2", 15.0, "cecum", "SSL", "SSL"),
        ("case10", "case10", None, None, None, None),
    ]
    parts = {"positive": ["case2", "case10"], "negative": ["negative2"]}
    return data_set(boxes, polyps, procedures, parts)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_sun(small(), tmp_path / "sun", frames=picture(small()))
    return tmp_path / "sun"


@settings(max_examples=30, deadline=None)
@given(sun_sets(), st.sampled_from(["text", "xml"]))
def test_import_undoes_write(data: DataSet, packaging: Packaging) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        write_sun(data, root, packaging=packaging)
        again = import_sun(root, size=(1240, 1080), cases=root / "cases.csv").data
    assert_same(again, data)


def test_both_packagings_with_images(root: Path, tmp_path: Path) -> None:
    write_sun(small(), tmp_path / "xml", frames=picture(small()), packaging="xml")
    for source in (root, tmp_path / "xml"):
        imported = import_sun(source, cases=source / "cases.csv")
        assert_same(imported.data, small())
        images = imported.data.detections["image"].to_list()
        assert all((source / image).is_file() for image in images)
        assert len(set(images)) == 5
        (bound,) = imported.warnings
        assert bound.endswith(
            "a lower bound, taken as the number (first: cases.csv, case 2 (15mm-))"
        )
        assert import_sun(source, images=False).data.detections["image"].null_count() == 6


def test_a_segment_is_a_tracklet_of_its_own(root: Path) -> None:
    frames = import_sun(root).data.detections.filter(procedure_id="case2")
    assert frames["frame"].to_list() == [0, 1, 3, 4]
    # The numbers in the names restart, and segment 10 comes after segment 2.
    folder = root / "sundatabase_positive_part1"
    text = folder / "annotation_txt" / "case2.txt"
    text.write_text(text.read_text().replace("_a1_", "_a10_"))
    for path in (folder / "case2").iterdir():
        path.rename(path.with_name(path.name.replace("_a1_", "_a10_")))
    moved = import_sun(root).data.detections.filter(procedure_id="case2")
    assert moved["frame"].to_list() == [0, 1, 3, 4]
    assert moved["x"].to_list() == [4, 5, 1, 2]


def test_without_a_table_of_cases_nothing_is_made_up(root: Path) -> None:
    imported = import_sun(root)
    for column in ("size_mm", "histology", "histology_class", "location", "morphology"):
        assert imported.data.polyps[column].null_count() == 2
    assert imported.data.procedures["patient"].to_list() == ["case2", "case10", "negative2"]
    assert imported.warnings == [
        "2 x case without size, histology, location and shape, no table of cases given "
        "(first: case2)",
        "2 x case whose patient is not known, taken as its own patient (first: case2)",
    ]
    (root / "cases.csv").write_text("case,size\n2,5mm\n77,5mm\n")
    warnings = import_sun(root, cases=root / "cases.csv").warnings
    assert warnings[1].endswith("no row in cases.csv (first: case10)")
    assert warnings[-1] == "1 x row of the table of cases without a case (first: case77)"


def test_archives_as_downloaded(root: Path) -> None:
    packed = root.parent / "packed"
    packed.mkdir()
    for part in ("sundatabase_positive_part1", "sundatabase_negative_part1"):
        with zipfile.ZipFile(packed / f"{part}.zip", "w") as archive:
            for path in sorted((root / part).rglob("*.*")):
                archive.write(path, path.relative_to(root / part))
    imported = import_sun(packed, cases=root / "cases.csv")
    assert_same(imported.data, small())
    first = imported.data.detections["image"][0]
    assert first.startswith("sundatabase_positive_part1.zip!/case10/case_M_")


def test_size_is_given_where_there_is_no_image(root: Path) -> None:
    shutil.rmtree(root / "sundatabase_positive_part1" / "case10")
    imported = import_sun(root)
    assert imported.data.procedures["procedure_id"].to_list() == ["case2", "negative2"]
    kind = "1 x case without an image to take its size from, left out (first: case10)"
    assert kind in imported.warnings
    assert_same(import_sun(root, size=SIZE, cases=root / "cases.csv").data, small())
    with pytest.raises(PolyplinkError, match=r"case10: .*; give the frames' width and height"):
        import_sun(root, strict=True)
    for path in root.rglob("*.jpg"):
        path.unlink()
    with pytest.raises(PolyplinkError, match="has no image to take the frames' size from; give"):
        import_sun(root)


def test_faults_are_counted_or_raised(root: Path) -> None:
    folder = root / "sundatabase_positive_part1"
    text = folder / "annotation_txt" / "case10.txt"
    lines = text.read_text()
    name = lines.split(".jpg")[0]
    for more, kind in [
        ("0001.jpg 1,2,3,4,0", "image name without segment and number, left out"),
        (f"{name}.jpg 3,3,3,9,0", "box of no area, left out"),
        (f"{name}.jpg 99,3,199,9,0", "box wholly outside the image, left out"),
        (name.replace("0001", "0002") + " 1,2,3,4,0", "frame with a box without an image"),
        ("what is this", "line that cannot be read, left out"),
    ]:
        text.write_bytes(f"{lines}{more}\r\n".encode("utf-8-sig"))
        imported = import_sun(root)
        assert any(line.startswith(f"1 x {kind}") for line in imported.warnings)
        assert imported.data.detections.filter(procedure_id="case10").height == 2
        with pytest.raises(PolyplinkError, match=kind.removesuffix(", left out")):
            import_sun(root, strict=True)
    text.write_bytes(b"\xff\xff\xff")
    imported = import_sun(root)
    assert "1 x annotation file that cannot be read, left out" in " ".join(imported.warnings)
    kind = "image of a case without an annotation, taken as without polyp"
    assert any(line.startswith(f"1 x {kind}") for line in imported.warnings)
    assert imported.data.polyps["polyp_id"].to_list() == ["case2"]


def test_an_image_named_twice_keeps_its_boxes(root: Path) -> None:
    text = root / "sundatabase_positive_part1" / "annotation_txt" / "case10.txt"
    name = text.read_text().split()[0]
    text.write_text(f"{name} 1,2,3,4,0\n{name} 5,6,7,8,0\n")
    imported = import_sun(root)
    assert imported.data.detections.filter(procedure_id="case10").height == 2
    assert "1 x image named in two lines, all boxes kept" in " ".join(imported.warnings)
    xml = root / "annotation_xml" / "case10" / f"{name.removesuffix('.jpg')}.xml"
    xml.parent.mkdir(parents=True)
    xml.write_text("<annotation><object><name>1</name><bndbox><xmin>1</xmin><ymin>1</ymin>"
                   "<xmax>3</xmax><ymax>3</ymax></bndbox></object></annotation>")  # fmt: skip
    lines = " ".join(import_sun(root).warnings)
    assert "1 x image annotated as text and as XML, left out" in lines
    assert "1 x box of class 1 (no polyp), not taken" in lines


def test_progress_strict_and_wrong_folders(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    import_sun(root, strict=True, workers=2, progress=lambda *step: seen.append(step))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    (root.parent / "other").mkdir()
    with pytest.raises(PolyplinkError, match=r"other has no folders case1, case2, .*; check the"):
        import_sun(root.parent / "other")
