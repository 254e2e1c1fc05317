"""Lists of JSON records read as columns."""

import gc
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.coco import Records, load_json

values = (
    st.none()
    | st.integers()
    | st.integers(-99, 99).map(lambda k: k / 2)
    | st.text("a1.", max_size=3)
)


def test_large_files_and_broken_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": [1, NaN]}')
    assert load_json(path)["a"][0] == 1
    for content, message in (
        (b'{"a": [1', "is not whole JSON"),
        (b"", "is not whole JSON"),
        (b"[" * 100_000, "is not whole JSON"),
        ('{"é": 1}'.encode("latin-1"), "is not UTF-8 text"),
    ):
        path.write_bytes(content)
        with pytest.raises(PolyplinkError, match=message):
            load_json(path)
    path.unlink()
    with pytest.raises(PolyplinkError, match="is missing; check the path"):
        load_json(path)
    assert gc.isenabled()


def test_records_are_read_by_column() -> None:
    rows = Records([{"a": 1}, {"b": "x", "a": None}, {}], "rows")
    assert rows.values("a") == [1, None, None]
    assert rows.values("a", "b") == [1, "x", None]
    assert rows.values("c") == [None] * 3
    assert rows.texts("a", "b").to_list() == ["1", "x", None]
    assert rows.numbers("a").to_list() == [1, None, None]
    assert Records(None, "rows").values("a") == []
    wrong: list[object] = [{}, [1], "text"]
    for odd in wrong:
        with pytest.raises(PolyplinkError, match="rows is no list of records"):
            Records(odd, "rows")


@settings(deadline=None)
@given(st.lists(values))
def test_texts_and_numbers_equal_the_plain_way(column: list[object]) -> None:
    def text(value: object) -> str | None:
        whole = isinstance(value, float) and value.is_integer()
        return None if value is None else str(int(value) if whole else value)  # type: ignore[call-overload]

    def number(value: object) -> float | None:
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None

    rows = Records([{"a": value} for value in column], "rows")
    assert rows.texts("a").to_list() == [text(value) for value in column]
    assert rows.numbers("a").to_list() == [number(value) for value in column]


def test_boxes_of_any_kind() -> None:
    def boxes(*values: object) -> pl.DataFrame:
        return Records([{"bbox": value} for value in values], "rows").boxes("bbox")

    assert boxes([1, 2, 3, 4.5], [5, 6, 7, 8]).rows() == [(1, 2, 3, 4.5), (5, 6, 7, 8)]
    odd = boxes([1, 2, 3, 4.5], [1, 2], None, "text", [1, "2", "wide", None])
    none = (None,) * 4
    assert odd.rows() == [(1, 2, 3, 4.5), none, none, none, (1, 2, None, None)]
    assert boxes().schema == dict.fromkeys("xywh", pl.Float64)
