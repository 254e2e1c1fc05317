"""Tracking from tracklets whose boxes are ground truth: a table of tracks and polyps is enough.

Where the found boxes are the true ones and none overlaps another in its frame, every box is
matched with itself at every threshold, and HOTA, identity and CLEAR follow from how many boxes
each track has of each polyp. Where boxes overlap, an overlapping pair could be matched crosswise;
where two boxes of one frame are said to be one polyp, truth itself is not one track; then the
general form is used (`tracking`).
"""

from dataclasses import dataclass

import numpy as np

from polyplink.evaluate.box_tracks import BoxTracks, Ints
from polyplink.evaluate.partitions import Partitions
from polyplink.evaluate.tracking import best_matching, score_tracks
from polyplink.evaluate.tracking_scores import (
    ALPHAS,
    Form,
    TrackingCounts,
    association_sums,
)
from polyplink.evaluate.tracking_sweep import TrackedSettings, score_tables, tracks_of_all
from polyplink.evaluate.tracking_sweep_boxes import score_same_boxes
from polyplink.evaluate.tracklet_boxes import (
    Labels,
    Lanes,
    Meetings,
    TrackletBoxes,
    lanes,
    meetings,
)


def table_form_holds(tracklets: TrackletBoxes, met: Meetings) -> bool:
    """Whether the table of tracks and polyps decides the figures.

    It does if no two boxes of a frame overlap, and the tracklets of a polyp come one after the
    other.
    """
    polyp = tracklets.polyp[met.pairs]  # (m, 2)
    return not met.touching.any() and not (polyp[:, 0] == polyp[:, 1]).any()


def score_table(tracklets: TrackletBoxes, track: Ints) -> TrackingCounts:
    """Score tracks by the table; right only where `table_form_holds`.

    Args:
        tracklets: The tracklets of a procedure, their boxes being ground truth.
        track: Track of every tracklet (n,).
    """
    _, polyp = np.unique(tracklets.polyp, return_inverse=True)
    polyps, tracks = int(polyp.max()) + 1, int(track.max()) + 1
    sizes = tracklets.sizes
    cells = np.bincount(polyp * tracks + track, weights=sizes, minlength=polyps * tracks)
    table = cells.reshape(polyps, tracks).astype(np.float64)  # (g, t)
    every = np.ones(ALPHAS.size)
    sums = association_sums(table, table.sum(axis=1), table.sum(axis=0))
    accuracy, precision, recall = (value * every for value in sums)
    order = np.lexsort((tracklets.first, polyp))
    switches = (np.diff(polyp[order]) == 0) & (np.diff(track[order]) != 0)
    n = np.array(sizes.sum(), dtype=np.float64)
    return TrackingCounts(
        true=n,
        found=n,
        tp=n * every,
        ass_a=accuracy,
        ass_pr=precision,
        ass_re=recall,
        loc=n * every,
        idtp=np.array(best_matching(table.astype(np.int64)), dtype=np.float64),
        clear_tp=n,
        switches=np.array(switches.sum(), dtype=np.float64),
    )


def without_doubles(tracklets: TrackletBoxes, met: Meetings) -> tuple[TrackletBoxes, Ints]:
    """Leave out boxes of a polyp that has another in the same frame, in a tracklet before it.

    Returns:
        The tracklets that are left, and their rows in those given (m,).
    """
    polyp = tracklets.polyp[met.pairs]
    if not ((polyp[:, 0] == polyp[:, 1]) & met.together).any():
        return tracklets, np.arange(tracklets.polyp.size)
    owner = tracklets.owner()
    rank = np.argsort(np.argsort(tracklets.first, kind="stable"))
    order = np.lexsort((rank[owner], tracklets.frame, tracklets.polyp[owner]))
    key = np.stack([tracklets.polyp[owner], tracklets.frame])[:, order]
    first = np.ones(order.size, dtype=np.bool_)
    first[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    kept = np.sort(order[first])
    rows, counts = np.unique(owner[kept], return_counts=True)
    offset = np.concatenate([[0], np.cumsum(counts)])
    left = TrackletBoxes(tracklets.polyp[rows], offset, tracklets.frame[kept], tracklets.box[kept])
    return left, rows


@dataclass(frozen=True)
class ProcedureTracking:
    """Tracking of one procedure under one clustering.

    Attributes:
        procedure: Its name.
        counts: What the figures come from.
        form: Which form was right.
        tracks: Tracks that were made from the clusters.
        split: Tracklets with a track of their own, see `lanes`.
        doubled: Boxes left out, because their polyp has another box in the frame.
    """

    procedure: str
    counts: TrackingCounts
    form: Form
    tracks: int
    split: int
    doubled: int


def true_and_found(tracklets: TrackletBoxes, track: Ints) -> tuple[BoxTracks, BoxTracks]:
    """Both sides of the general form: the same boxes, once by polyp and once by track."""
    owner = tracklets.owner()
    order = np.argsort(tracklets.frame, kind="stable")
    frame, box, owner = tracklets.frame[order], tracklets.box[order], owner[order]
    sides = []
    for code in (tracklets.polyp, track):
        names, codes = np.unique(code, return_inverse=True)
        sides.append(BoxTracks(frame, codes[owner].astype(np.int64), box, names.size))
    return sides[0], sides[1]


@dataclass(frozen=True)
class TrackingTruth:
    """A procedure's tracklets, looked at once, to score any number of clusterings.

    Attributes:
        procedure: Its name.
        tracklets: The tracklets.
        met: Which are seen at one time.
        table: Whether the table form is right.
    """

    procedure: str
    tracklets: TrackletBoxes
    met: Meetings
    table: bool

    def tracks(self, labels: Labels) -> Lanes:
        """Tracks from the clusters of the tracklets (n,)."""
        return lanes(labels, self.met)

    def score(self, labels: Labels) -> ProcedureTracking:
        """Score a clustering (n,) in whichever form is right."""
        made = self.tracks(labels)
        tracks = int(made.track.max()) + 1
        if self.table:
            counts = score_table(self.tracklets, made.track)
            return ProcedureTracking(self.procedure, counts, "table", tracks, made.split, 0)
        left, rows = without_doubles(self.tracklets, self.met)
        counts = score_tracks(*true_and_found(left, made.track[rows]))
        doubled = int(self.tracklets.frame.size - left.frame.size)
        return ProcedureTracking(self.procedure, counts, "general", tracks, made.split, doubled)

    def score_settings(self, cut: Partitions) -> TrackedSettings:
        """Score the clusterings of a sweep, to the bit as `score` does one by one."""
        tracks, made, split = tracks_of_all(cut.labels, self.met)
        if self.table:
            counts = score_tables(self.tracklets, tracks, made)
            return TrackedSettings(self.procedure, "table", counts, cut.of, made, split, 0)
        left, rows = without_doubles(self.tracklets, self.met)
        counts = score_same_boxes(left, np.ascontiguousarray(tracks[:, rows]))
        doubled = int(self.tracklets.frame.size - left.frame.size)
        return TrackedSettings(self.procedure, "general", counts, cut.of, made, split, doubled)


def look_at(procedure: str, tracklets: TrackletBoxes) -> TrackingTruth:
    """Look at a procedure once: who meets whom, and which form is right."""
    met = meetings(tracklets)
    return TrackingTruth(procedure, tracklets, met, table_form_holds(tracklets, met))
