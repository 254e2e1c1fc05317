from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data import VocFrame, VocObject, format_voc, parse_voc

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
