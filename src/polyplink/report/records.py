"""The records of a report: procedures, comparison of methods, training, provenance.

The verbs fill these records; the other modules here turn them into pages, tables and plots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from polyplink import __version__
from polyplink.associate.identities import Doubt
from polyplink.core.errors import PolyplinkError
from polyplink.core.text import brief
from polyplink.evaluate.intervals import Figure
from polyplink.evaluate.metric import Style

Values = tuple[float | None, ...]


@dataclass(frozen=True)
class Tracklet:
    """One tracklet in the report.

    Attributes:
        tracklet_id: Its name, unique in the procedure.
        first: First frame, from 0.
        last: Last frame, inclusive.
        predicted: The polyp that the association gave it.
        polyp_id: The true polyp, or None where unknown.
        sureness: Confidence of the assignment in [0, 1]; None or NaN where unknown.
        crop: One view, uint8 (height, width, 3) RGB, or None.
        bridged: Share of its frames without a box, in [0, 1].
    """

    tracklet_id: str
    first: int
    last: int
    predicted: str
    polyp_id: str | None = None
    sureness: float | None = None
    crop: NDArray[np.uint8] | None = field(default=None, repr=False)
    bridged: float = 0.0


@dataclass(frozen=True)
class Procedure:
    """One procedure: its tracklets and their predicted identities.

    Attributes:
        procedure_id: Its name.
        n_frames: Frames in the recording.
        tracklets: The tracklets, in any order.
        fps: Frames per second, or None: the time line then counts frames.
        n_polyps: True number of polyps, or None where unknown.
        similarity: float (n, n), as clustered, in the order of `tracklets`; or None.
        converged: Whether the clustering converged; None where it does not iterate.
        uncertain: Uncertain links to review; their rows are places in `tracklets`.
        alarms: Tracklets that were left out as false alarms; `sureness` is the probability that
            they show a polyp after all, and `predicted` means nothing.
        interval: Lowest and highest number of polyps, 90 %, or None.
        readings: Size and histology of each counted polyp as text, by its name.

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
    readings: Mapping[str, str] = field(default_factory=dict, repr=False)

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
        """Number of polyps counted: groups of tracklets."""
        return len({tracklet.predicted for tracklet in self.tracklets})

    @property
    def count_text(self) -> str:
        """The count with its interval, "5 (4 to 6)"; "5" where the interval holds nothing else."""
        low, high = self.interval or (0, 0)
        return str(self.n_counted) + (f" ({low} to {high})" if low < high else "")


@dataclass(frozen=True)
class FigureColumn:
    """One column of the comparison.

    Attributes:
        key: Name by which methods give their figures, unique ("FR, threshold").
        name: Column heading ("FR").
        group: Columns of one group are shown together ("Counting, threshold").
        ideal: The best possible value; the best method is the one nearest to it.
        meaning: One sentence for the hover title.
        title: The name spelled out ("fragmentation rate").
        unit: What the independent units are ("procedures", "polyps").
        style: "reference" where self-pairs count as true positives, as in the published
            programs; "published" where the papers' tools compute something else than the
            metric's name says; "honest" otherwise.
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
    """One row of the comparison.

    Attributes:
        name: The method.
        figures: Metric key to figure; an absent key is shown as missing.
        differences: Metric key to the paired difference, this method minus the first one;
            empty for the first.
    """

    __repr__ = brief

    name: str
    figures: Mapping[str, Figure]
    differences: Mapping[str, Figure] = field(default_factory=dict)

    def figure(self, metric: FigureColumn) -> Figure:
        """The figure of a metric; a missing one with the reason where it was not measured."""
        return self.figures.get(metric.key, NOT_MEASURED)

    def difference(self, metric: FigureColumn) -> Figure:
        """The paired difference to the first method; a missing figure where there is none."""
        return self.differences.get(metric.key, NOT_MEASURED)


@dataclass(frozen=True)
class Comparison:
    """Methods (rows) by metrics (columns).

    Attributes:
        metrics: The columns.
        methods: The rows; differences are to the first.
        bold: By metric key, the methods to print bold: the best and those that do not differ
            significantly from it in paired differences; none for an absent key.
        headline: Keys of the few metrics that a reader looks at first; none for all.
        note: What the reader must know to compare these figures with others on the page.
    """

    __repr__ = brief

    metrics: tuple[FigureColumn, ...]
    methods: tuple[Method, ...]
    bold: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    headline: tuple[str, ...] = ()
    note: str = ""

    @property
    def first_metrics(self) -> list[FigureColumn]:
        """The metrics of the headline, in its order; all of them where none are chosen."""
        by_key = {metric.key: metric for metric in self.metrics}
        return [by_key[key] for key in self.headline or by_key if key in by_key]

    def with_headline(self, names: Sequence[str]) -> "Comparison":
        """This comparison with the figures of some names or keys first; unchanged for no name.

        Raises:
            PolyplinkError: If there is no such figure.
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
        """Metrics by group, both in the order given."""
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
        title: Head line.
        dataset: Name of the data set.
        date: Day or time, as text.
        machine: What it ran on, without names of people or hosts.
        weights: Id of the weights, or None.
        crops: Key of the crops, or None.
        seed: Random seed, or None.
        simulated: Whether the data come from the simulator.
        version: Of polyplink.
        procedures: One section each.
        comparison: Methods by figures, or None.
        curves: Of the training, one value per epoch; None or NaN leaves a gap: "loss" and
            "validation_loss" (nats), "tau" (bag temperature of the curriculum, in ranks) and
            "purity" (share of bags whose members all show the anchor's polyp, in [0, 1]).
        best_epoch: Selected epoch, from 0; or None.
        operating_point: The setting that the count was made with, name to value, and its origin,
            in the order to show.
        settings: Name to value, in the order to show.
        seconds: Stage to seconds.
        notes: Notes, one sentence each.
        warnings: Warnings, one sentence each.
        basis: What the 90 % intervals were calibrated on, a sentence; "" where none is given.
        ask_below: Confidence below which every link is listed to be looked at; None where those
            are listed that could change the count.
    """

    title: str
    dataset: str
    date: str
    machine: str
    weights: str | None = None
    crops: str | None = None
    seed: int | None = None
    simulated: bool = False
    version: str = __version__
    procedures: tuple[Procedure, ...] = field(default=(), repr=False)
    comparison: Comparison | None = field(default=None, repr=False)
    curves: Mapping[str, Values] = field(default_factory=dict, repr=False)
    best_epoch: int | None = None
    operating_point: Mapping[str, float | str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: Mapping[str, float] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)
    basis: str = field(default="", repr=False)
    ask_below: float | None = field(default=None, repr=False)
