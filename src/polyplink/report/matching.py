"""Which counted polyp is which true one: numbers, letters, looks, and what is wrong."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from polyplink.report.model import Procedure, Tracklet
from polyplink.report.palette import Look, look


@dataclass(frozen=True)
class Polyp:
    """A counted or a true polyp, as labelled on the page.

    Attributes:
        name: Its id in the data.
        label: Number (counted) or letter (true), by time of first sight.
        look: Colour and texture, shared by a counted polyp and the true one it matches.
        partner: Name of the polyp it matches on the other side, or None.
    """

    name: str
    label: str
    look: Look
    partner: str | None


@dataclass(frozen=True)
class Matching:
    """The polyps of a procedure, counted and true, in order of first sight.

    Attributes:
        counted: Counted polyps by name.
        true: True polyps by name; empty where the truth is unknown.
    """

    counted: dict[str, Polyp]
    true: dict[str, Polyp]

    def is_wrong(self, tracklet: Tracklet) -> bool:
        """Whether the tracklet's true polyp is known and its group matches another, or none."""
        partner = self.counted[tracklet.predicted].partner
        return tracklet.polyp_id is not None and tracklet.polyp_id != partner


def letters(index: int) -> str:
    """0, 1, ... as A, B, ..., Z, AA, AB, ..."""
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def overlap(
    tracklets: tuple[Tracklet, ...], counted: list[str], true: list[str]
) -> NDArray[np.int64]:
    """Frames that each counted polyp shares with each true one.

    Args:
        tracklets: The tracklets of a procedure (n).
        counted: Names of the groups (k).
        true: Names of the true polyps (m).

    Returns:
        int64 (k, m), frames.
    """
    row_of = {name: index for index, name in enumerate(counted)}
    column_of = {name: index for index, name in enumerate(true)}
    frames = np.zeros((len(counted), len(true)), dtype=np.int64)  # (k, m)
    for tracklet in tracklets:
        if tracklet.polyp_id is not None:
            row, column = row_of[tracklet.predicted], column_of[tracklet.polyp_id]
            frames[row, column] += tracklet.last - tracklet.first + 1
    return frames


def match(procedure: Procedure) -> Matching:
    """Pair counted with true polyps, one to one, so that they share the most frames.

    The pairing solves the linear assignment problem exactly; a pair that shares no frame is
    none. A true polyp takes the look of its partner; one without a partner takes the next free.
    """
    in_time = sorted(procedure.tracklets, key=lambda t: (t.first, t.last, t.tracklet_id))
    counted = list(dict.fromkeys(t.predicted for t in in_time))
    true = list(dict.fromkeys(t.polyp_id for t in in_time if t.polyp_id is not None))
    frames = overlap(procedure.tracklets, counted, true)
    rows, columns = linear_sum_assignment(frames, maximize=True)
    pairs = [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if frames[r, c] > 0]
    truth_of, group_of = dict(pairs), {column: row for row, column in pairs}
    alone = [index for index in range(len(true)) if index not in group_of]
    place = group_of | {index: len(counted) + i for i, index in enumerate(alone)}
    return Matching(
        {
            name: Polyp(name, str(i + 1), look(i), true[truth_of[i]] if i in truth_of else None)
            for i, name in enumerate(counted)
        },
        {
            name: Polyp(
                name, letters(i), look(place[i]), counted[group_of[i]] if i in group_of else None
            )
            for i, name in enumerate(true)
        },
    )
