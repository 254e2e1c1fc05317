import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.report.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    chart,
    scale,
    tick_text,
    training_charts,
)
from polyplink.report.model import Training

VALUES = st.lists(
    st.one_of(st.none(), st.floats(-1e4, 1e4), st.just(math.nan)), min_size=1, max_size=30
).map(tuple)


@given(VALUES)
def test_every_value_is_a_dot_inside_and_gaps_cut_the_line(
    values: tuple[float | None, ...],
) -> None:
    drawn = chart("t", "y", "c", {"a": values}, best_epoch=None)
    known = [i for i, v in enumerate(values) if v is not None and math.isfinite(v)]
    if drawn is None:
        assert not known
        return
    (curve,) = drawn.curves
    assert len(curve.dots) == len(known)
    for x, y, _ in curve.dots:
        assert LEFT - 0.01 <= x <= WIDTH - RIGHT + 0.01
        assert TOP - 0.01 <= y <= HEIGHT - BOTTOM + 0.01
    stretches = sum(i - 1 not in known for i in known)
    assert len(curve.paths) == stretches
    assert sum(len(path.split()) for path in curve.paths) == len(known)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=10))
def test_scale_holds_the_values(values: list[float]) -> None:
    low, high = scale(values)
    slack = 1e-6 * (high - low)
    assert low < high
    assert low - slack <= min(values) <= max(values) <= high + slack


def test_places_of_a_known_curve() -> None:
    drawn = chart("t", "y", "c", {"a": (0.0, 1.0)}, best_epoch=1, ends=(0.0, 1.0))
    assert drawn is not None
    assert [dot[:2] for dot in drawn.curves[0].dots] == [
        (LEFT, HEIGHT - BOTTOM),
        (WIDTH - RIGHT, TOP),
    ]
    assert drawn.kept == WIDTH - RIGHT
    assert drawn.curves[0].dots[1][2] == "a, epoch 1: 1.0000"
    assert [text for _, text in drawn.x_ticks] == ["0", "1"]
    assert [text for _, text in drawn.y_ticks] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [(0.25, 0.05, "0.25"), (-2.0, 1.0, "−2"), (-0.0, 0.1, "0.0"), (1500, 500, "1500")],
)
def test_ticks_have_the_digits_they_need(value: float, step: float, text: str) -> None:
    assert tick_text(value, step) == text


def test_training_leaves_out_what_was_not_recorded() -> None:
    titles = [c.title for c in training_charts(Training(loss=(2.0, 1.0), purity=(None, None)))]
    assert titles == ["Loss"]
    full = training_charts(Training((1.0,), (2.0,), (3.0,), (0.5,), 0))
    assert [c.title for c in full] == ["Loss", "Bag temperature", "Bag purity"]
    assert [curve.name for curve in full[0].curves] == ["train", "validation"]
    assert all(c.kept == LEFT for c in full)
    assert training_charts(Training()) == []


def test_an_epoch_beyond_the_curve_is_not_marked() -> None:
    drawn = chart("t", "y", "c", {"a": (1.0, 2.0)}, best_epoch=7)
    assert drawn is not None
    assert drawn.kept is None
