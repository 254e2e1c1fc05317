"""The records of a report: procedures, comparison of methods, training, provenance.

The commands fill these records; the other modules here turn them into pages, tables and plots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from polyplink import __version__
from polyplink.associate.identities import Doubt
from polyplink.associate.probes import Reading
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.text import brief
from polyplink.evaluate.intervals import Figure
from polyplink.evaluate.metric import Style

Values = tuple[float | None, ...]
Line = str | Message  # a sentence in the language of the page, or text to show verbatim
Fact = tuple[Line, float | Line | Sequence[Message]]  # name and value of a setting


@dataclass(frozen=True)
class Tracklet:
    """A tracklet in the report.

    Attributes:
        tracklet_id: Name, unique in the procedure.
        first: First frame, from 0.
        last: Last frame, inclusive.
        predicted: The counted polyp to which the tracklet is assigned.
        polyp_id: The true polyp, or None if unknown.
        confidence: Confidence of the assignment in [0, 1]; None or NaN if unknown.
        crop: One view, uint8 (height, width, 3) RGB, or None.
        bridged: Share of the frames without a box, in [0, 1].
    """

    tracklet_id: str
    first: int
    last: int
    predicted: str
    polyp_id: str | None = None
    confidence: float | None = None
    crop: NDArray[np.uint8] | None = field(default=None, repr=False)
    bridged: float = 0.0


@dataclass(frozen=True)
class Procedure:
    """A procedure in the report: its tracklets and their predicted identities.

    Attributes:
        procedure_id: Name of the procedure.
        n_frames: Frames in the recording.
        tracklets: The tracklets, in any order.
        fps: Frames per second; None if unknown, the time line then shows frame numbers.
        n_polyps: True number of polyps, or None if unknown.
        similarity: float (n, n), as clustered, in the order of `tracklets`; or None.
        converged: Whether the clustering converged; None if it does not iterate.
        uncertain: Uncertain links to review; their rows are indices of `tracklets`.
        alarms: Tracklets that were left out as false alarms; `confidence` is the probability that
            they do show a polyp, and `predicted` is meaningless.
        interval: Lowest and highest number of polyps, 90 %, or None.
        readings: Name of a counted polyp -> its size and histology.

    Raises:
        PolyplinkError: If a tracklet ends after the recording.
    """

    procedure_id: str
    n_frames: int
    tracklets: tuple[Tracklet, ...] = field(repr=False)
    fps: float | None = None
    n_polyps: int | None = None
    similarity: NDArray[np.floating] | None = field(default=None, repr=False)
    converged: bool | None = None
    uncertain: tuple[Doubt, ...] = field(default=(), repr=False)
    alarms: tuple[Tracklet, ...] = field(default=(), repr=False)
    interval: tuple[int, int] | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for tracklet in (*self.tracklets, *self.alarms):
            PolyplinkError.unless(
                tracklet.last < self.n_frames,
                f"procedure {self.procedure_id!r}: tracklet {tracklet.tracklet_id!r} ends at "
                f"frame {tracklet.last} of {self.n_frames}",
                "correct n_frames",
            )

    @property
    def n_counted(self) -> int:
        """Number of counted polyps, that is, groups of tracklets."""
        return len({tracklet.predicted for tracklet in self.tracklets})


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

    __repr__ = brief

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

    __repr__ = brief

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
            PolyplinkError.unless(
                bool(matching),
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


@dataclass(frozen=True)
class Report:
    """Everything on the page; empty or None parts are left out or marked as missing.

    Attributes:
        title: Headline.
        dataset: Name of the data set.
        date: Day or time, as text.
        machine: Description of the machine, without names of people or hosts.
        weights: Id of the weights, or None.
        crops: Key of the crops, or None.
        seed: Random seed, or None.
        simulated: Whether the data come from the simulator.
        version: Version of polyplink.
        procedures: The procedures, each with a section.
        comparison: Methods by figures, or None.
        curves: Training curves with one value per epoch; None or NaN leaves a gap: "loss" and
            "validation_loss" (nats), "tau" (bag temperature of the curriculum, in ranks) and
            "purity" (share of bags in which all members show the anchor's polyp, in [0, 1]).
        best_epoch: Selected epoch, from 0; or None.
        operating_point: Names and values of the setting used for the count, with its origin, in
            the order to show.
        settings: Name -> value, in the order to show.
        seconds: Stages, each with its seconds.
        notes: Notes, one sentence each.
        warnings: Warnings, one sentence each.
        basis: A sentence on the data on which the 90 % intervals were calibrated; "" without
            intervals.
        ask_below: Confidence below which a link is listed for review; None if the listed links are
            those that could change the count.
        language: Language of the page; sections that only an evaluation has are in English.
    """

    title: Line
    dataset: str
    date: str
    machine: Line
    weights: str | None = None
    crops: str | None = None
    seed: int | None = None
    simulated: bool = False
    version: str = __version__
    procedures: tuple[Procedure, ...] = field(default=(), repr=False)
    comparison: Comparison | None = field(default=None, repr=False)
    curves: Mapping[str, Values] = field(default_factory=dict, repr=False)
    best_epoch: int | None = None
    operating_point: tuple[Fact, ...] = field(default=(), repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: tuple[tuple[Line, float], ...] = field(default=(), repr=False)
    notes: tuple[Line, ...] = field(default=(), repr=False)
    warnings: tuple[Line, ...] = field(default=(), repr=False)
    basis: Line = field(default="", repr=False)
    ask_below: float | None = field(default=None, repr=False)
    language: str = "en"
