import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from polyplink.data import DataSet
from polyplink.data.checks.check_names import check_names, near_names
from tests.data.made_sets import data_set, procedure_row, small_set


def test_names_that_almost_match() -> None:
    names = ["001-001", "1-001", "001_001", "001-010", "Case 1", "case1 ", "CASE-1", "a"]
    assert near_names(names).rows() == [
        ("001-001", "1-001"),
        ("001-001", "001_001"),
        ("Case 1", "CASE-1"),
    ]


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_other_numbers_are_other_names(a: int, b: int) -> None:
    assert near_names([f"{a:04}", f"{b:02}"]).height == int(a == b and f"{a:04}" != f"{b:02}")


def test_each_column_is_looked_at() -> None:
    data = small_set()
    assert check_names(data) == []
    procedures = data.procedures.with_columns(patient=pl.Series(["A", "a", "b"]))
    (finding,) = check_names(DataSet.of(data.detections, procedures, data.polyps))
    assert finding.check == "near names of patient"
    assert finding.what == "table procedures, column patient: A and a are almost one name"


def test_a_box_that_is_there_twice() -> None:
    box = ("a", 0, 1, 1, 5, 9, None)
    (finding,) = check_names(data_set([box, box], [], [procedure_row("a")]))
    assert (finding.check, finding.count) == ("box twice", 1)
