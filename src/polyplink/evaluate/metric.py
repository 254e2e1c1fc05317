"""The definition of a metric: its computation, and its display in tables, pages and plots.

A metric is declared once, next to its computation, and listed in `core.parts.METRICS`.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from polyplink.core.arrays import Floats
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.parts import METRICS

Task = Literal["retrieval", "reid", "counting", "tracking"]
Style = Literal["honest", "reference", "published"]

TASKS: dict[Task, str] = {
    "retrieval": "Retrieval",
    "reid": "Re-identification",
    "counting": "Counting",
    "tracking": "Tracking",
}
"""Title of every task of an evaluation, by its name."""
RETURNS: dict[Task, str] = {
    "retrieval": "return a number for every query, in the order of retrieval.best_rank",
    "counting": "return a number, or None where it is undefined",
    "tracking": "compute it from the arrays of its argument, such as counts.true",
}
"""What a metric's `value` returns, by its task."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure of an evaluation.

    Attributes:
        task: The task, a key of `TASKS`, which determines the argument of `value`.
        meaning: One-line explanation.
        value: For retrieval, maps a `Retrieval` to the value of every query (n,), averaged over
            queries. For counting, maps a `CountedProcedure` to a number, or None if undefined,
            averaged over procedures. For tracking, maps `TrackingCounts` (...,) to the value of
            each entry. None for re-identification, with pairs pooled by `reid_measures`.
        title: Name without abbreviation; "" if the name is none.
        ideal: The best value: the best method is the one nearest to it. For polyps and adenomas
            per colonoscopy, the true value is the ideal instead, if it is known.
        style: "reference" if self-pairs count as true positives, as in the published code;
            "published" if the papers' tools compute something else than the name says; "honest"
            otherwise.
        key: Name in evaluation.json, procedures and curves; "" if it is not included there.
        heading: Name in a group of published figures; "" for the usual name.
        over_all: For a rate of counting: average over all procedures, not only over those with two
            polyps or more.
        with_mean: For tracking: also show the mean over procedures, as in the thesis.
        needs: For counting: what a procedure has in which the metric is defined, for the reason of
            a missing figure, as in "no procedure with two polyps".

    Example:
        >>> METRICS["FR"].title, METRICS["FR"].ideal
        ('fragmentation rate', 1.0)
    """

    task: Task
    meaning: str
    value: Callable[[Any], Any] | None = None
    title: str = ""
    ideal: float = 1.0
    style: Style = "honest"
    key: str = ""
    heading: str = ""
    over_all: bool = False
    with_mean: bool = False
    needs: str = "a value of this metric"

    def __post_init__(self) -> None:
        """Refuse an unknown task: no table would show the metric."""
        find_named("task", self.task, dict.fromkeys(TASKS))


def metrics_of(task: Task, more: Sequence[str] = ()) -> dict[str, Metric]:
    """The metrics of a task by name: the built-in ones, then further ones.

    Args:
        task: A key of `TASKS`.
        more: Names of metrics of packages or files, of any task.
    """
    metrics = {name: METRICS.find(name) for name in (*METRICS, *more)}
    return {name: metric for name, metric in metrics.items() if metric.task == task}


def take_metrics(names: Sequence[str]) -> tuple[str, ...]:
    """Names of metrics of packages and files, as `METRICS.take` gives them.

    Raises:
        PolyplinkError: If there is no such metric, or one is of re-identification.
    """
    metric_names = METRICS.take(names)
    for name in metric_names:
        if name not in METRICS and METRICS.find(name).task == "reid":
            raise PolyplinkError(
                f"metric {name!r}: only built-in metrics can be of re-identification",
                "give it the task retrieval, counting or tracking",
            )
    return metric_names


def values_of(name: str, metric: Metric, argument: object, shape: tuple[int, ...]) -> Floats:
    """Compute a metric and check what it returns.

    Args:
        name: Name of the metric, for messages.
        metric: The metric.
        argument: The argument of its `value`.
        shape: Shape of the values: (n,) for the queries of a retrieval, () for a procedure.

    Returns:
        The values in float64; NaN where a single value is None or infinite.

    Raises:
        PolyplinkError: If the values are no numbers of this shape.
    """
    assert metric.value is not None
    with METRICS.running(name):  # a copy, because code of others may write to its argument
        values = metric.value(argument if name in METRICS else copy.deepcopy(argument))
    try:
        array = None if np.iscomplexobj(values) else np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = None
    if array is not None and array.shape == shape:
        return np.where(np.isinf(array), np.nan, array)
    kind = f"an array of shape {array.shape}" if array is not None and array.ndim else repr(values)
    expected = f"an array of shape {shape}" if shape else "one number"
    raise PolyplinkError(f"metric {name!r} returns {kind}, not {expected}", RETURNS[metric.task])


def ideal_of(figure: str, more: Sequence[str] = ()) -> float | None:
    """The ideal value of a figure of an evaluation; None if the figure belongs to no metric.

    Args:
        figure: Key of the figure: "mAP", "mAP (without own)", "threshold/FR",
            "tracking/links/HOTA mean".
        more: Names of metrics of packages or files.

    Example:
        >>> ideal_of("tracking/links/IDSW"), ideal_of("threshold/FR"), ideal_of("size/F1")
        (0.0, 1.0, None)
    """
    name = figure.rpartition("/")[2].removesuffix(" mean").removesuffix(WITHOUT_OWN)
    return METRICS.find(name).ideal if name in METRICS or name in more else None


WITHOUT_OWN = " (without own)"
"""Suffix of retrieval metrics without the other polyps of the query's procedure."""
