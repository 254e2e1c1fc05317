"""The polyps of a procedure in the report: matching of counted and true polyps, labels, colours.

Colour is never the only cue: everything in a polyp's colour also carries its number or letter.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from polyplink.report.records import Procedure, Tracklet

# Six colours of Okabe and Ito (2008, "Color universal design") and a brown; the yellow and black of
# that palette would be invisible on a white or a dark page. In this order neighbours differ most.
HUES = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#7a4a1e",
)
TEXTURES = ("plain", "stripes", "dots")


@dataclass(frozen=True)
class Look:
    """How a polyp is drawn: index of a hue, and one of `TEXTURES`."""

    hue: int
    texture: str


def look(index: int) -> Look:
    """The look of polyp number `index` (from 0); repeats after 7 hues x 3 textures."""
    turn, hue = divmod(index, len(HUES))
    return Look(hue, TEXTURES[turn % len(TEXTURES)])


@dataclass(frozen=True)
class Polyp:
    """A counted or a true polyp, as labelled on the page.

    Attributes:
        name: The id in the data.
        label: Number (counted) or letter (true), in order of first appearance.
        look: Colour and texture, shared by a counted polyp and the true polyp that it matches.
        partner: Name of the matching true (or counted) polyp, or None.
    """

    name: str
    label: str
    look: Look
    partner: str | None


@dataclass(frozen=True)
class Matching:
    """The polyps of a procedure, counted and true, in order of first appearance.

    Attributes:
        counted: Counted polyps by name.
        true: True polyps by name; empty if the truth is unknown.
    """

    counted: dict[str, Polyp]
    true: dict[str, Polyp]

    def counted_of(self, tracklet: Tracklet) -> Polyp:
        """The counted polyp to which a tracklet was assigned."""
        return self.counted[tracklet.predicted]

    def true_of(self, tracklet: Tracklet) -> Polyp | None:
        """The polyp that a tracklet shows, or None if unknown."""
        return None if tracklet.polyp_id is None else self.true[tracklet.polyp_id]

    def is_wrong(self, tracklet: Tracklet) -> bool:
        """Whether a tracklet's true polyp is known and its counted polyp does not match it."""
        partner = self.counted_of(tracklet).partner
        return tracklet.polyp_id is not None and tracklet.polyp_id != partner


def in_time(procedure: Procedure) -> list[Tracklet]:
    """The tracklets of a procedure, sorted by time."""
    return sorted(procedure.tracklets, key=lambda t: (t.first, t.last, t.tracklet_id))


def match(procedure: Procedure) -> Matching:
    """Match counted with true polyps, one to one, so that matches share the most frames.

    This is an exact linear assignment; two polyps without a common frame do not match. A true polyp
    has the look of its partner; true polyps without a partner get the next unused looks.
    """
    tracklets = in_time(procedure)
    counted = list(dict.fromkeys(t.predicted for t in tracklets))
    true = list(dict.fromkeys(t.polyp_id for t in tracklets if t.polyp_id is not None))
    frames = np.zeros((len(counted), len(true)), dtype=np.int64)  # (k, m), shared by two polyps
    for tracklet in tracklets:
        if tracklet.polyp_id is not None:
            shared = tracklet.last - tracklet.first + 1
            frames[counted.index(tracklet.predicted), true.index(tracklet.polyp_id)] += shared
    rows, columns = linear_sum_assignment(frames, maximize=True)
    pairs = [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if frames[r, c] > 0]
    true_of, counted_of = dict(pairs), {column: row for row, column in pairs}
    alone = [index for index in range(len(true)) if index not in counted_of]
    looks = counted_of | {index: len(counted) + i for i, index in enumerate(alone)}
    return Matching(
        {
            name: Polyp(name, str(i + 1), look(i), true[true_of[i]] if i in true_of else None)
            for i, name in enumerate(counted)
        },
        {
            name: Polyp(
                name,
                letters(i),
                look(looks[i]),
                counted[counted_of[i]] if i in counted_of else None,
            )
            for i, name in enumerate(true)
        },
    )


def letters(index: int) -> str:
    """A letter label: 0, 1, ... as A, B, ..., Z, AA, AB, ..."""
    text = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        text = chr(ord("A") + letter) + text
    return text
