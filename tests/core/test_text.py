"""Text from data as names of files, and where it leaves the program."""

import re

import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import LONGEST_PART, PolyplinkError, one_line, visible
from polyplink.core.text import LONGEST_FILE_NAME, csv_cell, file_name, xml_text

ODD = [
    "",
    ".",
    "..",
    "a/../../b",
    "/etc/passwd",
    "nul\0",
    "\x1b[2J",
    "é" * 300,
    "\udcff",
    "aux.txt",
    "a.",
    "b ",
    "%2E.",
]
NAMES = st.text() | st.sampled_from(ODD)


@given(NAMES, NAMES)
def test_a_name_becomes_one_plain_file_and_no_other_name_the_same(name: str, other: str) -> None:
    found = file_name(name)
    assert found not in ("", ".", "..")
    assert not {*'/\\\0:<>"|?*'} & set(found)  # Windows has more of them, and cuts ends off
    assert not re.search(r"[. ]$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)", found, re.IGNORECASE)
    assert len(found.encode()) <= LONGEST_FILE_NAME
    assert (found == file_name(other)) == (name == other)


@pytest.mark.parametrize("name", [*ODD[:-4], ".hidden", "a\\b", "x" * 200])
def test_an_exact_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(PolyplinkError, match="cannot be the name of a file"):
        file_name(name, exact=True)


def test_exact_names_stay_as_they_are() -> None:
    for name in ("001-003", "é b", "100%", "~"):
        assert file_name(name, exact=True) == name


@given(st.text())
def test_messages_are_one_bounded_line_without_control_characters(text: str) -> None:
    message = str(PolyplinkError(text, 40 * text))
    assert len(message.splitlines()) <= 1
    assert len(message) <= 2 * LONGEST_PART + 2
    assert visible(message) == message
    message.encode()  # no halves of surrogate pairs


def test_a_long_line_keeps_its_ends() -> None:
    assert one_line("begin " + "x\n" * 999 + "end", 40).startswith("begin x x x")
    assert one_line("begin " + "x\n" * 999 + "end", 40).endswith("x end")


@pytest.mark.parametrize(
    ("value", "cell"),
    [("=1+1", "'=1+1"), ("@a", "'@a"), ("\tb", "'\tb"), ("'-1", "''-1"), ("'a", "'a"), (-1, -1)],
)
def test_no_cell_is_a_formula(value: object, cell: object) -> None:
    assert csv_cell(value) == cell


def test_xml_holds_no_control_character() -> None:
    assert xml_text("<a>\x1b\x00&") == "&lt;a&gt;\\x1b\\x00&amp;"
