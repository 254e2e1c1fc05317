"""Strips of crops: what each counted polyp looks like, and doubtful pairs side by side."""

import math
from dataclasses import dataclass

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from polyplink.report.formats import data_uri, moment
from polyplink.report.matching import Matching, Polyp
from polyplink.report.model import Procedure, Tracklet, UncertainLink
from polyplink.report.timeline import describe

MOST = 12  # crops in a strip
MOST_OF_SIDE = 2  # crops of a side of an uncertain link
SIDE = 96  # stored pixels; shown at 72, so that they stay crisp on dense screens
QUALITY = 82


@dataclass(frozen=True)
class Crop:
    """One tracklet in a strip; `image` is a JPEG data URI, or None where there is no crop."""

    tracklet: Tracklet
    image: str | None
    when: str
    wrong: bool
    counted: Polyp
    true: Polyp | None
    title: str


@dataclass(frozen=True)
class Strip:
    """One counted polyp: its crops in time, and how many tracklets it has in all."""

    polyp: Polyp
    crops: list[Crop]
    n: int
    n_wrong: int


@dataclass(frozen=True)
class Pair:
    """An uncertain link with views of its two sides, at most `MOST_OF_SIDE` of each."""

    procedure_id: str
    link: UncertainLink
    members: list[Crop]
    others: list[Crop]


def shrink(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Shrink an image so that neither side is longer than `side`, by averaging areas.

    Args:
        image: uint8 (height, width, 3).
        side: Longest side allowed, pixels.

    Returns:
        uint8 (height', width', 3), in the same proportions; the image itself where it fits.
    """
    height, width = image.shape[:2]
    longest = max(height, width)
    if longest <= side:
        return image
    rows, columns = (max(1, round(extent * side / longest)) for extent in (height, width))
    top = np.arange(rows) * height // rows  # first source row of each new one
    left = np.arange(columns) * width // columns
    total = np.add.reduceat(image.astype(np.uint32), top, axis=0)  # (height', width, 3)
    total = np.add.reduceat(total, left, axis=1)  # (height', width', 3)
    area = np.diff(top, append=height)[:, None] * np.diff(left, append=width)[None, :]
    mean: NDArray[np.uint8] = np.rint(total / area[..., None]).astype(np.uint8)
    return mean


def jpeg(image: NDArray[np.uint8]) -> str:
    """A small JPEG data URI of a crop, uint8 (height, width, 3) RGB."""
    small = np.ascontiguousarray(shrink(image, SIDE))
    return data_uri("jpeg", simplejpeg.encode_jpeg(small, quality=QUALITY, colorspace="RGB"))


def crop(tracklet: Tracklet, procedure: Procedure, matching: Matching) -> Crop:
    """A tracklet's crop with what its caption and hover text say."""
    return Crop(
        tracklet,
        None if tracklet.crop is None else jpeg(tracklet.crop),
        moment(tracklet.first, procedure.fps).removeprefix("frame "),
        matching.is_wrong(tracklet),
        matching.counted[tracklet.predicted],
        None if tracklet.polyp_id is None else matching.true[tracklet.polyp_id],
        describe(tracklet, matching, procedure.fps),
    )


def choose(members: list[Tracklet], matching: Matching, most: int) -> list[Tracklet]:
    """The tracklets of a polyp to show, in time: the wrong and the least sure ones first.

    What a reviewer must see is what may be amiss; the many sure ones can be left out.
    """

    def doubt(tracklet: Tracklet) -> tuple[bool, float]:
        sureness = tracklet.sureness
        known = sureness is not None and math.isfinite(sureness)
        return (not matching.is_wrong(tracklet), sureness if sureness and known else 0.0)

    return sorted(sorted(members, key=doubt)[:most], key=lambda t: (t.first, t.last))


def strips(procedure: Procedure, matching: Matching) -> list[Strip]:
    """One strip per counted polyp, of at most `MOST` crops, one per tracklet."""
    made = []
    for name, polyp in matching.counted.items():
        members = [t for t in procedure.tracklets if t.predicted == name]
        shown = [crop(t, procedure, matching) for t in choose(members, matching, MOST)]
        wrong = sum(matching.is_wrong(tracklet) for tracklet in members)
        made.append(Strip(polyp, shown, len(members), wrong))
    return made


def uncertain_pairs(procedures: list[tuple[Procedure, Matching]], most: int) -> list[Pair]:
    """The least sure links of all procedures, least sure first.

    Args:
        procedures: Each with its matching.
        most: How many to show.
    """
    links = [
        (procedure, matching, link)
        for procedure, matching in procedures
        for link in procedure.uncertain
    ]
    links.sort(key=lambda entry: entry[2].sureness)
    pairs = []
    for procedure, matching, link in links[:most]:
        by_name = {tracklet.tracklet_id: tracklet for tracklet in procedure.tracklets}
        members, others = (
            [crop(by_name[name], procedure, matching) for name in side[:MOST_OF_SIDE]]
            for side in (link.members, link.others)
        )
        pairs.append(Pair(procedure.procedure_id, link, members, others))
    return pairs
