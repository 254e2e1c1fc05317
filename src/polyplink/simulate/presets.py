"""Presets: how many procedures and polyps to make, how often each is seen, and how large."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from polyplink.errors import PolyplinkError, find_named


@dataclass(frozen=True)
class Preset:
    """What a simulated data set holds; ranges are inclusive.

    Attributes:
        name: Name of the preset.
        polyps: Procedure id and its number of polyps, in order.
        width: Frame width, pixels, even.
        height: Frame height, pixels, even.
        fps: Frames per second that the set declares.
        long_views: How often a polyp is looked at for long.
        long_frames: Frames of such a look.
        short_views: How often it is only glimpsed.
        short_frames: Frames of a glimpse.

    Raises:
        PolyplinkError: If a number is out of its range.
    """

    name: str
    polyps: tuple[tuple[str, int], ...]
    width: int
    height: int
    fps: float = 25.0
    long_views: tuple[int, int] = (5, 6)
    long_frames: tuple[int, int] = (30, 35)
    short_views: tuple[int, int] = (0, 2)
    short_frames: tuple[int, int] = (6, 20)

    def __post_init__(self) -> None:
        for name in ("width", "height"):
            value = getattr(self, name)
            if value < 16 or value % 2:
                raise PolyplinkError(
                    f"preset {self.name}: {name} is {value}", "give an even number from 16"
                )
        for name in ("long_views", "long_frames", "short_views", "short_frames"):
            low, high = getattr(self, name)
            if not 0 <= low <= high or (name.endswith("frames") and low < 1):
                raise PolyplinkError(
                    f"preset {self.name}: {name} is {low} to {high}",
                    "give a range, the smaller number first",
                )
        if any(count < 0 for _, count in self.polyps):
            raise PolyplinkError(f"preset {self.name}: fewer than 0 polyps", "give counts from 0")


# Four studies of ten, eight of each to train on. Most procedures have three polyps; 001-006 has
# none and 002-010 a single one, as happens in life.
_TINY_COUNTS = {
    "001": (3, 2, 4, 3, 3, 0, 2, 3, 3, 2),
    "002": (3, 3, 2, 3, 4, 3, 3, 2, 3, 1),
    "003": (2, 3, 3, 4, 3, 2, 3, 3, 4, 3),
    "004": (3, 4, 3, 2, 3, 3, 2, 3, 2, 3),
}


def tiny() -> Preset:
    """The demo's size: 40 procedures, 110 polyps, some 29,000 frames of 96 x 84 pixels."""
    polyps = tuple(
        (f"{study}-{video:03d}", count)
        for study, counts in _TINY_COUNTS.items()
        for video, count in enumerate(counts, start=1)
    )
    return Preset("tiny", polyps, width=96, height=84)


def smoke() -> Preset:
    """The smallest set that every stage can run on: 4 procedures of 2 polyps, 64 x 56 pixels."""
    return Preset(
        "smoke",
        (("001-001", 2), ("001-002", 2), ("001-009", 2), ("001-010", 2)),
        width=64,
        height=56,
        long_views=(3, 3),
        long_frames=(30, 32),
        short_views=(0, 1),
        short_frames=(6, 10),
    )


PRESETS: Mapping[str, Callable[[], Preset]] = {"tiny": tiny, "smoke": smoke}


def preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        PolyplinkError: If there is none, naming the nearest.
    """
    return find_named("preset", name, PRESETS)()
