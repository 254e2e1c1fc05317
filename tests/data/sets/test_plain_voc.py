from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.plain_voc import PlainFrame, PlainObject, parse_plain_voc

BOX = (
    "<object><name> Adenomatous </name><bndbox><xmax> 30 </xmax><ymin>\n2</ymin><xmin>10 </xmin>"
    "<ymax>4.5</ymax></bndbox></object>"
)
SIZE = "<size><width> 384</width><height>288 </height><depth>3</depth></size>"


def frame(*parts: str) -> bytes:
    return f"<annotation>{''.join(parts)}</annotation>".encode()


def test_fields_by_their_tags_between_blanks() -> None:
    box = PlainObject("Adenomatous", (10, 2, 30, 4.5))
    whole = PlainFrame((384, 288), (box, box))
    assert parse_plain_voc(frame(SIZE, BOX, BOX), "x") == whole
    assert parse_plain_voc(frame(BOX, SIZE, BOX), "x") == whole
    text = b"\xef\xbb\xbf<?xml version='1.0'?>\r\n" + frame(SIZE)
    assert parse_plain_voc(text, "x") == PlainFrame((384, 288), ())


@pytest.mark.parametrize("size", ["", "<size/>", SIZE.replace("384", "0"), "<size>a</size>"])
def test_a_size_may_be_missing(size: str) -> None:
    assert parse_plain_voc(frame(size), "x").size is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x is not whole XML"),
        (frame(SIZE)[:-3], "x is not whole XML"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><a/>", "has a document type, which is not read"),
        (frame("<object><name>a</name></object>"), "<xmin> holds None, not a number"),
        (frame(BOX.replace("4.5", "four")), "<ymax> holds 'four', not a number; download"),
        (b"\xff\xfe<\x00", "is not UTF-8 text"),
    ],
)
def test_broken_files(data: bytes, message: str) -> None:
    with pytest.raises(PolyplinkError) as error:
        parse_plain_voc(data, "x")
    assert message in str(error.value)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(PolyplinkError):  # no other error comes out
        assert isinstance(parse_plain_voc(data, "x"), PlainFrame)
