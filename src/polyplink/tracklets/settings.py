"""Settings of tracks, tracklets and crops.

They are in a separate module because records of weights, which hold them, are read without numpy
and polars.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

from polyplink.core.artefacts import ADDED_LATER
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import TRACKERS
from polyplink.core.ranges import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, SHARE, Range, Ranged

if TYPE_CHECKING:
    from polyplink.data.origin import BoxesOrigin

OF_KNOWN_POLYPS = ("min_length", "max_gap", "min_iou")  # settings of tracklets of known polyps
FEWEST_FRAMES = 3  # of a track: at a low frame rate, a false alarm in two may last `min_seconds`
# Settings that a detector's record may state.
OF_DETECTOR = ("high", "low", "min_seconds", "nested")


@dataclass(frozen=True)
class TrackSettings(Ranged):
    """How boxes without a polyp become tracks.

    Attributes:
        high: Least score of a box that begins a track.
        low: Least score of a box that continues a track; boxes below it are left out.
        bridge: Longest gap without a box within a track, seconds; in a track of few boxes at most
            0.1 s plus three times the duration of its boxes.
        tracker: Name of the tracker: "damped" is `Tracker`; plugins add others.
        nested: Largest intersection of a box with that of another track in the same frame, and of a
            box that begins a track also with the latest box of another, over the smaller area; if
            it is larger, both show one polyp, and the box is in no track.
    """

    high: Annotated[float, SHARE] = 0.4
    low: Annotated[float, SHARE] = 0.1
    bridge: Annotated[float, NOT_NEGATIVE] = 0.7
    tracker: str = "damped"
    nested: Annotated[float, SHARE] = field(default=1.0, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise PolyplinkError(
                f"low {self.low:g}, the score that continues a track, is above high {self.high:g}, "
                "which begins one",
                "give a lower --low or a higher --high",
            )


@dataclass(frozen=True)
class PrepareSettings(Ranged):
    """How tracklets are built and crops cut; the defaults are those of the NTSSL paper.

    Attributes:
        min_length: Least number of boxes of a tracklet of a known polyp.
        min_seconds: Shortest duration of a track of boxes without a polyp, which also has
            `FEWEST_FRAMES` frames from first to last; 0 to keep every track.
        stride: Boxes from one crop of a tracklet to the next.
        max_gap: Largest step in frames within a tracklet of a known polyp.
        min_iou: Smallest IoU of neighbouring boxes of a tracklet of a known polyp.
        tracks: How boxes without a polyp are linked to tracks.
        crop_factor: Size of a crop relative to the box, psi in the papers; None for the full frame.
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
        # 5 and 5.0 are the same setting and must have the same key.
        for name in ("min_seconds", "min_iou", "crop_factor"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else float(value))

    @property
    def fewest_frames(self) -> int:
        """Least number of frames of a track of boxes without a polyp, at any frame rate."""
        return FEWEST_FRAMES if self.min_seconds else 0

    def shortest_track(self, fps: float) -> float:
        """Least number of frames, from first to last, of a track of boxes without a polyp.

        Args:
            fps: Frames per second.

        Example:
            >>> PrepareSettings().shortest_track(25.0), PrepareSettings().shortest_track(2.0)
            (12.5, 3)
        """
        return max(self.min_seconds * fps, self.fewest_frames)


def with_options(
    settings: PrepareSettings, options: Mapping[str, Any], origin: "BoxesOrigin | None" = None
) -> PrepareSettings:
    """Settings overridden by a user's options and by the record of a detector.

    Args:
        settings: The settings of the weights or the recipe.
        options: Fields of `PrepareSettings` and `TrackSettings` by name; None values are ignored.
        origin: The detector of the boxes; thresholds of tracks in its record override those of the
            settings, but not the options.

    Raises:
        PolyplinkError: If the tracker is unknown.

    Example:
        >>> with_options(PrepareSettings(), {"stride": 2, "high": 0.5, "low": None}).tracks.high
        0.5
    """
    if options.get("tracker") is not None:  # checked even if no box needs it
        TRACKERS.find(options["tracker"])
    of_detector = {name: getattr(origin, name, None) for name in OF_DETECTOR}
    merged = of_detector | {name: value for name, value in options.items() if value is not None}
    changes = {name: value for name, value in merged.items() if value is not None}
    of_tracks = {setting.name for setting in fields(TrackSettings)} & set(changes)
    tracks = {name: changes.pop(name) for name in of_tracks}
    return replace(settings, **changes, tracks=replace(settings.tracks, **tracks))


def box_settings(settings: PrepareSettings, *, annotated: bool) -> dict[str, Any]:
    """The settings that decide which boxes form a tracklet, by the name of their option.

    Args:
        settings: The settings.
        annotated: Whether people drew the boxes; a detector's become tracks.

    Example:
        >>> box_settings(PrepareSettings(), annotated=True)
        {'min_length': 30, 'max_gap': 1, 'min_iou': 0.1}
    """
    if annotated:
        return {name: getattr(settings, name) for name in OF_KNOWN_POLYPS}
    tracks = {
        setting.name: getattr(settings.tracks, setting.name) for setting in fields(TrackSettings)
    }
    return {**tracks, "min_seconds": settings.min_seconds}
