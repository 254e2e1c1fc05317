"""Tracking: a box's track is its tracklet's cluster, under the settings chosen for counting.

Source: the thesis on foundation models (5.1.4): the best setting of counting is used for tracking.
Its tables have means and standard deviations over procedures, whereas TrackEval adds the counts of
sequences. Both are computed here: the names of means end in "mean", those of sums do not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from polyplink.core.arrays import Floats, Ints
from polyplink.core.compiled import njit
from polyplink.evaluate.counting import renumber
from polyplink.evaluate.hota import (
    Codes,
    Form,
    TrackingCounts,
    score_boxes,
    score_table,
    tracking_figures,
)
from polyplink.evaluate.intervals import Figure, Resampled, Weights, mean_of_procedures, unless_nan
from polyplink.evaluate.metric import Metric, metrics_of
from polyplink.evaluate.samples import BoxTracks, TrackletBoxes, find_concurrent


def make_tracks(labels: npt.ArrayLike, pairs: Ints) -> tuple[Codes, Ints, Ints]:
    """Turn clusters into tracks, which have at most one box per frame.

    Tracklets with a common frame show different polyps, even if the clusterer joins them. If such
    tracklets are in the same cluster, the later one, by first frame, moves to the first free
    additional track of the cluster.

    Args:
        labels: Cluster of every tracklet under p clusterings (p, n), 0 or more.
        pairs: Tracklets i, j that have a frame in common (m, 2), see `find_concurrent`.

    Returns:
        Tracks (p, n), numbered from 0 in the order of first tracklets; number of tracks (p,);
        number of tracklets moved to another track (p,).
    """
    clusters = np.ascontiguousarray(labels, dtype=np.int32)
    tracks, counts = np.empty_like(clusters), np.empty((2, len(clusters)), dtype=np.int64)
    if clusters.size:
        # Upper bound of the tracks of a cluster.
        max_tracks = int(np.bincount(pairs[:, 1], minlength=1).max()) + 1
        _split_clusters(clusters, pairs, max_tracks, tracks, counts)
    return tracks, counts[0], counts[1]


@njit()
def _split_clusters(
    clusters: Codes, pairs: Ints, max_tracks: int, tracks: Codes, counts: Ints
) -> None:
    """Write tracks (p, n), and the numbers of tracks and of moved tracklets (2, p)."""
    n = clusters.shape[1]
    place, key = np.zeros(n, np.int64), np.empty(n, np.int64)  # place among the cluster's tracks
    used = np.zeros(max_tracks, np.bool_)
    new = np.full((clusters.max() + 1) * max_tracks, -1, np.int32)
    for p in range(clusters.shape[0]):
        labels, first = clusters[p], 0
        while first < pairs.shape[0]:  # for each tracklet j, all concurrent earlier tracklets i
            j, last = pairs[first, 1], first
            while last < pairs.shape[0] and pairs[last, 1] == j:
                last += 1
            for i in pairs[first:last, 0]:
                if labels[i] == labels[j]:
                    used[place[i]] = True
            place[j] = 0
            while used[place[j]]:
                place[j] += 1
            used[:] = False
            first = last
        for i in range(n):
            key[i] = labels[i] * max_tracks + place[i]
        counts[0, p] = renumber(key, tracks[p], new)
        counts[1, p] = (place > 0).sum()


@dataclass(frozen=True)
class ProcedureTracking:
    """Tracking of one procedure under p clusterings.

    Attributes:
        procedure: Name of the procedure.
        form: "table" if no boxes overlap, "general" otherwise.
        counts: Sums of the figures (p, ...).
        track: Track of every tracklet (p, n).
        tracks: Number of tracks (p,).
        split: Number of tracklets moved to another track because of a common frame (p,).
        doubled: Number of boxes left out because their polyp has another box in the frame.
    """

    procedure: str
    form: Form
    counts: TrackingCounts
    track: Codes
    tracks: Ints
    split: Ints
    doubled: int

    def take(self, rows: npt.ArrayLike) -> Self:
        """The tracking under one or some of the clusterings."""
        at = np.asarray(rows)
        counts, names = self.counts.take(at), ("track", "tracks", "split")
        return replace(self, counts=counts, **{name: getattr(self, name)[at] for name in names})


@dataclass(frozen=True)
class TrackingTruth:
    """A procedure's tracklets and their overlaps in time, to score clusterings.

    Attributes:
        procedure: Name of the procedure.
        tracklets: The tracklets, of known polyp.
        pairs: Pairs with a frame in common (m, 2), see `find_concurrent`.
        table: Whether the table form is correct: no two boxes of a frame overlap, and tracklets of
            a polyp do not overlap in time.
    """

    procedure: str
    tracklets: TrackletBoxes
    pairs: Ints
    table: bool

    @classmethod
    def of(cls, procedure: str, tracklets: TrackletBoxes) -> Self:
        """Compute once what all clusterings of a procedure share."""
        pairs, together, touching = find_concurrent(tracklets)
        i, j = tracklets.polyp[pairs].T
        apart = not (touching | (i == j)).any()
        return cls(procedure, tracklets, pairs[together], apart)

    def score(self, labels: npt.ArrayLike) -> ProcedureTracking:
        """Score clusterings (p, n), in the table form if it is correct.

        Example:
            >>> boxes = np.tile([0.0, 0.0, 9.0, 9.0], (20, 1))
            >>> offset = np.array([0, 6, 10, 20])
            >>> tracklets = TrackletBoxes(np.array([0, 0, 1]), offset, np.arange(20), boxes)
            >>> tracking = TrackingTruth.of("v", tracklets).score([[0, 0, 1], [0, 1, 1]])
            >>> tracking_figures(tracking.counts)["IDF1"].tolist()
            [1.0, 0.8]
        """
        tracks, n_tracks, split = make_tracks(labels, self.pairs)
        if self.table:
            counts = score_table(self.tracklets, tracks, n_tracks)
            return ProcedureTracking(self.procedure, "table", counts, tracks, n_tracks, split, 0)
        distinct, rows = without_doubles(self.tracklets)
        scene = true_and_detected(distinct, np.arange(rows.size))
        counts = score_boxes(*scene, np.ascontiguousarray(tracks[:, rows]))
        doubled = int(self.tracklets.frame.size - distinct.frame.size)
        return ProcedureTracking(
            self.procedure, "general", counts, tracks, n_tracks, split, doubled
        )


def without_doubles(tracklets: TrackletBoxes) -> tuple[TrackletBoxes, Ints]:
    """Leave out boxes of a polyp with another box in the frame, in an earlier tracklet.

    Returns:
        The remaining tracklets, and their rows in `tracklets` (m,).
    """
    owner, rank = tracklets.owner(), np.argsort(np.argsort(tracklets.first, kind="stable"))
    polyp = tracklets.polyp[owner]
    order = np.lexsort((rank[owner], tracklets.frame, polyp))
    repeats = (np.diff(polyp[order]) == 0) & (np.diff(tracklets.frame[order]) == 0)
    first_boxes = np.sort(order[np.append(True, ~repeats)])
    rows, counts = np.unique(owner[first_boxes], return_counts=True)
    offset = np.concatenate([[0], np.cumsum(counts)])
    single_boxes = TrackletBoxes(
        tracklets.polyp[rows], offset, tracklets.frame[first_boxes], tracklets.box[first_boxes]
    )
    return single_boxes, rows


def true_and_detected(
    tracklets: TrackletBoxes, track: npt.NDArray[np.integer]
) -> tuple[BoxTracks, BoxTracks]:
    """Both sides of the general form: the same boxes, by polyp and by track (n,)."""
    order = np.argsort(tracklets.frame, kind="stable")
    frame, box, owner = tracklets.frame[order], tracklets.box[order], tracklets.owner()[order]
    sides = []
    for code in (tracklets.polyp, track):
        names, codes = np.unique(code, return_inverse=True)
        sides.append(BoxTracks(frame, codes[owner].astype(np.int64), box, names.size))
    return sides[0], sides[1]


def tracking_rows(
    folds: Sequence[ProcedureTracking],
    truths: Mapping[str, TrackingTruth],
    metrics: Mapping[str, Metric],
) -> dict[str, Any]:
    """Tracking scores of each procedure, and their spread.

    Args:
        folds: One per procedure, under one clustering each (`ProcedureTracking.take` of a row).
        truths: The tracklets by procedure.
        metrics: Metrics of tracking by name.

    Returns:
        procedures: one row per procedure, with its form, boxes (tracked), polyps, tracks, split,
        doubled (see `ProcedureTracking`) and figures (by name, None if undefined); spreads: mean
        and standard deviation over procedures (`Figure`) by figure, as the thesis gives them.
    """
    rows = []
    for fold in folds:
        figures = tracking_figures(fold.counts, metrics)
        row: dict[str, Any] = {
            "procedure": fold.procedure,
            "form": fold.form,
            "boxes": int(fold.counts.true),
            "polyps": int(np.unique(truths[fold.procedure].tracklets.polyp).size),
            "tracks": int(fold.tracks),
            "split": int(fold.split),
            "doubled": fold.doubled,
            "figures": {name: unless_nan(value) for name, value in figures.items()},
        }
        rows.append(row)
    spreads = {name: Figure.mean_of([row["figures"][name] for row in rows]) for name in metrics}
    return {"procedures": tuple(rows), "spreads": spreads}


def tracking_measures(
    name: str,
    folds: Sequence[ProcedureTracking],
    weights: Weights,
    metrics: Mapping[str, Metric],
) -> dict[str, Resampled]:
    """The figures with their resamples over procedures.

    Args:
        name: The clusterer; figures are called "tracking/NAME/HOTA" and so on, and
            "tracking/NAME/HOTA mean" for the mean over procedures.
        folds: One per procedure, see `tracking_rows`; if empty, figures are undefined.
        weights: Draws (r, procedures).
        metrics: Metrics of tracking by name.
    """
    means, units = _with_mean(metrics), weights.shape[1]
    if not folds:
        nothing = Resampled(None, np.full(len(weights), np.nan), np.zeros(units, dtype=np.bool_))
        names = [*metrics, *(f"{figure} mean" for figure in means)]
        return {f"tracking/{name}/{figure}": nothing for figure in names}
    counts = [fold.counts for fold in folds]
    total = tracking_figures(TrackingCounts.total(counts), metrics)
    drawn = tracking_figures(TrackingCounts.weighted(counts, weights), metrics)
    part = np.ones(units, dtype=np.bool_)
    measures = {
        f"tracking/{name}/{figure}": Resampled(unless_nan(total[figure]), drawn[figure], part)
        for figure in metrics
    }
    per_procedure = [tracking_figures(counted, means) for counted in counts]
    for figure in means:
        values: Floats = np.array([float(figures[figure]) for figures in per_procedure])
        measures[f"tracking/{name}/{figure} mean"] = mean_of_procedures(values, weights)
    return measures


def tracking_curve(
    tracked: Sequence[ProcedureTracking],
    rows: Sequence[Ints],
    metrics: Mapping[str, Metric] | None = None,
) -> dict[str, Floats]:
    """Every setting's figures over all procedures (s,).

    Args:
        tracked: One per procedure, at least one, under its distinct clusterings.
        rows: Index of the clustering of each of s settings, (s,) per procedure.
        metrics: Metrics of tracking by name; the built-in ones by default.

    Returns:
        "HOTA" and so on from sums over procedures, and "HOTA mean" and so on, the means over
        procedures.
    """
    metrics = metrics_of("tracking") if metrics is None else metrics
    settings = list(zip(tracked, rows, strict=True))
    total = TrackingCounts.total(procedure.counts.take(of) for procedure, of in settings)
    figures = tracking_figures(total, metrics)
    means = _with_mean(metrics)
    columns = [(tracking_figures(procedure.counts, means), of) for procedure, of in settings]
    for name in means:
        figures[f"{name} mean"] = np.mean(
            [figures_of[name][of] for figures_of, of in columns], axis=0
        )
    return figures


def _with_mean(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """The metrics that are also averaged over procedures."""
    return {name: metric for name, metric in metrics.items() if metric.with_mean}
