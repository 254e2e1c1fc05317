"""Presets: the data sets that the simulator makes, by name."""

from collections.abc import Callable, Mapping

import polars as pl

from polyplink.core.errors import find_named
from polyplink.data import lesion_info, video_info
from polyplink.simulate.cast import procedure_specs
from polyplink.simulate.specs import PairSpec, PolypSpec, Preset, ProcedureSpec

__all__ = [
    "PRESETS",
    "PairSpec",
    "PolypSpec",
    "Preset",
    "ProcedureSpec",
    "preset",
    "procedure_specs",
    "real_colon_sim",
    "small",
    "smoke",
    "tiny",
]

# Four studies of ten, eight of each to train on. Most procedures have three polyps; 001-006 has
# none and 002-010 a single one, as happens in life.
_TINY_COUNTS = {
    "001": (3, 2, 4, 3, 3, 0, 2, 3, 3, 2),
    "002": (3, 3, 2, 3, 4, 3, 3, 2, 3, 1),
    "003": (2, 3, 3, 4, 3, 2, 3, 3, 4, 3),
    "004": (3, 4, 3, 2, 3, 3, 2, 3, 2, 3),
}


def _released_counts() -> tuple[tuple[str, int], ...]:
    """All 60 procedures and their rows in `lesion_info.csv` (003-012 has three, not two)."""
    lesions = dict(lesion_info().group_by("unique_video_name").len().iter_rows())
    names = video_info().sort("unique_video_name").select(pl.col("unique_video_name"))
    return tuple((name, lesions.get(name, 0)) for (name,) in names.iter_rows())


def real_colon_sim() -> Preset:
    """REAL-Colon as its tables tell it: 60 procedures, 132 polyps, 2.76 million frames.

    Lengths, rates, brands, frame sizes, polyps and frames with a box are those of the release;
    the seed draws the rest: how the frames with a box are shared by the polyps of a procedure,
    when each is seen, and what everything looks like. Frames are not written: crops are rendered
    where a stage reads them.
    """
    return Preset(
        "real-colon-sim",
        _released_counts(),
        released=True,
        published_looks=True,
        fullest=1.0,
        pair_share=0.5,
        frames="none",
        annotations="none",
    )


def small() -> Preset:
    """The same 60 procedures and 132 polyps in miniature, to be trained on in minutes.

    Procedures are about 15 times shorter; a polyp is seen in about 4 looks of 30 to 60 frames
    and some short ones. Frame sizes are those of the release.
    """
    return Preset(
        "small",
        _released_counts(),
        long_views=(3, 5),
        long_frames=(30, 60),
        short_views=(2, 6),
        short_frames=(1, 20),
        released=True,
        shorter=15.0,
        fullest=0.4,
        frames="none",
        annotations="none",
    )


def tiny() -> Preset:
    """The demo's size: 40 procedures, 110 polyps, some 29,000 frames of 96 x 84 pixels."""
    polyps = tuple(
        (f"{study}-{video:03d}", count)
        for study, counts in _TINY_COUNTS.items()
        for video, count in enumerate(counts, start=1)
    )
    return Preset("tiny", polyps, width=96, height=84, insertion=(0.02, 0.06))


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
        fullest=0.78,
        insertion=(0.02, 0.06),
    )


PRESETS: Mapping[str, Callable[[], Preset]] = {
    "tiny": tiny,
    "smoke": smoke,
    "small": small,
    "real-colon-sim": real_colon_sim,
}


def preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        PolyplinkError: If there is none, naming the nearest.
    """
    return find_named("preset", name, PRESETS)()
