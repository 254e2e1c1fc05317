"""The three tables: checks, writing, reading, keys and merging.

The tests of the command `merge` are in tests/cli/test_import.py.
"""

import csv
import io
import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.core.text import csv_cell
from polyplink.data.merge import merge, overlaps
from polyplink.data.tables import (
    DETECTIONS,
    TABLES,
    DataSet,
    check,
    csv_text,
    read_data,
    read_table,
    read_table_with_metadata,
    write_data,
    write_table,
)
from polyplink.data.vocabulary import known_overlap
from tests.data.sample_sets import data_set, data_sets, procedure_row, scored_set, small_set


def _detections(**columns: list[Any] | pl.Series) -> pl.DataFrame:
    valid = {"procedure_id": ["a", "a"], "frame": [0, 1], "x": [1, 2], "y": [1, 2]}
    valid |= {"w": [5, 5], "h": [5, 5]}
    return pl.DataFrame(valid | columns, strict=False)


def test_check_adds_nullable_columns_casts_and_drops_unknown_columns() -> None:
    categories = pl.Series(["10", "2"], dtype=pl.Categorical)
    table = check(_detections(extra=[1, 2], frame=categories), DETECTIONS, "detections")
    assert table["frame"].to_list() == [10, 2]
    assert table.columns == list(DETECTIONS)
    assert [table.schema[name] for name in DETECTIONS] == [c.dtype for c in DETECTIONS.values()]
    assert table["score"].null_count() == table["image"].null_count() == 2


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (_detections().drop("w"), "table detections: column w is missing; add it: width"),
        (
            _detections(frame=["0", "x"]),
            "column frame, row 1: 'x' is not a valid value; write frame",
        ),
        (_detections(x=[None, 1]), "column x, row 0: no value; fill it (left edge, pixels)"),
        (_detections(y=[1.0, float("nan")]), "column y, row 1: nan is not finite; leave the row"),
        (_detections(x=[0.5, float("inf")]), "column x, row 1: inf is not finite"),
        (
            _detections(score=[0.5, 97]),
            "column score, row 1: 97.0 is not in [0, 1]; write detector",
        ),
        (_detections(frame=[0.5, 1]), "column frame, row 0: 0.5 is not a valid value"),
        (_detections(w=[5, 0]), "column w, row 1: 0 is too small; write width, pixels, above 0"),
        (_detections(h=[-1, 5]), "column h, row 0: -1 is too small; write height, pixels, above 0"),
        (_detections(frame=[Decimal("0.5"), 1]), "column frame, row 0: 0.5 is not a valid value"),
        (_detections(frame=pl.Series(["0", "x"], dtype=pl.Categorical)), "row 1: 'x' is not a"),
        (_detections(frame=[[1], [2]]), "column frame holds List"),
        (_detections(x=[{"a": 1}, {"a": 2}]), "column x holds Struct"),
        (_detections(x=[date(2026, 1, 1), None]), "column x holds Date"),
        (_detections(procedure_id=[b"\xff", b"a"]), "column procedure_id holds Binary"),
        (_detections(w=[True, False]), "column w holds Boolean"),
        (
            _detections(polyp_id=["p", "\x1b[2J"]),
            r"column polyp_id, row 1: '\x1b[2J' is not a valid name",
        ),
        (_detections(procedure_id=["", "a"]), "column procedure_id, row 0: '' is not a valid name"),
        (_detections(procedure_id=["a", "b" * 1001]), "bbb' is not a valid name"),
    ],
)
def test_check_names_column_row_and_fix(frame: pl.DataFrame, message: str) -> None:
    with pytest.raises(PolyplinkError) as error:
        check(frame, DETECTIONS, "detections")
    assert message in str(error.value)


def test_impossible_facts_of_a_procedure_are_refused() -> None:
    for column, value in (("fps", 0), ("n_frames", -1), ("width", 0), ("height", -48)):
        message = f"table procedures: column {column}, row 0: {value}(.0)? is too small; write fr"
        with pytest.raises(PolyplinkError, match=message):
            data_set([], [], [procedure_row("a", **{column: value})])
    assert data_set([], [], [procedure_row("a", 0, fps=None)]).procedures.height == 1


def test_invalid_relations_between_tables_are_refused() -> None:
    box, unknown = ("a", 0, 1, 1, 2, 2, None), "column procedure_id, row 0: '{}' is not in the"
    polyp_of_a, polyp_of_b = (("1", name, 1.0, None, None, None) for name in "ab")
    for boxes, polyps, names, message in (
        ([box], [], "abb", "procedure_id 'b' occurs twice; give every row"),
        ([box], [], "b", f"table detections: {unknown.format('a')} table procedures"),
        ([("b", *box[1:]), box], [], "b", "table detections: column procedure_id, row 1: 'a'"),
        ([], [polyp_of_b], "a", f"table polyps: {unknown.format('b')}"),
        ([], [polyp_of_a] * 2, "a", "polyp_id '1' occurs twice"),
    ):
        with pytest.raises(PolyplinkError, match=message):
            data_set(boxes, polyps, [procedure_row(name) for name in names])


def test_detections_are_sorted_and_keep_their_order_within_a_frame() -> None:
    data = data_set(
        [("b", 3, 1, 1, 2, 2, None), ("a", 9, 1, 1, 2, 2, None), ("a", 2, 7, 1, 2, 2, None),
         ("a", 2, 1, 1, 2, 2, None)],
        [],
        [procedure_row("a"), procedure_row("b")],
    )  # fmt: skip
    assert data.detections.select("procedure_id", "frame", "x").rows() == [
        ("a", 2, 7.0),
        ("a", 2, 1.0),
        ("a", 9, 1.0),
        ("b", 3, 1.0),
    ]


@settings(max_examples=4)
@given(data_sets())
def test_write_and_read_give_the_same_tables_and_key(data: DataSet) -> None:
    with TemporaryDirectory() as folder:
        write_data(Path(folder), data)
        read_back = read_data(Path(folder))
    for name in TABLES:
        assert getattr(read_back, name).equals(getattr(data, name))
    assert (read_back.key, read_back.splits) == (data.key, data.splits)


def test_tables_of_two_imports_are_refused_and_tables_of_other_programs_are_read(
    tmp_path: Path,
) -> None:
    first, second = small_set(), scored_set()
    write_data(tmp_path / "a", first)
    write_data(tmp_path / "b", second)
    shutil.copy(tmp_path / "a" / "detections.parquet", tmp_path / "b")
    with pytest.raises(PolyplinkError, match="b holds tables of several imports; import again"):
        read_data(tmp_path / "b")
    first.detections.write_parquet(tmp_path / "a" / "detections.parquet")
    assert read_data(tmp_path / "a").key == first.key


def test_a_damaged_byte_of_a_table_is_refused_at_every_position(tmp_path: Path) -> None:
    path, table = tmp_path / "a.parquet", scored_set().detections
    write_table(path, table, {"note": "text"})
    assert pl.scan_parquet(path).collect().equals(table)  # other programs can read it
    assert read_table_with_metadata(path, "")[1]["note"] == "text"
    content = path.read_bytes()
    checksum = range(content.index(b"polyplink CRC-32"), content.index(b"polyplink CRC-32") + 16)
    for position in {*range(4, len(content), 23)} - {*checksum}:
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 0x55]) + content[position + 1 :]
        )
        with pytest.raises(PolyplinkError, match=r"a\.parquet .*; import again$"):
            read_table(path, "import again")
    path.write_bytes(content[: checksum[0]] + b"x" + content[checksum[0] + 1 :])
    # As a file of another program, without a checksum.
    assert read_table(path, "import again").equals(table)


def test_a_small_file_with_very_many_rows_is_refused_before_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    write_table(path, pl.DataFrame({"a": pl.repeat(1, 3_000_000, eager=True)}))
    assert path.stat().st_size < 1 << 20
    with monkeypatch.context() as patch:
        patch.setattr(pl, "read_parquet", pytest.fail)
        with pytest.raises(PolyplinkError, match=r"t\.parquet holds 3000000 rows in \d+ KiB"):
            read_table(path, "")
    monkeypatch.setenv("POLYPLINK_NO_LIMITS", "1")
    assert read_table(path, "").height == 3_000_000


def test_the_key_depends_on_content_and_not_on_the_source_folder() -> None:
    data = small_set()

    def key(**changes: pl.DataFrame) -> str:
        tables = {name: getattr(data, name) for name in TABLES} | changes
        return DataSet.of(**tables).key

    moved = data.procedures.with_columns(source=pl.lit("/elsewhere"))
    assert key() == key(procedures=moved) == data.key
    other_keys = {
        key(detections=data.detections.with_columns(pl.col("x") + 1)),
        key(detections=data.detections.with_columns(polyp_id=pl.lit(None, pl.String))),
        key(procedures=data.procedures.with_columns(pl.col("n_frames") + 1)),
        key(polyps=data.polyps.with_columns(histology_class=pl.lit("AD"))),
    }
    assert len(other_keys | {data.key}) == 5
    # Crops are cut of pictures and boxes, whosever they are.
    corrected = DataSet.of(
        data.detections,
        data.procedures.with_columns(patient=pl.lit("another")),
        data.polyps.with_columns(size_mm=pl.lit(3.0)),
    )
    assert (corrected.key != data.key, corrected.keys) == (True, data.keys)


def test_part_lists_the_procedures_of_a_part() -> None:
    data = small_set()
    assert data.part("eval") == ["001-009"]
    assert data.part(None) == ["001-001", "001-009", "001-010"]
    with pytest.raises(
        PolyplinkError, match=r"no part 'val'.*choose one of: all, eval, negative, train"
    ):
        data.part("val")
    misspelt = DataSet.of(data.detections, data.procedures, data.polyps, {"eval": ["001-O09"]})
    with pytest.raises(PolyplinkError, match="part 'eval' names '001-O09', which is not in"):
        misspelt.part("eval")
    undivided = DataSet.of(data.detections, data.procedures, data.polyps)
    with pytest.raises(PolyplinkError, match=r"no part 'eval' .*; use --part all, divide .*: rc27"):
        undivided.part("eval")


def test_read_data_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"no folder .*nothing; check the path"):
        read_data(tmp_path / "nothing")
    with pytest.raises(
        PolyplinkError, match=r"not a data folder.*`polyplink import FORMAT .* DATA`"
    ):
        read_data(tmp_path)
    write_data(tmp_path / "data", small_set())
    with pytest.raises(PolyplinkError, match=r"no detections.parquet; did you mean .*/data\?"):
        read_data(tmp_path)
    write_data(tmp_path, small_set())
    (tmp_path / "polyps.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(PolyplinkError, match=r"polyps.parquet cannot be read .*; import again"):
        read_data(tmp_path)
    (tmp_path / "polyps.parquet").unlink()
    with pytest.raises(PolyplinkError, match=r"polyps.parquet is missing; give a folder that"):
        read_data(tmp_path)


def test_invalid_splits_are_refused(tmp_path: Path) -> None:
    write_data(tmp_path, small_set())
    for splits in ("5", "[1, 2]", '{"train": 3}', '{"eval": "001-009"}'):
        (tmp_path / "splits.json").write_text(splits)
        with pytest.raises(PolyplinkError, match=r"splits\.json is not a mapping of parts"):
            read_data(tmp_path)


def with_suffix(data: DataSet, number: int) -> DataSet:
    """The data set with a suffix in all ids."""
    ids = [pl.col(c).name.keep() + f"/{number}" for c in ("procedure_id", "polyp_id")]
    splits = {"train": [f"{p}/{number}" for p in data.procedures["procedure_id"]]}
    return DataSet.of(
        data.detections.with_columns(ids),
        data.procedures.with_columns(ids[0]),
        data.polyps.with_columns(ids),
        splits,
    )


@settings(max_examples=3)
@given(st.lists(data_sets(), min_size=2, max_size=3))
def test_every_set_is_contained_in_the_merged_set(sets: list[DataSet]) -> None:
    sets = [with_suffix(data, k) for k, data in enumerate(sets)]
    merged = merge([(Path("/x") / str(k), data) for k, data in enumerate(sets)])
    assert merged.detections.height == sum(data.detections.height for data in sets)
    for k, data in enumerate(sets):
        of_set = pl.col("procedure_id").str.ends_with(f"/{k}")
        for name in ("detections", "polyps", "procedures"):
            assert getattr(merged, name).filter(of_set).equals(getattr(data, name))
    assert sorted(merged.splits["train"]) == sorted(merged.procedures["procedure_id"])


def test_known_overlaps_are_symmetric_and_independent_of_spelling() -> None:
    assert known_overlap("SUN", "sun_seg") == known_overlap("SUN-SEG", "sun") is not None
    assert known_overlap("sun", "real-colon") is None
    assert known_overlap("sun", "sun") is None
    assert overlaps(small_set()) == []


def test_a_panic_of_polars_is_an_error_about_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panicking(_: BinaryIO) -> dict[str, str]:
        raise pl.exceptions.PanicException("assertion failed")

    write_table(tmp_path / "a.parquet", pl.DataFrame({"a": [1]}), {})
    monkeypatch.setattr(pl, "read_parquet_metadata", panicking)
    with pytest.raises(PolyplinkError, match=r"a\.parquet cannot be read \(assertion failed\)"):
        read_table(tmp_path / "a.parquet", "write it again")


@given(st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from("=+-@'\t\r\x1b\u2028"))))
def test_texts_of_a_csv_file_are_escaped_in_one_way(texts: list[str]) -> None:
    table = pl.DataFrame({"name": pl.Series(texts, dtype=pl.String)})
    assert list(csv.reader(io.StringIO(csv_text(table), newline="")))[1:] == [
        [str(csv_cell(text))] for text in texts
    ]
