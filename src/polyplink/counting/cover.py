"""Whether a count has a 90 % interval: only if it was calibrated on boxes like those counted.

An interval holds the true number in 90 % of procedures like those of the calibration
(`OperatingPoint.spread`). For boxes of another detector, or for recordings after a calibration on
simulated procedures, this is unknown and often wrong. Then the count has no interval, and every
link with a confidence below `ASK_BELOW` is put up for review.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from polyplink.associate.identities import Calibration, OperatingPoint
from polyplink.core.messages import Message
from polyplink.data.origin import ANNOTATED, UNKNOWN, BoxSource

ASK_BELOW = 0.9  # confidence below which a link is put up for review, if there is no interval

Gap = Literal["", "no labels", "not recorded", "boxes", "material", "few", "purpose", "alarms kept"]


@dataclass(frozen=True)
class Cover:
    """Whether a count has 90 % intervals, and the data of their calibration.

    Attributes:
        source: Source of the counted boxes.
        calibration: Data of the operating point's calibration; None if none is recorded.
        gap: Why the count has no interval; "" if it has one. "no labels": the weights were not
            calibrated; "not recorded": the weights, of an earlier version, do not record their
            calibration; "boxes", "material": they were calibrated on other ones; "few": on too
            few procedures; "purpose": the interval is for the purpose "count", but another was
            requested; "alarms kept": it is for counts without the false alarms counted here.
    """

    source: BoxSource
    calibration: Calibration | None
    gap: Gap

    @property
    def given(self) -> bool:
        """Whether the count has intervals."""
        return not self.gap

    @property
    def basis(self) -> Message | None:
        """The data of the intervals' calibration; None without intervals."""
        if self.calibration is None or not self.given:
            return None
        materials = (self.calibration.material, self.source.material)
        unlike = materials == ("stills in motion", "recordings")
        return Message("cover.stills" if unlike else "cover.given", self._calibration_values())

    def warnings(self, point: OperatingPoint) -> list[Message]:
        """Why the count has no interval, and how to get one; empty if it has one."""
        if self.given:
            return []
        share = {"share": round(100 * ASK_BELOW)}
        ask = Message("ask.all") if point.links is None else Message("ask.below", share)
        values: dict[str, Any] = {"ask": ask, "todo": self._todo(), "why": point.origin}
        values |= {"counted": boxes_message(self.source)} | self._calibration_values()
        return [Message(f"cover.{self.gap}", values)]

    @staticmethod
    def of_earlier_version() -> Message:
        """The warning about a count of an earlier version, without a record of its calibration."""
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
        """The operating point, without its interval if the count has none."""
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
        source: Source of the boxes.
        purpose: Purpose of the count; intervals are calibrated for "count".
        alarms_kept: Whether tracklets that the weights classify as false alarms are counted.
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
    """Whether a material shows patients: recordings, or stills in motion."""
    return material != "simulated procedures"
