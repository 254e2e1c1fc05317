import polars as pl
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults, apply_rules, leave_out


def test_a_fault_is_raised_with_its_mend_if_strict() -> None:
    with pytest.raises(PolyplinkError) as error:
        Faults(strict=True).fault("box of no area", "a.xml", "correct the box")
    assert str(error.value) == "a.xml: box of no area; correct the box, or import without --strict"


def test_faults_and_warnings_are_counted_with_the_first_name() -> None:
    faults, other = Faults(), Faults()
    faults.fault("box of no area", "a.xml", "correct the box")
    faults.warn("odd", "x")
    other.fault("box of no area", "b.xml", "correct the box")
    other.warn("odder", "y", 3)
    faults.add(other)
    assert faults.lines() == [
        "2 x box of no area, left out (first: a.xml)",
        "1 x odd (first: x)",
        "3 x odder (first: y)",
    ]


def test_a_row_is_left_out_by_the_first_rule_that_it_breaks() -> None:
    table = pl.DataFrame({"at": ["a", "b", "c", "d"], "v": [1, 2, None, 7]})
    rules = [("too large", "less", pl.col("v") > 5), ("large", "less", pl.col("v") > 1)]
    faults = Faults()
    assert apply_rules(table, rules, faults, show=["v"])["at"].to_list() == ["a", "c"]
    assert faults.lines() == [
        "1 x too large, left out (first: d (7))",
        "1 x large, left out (first: b (2))",
    ]
    assert leave_out(table, pl.col("v") > 9, "too large", "less", faults).equals(table)
    with pytest.raises(PolyplinkError, match="b: large; less"):
        apply_rules(table, rules[1:], Faults(strict=True))
