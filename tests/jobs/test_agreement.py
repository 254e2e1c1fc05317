import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.jobs.agreement import Figure, Row, rows_text

FIGURE = Figure("polyps", "somebody", (100.0, 10.0))


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        (FIGURE.exactly(100, 10), True),
        (FIGURE.exactly(100, 11), False),
        (FIGURE.within(0.1, 110, 9), True),
        (FIGURE.within(0.1, 110, 8.9), False),
        (FIGURE.nearer_than(2, 98, 12), True),
        (FIGURE.nearer_than(2, 97, 12), False),
        (FIGURE.at_most(100, 3), True),
        (FIGURE.at_most(101, 3), False),
        (FIGURE.at_least(100, 11), True),
        (FIGURE.at_least(99, 11), False),
        (FIGURE.above(101, 11), True),
        (FIGURE.above(100, 11), False),
    ],
)
def test_a_row_holds_or_not(row: Row, holds: bool) -> None:
    assert row.holds is holds
    assert (row.name, row.source, row.published) == ("polyps", "somebody", (100.0, 10.0))


@pytest.mark.parametrize("values", [(), (100.0,), (100.0, 10.0, 1.0), (100.0, math.nan)])
def test_missing_values_never_hold(values: tuple[float, ...]) -> None:
    assert not FIGURE.exactly(*values).holds
    assert not FIGURE.at_most(*values).holds


@given(st.floats(0.01, 1), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_a_share_is_of_the_published_value(share: float, published: float, value: float) -> None:
    row = Figure("", "", (published,)).within(share, value)
    assert row.holds == (abs(value - published) <= share * abs(published))


def test_rows_become_lines() -> None:
    rows = [FIGURE.within(0.1, 105.25, 10), Figure("boxes", "x", (351_264,)).exactly(0.125)]
    assert rows_text(rows).splitlines() == [
        "        published  simulated  tolerance  holds",
        "polyps  100 10     105.25 10  10%        yes",
        "boxes   351,264    0.125      exact      NO",
    ]
