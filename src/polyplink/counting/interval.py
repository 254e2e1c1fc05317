"""The 90 % interval of a count: its width, and whether a count has one.

The width is fitted on procedures with known polyps: split conformal prediction (Vovk et al. 2005)
over a ladder of nested intervals, the range of counts while the price of a polyp varies by a
growing factor, then the widest of these ranges plus one, two ... polyps on either side. The chosen
rung is the lowest one that holds the true number in 90 % of the procedures, and of others like
them. A second ladder is the count plus one, two ... polyps on either side; it is used if its
interval score is lower (Gneiting and Raftery 2007, eq. 43: the width, and a penalty on true numbers
outside), as where what is wrong does not depend on the price: polyps that the detector misses, and
false alarms. It is not used after a calibration on still images, because recordings may be longer
than those procedures, and a fixed number of polyps is too few for long ones.

If the links of a procedure are clear, its count does not vary with the price, and its interval is a
single number, which readers take as certain. Such intervals are widened by a polyp on either side,
unless the procedures show with 90 % confidence that at most one of ten is wrong: for example, none
of 22, or one of 38.

An interval holds the true number in 90 % of procedures like those of the calibration
(`OperatingPoint.spread`). For boxes of another detector, tracklets made with other settings,
recordings after a calibration on simulated procedures, or fewer frames per second, this is unknown
and often wrong; so it is for a procedure with more tracklets than those of the calibration
(`OperatingPoint.exceeded_by`). Then the count has no interval, and every link with a confidence
below `ASK_BELOW` is put up for review. In recordings after a calibration on still images, the upper
end is higher by `MISSED`, because models miss more polyps with a camera that they were not trained
on.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr

from polyplink.associate.clusterers import LearnedLinks
from polyplink.associate.identities import (
    ASK_BELOW,
    SPREADS,
    Calibration,
    OperatingPoint,
    Purpose,
    count_intervals,
    recorded_point,
)
from polyplink.core.arrays import Flags, Floats
from polyplink.core.artefacts import ADDED_LATER
from polyplink.core.messages import Message
from polyplink.core.text import many
from polyplink.data.origin import ANNOTATED, UNKNOWN, BoxesOrigin, BoxSource
from polyplink.encoders.weights import WeightsRecord
from polyplink.tracklets.settings import PrepareSettings, box_settings, with_options

COVERED = 0.9  # of procedures, by the intervals of their counts
MISSED = 1  # polyps more at the upper end of intervals in recordings, calibrated on stills
LEAST_RATE = 0.6  # frame rate of a count, as a share of the lowest of its calibration
MOST_NOT_DECODED = 0.1  # share of the frames of a procedure
ASK_BELOW_MESSAGE = Message("ask.below", {"share": round(100 * ASK_BELOW)})

Counts = npt.NDArray[np.int64]
Gap = Literal[
    "",
    "no labels",
    "not recorded",
    "boxes",
    "material",
    "frame rate",
    "no frame rate",
    "few",
    "purpose",
    "alarms kept",
    "tracks",
    "not decoded",
]


@dataclass(frozen=True)
class FittedInterval:
    """The interval of counts, as it is stored in the operating point.

    Attributes:
        spread: Factor of the price.
        margin: Polyps added to the range of counts within the spread, on either side.
        lone: Polyps added to an interval of a single number, on either side: 0 or 1.
        held: Share of the procedures with the true number in their interval, each interval
            fitted on the other patients.
    """

    spread: float
    margin: int
    lone: int
    held: float


@dataclass(frozen=True)
class Coverage:
    """How often the intervals of counts hold the true number.

    Attributes:
        procedures: Number of procedures with an interval and a known number of polyps.
        held: Number of intervals that hold the true number.
        single: Number of intervals that are a single number.
        single_wrong: Number of single numbers that are wrong.

    Example:
        >>> print(Coverage.of([(2, 2, 3), (1, 2, 2), (4, 4, 4)]))
        90 % intervals hold the true number in 2 of 3 procedures; of 2 single numbers 1 is wrong
    """

    procedures: int
    held: int
    single: int
    single_wrong: int

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int]]) -> Self:
        """The coverage over rows (true number, lowest, highest)."""
        single = [(true, low) for true, low, high in rows if low == high]
        held = sum(low <= true <= high for true, low, high in rows)
        return cls(len(rows), held, len(single), sum(true != low for true, low in single))

    def __str__(self) -> str:
        procedures = many(self.procedures, "procedure")
        held = f"90 % intervals hold the true number in {self.held} of {procedures}"
        if not self.single:
            return held
        verb = "is" if self.single_wrong == 1 else "are"
        return f"{held}; of {many(self.single, 'single number')} {self.single_wrong} {verb} wrong"


def fit_interval(
    links: Sequence[Floats],
    polyps: Sequence[int],
    setting: LearnedLinks,
    patients: Sequence[str] | None = None,
    *,
    any_length: bool = False,
) -> FittedInterval | None:
    """The interval of the lowest score that holds the true number in 90 % of procedures.

    Args:
        links: Link probabilities (n, n) of each procedure, by a model fitted on other patients.
        polyps: True number of polyps of each procedure.
        setting: Price of a polyp and tolerance.
        patients: Patient of each procedure; by default, each is of another.
        any_length: Whether the procedures to be counted may be shorter or longer than these: only
            the first ladder is used, because a fixed number of polyps is too few for long ones.

    Returns:
        The interval; None if there are too few procedures to guarantee any, or all are of one
        patient.
    """
    patient = np.asarray(range(len(polyps)) if patients is None else patients, dtype=str)
    rank = math.ceil(COVERED * (len(links) + 1))
    if rank > len(links) or len(set(patient.tolist())) < 2:
        return None
    ends = [count_intervals(P, setting, SPREADS) for P in links]
    low = np.array([bound for bound, _ in ends], dtype=np.int64)  # procedures, rungs
    high = np.array([bound for _, bound in ends], dtype=np.int64)
    true = np.asarray(polyps, dtype=np.int64)
    ladders = [_Ladder.of(low, high, true)]
    if not any_length:
        ladders.append(_Ladder.of(low[:, :1], high[:, :1], true))

    def best(rows: Flags) -> _Ladder:
        return min(ladders, key=lambda ladder: ladder.score(rows))

    everything = np.ones(len(true), dtype=np.bool_)
    ladder = best(everything)

    # Each interval fitted on the other patients, the choice of the ladder included.
    held = []
    for i in range(len(true)):
        others = patient != patient[i]
        fitted = best(others)
        held.append(fitted.holds[i, fitted.rung(others)])

    # One-sided interval of Clopper and Pearson (1934): 1 unless so few errors among the single
    # numbers would be unlikely if more than one in ten were wrong.
    rung = ladder.rung(everything)
    single = ladder.low[:, rung] == ladder.high[:, rung]
    n_single, n_wrong = int(single.sum()), int((single & ~ladder.holds[:, rung]).sum())
    lone = int(bdtr(n_wrong, n_single, 1 - COVERED) > 1 - COVERED)
    spread = float(SPREADS[min(rung, ladder.spreads - 1)])
    margin = max(rung + 1 - ladder.spreads, 0)
    return FittedInterval(spread, margin, lone, float(np.mean(held)))


@dataclass(frozen=True)
class _Ladder:
    """Nested intervals of each procedure, from the narrowest to one that holds the true number.

    Attributes:
        low: Lowest number (p, r) of each of p procedures at each of r rungs.
        high: Highest number (p, r).
        outside: Distance of the true number from the interval (p, r), in polyps; 0 inside.
        spreads: Number of rungs at which the price varies; the others add polyps on either side.
    """

    low: Counts
    high: Counts
    outside: Counts
    spreads: int

    @classmethod
    def of(cls, low: Counts, high: Counts, true: Counts) -> Self:
        """The ladder of intervals under rising spreads, then wider by one, two ... polyps.

        Args:
            low: Lowest number (p, spreads).
            high: Highest number (p, spreads).
            true: True number (p,).
        """
        column, spreads = true[:, None], low.shape[1]
        furthest = int(np.maximum(low[:, -1:] - column, column - high[:, -1:]).max(initial=0))
        margins = np.arange(1, max(furthest, 1) + 1)
        low = np.concatenate([low, np.maximum(low[:, -1:] - margins, 0)], axis=1)
        high = np.concatenate([high, high[:, -1:] + margins], axis=1)
        outside = np.maximum(np.maximum(low - column, column - high), 0)
        return cls(low, high, outside, spreads)

    @property
    def holds(self) -> Flags:
        """Whether the interval holds the true number (p, r)."""
        return np.asarray(self.outside == 0)

    def rung(self, rows: Flags) -> int:
        """The lowest rung that suffices for procedures like those of the rows (p,)."""
        holds = self.holds[rows]  # each row False up to a rung, then True
        p, rungs = holds.shape
        rank = min(math.ceil(COVERED * (p + 1)), p)
        lowest = np.where(holds.any(axis=1), holds.argmax(axis=1), rungs - 1)
        return int(np.sort(lowest)[rank - 1])

    def score(self, rows: Flags) -> float:
        """Mean interval score of the rows (p,) at their rung, in polyps; lower is better."""
        rung = self.rung(rows)
        widths = (self.high - self.low)[rows, rung]
        return float((widths + 2 / (1 - COVERED) * self.outside[rows, rung]).mean())


@dataclass(frozen=True)
class Cover:
    """Whether a count has 90 % intervals, and the data of their calibration.

    Attributes:
        source: Source of the counted boxes.
        calibration: Data of the operating point's calibration; None if none is recorded.
        gap: Why the count has no interval; "" if it has one. "no labels": the weights were not
            calibrated; "not recorded": the weights, of an earlier version, do not record their
            calibration; "boxes", "material": they were calibrated on other ones; "frame rate": on
            recordings with more frames per second; "no frame rate": that of these is not known;
            "few": they were calibrated on too few procedures; "purpose": the interval is for the
            purpose "count", but another was requested; "alarms kept": it is for counts without the
            false alarms counted here; "tracks": it is for tracklets made with other settings; "not
            decoded": more than `MOST_NOT_DECODED` of the frames of a procedure do not decode.
        changed: The settings of tracklets that differ.
        not_decoded: Largest share of the frames of a procedure that do not decode.
    """

    source: BoxSource
    calibration: Calibration | None
    gap: Gap
    changed: tuple[Message, ...] = ()
    not_decoded: float = field(default=0.0, metadata=ADDED_LATER)

    @property
    def has_intervals(self) -> bool:
        """Whether the count has intervals."""
        return not self.gap

    @property
    def basis(self) -> Message | None:
        """The data of the intervals' calibration; None without intervals."""
        if self.calibration is None or not self.has_intervals:
            return None
        values = self._calibration_values()
        if self._n_missed:
            return Message("cover.stills", {**values, "missed": self._n_missed})
        return Message("cover.given", values)

    @property
    def _n_missed(self) -> int:
        """`MISSED` if recordings are counted after a calibration on still images, or else 0."""
        if self.calibration is None:
            return 0
        materials = (self.calibration.material, self.source.material)
        return MISSED if materials == ("stills in motion", "recordings") else 0

    @property
    def _calibrated_rate(self) -> float | None:
        """Lowest frame rate of the calibration; None if unknown."""
        return None if self.calibration is None else self.calibration.fps

    def covers_rate(self, fps: float) -> bool:
        """Whether counts at a frame rate have intervals, if others of the source have."""
        return not _rate_gap(self._calibrated_rate, fps)

    def basis_of(self, intervals: Iterable[object]) -> Message | None:
        """`basis`, unless all intervals of procedures (or their low ends) are None."""
        return self.basis if any(interval is not None for interval in intervals) else None

    def warnings(self, point: OperatingPoint) -> list[Message]:
        """Why the count has no interval, and how to get one; empty if it has one."""
        if self.has_intervals:
            return []
        ask = Message("ask.all") if point.links is None else ASK_BELOW_MESSAGE
        values: dict[str, Any] = {"ask": ask, "todo": self._todo(), "why": point.origin}
        values |= {"counted": self._counted(), "changed": self.changed}
        values |= {"share": round(100 * self.not_decoded)}
        values |= self._calibration_values() | self._frame_rates()
        return [Message(f"cover.{self.gap}", values)]

    @staticmethod
    def of_earlier_version() -> Message:
        """The warning about a count of an earlier version, without a record of its calibration."""
        return Message("cover.old count", {"ask": ASK_BELOW_MESSAGE})

    def _calibration_values(self) -> dict[str, Message]:
        calibration = self.calibration
        if calibration is None:
            return {}
        material = Message(f"material.{calibration.material}", {"n": calibration.procedures})
        return {"material": material, "boxes": boxes_message(calibration)}

    def _frame_rates(self) -> dict[str, float]:
        """The frame rates of the counted procedures and of the calibration, as far as known."""
        rates = {"rate": self.source.fps, "calibrated": self._calibrated_rate}
        return {name: round(fps, 2) for name, fps in rates.items() if fps is not None}

    def _counted(self) -> Message:
        """The source of the counted boxes; says so if another detector has the same name."""
        name = self.source.detector
        if self.calibration is not None and name and name == self.calibration.detector:
            return Message("boxes.named", {"name": name})
        return boxes_message(self.source)

    def _todo(self) -> Message:
        kinds = {ANNOTATED: "todo.annotated", UNKNOWN: "todo.name"}
        return Message(kinds.get(self.source.boxes, "todo.detector"))

    def applied(self, point: OperatingPoint) -> OperatingPoint:
        """The operating point with the interval of the count, or without one."""
        if not self.has_intervals:
            return point.without_interval()
        return replace(point, missed=self._n_missed)


def boxes_message(source: BoxSource) -> Message:
    """The source of the boxes, as a message."""
    if source.boxes == ANNOTATED:
        return Message("boxes.annotated")
    if source.boxes == UNKNOWN:
        return Message("boxes.unknown")
    return Message("boxes.detector", {"name": source.detector or source.boxes})


def cover_of(
    point: OperatingPoint,
    source: BoxSource,
    *,
    purpose: Purpose = "count",
    keep_alarms: bool = False,
    changed: tuple[Message, ...] = (),
    not_decoded: float = 0.0,
) -> Cover:
    """Whether an operating point has intervals for boxes of a source.

    Args:
        point: The operating point.
        source: Source of the boxes.
        purpose: Purpose of the count; intervals are calibrated for "count".
        keep_alarms: Whether tracklets that the weights classify as false alarms are counted.
        changed: The settings of tracklets that differ from those of the calibration.
        not_decoded: Largest share of the frames of a procedure that do not decode.
    """
    calibration, gap = point.calibration, _gap(point, source)
    if not gap and purpose != "count":
        gap = "purpose"
    if not gap and keep_alarms and point.alarms is not None:
        gap = "alarms kept"
    if not gap and changed:
        gap = "tracks"
    if not gap and not_decoded > MOST_NOT_DECODED:
        gap = "not decoded"
    return Cover(source, calibration, gap, changed, not_decoded)


def point_for_boxes(
    record: WeightsRecord,
    source: BoxSource,
    settings: PrepareSettings,
    origin: BoxesOrigin | None,
    *,
    purpose: Purpose,
    keep_alarms: bool,
    not_decoded: float = 0.0,
) -> tuple[OperatingPoint, Cover]:
    """The operating point that weights record, for a count of boxes, and whether it has intervals.

    Args:
        record: The record of the weights.
        source: Source of the boxes.
        settings: Settings of the counted tracklets.
        origin: The detector of the boxes; its record states thresholds of tracks.
        purpose: Purpose for which the price of a polyp is chosen.
        keep_alarms: As for `cover_of`.
        not_decoded: As for `cover_of`.
    """
    point = recorded_point(record.operating).for_purpose(purpose)
    annotated = source.boxes == ANNOTATED
    counted = box_settings(settings, annotated=annotated)
    calibrated = box_settings(with_options(record.prepare, {}, origin), annotated=annotated)
    if point.calibration is not None and point.calibration.tracklets is not None:
        calibrated |= point.calibration.tracklets
    changed = tuple(
        Message(
            "cover.setting",
            {
                "name": f"--{name.replace('_', '-')}",
                "value": value,
                "calibrated": calibrated[name],
            },
        )
        for name, value in counted.items()
        if value != calibrated[name]
    )
    cover = cover_of(
        point,
        source,
        purpose=purpose,
        keep_alarms=keep_alarms,
        changed=changed,
        not_decoded=not_decoded,
    )
    return cover.applied(point), cover


def _gap(point: OperatingPoint, source: BoxSource) -> Gap:
    """Why the boxes of a source are not covered, "" if they are."""
    calibration = point.calibration
    if calibration is None:
        return "not recorded" if point.prices else "no labels"
    if calibration.boxes != source.boxes or source.boxes == UNKNOWN:
        return "boxes"
    if _real(calibration.material) != _real(source.material) or "mixed" in (
        calibration.material,
        source.material,
    ):
        return "material"
    return "few" if point.spread is None else _rate_gap(calibration.fps, source.fps)


def _rate_gap(calibrated: float | None, fps: float | None) -> Gap:
    """Why a frame rate is not covered by that of the calibration, "" if it is."""
    if calibrated is None:  # weights of an earlier version, or of recordings without a rate
        return ""
    if fps is None:
        return "no frame rate"
    return "frame rate" if fps < LEAST_RATE * calibrated else ""


def _real(material: str) -> bool:
    """Whether a material shows patients: recordings, or stills in motion."""
    return material != "simulated procedures"
