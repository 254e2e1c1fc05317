"""Settings of tracks, tracklets and crops, apart from what computes with them.

Records of weights hold them, and are read before numpy and polars are needed.
"""

from dataclasses import dataclass, field
from typing import Annotated

from polyplink.core.ranges import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, SHARE, Range, Ranged


@dataclass(frozen=True)
class TrackSettings(Ranged):
    """How boxes without a polyp become tracks.

    Attributes:
        high: Score from which a box begins a track.
        low: Score from which a box continues one; boxes below it are left out.
        bridge: Longest gap without a box within a track, seconds; within a track of few boxes at
            most 0.1 s and three times as long as its boxes take.
        tracker: What links the boxes: "damped" is `Tracker`; plugins add others.
    """

    high: Annotated[float, SHARE] = 0.4
    low: Annotated[float, SHARE] = 0.1
    bridge: Annotated[float, NOT_NEGATIVE] = 0.7
    tracker: str = "damped"


@dataclass(frozen=True)
class PrepareSettings(Ranged):
    """How tracklets and crops are made; the defaults are those of the NTSSL paper.

    Attributes:
        min_length: Boxes a tracklet of a known polyp must have to be kept.
        min_seconds: Time that a track of boxes without a polyp must last to be kept.
        stride: Boxes from one crop of a tracklet to the next.
        max_gap: Largest step in frames within a tracklet of a known polyp.
        min_iou: Smallest IoU of neighbouring boxes of a tracklet of a known polyp.
        tracks: How boxes without a polyp are linked to tracks.
        crop_factor: psi, times the box's width and height; None for the full frame.
        size: Width and height of a crop, pixels.
    """

    min_length: Annotated[int, AT_LEAST_ONE] = 30
    min_seconds: Annotated[float, NOT_NEGATIVE] = 0.5
    stride: Annotated[int, AT_LEAST_ONE] = 4
    max_gap: Annotated[int, AT_LEAST_ONE] = 1
    min_iou: Annotated[float, SHARE] = 0.1
    tracks: TrackSettings = field(default_factory=TrackSettings)
    crop_factor: Annotated[float | None, POSITIVE] = 5.0
    size: Annotated[int, Range(1, 4096)] = 232

    def __post_init__(self) -> None:
        super().__post_init__()
        # 5 and 5.0 are one setting, and must be one key.
        for name in ("min_seconds", "min_iou", "crop_factor"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else float(value))
