import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate import Figure
from polyplink.report import Comparison, Method, Metric, Procedure
from tests.report.sample import comparison, procedure

METRIC = Metric("m", "m", "g", ideal=1.0)


def test_polyps_are_counted_as_groups_of_tracklets() -> None:
    assert procedure().n_counted == 3
    assert Procedure("p", 10, ()).n_counted == 0


def test_a_tracklet_must_end_within_the_recording() -> None:
    with pytest.raises(PolyplinkError, match="'t4' ends at frame 1200 of 1200; correct n_frames"):
        replace(procedure(), n_frames=1200)


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
