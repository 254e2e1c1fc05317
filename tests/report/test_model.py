import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate import Figure
from polyplink.report import (
    Comparison,
    Method,
    Metric,
    Procedure,
    Provenance,
    Report,
    Tracklet,
    UncertainLink,
)
from tests.report.sample import comparison, procedure

METRIC = Metric("m", "m", "g", ideal=1.0)


def test_polyps_are_counted_as_groups_of_tracklets() -> None:
    assert procedure().n_counted == 3
    assert Procedure("p", 10, ()).n_counted == 0


@pytest.mark.parametrize(("first", "last"), [(5, 4), (-1, 3)])
def test_frames_in_the_wrong_order_are_refused(first: int, last: int) -> None:
    with pytest.raises(PolyplinkError, match=f"'t': frames {first} to {last}; give 0 <= first"):
        Tracklet("t", first, last, "x")


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((4, 4, 3), "float32"), ((4, 4), "uint8"), ((4, 4, 4), "uint8"), ((0, 4, 3), "uint8")],
)
def test_a_crop_must_be_an_rgb_image(shape: tuple[int, ...], dtype: str) -> None:
    with pytest.raises(PolyplinkError, match=r"give uint8 \(height, width, 3\)"):
        Tracklet("t", 0, 1, "x", crop=np.zeros(shape, dtype))


def test_a_procedure_must_be_consistent() -> None:
    good = procedure()
    with pytest.raises(PolyplinkError, match="'p0': tracklet 't0' occurs twice"):
        replace(good, tracklets=(good.tracklets[0],) * 2, similarity=None, uncertain=())
    with pytest.raises(PolyplinkError, match="'t4' ends at frame 1200 of 1200; correct n_frames"):
        replace(good, n_frames=1200)
    with pytest.raises(PolyplinkError, match=r"similarity of shape \(4, 5\) for 5 tracklets"):
        replace(good, similarity=np.zeros((4, 5)))
    with pytest.raises(PolyplinkError, match="a link names tracklet 'q', which is not there"):
        replace(good, uncertain=(UncertainLink(("t0",), ("q",), True, 0.5),))
    with pytest.raises(PolyplinkError, match="procedure 'p0' occurs twice"):
        Report("r", Provenance("d", "today", "m"), (good, good))


def test_an_uncertain_link_needs_two_sides_and_a_probability() -> None:
    with pytest.raises(PolyplinkError, match="empty side"):
        UncertainLink((), ("t0",), True, 0.5)
    for sureness in (1.5, -0.1, float("nan")):
        with pytest.raises(PolyplinkError, match="give a probability"):
            UncertainLink(("t1",), ("t0",), True, sureness)


def table(*methods: tuple[float, tuple[float, float] | None], ideal: float = 1.0) -> Comparison:
    """Methods "0", "1", ... with a value and the interval of the difference to the first."""
    metric, first = replace(METRIC, ideal=ideal), methods[0][0]
    rows = (
        Method(
            str(i),
            {"m": Figure(value)},
            {} if ends is None else {"m": Figure(value - first, *ends)},
        )
        for i, (value, ends) in enumerate(methods)
    )
    return Comparison((metric,), tuple(rows))


@pytest.mark.parametrize(
    ("methods", "ideal", "bold"),
    [
        ([(0.5, None), (0.7, (0.1, 0.3))], 1.0, ("1",)),
        ([(0.5, None), (0.7, (-0.1, 0.4))], 1.0, ()),  # not significant
        ([(0.5, None), (0.7, (0.0, 0.4))], 1.0, ()),
        ([(0.7, None), (0.5, (-0.3, -0.1))], 1.0, ("0",)),
        ([(0.2, None), (0.05, (-0.2, -0.1))], 0.0, ("1",)),  # nearest to the ideal, not largest
        ([(0.8, None), (1.5, (0.5, 0.9))], 1.0, ("0",)),
        ([(0.9, None), (0.5, (-0.5, -0.3)), (0.8, (-0.3, 0.1))], 1.0, ()),  # must beat them all
        ([(0.5, None), (math.nan, (0.3, 0.5))], 1.0, ()),  # a missing figure does not compete
    ],
)
def test_the_significantly_best_method_is_bold(
    methods: list[tuple[float, tuple[float, float] | None]], ideal: float, bold: tuple[str, ...]
) -> None:
    found = table(*methods, ideal=ideal)
    assert found.bold_methods(found.metrics[0]) == bold


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=5), st.data())
def test_a_bold_method_differs_significantly(values: list[float], data: st.DataObject) -> None:
    ends = st.tuples(st.floats(-1, 1), st.floats(-1, 1)).map(sorted).map(tuple)
    gaps = [None, *(data.draw(ends) for _ in values[1:])]
    found = table(*zip(values, gaps, strict=True))  # type: ignore[arg-type]
    for name in found.bold_methods(METRIC):
        compared = [gap for gap in gaps if gap] if name == "0" else [gaps[int(name)]]
        assert all(gap is not None and not gap[0] <= 0 <= gap[1] for gap in compared)
        assert abs(values[int(name)] - 1) == min(abs(value - 1) for value in values)


def test_bold_methods_that_were_given_are_kept() -> None:
    found = table((0.9, None), (0.5, (-0.5, -0.3)))
    assert replace(found, bold={"m": ("0", "1")}).bold_methods(METRIC) == ("0", "1")
    assert replace(found, bold={"m": ()}).bold_methods(METRIC) == ()


def test_metrics_keep_their_order_and_missing_figures_say_why() -> None:
    groups = [(name, [m.key for m in metrics]) for name, metrics in comparison().groups()]
    assert groups == [("Retrieval", ["mAP"]), ("Counting", ["FPR"])]
    assert Method("c", {}).figure(METRIC).why == "not measured for this method"


def test_a_comparison_must_be_consistent() -> None:
    with pytest.raises(PolyplinkError, match="metric 'm' occurs twice; name each one once"):
        Comparison((METRIC, METRIC), ())
    with pytest.raises(PolyplinkError, match="method 'a' occurs twice"):
        Comparison((METRIC,), (Method("a", {}), Method("a", {})))
    with pytest.raises(PolyplinkError, match=r"method 'a' gives 'q', which is no metric; .* m"):
        Comparison((METRIC,), (Method("a", {"q": Figure(1.0)}),))
