"""The records of a comparison: methods by figures, with what pages and tables print of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from polyplink.core.errors import PolyplinkError
from polyplink.core.text import short_repr
from polyplink.evaluate.intervals import Figure
from polyplink.evaluate.metric import Style


@dataclass(frozen=True)
class FigureColumn:
    """A column of the comparison.

    Attributes:
        key: Unique key of the figure in `Method.figures` ("FR, threshold").
        name: Column heading ("FR").
        group: Columns of one group are shown together ("Counting, threshold").
        ideal: The best possible value; the best method is the one nearest to it.
        meaning: One sentence for the hover title.
        title: The name spelled out ("fragmentation rate").
        unit: The independent units ("procedures", "polyps").
        style: "reference" if self-pairs count as true positives, as in the published programs;
            "published" if the papers' tools compute something else than the metric's name says;
            "honest" otherwise.
    """

    key: str
    name: str
    group: str
    ideal: float
    meaning: str = ""
    unit: str = "procedures"
    style: Style = "honest"
    title: str = ""


NOT_MEASURED = Figure(None, why="not measured for this method")


@dataclass(frozen=True)
class Method:
    """A row of the comparison.

    Attributes:
        name: The method.
        figures: Metric key -> figure; an absent key is shown as missing.
        differences: Metric key -> paired difference, this method minus the first one; empty for
            the first.
    """

    __repr__ = short_repr

    name: str
    figures: Mapping[str, Figure]
    differences: Mapping[str, Figure] = field(default_factory=dict)

    def figure(self, metric: FigureColumn) -> Figure:
        """The figure of a metric; `NOT_MEASURED` if there is none."""
        return self.figures.get(metric.key, NOT_MEASURED)

    def difference(self, metric: FigureColumn) -> Figure:
        """The paired difference to the first method; `NOT_MEASURED` if there is none."""
        return self.differences.get(metric.key, NOT_MEASURED)


@dataclass(frozen=True)
class Comparison:
    """Methods (rows) by metrics (columns).

    Attributes:
        metrics: The columns.
        methods: The rows; differences are relative to the first.
        bold: Metric key -> methods to print bold: the best and those that do not differ
            significantly from it in paired differences; none for an absent key.
        headline: Keys of the most important metrics; empty for all.
        note: Remark on comparing these figures with others on the page.
    """

    __repr__ = short_repr

    metrics: tuple[FigureColumn, ...]
    methods: tuple[Method, ...]
    bold: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    headline: tuple[str, ...] = ()
    note: str = ""

    @property
    def first_metrics(self) -> list[FigureColumn]:
        """The metrics of the headline, in its order; all metrics if it names none of them."""
        by_key = {metric.key: metric for metric in self.metrics}
        return [by_key[key] for key in self.headline if key in by_key] or [*self.metrics]

    def with_headline(self, names: Sequence[str]) -> "Comparison":
        """The comparison with a headline of some figures, by name or key; unchanged for no name.

        Raises:
            PolyplinkError: If no figure has one of the names.
        """
        chosen: list[str] = []
        for name in names:
            matching = [metric.key for metric in self.metrics if name in (metric.key, metric.name)]
            if not matching:
                raise PolyplinkError(
                    f"there is no figure {name!r}",
                    "--columns takes " + ", ".join(metric.key for metric in self.metrics),
                )
            chosen += matching
        return replace(self, headline=tuple(dict.fromkeys(chosen)) or self.headline)

    def groups(self) -> list[tuple[str, list[FigureColumn]]]:
        """Metrics by group, in the order of `metrics`."""
        grouped: dict[str, list[FigureColumn]] = {}
        for metric in self.metrics:
            grouped.setdefault(metric.group, []).append(metric)
        return list(grouped.items())

    @property
    def measured(self) -> bool:
        """Whether any figure of any method has a value."""
        figures = (figure for method in self.methods for figure in method.figures.values())
        return any(figure.value is not None for figure in figures)
