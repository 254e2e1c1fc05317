from pathlib import Path

import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.text_table import (
    number,
    read_text_table,
    written,
)


def test_texts_stay_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text in ("id, x\n001,1.50\n", "id;x\n001;1.50\n", "id\tx\r\n001\t1.50\r\n"):
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        table = read_text_table(path)
        assert table.columns == ["id", "x"]
        assert table.row(0) == ("001", "1.50")
    path.write_text('id,x\n"two\nlines, and ""more""",é\n')
    assert read_text_table(path).row(0) == ('two\nlines, and "more"', "é")


def test_files_that_are_no_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with pytest.raises(PolyplinkError, match=r"a\.csv is missing; check the path"):
        read_text_table(path)
    for content, message in (
        (b"", "is not a table"),
        (b"a,b\n1,2,3\n", "is not a table"),
        ("é,b\n".encode("latin-1"), "is not UTF-8 text"),
        (b"a,b\n" + "é,1\n".encode("latin-1"), "is not"),
    ):
        path.write_bytes(content)
        with pytest.raises(PolyplinkError, match=message):
            read_text_table(path)


def test_numbers_and_what_is_written() -> None:
    table = pl.DataFrame({"v": [" 1.5 ", "1e2", "x", "", " ", None]})
    assert table.select(number("v"))["v"].to_list() == [1.5, 100, None, None, None, None]
    assert table.select(written("v"))["v"].to_list() == [True, True, True, False, False, False]
