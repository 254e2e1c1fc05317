"""Figures of methods side by side: values, intervals, paired differences, and which is best."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from polyplink.core.errors import PolyplinkError

Style = Literal["honest", "reference", "published"]


@dataclass(frozen=True)
class Figure:
    """One number with its 95 % interval.

    Attributes:
        value: The estimate; None or NaN where it cannot be given.
        low: Lower end of the 95 % interval, or None.
        high: Upper end of the 95 % interval, or None.
        units: Number of independent units (procedures, polyps) the figure rests on, or None.
        why: Why the value is missing; shown instead of it.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    units: int | None = None
    why: str = ""

    @property
    def known(self) -> bool:
        """Whether there is a finite value to show."""
        return self.value is not None and math.isfinite(self.value)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval is there and lies wholly on one side of zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Metric:
    """One column of the comparison.

    Attributes:
        key: Name by which methods give their figures, unique ("FR, threshold").
        name: What the column is headed ("FR").
        group: Columns of one group stand together ("Counting, threshold").
        ideal: The best possible value; the best method is the one nearest to it.
        meaning: One sentence for the hover title.
        unit: What the independent units are ("procedures", "polyps").
        style: "reference" where self-pairs count as true positives, as in the published
            programs; "published" where the papers' tool chain computes something else than the
            figure's name says; "honest" where neither is so.
    """

    key: str
    name: str
    group: str
    ideal: float
    meaning: str = ""
    unit: str = "procedures"
    style: Style = "honest"


@dataclass(frozen=True)
class Method:
    """One row of the comparison.

    Attributes:
        name: The method.
        figures: Metric key to figure; an absent key is shown as missing.
        differences: Metric key to the paired difference, this method minus the first one;
            empty for the first.
        note: One sentence on what the row is (weights, training set).
    """

    name: str
    figures: Mapping[str, Figure]
    differences: Mapping[str, Figure] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Methods (rows) by metrics (columns).

    Attributes:
        metrics: The columns.
        methods: The rows; differences are to the first.
        alike: By metric key, the methods to print bold: the best and those no different from it
            in pairs. An absent key leaves it to `best_method`.

    Raises:
        PolyplinkError: If a name occurs twice, or a method gives a figure of no metric.
    """

    metrics: tuple[Metric, ...]
    methods: tuple[Method, ...]
    alike: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = [metric.key for metric in self.metrics]
        names = [method.name for method in self.methods]
        for what, values in (("metric", keys), ("method", names)):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise PolyplinkError(f"{what} {twice[0]!r} occurs twice", "name each one once")
        for method in self.methods:
            strange = sorted({*method.figures, *method.differences} - set(keys))
            if strange:
                raise PolyplinkError(
                    f"method {method.name!r} gives {strange[0]!r}, which is no metric",
                    f"give one of: {', '.join(keys)}",
                )

    def groups(self) -> list[tuple[str, list[Metric]]]:
        """Metrics by group, both in the order given."""
        grouped: dict[str, list[Metric]] = {}
        for metric in self.metrics:
            grouped.setdefault(metric.group, []).append(metric)
        return list(grouped.items())


ABSENT = Figure(None, why="not measured for this method")


def figure_of(method: Method, metric: Metric) -> Figure:
    """The method's figure, or a missing one with the reason."""
    return method.figures.get(metric.key, ABSENT)


def best_method(comparison: Comparison, metric: Metric) -> str | None:
    """Name of the method to print bold in a column, if the data allow one.

    The best is the value nearest to the ideal. It is named only where the paired differences
    bear it out: the best one's difference to the first method excludes zero or, where the first
    is itself the best, every other method's difference does.

    Args:
        comparison: All methods; the differences are to the first.
        metric: The column.

    Returns:
        The method's name, or None where nobody is better beyond chance.
    """
    distance = {
        method.name: abs(figure.value - metric.ideal)
        for method in comparison.methods
        if (figure := figure_of(method, metric)).known and figure.value is not None
    }
    if len(distance) < 2:
        return None
    best = min(distance, key=lambda name: distance[name])
    first = comparison.methods[0].name
    against = [
        method
        for method in comparison.methods[1:]
        if method.name == best or (best == first and method.name in distance)
    ]
    borne_out = all(method.differences.get(metric.key, ABSENT).excludes_zero for method in against)
    return best if borne_out else None


def bold_methods(comparison: Comparison, metric: Metric) -> tuple[str, ...]:
    """Names of the methods to print bold in a column, as the papers do.

    The best and those no different from it where that was worked out, see `Comparison.alike`;
    else the one that `best_method` names.
    """
    if metric.key in comparison.alike:
        return comparison.alike[metric.key]
    best = best_method(comparison, metric)
    return () if best is None else (best,)
