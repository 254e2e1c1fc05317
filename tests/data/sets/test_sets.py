"""Tests of all public sets: reading, writing, images, archives, progress, names."""

import re
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.layout import Release, short_number, whole_edges, write_dataset_name
from polyplink.data.sets.voc import VocFrame, VocObject, parse_voc_file
from polyplink.data.tables import DataSet
from tests.data.packing import pack
from tests.data.public_sets import SETS, assert_same, small_files, write_set, write_small
from tests.data.sample_sets import data_set, procedure_row, small_set

IMAGES = [name for name in SETS if name != "polyp-size"]  # polyp-size has videos


@pytest.mark.parametrize("name", SETS)
def test_import_undoes_write_and_names_images_unless_disabled(name: str, tmp_path: Path) -> None:
    data = write_small(name, tmp_path)
    steps: list[tuple[int, int]] = []
    imported = SETS[name].read(
        tmp_path, strict=True, workers=1, progress=lambda *s: steps.append(s)
    )
    n = data.procedures.height
    assert steps == [(i + 1, n) for i in range(n)]
    assert_same(imported.data, data)
    assert set(imported.data.procedures["source"]) == {str(tmp_path.resolve())}
    images = imported.data.detections["image"]
    assert all((tmp_path / image.partition("#")[0]).is_file() for image in images)
    frames = data.detections.unique(["procedure_id", "frame"]).height
    assert images.n_unique() == frames
    bare = SETS[name].read(tmp_path, images=False).data.detections["image"]
    assert bare.null_count() == images.len()


@pytest.mark.parametrize("name", [name for name in IMAGES if name != "real-colon"])
def test_an_archive_gives_the_same_set(name: str, tmp_path: Path) -> None:
    data, files = SETS[name].small(), small_files(name)
    pack(tmp_path / "x.zip", {f"a/{path}": content for path, content in files.items()})
    if name == "sun":
        (tmp_path / "cases.csv").write_bytes(files["cases.csv"])
    imported = SETS[name].read(tmp_path)
    assert_same(imported.data, data)
    assert imported.data.detections["image"][0].startswith("x.zip!/a/")


@pytest.mark.parametrize("name", SETS)
def test_simulated_sets_keep_their_name(name: str, tmp_path: Path) -> None:
    small = SETS[name].small()
    renamed = small.procedures.with_columns(dataset=pl.lit("simulated tiny 3"))
    data = DataSet.of(small.detections, renamed, small.polyps)
    write_set(name, data, tmp_path)
    assert (tmp_path / "dataset.txt").read_text() == "simulated tiny 3\n"
    assert set(SETS[name].read(tmp_path).data.procedures["dataset"]) == {"simulated tiny 3"}


@pytest.mark.parametrize("name", SETS)
def test_unsuitable_sets_and_wrong_folders_are_refused(name: str, tmp_path: Path) -> None:
    write, read = SETS[name].write, SETS[name].read
    if name != "real-colon":
        with pytest.raises(PolyplinkError, match=r"'001-001' is (not named as )?in .*; name it"):
            write(small_set(), tmp_path)
        assert not list(tmp_path.rglob("*.jpg"))
    with pytest.raises(PolyplinkError, match=r"no folder .*nowhere; check the path"):
        read(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PolyplinkError, match=r"empty has no .*; check the path"):
        read(tmp_path / "empty")
    other = "ldpolyp" if name == "polypsset" else "polypsset"
    SETS[other].write(SETS[other].small(), tmp_path / "other")
    with pytest.raises(PolyplinkError, match=f"other has no .*this looks like {other}: import it"):
        read(tmp_path / "other")


RC = "001-001_annotations/001-001_0.xml"
LDPOLYP = "TrainValid/Annotations/2/"
POLYPSSET = "val2019/Annotation/10/1.xml"
SUN = "sundatabase_positive_part1/annotation_txt/case10.txt"
BROKEN, LINE = "annotation file that cannot be read", "line that cannot be read"
FLAT, OUTSIDE = "box of no area", "box wholly outside the image"
INFINITE, NO_FRAME = (
    "box with a coordinate or side that is not finite",
    "box without a frame number from 0",
)


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "kind"),  # old "": the whole file is replaced or added
    [
        ("real-colon", RC, "<xmax>28<", "<xmax>5<", FLAT),
        ("real-colon", RC, "8</xmin>\n\t\t\t<xmax>28<", "70</xmin><xmax>80<", OUTSIDE),
        ("real-colon", RC, "<xmax>28<", "<xmax>nan<", INFINITE),
        ("real-colon", RC, "</annotation>", "", BROKEN),
        ("ldpolyp", f"{LDPOLYP}0001.txt", "1\n10 ", "2\n10 ", BROKEN),
        ("ldpolyp", f"{LDPOLYP}0001.txt", "40 60", "40", BROKEN),
        ("ldpolyp", f"{LDPOLYP}0001.txt", "40 60", "40 four", BROKEN),
        ("ldpolyp", f"{LDPOLYP}0001.txt", "", "", BROKEN),
        ("ldpolyp", f"{LDPOLYP}0001.txt", "10 20 40 60", "10 20 10 60", FLAT),
        ("ldpolyp", f"{LDPOLYP}1.txt", "", "0\n", "second file of a frame"),
        ("ldpolyp", f"{LDPOLYP}0000.txt", "", "0\n", "file without a number from 1 as its name"),
        ("ldpolyp", f"{LDPOLYP}0009.txt", "", "1\n1 2 3 4\n", "frame with a box without an image"),
        ("polypsset", POLYPSSET, "</annotation>", "", BROKEN),
        ("polypsset", POLYPSSET, "<xmin> 5 <", "<xmin> five <", BROKEN),
        ("polypsset", POLYPSSET, "<xmin> 5 <", "<xmin> 12 <", FLAT),
        ("sun", SUN, "5,6,12,14", "5,6,5,14", FLAT),
        ("sun", SUN, "\n\n", "\nwhat is this\n", LINE),
        ("sun", SUN, "5,6,12,14,0", "5,6,x,14,0", LINE),
        ("sun", SUN, "5,6,12,14,0", "5,6,12,14,7", "box of an unknown class"),
        ("sun", SUN, "\n\n", "\n1.jpg 1,2,3,4,0\n", "image name without segment and number"),
        ("sun", SUN, "image0001", "image0002", "frame with a box without an image"),
        ("sun", SUN, "", "\udcff", BROKEN),
        ("polyp-size", "boxes.csv", "07,3,", "07,,", NO_FRAME),
        ("polyp-size", "boxes.csv", "07,3,", "07,2.5,", NO_FRAME),
        (
            "polyp-size",
            "boxes.csv",
            "07,3,1",
            "07,3,b",
            "box with a coordinate or side that is not a number",
        ),
        ("polyp-size", "boxes.csv", "07,3,", ",3,", "box without a video"),
        ("polyp-size", "boxes.csv", "07,3,", "9,3,", "box of a missing video"),
    ],
)
def test_a_fault_is_counted_or_raised_if_strict(
    name: str, file: str, old: str, new: str, kind: str, tmp_path: Path
) -> None:
    data = write_small(name, tmp_path)
    path = tmp_path / file
    text = path.read_text().replace(old, new) if old else new
    assert not path.is_file() or text != path.read_text()
    path.write_text(text, errors="surrogateescape")
    imported = SETS[name].read(tmp_path)
    assert any(line.startswith(f"1 x {kind}, left out") for line in imported.lines)
    assert 0 <= data.detections.height - imported.data.detections.height <= 2
    with pytest.raises(PolyplinkError, match=re.escape(path.name)):
        SETS[name].read(tmp_path, strict=True)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("real-colon", "lesion_info.csv"),
        ("real-colon", "001-001_annotations.tar.gz"),
        ("ldpolyp", "LDPolypVideo/Test/Images/101/0001.jpg"),
        ("polypsset", "PolypsSet/val2019/Annotation/1/1.xml"),
        ("sun", "sundatabase_positive_part1.zip"),
        ("sun", "imgs/case1/a.jpg"),
        ("coco", "annotations/instances_train.json"),
        ("mot", "MOT/a/gt/gt.txt"),
        ("polyp-size", "Video07.mp4"),
    ],
)
def test_a_set_is_recognised_by_its_files(name: str, path: str, tmp_path: Path) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(tmp_path / path, "w"):
        pass
    if path.endswith(".tar.gz"):
        (tmp_path / path).unlink()
        (tmp_path / path.removesuffix(".tar.gz")).mkdir()
        (tmp_path / path.removesuffix(".tar.gz") / "a.xml").touch()
    error = Release("csv", tmp_path).nothing_found("file")
    assert error.hint == f"this looks like {name}: import it as that"


def test_several_sets_and_fractional_boxes_are_refused(tmp_path: Path) -> None:
    two_sets = small_set().procedures.with_columns(dataset=pl.Series(["a", "b", "a"]))
    data = DataSet.of(small_set().detections, two_sets, small_set().polyps)
    with pytest.raises(PolyplinkError, match=r"several data sets \(a, b\); write each into"):
        write_dataset_name(data, tmp_path, "sun")
    assert whole_edges(small_set(), "it")["001-001"] == {
        0: [(10, 8, 30, 24)],
        1: [(11, 8, 31, 24), (40, 30, 50, 40)],
    }
    data = data_set([("a", 0, 1, 2, 3.5, 4, None)], [], [procedure_row("a", 1)])
    with pytest.raises(PolyplinkError, match=r"a, frame 0: box \(1, 2, 3\.5, 4\) is not of whole"):
        whole_edges(data, "it")


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_short_numbers_round_trip(value: float) -> None:
    text = short_number(value)
    assert np.float32(text) == np.float32(value)
    assert "e" not in text
    assert short_number(float(np.float32(11.74))) == "11.74"


BOX = (
    "<object><name> Adenomatous </name><bndbox><xmax> 30 </xmax><ymin>\n2</ymin><xmin>10 </xmin>"
    "<ymax>4.5</ymax></bndbox></object>"
)
SIZE = "<size><width> 384</width><height>288 </height><depth>3</depth></size>"


def xml(*parts: str) -> bytes:
    return f"<annotation>{''.join(parts)}</annotation>".encode()


def test_voc_files_are_parsed_by_tag() -> None:
    box = VocObject("Adenomatous", None, (10, 2, 30, 4.5))
    assert parse_voc_file(xml(BOX, SIZE, BOX), "x") == VocFrame((384, 288), (box, box))
    text = b"\xef\xbb\xbf<?xml version='1.0'?>\r\n" + xml(SIZE)
    assert parse_voc_file(text, "x") == VocFrame((384, 288), ())
    for size in ("", "<size/>", SIZE.replace("384", "0"), SIZE.replace("384", "nan")):
        assert parse_voc_file(xml(size), "x").size is None
    assert parse_voc_file(xml(SIZE.replace("384", "384.0")), "x").size == (384, 288)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x is not valid XML"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><a/>", "has a document type, which is not read"),
        (xml("<object><name>a</name></object>"), "<xmin> holds None, not a number"),
        (xml(BOX.replace("4.5", "four")), "<ymax> holds 'four', not a number; download"),
        (b"\xff\xfe<\x00", "is not UTF-8 text"),
    ],
)
def test_broken_xml_is_refused_by_name(data: bytes, message: str) -> None:
    with pytest.raises(PolyplinkError) as error:
        parse_voc_file(data, "x")
    assert message in str(error.value)
