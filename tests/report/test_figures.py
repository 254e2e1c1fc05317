import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.report.figures import (
    Comparison,
    Figure,
    Method,
    Metric,
    best_method,
    bold_methods,
    figure_of,
)
from tests.report.sample import comparison

METRIC = Metric("m", "m", "g", ideal=1.0)


def two(first: float, second: float, low: float, high: float, ideal: float = 1.0) -> str | None:
    metric = Metric("m", "m", "g", ideal)
    methods = (
        Method("first", {"m": Figure(first)}),
        Method("second", {"m": Figure(second)}, {"m": Figure(second - first, low, high)}),
    )
    return best_method(Comparison((metric,), methods), metric)


def test_best_needs_an_interval_that_excludes_zero() -> None:
    assert two(0.5, 0.7, 0.1, 0.3) == "second"
    assert two(0.5, 0.7, -0.1, 0.4) is None
    assert two(0.5, 0.7, 0.0, 0.4) is None
    assert two(0.7, 0.5, -0.3, -0.1) == "first"
    assert two(0.7, 0.5, -0.3, 0.1) is None


def test_best_is_nearest_to_the_ideal() -> None:
    assert two(0.2, 0.05, -0.2, -0.1, ideal=0.0) == "second"
    assert two(0.8, 1.5, 0.5, 0.9, ideal=1.0) == "first"


def test_first_must_beat_every_other() -> None:
    methods = (
        Method("first", {"m": Figure(0.9)}),
        Method("b", {"m": Figure(0.5)}, {"m": Figure(-0.4, -0.5, -0.3)}),
        Method("c", {"m": Figure(0.8)}, {"m": Figure(-0.1, -0.3, 0.1)}),
    )
    assert best_method(Comparison((METRIC,), methods[:2]), METRIC) == "first"
    assert best_method(Comparison((METRIC,), methods), METRIC) is None


def test_missing_figures_do_not_compete() -> None:
    methods = (
        Method("first", {"m": Figure(0.5)}),
        Method("b", {"m": Figure(math.nan)}, {"m": Figure(0.4, 0.3, 0.5)}),
        Method("c", {}),
    )
    table = Comparison((METRIC,), methods)
    assert best_method(table, METRIC) is None
    assert figure_of(methods[2], METRIC).why == "not measured for this method"


@given(st.floats(-5, 5), st.floats(0, 5))
def test_excludes_zero_agrees_with_membership(low: float, width: float) -> None:
    high = low + width
    assert Figure(0.0, low, high).excludes_zero == (not low <= 0 <= high)


def test_excludes_zero_survives_tiny_ends() -> None:
    assert Figure(1e-200, 1e-200, 2e-200).excludes_zero


def test_groups_keep_the_order_given() -> None:
    groups = [(name, [m.key for m in metrics]) for name, metrics in comparison().groups()]
    assert groups == [("Retrieval", ["mAP"]), ("Counting", ["FPR"])]


def test_refuses_what_does_not_fit() -> None:
    with pytest.raises(PolyplinkError, match="metric 'm' occurs twice; name each one once"):
        Comparison((METRIC, METRIC), ())
    with pytest.raises(PolyplinkError, match="method 'a' occurs twice"):
        Comparison((METRIC,), (Method("a", {}), Method("a", {})))
    with pytest.raises(PolyplinkError, match=r"method 'a' gives 'q', which is no metric; .* m"):
        Comparison((METRIC,), (Method("a", {"q": Figure(1.0)}),))


def test_those_no_different_from_the_best_are_bold_together() -> None:
    methods = (
        Method("first", {"m": Figure(0.9)}),
        Method("b", {"m": Figure(0.5)}, {"m": Figure(-0.4, -0.5, -0.3)}),
        Method("c", {"m": Figure(0.8)}, {"m": Figure(-0.1, -0.3, 0.1)}),
    )
    told = Comparison((METRIC,), methods, {"m": ("first", "c")})
    assert bold_methods(told, METRIC) == ("first", "c")
    assert bold_methods(Comparison((METRIC,), methods, {"m": ()}), METRIC) == ()
    assert bold_methods(Comparison((METRIC,), methods), METRIC) == ()  # c is within chance
    assert bold_methods(Comparison((METRIC,), methods[:2]), METRIC) == ("first",)
