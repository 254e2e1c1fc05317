from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.report.ticks import CLOCK_STEPS, clock_ticks, round_step, ticks


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 12))
def test_ticks_are_round_inside_and_few(low: float, span: float, most: int) -> None:
    step = round_step(span, most)
    assert float(f"{step:e}"[0]) in {1, 2, 5}
    places = ticks(low, low + span, most)
    assert len(places) <= most + 1
    assert all(low - step * 1e-6 <= place <= low + span + step * 1e-6 for place in places)
    assert all(place / step == pytest.approx(round(place / step)) for place in places)


def test_round_step_is_the_smallest_that_does() -> None:
    assert round_step(10, 5) == 2
    assert round_step(11, 5) == 5
    assert round_step(0.9, 10) == pytest.approx(0.1)
    assert ticks(0, 50, 6) == [0, 10, 20, 30, 40, 50]


@given(st.floats(0, 4e5))
def test_clock_ticks_are_round_times(seconds: float) -> None:
    places = clock_ticks(seconds, 12)
    assert places[0] == 0
    assert places[-1] <= seconds
    assert len(places) <= 13
    steps = {b - a for a, b in pairwise(places)}
    assert len(steps) <= 1
    assert steps <= {float(step) for step in CLOCK_STEPS}


def test_a_day_and_more_still_has_few_ticks() -> None:
    assert len(clock_ticks(1e6, 12)) <= 13
