"""The boxes of a procedure's tracklets, and which tracklets are seen at one time.

Where boxes are ground truth, tracking is decided by tracklets: see `tracking_table`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.box_tracks import Ints, Reals
from polyplink.evaluate.partitions import partitions

Labels = npt.NDArray[np.integer]


@dataclass(frozen=True)
class TrackletBoxes:
    """n tracklets and their d boxes; of one procedure, where frames are compared.

    Attributes:
        polyp: Code of every tracklet's polyp (n,).
        offset: First box of every tracklet, and the end (n + 1,).
        frame: Frame of every box (d,), rising within a tracklet.
        box: x, y, w, h of every box (d, 4), pixels.

    Raises:
        PolyplinkError: If the offsets do not fit, a tracklet has no box, or its frames do not
            rise.
    """

    polyp: Ints
    offset: Ints
    frame: Ints
    box: Reals

    def __post_init__(self) -> None:
        n, d = self.polyp.size, self.frame.size
        fits = self.offset.shape == (n + 1,) and self.box.shape == (d, 4)
        if not fits or self.offset[0] != 0 or self.offset[-1] != d or (self.sizes < 1).any():
            raise PolyplinkError(
                f"{n} tracklets, offsets {self.offset.shape}, {d} frames, boxes {self.box.shape}",
                "give every tracklet one run of boxes, one after the other",
            )
        falls = np.flatnonzero(np.diff(self.frame) <= 0) + 1
        inside = falls[~np.isin(falls, self.offset)]
        if inside.size:
            raise PolyplinkError(
                f"frame {self.frame[inside[0]]} (box {inside[0]}) does not come after the one "
                "before it in its tracklet",
                "sort the boxes of a tracklet by frame, one box a frame",
            )

    @property
    def sizes(self) -> Ints:
        """Boxes of every tracklet (n,)."""
        return np.diff(self.offset)

    @property
    def first(self) -> Ints:
        """First frame of every tracklet (n,)."""
        return self.frame[self.offset[:-1]]

    @property
    def last(self) -> Ints:
        """Last frame of every tracklet (n,)."""
        return self.frame[self.offset[1:] - 1]

    def take(self, rows: Ints) -> "TrackletBoxes":
        """Some tracklets (m,) and their boxes, in that order."""
        sizes = self.sizes[rows]
        offset = np.concatenate([[0], np.cumsum(sizes)])
        # Box k of a tracklet lies k rows after its first.
        at = np.repeat(self.offset[rows] - offset[:-1], sizes) + np.arange(offset[-1])
        return TrackletBoxes(self.polyp[rows], offset, self.frame[at], self.box[at])

    def owner(self) -> Ints:
        """Tracklet of every box (d,)."""
        return np.repeat(np.arange(self.polyp.size), self.sizes)


@dataclass(frozen=True)
class Meetings:
    """Pairs of tracklets whose spans overlap in time.

    Attributes:
        pairs: Tracklets i < j in the order of first frames (m, 2).
        together: Whether they have a frame in common (m,).
        touching: Whether two of their boxes overlap in one frame (m,).
    """

    pairs: Ints
    together: npt.NDArray[np.bool_]
    touching: npt.NDArray[np.bool_]


def meetings(tracklets: TrackletBoxes) -> Meetings:
    """Find the tracklets that are seen at one time; most are alone, so that this is quick."""
    first, last = tracklets.first, tracklets.last
    order = np.argsort(first, kind="stable")
    pairs, together, touching = [], [], []
    open_ones: list[int] = []
    for j in order.tolist():
        open_ones = [i for i in open_ones if last[i] >= first[j]]
        for i in open_ones:
            shared, touch = _meet(tracklets, i, j)
            pairs.append((i, j))
            together.append(shared)
            touching.append(touch)
        open_ones.append(j)
    return Meetings(
        np.array(pairs, dtype=np.int64).reshape(-1, 2),
        np.array(together, dtype=np.bool_),
        np.array(touching, dtype=np.bool_),
    )


def _meet(tracklets: TrackletBoxes, i: int, j: int) -> tuple[bool, bool]:
    """Whether two tracklets share a frame, and whether their boxes overlap in one."""
    a, b = (slice(tracklets.offset[k], tracklets.offset[k + 1]) for k in (i, j))
    _, at, other = np.intersect1d(
        tracklets.frame[a], tracklets.frame[b], assume_unique=True, return_indices=True
    )
    x, y = tracklets.box[a][at], tracklets.box[b][other]  # (f, 4)
    low = np.maximum(x[:, :2], y[:, :2])
    high = np.minimum(x[:, :2] + x[:, 2:], y[:, :2] + y[:, 2:])
    return bool(at.size), bool((high > low).all(axis=1).any())


@dataclass(frozen=True)
class Lanes:
    """Tracks made from clusters.

    Attributes:
        track: Track of every tracklet (n,), numbered from 0 in the order of first tracklets.
        split: Tracklets that were given a track of their own, because their cluster was in
            another place in the same frame.
    """

    track: Ints
    split: int


def lanes(labels: Labels, met: Meetings) -> Lanes:
    """Turn clusters into tracks: a track is in one place at a time.

    Two polyps that are seen in one frame are two, whatever the clusterer says. Where a cluster
    holds tracklets of one time, the later one, in the order of first frames, moves to the first
    further track of the cluster that is free.

    Args:
        labels: Cluster of every tracklet (n,).
        met: The tracklets of one time.
    """
    lane = np.zeros(labels.size, dtype=np.int64)
    rivals: dict[int, list[int]] = {}
    for i, j in met.pairs[met.together].tolist():  # j rises in the order of first frames
        if labels[i] == labels[j]:
            rivals.setdefault(j, []).append(i)
    for j, others in rivals.items():
        taken = {int(lane[i]) for i in others}
        lane[j] = next(k for k in range(len(taken) + 1) if k not in taken)
    keys = np.stack([np.asarray(labels, dtype=np.int64), lane], axis=1)
    _, track = np.unique(keys, axis=0, return_inverse=True)
    # Numbered anew: numbers of clusters shall not change the last bit of a sum over tracks.
    numbered = partitions(track.reshape(1, -1)).labels[0]
    return Lanes(numbered.astype(np.int64), int((lane > 0).sum()))
