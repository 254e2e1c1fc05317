"""Text from data in file names, messages, tables and XML."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from polyplink.core.errors import LONGEST_PART, PolyplinkError, escape_control, one_line
from polyplink.core.text import LONGEST_FILE_NAME, csv_cell, file_name, readable_path, xml_text

INVALID = ["", ".", "..", "a/../../b", "/etc/passwd", "nul\0", "\x1b[2J", "é" * 300, "\udcff"]
# As `st.text()`, with lone surrogates, and without its tables, which take seconds to make.
CODES = st.integers(0, 0x7F) | st.integers(0, 0x10FFFF)
TEXTS = st.text(CODES.map(chr))
NAMES = TEXTS | st.sampled_from([*INVALID, "aux.txt", "a.", "b ", "%2E."])


def readable_name(name: str) -> str:
    return readable_path(Path("no such folder"), name).name


@pytest.mark.parametrize("convert", [file_name, readable_name])
@given(NAMES, NAMES)
def test_file_names_are_safe_and_unique_to_their_name(
    convert: Callable[[str], str], name: str, other: str
) -> None:
    safe = convert(name)
    assert safe not in ("", ".", "..")
    assert not {*'/\\\0:<>"|?*'} & set(safe)  # Windows refuses these, and trailing dots and spaces
    assert not re.search(r"[. ]$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)", safe, re.IGNORECASE)
    assert len(safe.encode()) <= LONGEST_FILE_NAME
    assert (safe == convert(other)) == (name == other)


def test_readable_names_keep_signs_and_the_files_of_earlier_versions(tmp_path: Path) -> None:
    assert readable_name("fall 01 Müller") == "fall 01 Müller"
    assert readable_name("Fall 7 – „links“ №2") == "Fall 7 – „links“ №2"
    assert readable_name("症例 é\u0301") == "症例 é\u0301"
    assert readable_name("ä/../\u200bb") == "ä%2F..%2F%E2%80%8Bb"
    earlier = tmp_path / f"{file_name('Ä')}.txt"
    assert readable_path(tmp_path, "Ä", ".txt") == tmp_path / "Ä.txt"
    earlier.touch()
    assert readable_path(tmp_path, "Ä", ".txt") == earlier


@pytest.mark.parametrize("name", [*INVALID, ".hidden", "a\\b", "x" * 200])
def test_an_exact_name_that_is_invalid_as_a_file_name_is_refused(name: str) -> None:
    with pytest.raises(PolyplinkError, match="cannot be the name of a file"):
        file_name(name, exact=True)


def test_valid_exact_names_are_unchanged() -> None:
    for name in ("001-003", "é b", "100%", "~"):
        assert file_name(name, exact=True) == name


@given(TEXTS)
def test_messages_are_one_bounded_line_without_control_characters(text: str) -> None:
    message = str(PolyplinkError(text, 40 * text))
    assert len(message.splitlines()) <= 1
    assert len(message) <= 2 * LONGEST_PART + 2
    assert escape_control(message) == message
    message.encode()  # no lone surrogates


def test_a_long_line_keeps_its_start_and_end() -> None:
    assert one_line("begin " + "x\n" * 999 + "end", 40).startswith("begin x x x")
    assert one_line("begin " + "x\n" * 999 + "end", 40).endswith("x end")


@pytest.mark.parametrize(
    ("value", "cell"),
    [("=1+1", "'=1+1"), ("@a", "'@a"), ("\tb", "'\tb"), ("'-1", "''-1"), ("'a", "'a"), (-1, -1)],
)
def test_csv_cells_are_never_formulas(value: object, cell: object) -> None:
    assert csv_cell(value) == cell


def test_xml_text_escapes_control_characters() -> None:
    assert xml_text("<a>\x1b\x00&") == "&lt;a&gt;\\x1b\\x00&amp;"
