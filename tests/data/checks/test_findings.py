import polars as pl

from polyplink.data import Finding
from polyplink.data.checks.findings import find


def test_no_offender_no_finding() -> None:
    assert find(pl.DataFrame({"a": []}), "error", "check", "{a}", "mend") == []


def test_the_first_offender_is_named_and_all_are_counted() -> None:
    offenders = pl.DataFrame({"name": ["{x}", "b"], "size": [2.5, 3.0]})
    assert find(offenders, "note", "odd", "{name} of {size:g} mm", "none") == [
        Finding("note", "odd", "{x} of 2.5 mm", 2, "none")
    ]
