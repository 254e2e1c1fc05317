import base64
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.report.figures import Figure
from polyplink.report.formats import (
    DASH,
    clock,
    data_uri,
    duration,
    interval,
    moment,
    number,
    reason,
    signed,
)


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_missing_numbers_are_dashes(value: float | None) -> None:
    assert number(value) == signed(value) == DASH


def test_numbers_have_fixed_digits_and_true_signs() -> None:
    assert number(0.12349) == "0.123"
    assert number(-1.5, 1) == "−1.5"
    assert signed(0.5, 2) == "+0.50"
    assert signed(-0.5, 2) == "−0.50"


@pytest.mark.parametrize("value", [0.0, -0.0, -0.0001, 0.0001])
def test_what_rounds_to_zero_has_no_minus(value: float) -> None:
    assert number(value) == signed(value) == "0.000"


def test_intervals_and_reasons() -> None:
    assert interval(Figure(0.5, 0.4, 0.6)) == "0.400 to 0.600"
    assert interval(Figure(0.5)) == interval(Figure(None, 0.4, 0.6)) == ""
    assert reason(Figure(0.5)) == ""
    assert reason(Figure(None, why="one polyp only")) == "one polyp only"
    assert "undefined" in reason(Figure(math.nan))


@given(st.integers(0, 200_000))
def test_clock_can_be_read_back(seconds: int) -> None:
    parts = [int(part) for part in clock(seconds).split(":")]
    assert sum(part * 60**power for power, part in enumerate(reversed(parts))) == seconds
    assert all(part < 60 for part in parts[1:])


def test_moments_durations_and_data() -> None:
    assert moment(1500, 25.0) == "1:00"
    assert moment(1500, None) == "frame 1500"
    assert (duration(0.0123), duration(3.21), duration(180)) == ("12.3 ms", "3.2 s", "3:00 min")
    uri = data_uri("png", b"abc")
    assert uri.startswith("data:image/png;base64,")
    assert base64.b64decode(uri.partition(",")[2]) == b"abc"
