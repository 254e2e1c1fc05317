"""What a metric is: how its value comes about, and how every table, page and plot shows it.

A metric is declared once, beside its mathematics, and listed in `core.parts.METRICS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure of an evaluation.

    Attributes:
        task: What it measures, a key of `TASKS`; it decides what `value` is called with.
        meaning: One line for people.
        value: Of retrieval: from a `Retrieval`, the value of every query (n,), averaged over
            queries. Of counting: from a `CountedProcedure`, one number, None where undefined,
            averaged over procedures. Of tracking: from `TrackingCounts` (...,), the value of each
            entry. None for re-identification, whose pairs are pooled by `reid_measures`.
        title: Its name spelled out; "" for one that is a word itself.
        ideal: The best value: the best method is the one nearest to it. Of polyps and adenomas
            per colonoscopy the truth is the ideal instead, where it is known.
        style: "reference" where self-pairs count as true positives, as in the published programs;
            "published" where the papers' tools compute something else than its name says;
            "honest" otherwise.
        key: Its name in evaluation.json, procedures and curves; "" if it is not there.
        heading: Its name in a group of published figures; "" for its own.
        over_all: Of a rate of counting: its mean is over all procedures, not only over those with
            two polyps or more.
        with_mean: Of tracking: also its mean over procedures is shown, as in the thesis.

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


def metrics_of(task: Task, more: Sequence[str] = ()) -> dict[str, Metric]:
    """The metrics of a task by name: those built in, then further ones.

    Args:
        task: A key of `TASKS`.
        more: Names of metrics of packages or files, of any task.
    """
    named = {name: METRICS.find(name) for name in (*METRICS, *more)}
    return {name: metric for name, metric in named.items() if metric.task == task}


def ideal_of(figure: str, more: Sequence[str] = ()) -> float | None:
    """The ideal of a figure of an evaluation; None if it is of no metric.

    Args:
        figure: Its key: "mAP", "mAP (without own)", "threshold/FR", "tracking/links/HOTA mean".
        more: Names of metrics of packages or files.

    Example:
        >>> ideal_of("tracking/links/IDSW"), ideal_of("threshold/FR"), ideal_of("size/F1")
        (0.0, 1.0, None)
    """
    name = figure.rpartition("/")[2].removesuffix(" mean").removesuffix(WITHOUT_OWN)
    return METRICS.find(name).ideal if name in METRICS or name in more else None


WITHOUT_OWN = " (without own)"
"""Ends the names of retrieval metrics without the other polyps of the query's procedure."""
