"""Whether a count has a 90 % interval: only where it was calibrated on boxes like those counted.

An interval holds the true number in 90 % of procedures like those that it was calibrated on
(`OperatingPoint.spread`). On the boxes of another detector, or on recordings where it was
calibrated on simulated procedures, that is not known, and often wrong. There no interval is given,
and every link below `ASK_BELOW` is a question to look at.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from polyplink.associate.identities import Calibration, OperatingPoint
from polyplink.core.messages import Message
from polyplink.data.origin import ANNOTATED, UNKNOWN, BoxSource

ASK_BELOW = 0.9  # confidence below which a link is a question, where no interval is given

Gap = Literal["", "no labels", "not recorded", "boxes", "material", "few", "purpose", "alarms kept"]


@dataclass(frozen=True)
class Cover:
    """Whether 90 % intervals are given, and what they were calibrated on.

    Attributes:
        source: Where the counted boxes come from.
        calibration: What the operating point was calibrated on; None if nothing is recorded.
        gap: Why no interval is given; "" where one is. "no labels": nothing was calibrated;
            "not recorded": by weights of an earlier version; "boxes", "material": on others than
            those counted; "few": on too few procedures for an interval; "purpose": for the purpose
            "count", and another was asked for; "alarms kept": without the false alarms that are
            counted here.
    """

    source: BoxSource
    calibration: Calibration | None
    gap: Gap

    @property
    def given(self) -> bool:
        """Whether intervals are given."""
        return not self.gap

    @property
    def basis(self) -> Message | None:
        """What the intervals were calibrated on; None where none is given."""
        return Message("cover.given", self._calibration_values()) if self.given else None

    def warnings(self, point: OperatingPoint) -> list[Message]:
        """Why no interval is given, and what to do about it; nothing where one is."""
        if self.given:
            return []
        share = {"share": round(100 * ASK_BELOW)}
        ask = Message("ask.all") if point.links is None else Message("ask.below", share)
        values: dict[str, Any] = {"ask": ask, "todo": self._todo(), "why": point.origin}
        values |= {"counted": boxes_message(self.source)} | self._calibration_values()
        return [Message(f"cover.{self.gap}", values)]

    @staticmethod
    def of_earlier_version() -> Message:
        """What is said of a count without a record of what it was calibrated on."""
        ask = Message("ask.below", {"share": round(100 * ASK_BELOW)})
        return Message("cover.old count", {"ask": ask})

    def _calibration_values(self) -> dict[str, Message]:
        calibration = self.calibration
        if calibration is None:
            return {}
        material = Message(f"material.{calibration.material}", {"n": calibration.procedures})
        return {"material": material, "boxes": boxes_message(calibration)}

    def _todo(self) -> Message:
        kinds = {ANNOTATED: "todo.annotated", UNKNOWN: "todo.name"}
        return Message(kinds.get(self.source.boxes, "todo.detector"))

    def applied(self, point: OperatingPoint) -> OperatingPoint:
        """The operating point without its interval, where none is given."""
        return point if self.given else replace(point, spread=None, ask_below=ASK_BELOW)


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
    purpose: str = "count",
    alarms_kept: bool = False,
) -> Cover:
    """Whether an operating point has intervals for boxes of a source.

    Args:
        point: The operating point.
        source: Where the boxes come from.
        purpose: What the count is for; intervals are calibrated for "count".
        alarms_kept: Whether tracklets that the weights take for false alarms are counted.
    """
    calibration, gap = point.calibration, _gap(point, source)
    if not gap and purpose != "count":
        gap = "purpose"
    if not gap and alarms_kept and point.alarms is not None:
        gap = "alarms kept"
    return Cover(source, calibration, gap)


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
    return "few" if point.spread is None else ""


def _real(material: str) -> bool:
    """Whether pictures of patients were looked at: recordings, or stills in motion."""
    return material != "simulated procedures"
