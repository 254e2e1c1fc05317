"""The result of a count, as count.json stores it and everything that shows a count reads it.

The report, the review and its hand-off, the page of a running procedure, notebooks and `--json`
take number, interval, links to review and warnings from here, so that none of them omits one. What
only the report draws (crops, similarities, true polyps) is in `report.contents`, and never stored.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AliasChoices, Field

from polyplink import __version__
from polyplink.associate.identities import OperatingPoint, recorded_point
from polyplink.core.artefacts import ADDED_LATER, read_json, read_plain, to_plain
from polyplink.core.messages import Message
from polyplink.core.text import short_repr
from polyplink.counting.interval import Cover, Coverage
from polyplink.tracklets.settings import PrepareSettings

FILE = "count.json"
SURE = 0.98  # probability of showing a polyp from which a view raises no question


@dataclass(frozen=True)
class CountedTracklet:
    """A tracklet in a count: one view of a polyp, or a false alarm.

    Attributes:
        tracklet_id: Id of the tracklet.
        first_frame: First frame, from 0.
        last_frame: Last frame, inclusive.
        shows_polyp: Probability that it shows a polyp; None if unknown.
        bridged: Share of its frames without a box.
        confidence: Confidence of its link; None if unknown, and for a false alarm. Earlier versions
            wrote it as `sureness`.
        in_doubt: Whether a review asks if this false alarm shows a polyp.
    """

    tracklet_id: str
    first_frame: int = 0
    last_frame: int = 0
    shows_polyp: float | None = None
    bridged: float = 0.0
    confidence: Annotated[
        float | None, Field(validation_alias=AliasChoices("confidence", "sureness"))
    ] = None
    in_doubt: bool = field(default=False, metadata=ADDED_LATER)


@dataclass(frozen=True)
class CountedPolyp:
    """A polyp, with size and histology if the weights have probes.

    Attributes:
        polyp: Its name in the procedure.
        tracklets: Its views.
        size_mm: Estimated size, mm.
        size_low_mm: Lower end of the size's 90 % interval, mm.
        size_high_mm: Upper end of the size's 90 % interval, mm.
        adenoma: Probability that it is an adenoma.
    """

    polyp: str
    tracklets: tuple[CountedTracklet, ...]
    size_mm: float | None = None
    size_low_mm: float | None = None
    size_high_mm: float | None = None
    adenoma: float | None = None

    @property
    def doubt(self) -> float | None:
        """The probability that it is a polyp, if this is a question to review, see `doubt_of`."""
        return doubt_of(tracklet.shows_polyp for tracklet in self.tracklets)


def doubt_of(chances: Iterable[float | None]) -> float | None:
    """Probability that a counted polyp is one, if it is low enough to be reviewed; else None.

    It is that of the view that shows a polyp most probably: views of one false alarm are alike.

    Args:
        chances: Probability that each of its views shows a polyp; None where unknown, as for
            annotated boxes, which raise no question.

    Example:
        >>> doubt_of([0.7, 0.9]), doubt_of([0.7, 0.99]), doubt_of([0.7, None])
        (0.9, None, None)
    """
    known = [1.0 if chance is None else chance for chance in chances]
    highest = max(known, default=1.0)
    return highest if highest < SURE else None


@dataclass(frozen=True)
class CountedQuestion:
    """A link to review: do two groups of tracklets show the same polyp?

    Attributes:
        members: Ids of the tracklets of one group.
        others: Ids of the tracklets of the other.
        joined: Whether they were counted as one polyp.
        probability_of_one_polyp: Probability that they show one.
    """

    members: tuple[str, ...]
    others: tuple[str, ...]
    joined: bool
    probability_of_one_polyp: float

    @property
    def confidence(self) -> float:
        """Probability that the count is right about the link."""
        p = self.probability_of_one_polyp
        return p if self.joined else 1.0 - p


@dataclass(frozen=True)
class CountedProcedure:
    """The count of one procedure.

    Attributes:
        procedure_id: Id of the procedure.
        polyps: Number of polyps counted.
        low: Lowest number of polyps, 90 %; None without an interval.
        high: Highest number of polyps, 90 %; None without an interval.
        tracklets: Number of linked tracklets.
        false_alarms: Number of tracklets left out as false alarms.
        converged: Whether the clustering converged; None without tracklets.
        groups: The polyps.
        alarms: The false alarms.
        to_look_at: The links to review.
    """

    procedure_id: str
    polyps: int = 0
    low: int | None = None
    high: int | None = None
    tracklets: int = 0
    false_alarms: int = 0
    converged: bool | None = None
    groups: tuple[CountedPolyp, ...] = ()
    alarms: tuple[CountedTracklet, ...] = ()
    to_look_at: tuple[CountedQuestion, ...] = ()

    @property
    def doubtful(self) -> list[CountedPolyp]:
        """The polyps that may be false alarms."""
        return [polyp for polyp in self.groups if polyp.doubt is not None]

    @property
    def doubtful_alarms(self) -> list[CountedTracklet]:
        """The false alarms that may be polyps."""
        return [alarm for alarm in self.alarms if alarm.in_doubt]

    @property
    def questions(self) -> int:
        """Number of links, polyps and false alarms to review."""
        return len(self.to_look_at) + len(self.doubtful) + len(self.doubtful_alarms)


@dataclass(frozen=True)
class Count:
    """The contents of count.json.

    Attributes:
        weights: Id of the weights.
        crops: Key of the crops.
        tracklets: Settings of the tracklets.
        operating_point: The operating point of the links, without vector coefficients.
        procedures: The procedures.
        cover: Whether the count has intervals, and the data of their calibration; None in counts of
            earlier versions.
        messages: Warnings about the count, which can be shown in any language.
        warnings: The same warnings in English.
        polyplink: Version of polyplink that made the count.
        weights_file: The weights file, relative to the folder of the count.
        data: The data folder, relative to the folder of the count.
        purpose: Purpose of the price of a polyp; None for weights without prices.
        lost_boxes: Number of all `boxes`, and of those that `min_length`, `min_seconds` and `low`
            left out.
        polyps: Number of polyps in all procedures.
        false_alarms: Number of tracklets left out as false alarms in all procedures.
        against_truth: Figures against annotated boxes, if these were given.
        coverage: How often the intervals hold the true number; None if unknown.
        models: The detector and the encoder: kind, name, sha256, and whether it is shipped.
    """

    __repr__ = short_repr

    weights: str
    crops: str
    tracklets: PrepareSettings
    operating_point: Mapping[str, Any]
    procedures: tuple[CountedProcedure, ...]
    cover: Cover | None = None
    messages: tuple[Message, ...] = ()
    warnings: tuple[str, ...] = ()
    polyplink: str = __version__
    weights_file: str = ""
    data: str | None = None
    purpose: str | None = None
    lost_boxes: Mapping[str, int] = field(default_factory=dict)
    polyps: int = 0
    false_alarms: int = 0
    against_truth: Mapping[str, Any] | None = None
    models: tuple[Mapping[str, Any], ...] = ()
    coverage: Coverage | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the count of a folder; counts of earlier versions have no intervals.

        Raises:
            PolyplinkError: If count.json was not written by `polyplink count`.
        """
        path = folder / FILE
        problem = f"{path} was not written by `polyplink count`"
        read = read_plain(cls, read_json(path), problem, "count again")
        try:
            for message in read.messages:
                message.text()
        except KeyError:  # another version had another kind or other values
            return replace(read, messages=tuple(map(Message.of, read.warnings)))
        return read

    @property
    def all_messages(self) -> tuple[Message, ...]:
        """The warnings: that the count broke off, then the reason for a missing interval."""
        if self.cover is None:  # an earlier version, which had no messages either
            lines = (Message.of(line) for line in self.warnings)
            return (Cover.of_earlier_version(), *lines)
        return self.messages

    @property
    def basis(self) -> Message | None:
        """The data of the intervals' calibration, as a message; None if no procedure has one."""
        if self.cover is None:
            return None
        return self.cover.basis_of(procedure.low for procedure in self.procedures)

    @property
    def questions(self) -> int:
        """Number of links, polyps and false alarms to review in all procedures."""
        return sum(procedure.questions for procedure in self.procedures)

    @property
    def point(self) -> OperatingPoint:
        """The operating point without false alarms; earlier counts have no interval.

        The interval is of this version, as `basis` describes it.
        """
        record = {k: v for k, v in self.operating_point.items() if k != "alarms"}
        point = recorded_point(record)
        return point.without_interval() if self.cover is None else self.cover.applied(point)

    def plain(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        fields: dict[str, Any] = to_plain(self)
        if self.against_truth is None:
            del fields["against_truth"]
        return fields
