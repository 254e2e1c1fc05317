import hashlib
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data import (
    DataSet,
    VocFrame,
    VocObject,
    annotations_folder,
    format_voc,
    frame_stem,
    frames_folder,
    lesion_info,
    parse_voc,
    positive_frames,
    video_info,
    write_annotations,
    write_real_colon,
    write_tables,
)
from tests.data.made_sets import data_set, procedure_row, small_set

_BOX = VocObject("001-001_2", 1, 3.0, 5.0, 30.0, 50.5)
_FRAME = VocFrame("001-001_frames", "001-001_0.jpg", 1352, 1080, (_BOX,))
_EMPTY = VocFrame("001-001_frames", "001-001_1.jpg", 1352, 1080, ())

_words = st.text("ab<&>\"'_- é", min_size=1, max_size=8).filter(lambda s: s == s.strip())
_edges = st.floats(-1e4, 1e4) | st.integers(-5000, 5000).map(float)
_objects = st.builds(
    VocObject, st.none() | _words, st.integers(1, 9), _edges, _edges, _edges, _edges
)
_frames = st.builds(
    VocFrame,
    _words,
    _words,
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.lists(_objects, max_size=3).map(tuple),
)


def _tags(text: str) -> list[str]:
    return [element.tag for element in ET.fromstring(text).iter()]


def test_fields_come_in_the_order_of_the_release() -> None:
    head = ["annotation", "version_fmt", "folder", "filename", "source", "database", "release"]
    head += ["size", "width", "height", "depth"]
    box = ["object", "name", "unique_id", "box_id", "bndbox", "xmin", "xmax", "ymin", "ymax"]
    assert _tags(format_voc(_EMPTY)) == head
    assert _tags(format_voc(_FRAME)) == head + box
    assert "<xmin>3</xmin>" in format_voc(_FRAME)
    assert "<ymax>50.5</ymax>" in format_voc(_FRAME)


@settings(deadline=None)
@given(_frames)
def test_parse_undoes_format(frame: VocFrame) -> None:
    assert parse_voc(format_voc(frame), "f.xml") == frame


@settings(deadline=None)
@given(_frames.filter(lambda frame: not frame.objects))
def test_quick_way_for_frames_without_object_equals_the_full_parser(frame: VocFrame) -> None:
    text = format_voc(frame)
    # A comment sends the same frame through the full parser.
    assert parse_voc(text, "f.xml") == parse_voc(text.replace("<size>", "<!-- --><size>"), "f.xml")


def test_children_are_read_by_tag_and_floats_are_accepted() -> None:
    text = """<?xml version="1.0"?>
    <annotation><size><depth>3</depth><height>1080.0</height><width> 1352 </width></size>
    <object><bndbox><ymin>5</ymin><ymax>50.5</ymax><xmax>30</xmax><xmin> 3.0 </xmin></bndbox>
    <box_id>1</box_id><unique_id> 001-001_2 </unique_id></object>
    <filename>001-001_0.jpg</filename><folder>001-001_frames</folder></annotation>"""
    assert parse_voc(text, "f.xml") == _FRAME


@pytest.mark.parametrize("frame", [_FRAME, _EMPTY])
@settings(deadline=None)
@given(share=st.floats(0, 0.99))
def test_truncated_xml_is_refused_by_name(frame: VocFrame, share: float) -> None:
    text = format_voc(frame).rstrip()
    cut = text[: int(share * len(text))]
    with pytest.raises(PolyplinkError, match=r"f\.xml is not whole XML .*; download or unpack"):
        parse_voc(cut, "f.xml")


def test_document_types_are_refused() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]>' + format_voc(_FRAME)
    with pytest.raises(PolyplinkError, match=r"f\.xml has a document type"):
        parse_voc(bomb, "f.xml")
    with pytest.raises(PolyplinkError, match=r"f\.xml has a document type"):
        parse_voc("<!DOCTYPE a []>" + format_voc(_EMPTY), "f.xml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<size>", "<sizes>", "is not whole XML"),
        ("<xmax>30</xmax>", "", "f.xml has no <xmax> in <bndbox>"),
        ("<box_id>1</box_id>", "", "f.xml has no <box_id> in <object>"),
        ("<xmin>3<", "<xmin>three<", "f.xml: <xmin> holds 'three', not a number"),
        ("<xmin>3<", "<xmin><", "f.xml: <xmin> holds '', not a number"),
        ("<width>1352<", "<width>0<", "f.xml: <width> holds 0, not a number from 1"),
        ("<height>1080<", "<height>nan<", "f.xml: <height> holds nan, not a number from 1"),
        ("<box_id>1<", "<box_id>inf<", "f.xml: <box_id> holds inf, not a number from 1"),
    ],
)
def test_broken_fields_are_named(old: str, new: str, message: str) -> None:
    with pytest.raises(PolyplinkError) as error:
        parse_voc(format_voc(_FRAME).replace(old, new), "f.xml")
    assert message in str(error.value)


def test_frame_without_object_needs_its_size() -> None:
    with pytest.raises(PolyplinkError, match=r"f\.xml: <width> holds 0"):
        parse_voc(format_voc(_EMPTY).replace("1352", "0"), "f.xml")
    with pytest.raises(PolyplinkError, match=r"f\.xml has no <size> in <annotation>"):
        parse_voc("<annotation></annotation>", "f.xml")


def test_not_a_number_edges_are_left_to_the_reader() -> None:
    frame = parse_voc(format_voc(_FRAME).replace("<xmin>3<", "<xmin>NaN<"), "f.xml")
    assert frame.objects[0].xmin != frame.objects[0].xmin


def _released(name: str) -> str:
    return (files("polyplink.data") / "released" / "real_colon" / name).read_text()


def _digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_names() -> None:
    assert annotations_folder("001-001") == "001-001_annotations"
    assert frames_folder("001-001") == "001-001_frames"
    assert frame_stem("001-001", 12) == "001-001_12"


def test_one_file_for_every_frame_and_the_same_bytes_every_time(tmp_path: Path) -> None:
    data = small_set()
    write_real_colon(data, tmp_path / "a")
    write_real_colon(data, tmp_path / "b")
    files = _digests(tmp_path / "a")
    assert files == _digests(tmp_path / "b")
    expected = {"video_info.csv", "lesion_info.csv"}
    for procedure_id, n_frames in data.procedures.select("procedure_id", "n_frames").iter_rows():
        for i in range(n_frames):
            expected.add(f"{procedure_id}_annotations/{procedure_id}_{i}.xml")
    assert set(files) == expected


def test_boxes_of_a_frame_are_numbered_from_one(tmp_path: Path) -> None:
    write_annotations(small_set(), "001-001", tmp_path)
    path = tmp_path / "001-001_annotations" / "001-001_1.xml"
    frame = parse_voc(path.read_text(), path.name)
    assert (frame.folder, frame.filename) == ("001-001_frames", "001-001_1.jpg")
    assert [(o.box_id, o.unique_id) for o in frame.objects] == [
        (1, "001-001_1"),
        (2, "001-001_2"),
    ]
    assert (frame.objects[0].xmin, frame.objects[0].xmax) == (11, 31)
    assert (frame.objects[0].ymin, frame.objects[0].ymax) == (8, 24)


def test_tables_of_the_release_come_out_byte_for_byte(tmp_path: Path) -> None:
    videos, lesions = video_info(), lesion_info()
    sizes = positive_frames().select("width", "height", unique_video_name="video_id")
    data = DataSet.of(
        pl.DataFrame(schema=["procedure_id", "frame", "x", "y", "w", "h"]),
        videos.join(sizes, on="unique_video_name", maintain_order="left").select(
            "age", "sex", "fps", "bbps", "width", "height", procedure_id="unique_video_name",
            brand="endoscope_brand", n_frames="num_frames", patient="unique_video_name",
            dataset=pl.lit("real-colon"), source=pl.lit("/nowhere"),
        ),
        lesions.select(
            polyp_id="unique_object_id", procedure_id="unique_video_name", size_mm="size [mm]",
            location="site", histology="histology_extended", histology_class="histology_class",
        ),
    )  # fmt: skip
    write_tables(data, tmp_path)
    assert (tmp_path / "lesion_info.csv").read_text() == _released("lesion_info.csv")
    # The one number the release has wrong: 003-012 claims two lesions and lists three.
    corrected = _released("video_info.csv").replace(",25,96731,2,9\n", ",25,96731,3,9\n")
    assert (tmp_path / "video_info.csv").read_text() == corrected


def test_null_is_an_empty_field_and_quotes_are_doubled(tmp_path: Path) -> None:
    data = data_set(
        [],
        [("a_1", "a", None, None, 'so-called "polyp"', "OTHER")],
        [procedure_row("a", age=None, fps=None, brand='x"y')],
    )
    write_tables(data, tmp_path)
    assert (tmp_path / "video_info.csv").read_text().splitlines()[1] == (
        '"a",,"male","x""y",,6,1,7.5'
    )
    assert (tmp_path / "lesion_info.csv").read_text().splitlines()[1] == (
        '"a_1","a",,,"so-called ""polyp""","OTHER"'
    )


def test_folders_that_are_there_are_kept_only_when_asked(tmp_path: Path) -> None:
    data = small_set()
    write_real_colon(data, tmp_path)
    before = _digests(tmp_path)
    with pytest.raises(PolyplinkError, match="001-001_annotations exists already"):
        write_real_colon(data, tmp_path)
    kept = tmp_path / "001-001_annotations" / "001-001_0.xml"
    kept.write_text("mine")
    (tmp_path / "001-009_annotations" / "001-009_0.xml").unlink()
    write_real_colon(data, tmp_path, keep=True)
    assert kept.read_text() == "mine"
    assert len(_digests(tmp_path)) == len(before) - 1


def test_annotations_are_whole_or_absent(tmp_path: Path) -> None:
    data = small_set()
    blocked = tmp_path / "root"
    blocked.write_text("a file where a folder should be")
    with pytest.raises(OSError, match="root"):
        write_annotations(data, "001-001", blocked)
    late = data_set([("a", 9, 1, 1, 5, 5, None)], [], [procedure_row("a", 6)])
    with pytest.raises(
        PolyplinkError, match="procedure a: a box in frame 9 of 6; correct n_frames"
    ):
        write_annotations(late, "a", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_unknown_procedure(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match="no procedure '009-001'; name one of"):
        write_annotations(small_set(), "009-001", tmp_path)
