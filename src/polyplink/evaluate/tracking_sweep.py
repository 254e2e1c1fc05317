"""Tracking of one procedure under every setting of a sweep, in the table form.

The figures are those of `tracking_table`, to the bit. Each distinct partition is scored once; its
table is filled from tracklets, and the best matching of whole tracks looks at filled cells alone.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.core.compiled import njit
from polyplink.evaluate.box_tracks import Ints, Reals
from polyplink.evaluate.matching import best_sum
from polyplink.evaluate.partitions import Codes, renumber
from polyplink.evaluate.tracking_scores import ALPHAS, Form, TrackingCounts
from polyplink.evaluate.tracklet_boxes import Meetings, TrackletBoxes


@dataclass(frozen=True)
class TrackedSettings:
    """Tracking of one procedure under s settings, which cut it in p ways.

    Attributes:
        procedure: Its name.
        form: Which form was right.
        counts: What the figures come from, under every distinct partition (p, ...).
        of: Which of them is each setting's (s,).
        tracks: Tracks that were made from the clusters (p,).
        split: Tracklets with a track of their own (p,), see `lanes`.
        doubled: Boxes left out, because their polyp has another box in the frame.
    """

    procedure: str
    form: Form
    counts: TrackingCounts
    of: Ints
    tracks: Ints
    split: Ints
    doubled: int

    def settings(self) -> TrackingCounts:
        """What the figures come from, under every setting (s, ...)."""
        return self.counts.take(self.of)


@njit()
def _free_lane(
    lane: Ints, rivals: Ints, codes: Codes, own: int, taken: npt.NDArray[np.bool_]
) -> int:
    """First lane that no rival (r,) of its cluster has; taken (r + 1 or more,) is left False."""
    free = 0
    for i in rivals:
        if codes[i] == own:
            taken[lane[i]] = True
    while taken[free]:
        free += 1
    for i in rivals:
        taken[lane[i]] = False
    return free


@njit()
def _lay(labels: Codes, pairs: Ints, most: int, tracks: Codes, counts: Ints) -> None:
    """`lanes` of every partition.

    Args:
        labels: Clusters (p, n).
        pairs: Tracklets i < j of one frame in the order of first frames (m, 2).
        most: Lanes that may be needed.
        tracks: Tracks (p, n), filled.
        counts: Number of tracks, and tracklets with a track of their own (2, p), filled.
    """
    n = labels.shape[1]
    lane, key = np.zeros(n, np.int64), np.empty(n, np.int32)
    taken, new = np.zeros(most, np.bool_), np.full(n * most, -1, np.int32)
    for p in range(labels.shape[0]):
        first = 0
        while first < pairs.shape[0]:
            j, last = pairs[first, 1], first
            while last < pairs.shape[0] and pairs[last, 1] == j:
                last += 1
            lane[j] = _free_lane(lane, pairs[first:last, 0], labels[p], labels[p, j], taken)
            first = last
        for i in range(n):
            key[i] = labels[p, i] * most + lane[i]
        counts[0, p] = renumber(key, tracks[p], new)
        counts[1, p] = (lane > 0).sum()


def tracks_of_all(labels: Codes, met: Meetings) -> tuple[Codes, Ints, Ints]:
    """Tracks from many clusterings, as `lanes` makes them from one.

    Args:
        labels: Clusters of the tracklets (p, n), in [0, n).
        met: The tracklets of one time.

    Returns:
        Tracks (p, n), as numbered by `lanes`; how many (p,); tracklets
        that were given a track of their own (p,).
    """
    pairs = met.pairs[met.together]
    most = int(np.bincount(pairs[:, 1], minlength=1).max()) + 1
    tracks = np.empty(labels.shape, dtype=np.int32)
    counts = np.empty((2, len(labels)), dtype=np.int64)
    _lay(labels, pairs, most, tracks, counts)
    return tracks, counts[0], counts[1]


@njit()
def _score(
    tracks: Codes, made: Ints, tracklets: tuple[Ints, Ints, Ints], sums: Reals, single: Ints
) -> None:
    """Score every partition by its table of polyps and tracks.

    Args:
        tracks: Tracks (p, n), in [0, n).
        made: How many (p,).
        tracklets: Polyp of every tracklet, from 0; its boxes; the tracklets polyp by polyp, in
            the order of first frames: three (n,).
        sums: Association accuracy, precision and recall (3, p), zeros at first.
        single: Boxes under the best matching, and switches (2, p), zeros at first.
    """
    polyp, sizes, order = tracklets
    n, g = polyp.size, polyp.max() + 1
    table, found, true = np.zeros((g, n), np.int64), np.zeros(n, np.int64), np.zeros(g, np.int64)
    starts = np.zeros(g + 1, np.int64)
    column, weight = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        true[polyp[i]] += sizes[i]
    for p in range(tracks.shape[0]):
        found[:] = 0
        for i in range(n):
            table[polyp[i], tracks[p, i]] += sizes[i]
            found[tracks[p, i]] += sizes[i]
        filled = 0
        for row in range(g):
            for t in range(made[p]):
                c = table[row, t]
                if c == 0:
                    continue
                sums[0, p] += c * c / (true[row] + found[t] - c)
                sums[1, p] += c * c / found[t]
                sums[2, p] += c * c / true[row]
                column[filled], weight[filled] = t, c
                filled += 1
                table[row, t] = 0
            starts[row + 1] = filled
        single[0, p] = best_sum(starts, column, weight, made[p])
        for k in range(1, n):
            a, b = order[k - 1], order[k]
            single[1, p] += polyp[a] == polyp[b] and tracks[p, a] != tracks[p, b]


def score_tables(tracklets: TrackletBoxes, tracks: Codes, made: Ints) -> TrackingCounts:
    """Score the tracks of many partitions; right only where `table_form_holds`.

    Args:
        tracklets: The tracklets of a procedure, their boxes being ground truth.
        tracks: Track of every tracklet (p, n), from 0 without gaps.
        made: How many tracks (p,).
    """
    _, polyp = np.unique(tracklets.polyp, return_inverse=True)
    order = np.lexsort((tracklets.first, polyp))
    sums, single = np.zeros((3, len(tracks))), np.zeros((2, len(tracks)), dtype=np.int64)
    _score(tracks, made, (polyp, tracklets.sizes, order), sums, single)
    boxes = np.full(len(tracks), float(tracklets.sizes.sum()))
    accuracy, precision, recall = (_at_every_threshold(one) for one in sums)
    return TrackingCounts(
        true=boxes,
        found=boxes,
        tp=_at_every_threshold(boxes),
        ass_a=accuracy,
        ass_pr=precision,
        ass_re=recall,
        loc=_at_every_threshold(boxes),
        idtp=single[0].astype(np.float64),
        clear_tp=boxes,
        switches=single[1].astype(np.float64),
    )


def _at_every_threshold(values: Reals) -> Reals:
    """The same (p,) at every threshold (p, 19): a view, not copies."""
    return np.broadcast_to(values[:, None], (values.size, ALPHAS.size))
