"""Boxes that bear a track: one side, true or found, of a tracking evaluation.

Also the pairs of a true and a found box that overlap, which is all that the measures look at.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from polyplink.core.compiled import njit
from polyplink.core.errors import PolyplinkError

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class BoxTracks:
    """n boxes of one procedure in the order of their frames.

    Attributes:
        frame: Frame of every box (n,), rising.
        track: Track of every box (n,), in [0, tracks).
        box: x, y, w, h of every box (n, 4), pixels.
        tracks: Number of tracks.
    """

    frame: Ints
    track: Ints
    box: Reals
    tracks: int

    @classmethod
    def of(cls, frame: npt.ArrayLike, track: npt.ArrayLike, box: npt.ArrayLike) -> Self:
        """Sort and check boxes.

        Args:
            frame: Frame of every box (n,).
            track: Its track (n,): numbers or names of any kind.
            box: x, y, w, h (n, 4), pixels.

        Raises:
            PolyplinkError: If the lengths differ, a box is not finite or has no area, or a track
                is in one frame twice.
        """
        frames = np.asarray(frame, dtype=np.int64)
        boxes = np.asarray(box, dtype=np.float64).reshape(-1, 4)
        names, codes = np.unique(np.asarray(track), return_inverse=True)
        if not frames.shape == codes.shape == (len(boxes),):
            raise PolyplinkError(
                f"{frames.size} frames, {codes.size} tracks and {len(boxes)} boxes",
                "give one of each per box",
            )
        bad = np.flatnonzero(~(np.isfinite(boxes).all(axis=1) & (boxes[:, 2:] > 0).all(axis=1)))
        if bad.size:
            raise PolyplinkError(
                f"box {boxes[bad[0]].tolist()} of frame {frames[bad[0]]} has no area",
                "leave it out",
            )
        order = np.argsort(frames, kind="stable")
        keys = np.sort(frames * max(names.size, 1) + codes)
        twice = np.flatnonzero(np.diff(keys) == 0)
        if twice.size:
            at, which = divmod(int(keys[twice[0]]), names.size)
            raise PolyplinkError(
                f"track {names[which].item()!r} is in frame {at} twice", "keep one box of it"
            )
        return cls(frames[order], codes[order].astype(np.int64), boxes[order], names.size)


@dataclass(frozen=True)
class Overlaps:
    """Pairs of a true and a found box of one frame that overlap.

    Attributes:
        true: Row of the true box (p,).
        found: Row of the found box (p,).
        similarity: Their IoU (p,), above 0.
        starts: First pair of every common frame, and the end (f + 1,).
        true_rows: First true box of every common frame, and the row after its last (f, 2).
        found_rows: The same of the found boxes (f, 2).
    """

    true: Ints
    found: Ints
    similarity: Reals
    starts: Ints
    true_rows: Ints
    found_rows: Ints


@njit()
def _iou(a: Reals, b: Reals) -> float:
    """IoU of two boxes x, y, w, h: (4,), (4,)."""
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    if width <= 0.0 or height <= 0.0:
        return 0.0
    area_a = (a[0] + a[2] - a[0]) * (a[1] + a[3] - a[1])  # as TrackEval rounds it
    area_b = (b[0] + b[2] - b[0]) * (b[1] + b[3] - b[1])
    shared = width * height
    return float(shared / (area_a + area_b - shared))


@njit()
def _pairs(a: Reals, b: Reals, a_rows: Ints, b_rows: Ints) -> tuple[Ints, Ints, Reals, Ints]:
    frames = a_rows.shape[0]
    room = 0
    for f in range(frames):
        room += (a_rows[f, 1] - a_rows[f, 0]) * (b_rows[f, 1] - b_rows[f, 0])
    true, found = np.empty(room, np.int64), np.empty(room, np.int64)
    similarity, starts = np.empty(room), np.empty(frames + 1, np.int64)
    place = 0
    for f in range(frames):
        starts[f] = place
        for i in range(a_rows[f, 0], a_rows[f, 1]):
            for j in range(b_rows[f, 0], b_rows[f, 1]):
                iou = _iou(a[i], b[j])
                if iou > 0.0:
                    true[place], found[place], similarity[place] = i, j, iou
                    place += 1
    starts[frames] = place
    return true[:place], found[:place], similarity[:place], starts


def overlaps(true: BoxTracks, found: BoxTracks) -> Overlaps:
    """Find the overlapping pairs of all frames that have boxes on both sides."""
    common = np.intersect1d(true.frame, found.frame)  # (f,)
    a_rows, b_rows = (
        np.stack(
            [np.searchsorted(side.frame, common, end) for end in ("left", "right")], axis=1
        ).astype(np.int64)
        for side in (true, found)
    )
    return Overlaps(*_pairs(true.box, found.box, a_rows, b_rows), a_rows, b_rows)
