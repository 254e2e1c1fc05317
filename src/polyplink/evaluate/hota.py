"""HOTA, identity and CLEAR metrics of tracks: their sums, in two forms, and the figures.

Source: HOTA (Luiten et al., IJCV 2021), IDF1 (Ristani et al. 2016), MOTA (CLEAR, Bernardin and
Stiefelhagen 2008), with the results of TrackEval 1.3.0: HOTA's parts are means over 19 thresholds
of IoU, 0.05 to 0.95; sequences are combined by adding counts, not by averaging.

- General form (`score_boxes`): true and detected boxes are matched frame by frame. Two boxes that
  overlap each other and no other box are matched regardless of the scores, so the Hungarian
  algorithm only runs on frames in which boxes compete.
- Table form (`score_table`): if the detected boxes are the true ones and no two boxes of a frame
  overlap, every box is matched with itself at every threshold, and all figures follow from the
  numbers of boxes per track and polyp.

Both score many assignments of the same boxes to tracks in one call, because a grid search clusters
a procedure in thousands of ways.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from polyplink.core.arrays import Flags, Floats, Ints
from polyplink.core.compiled import njit
from polyplink.evaluate.metric import Metric, metrics_of, values_of
from polyplink.evaluate.samples import BoxTracks, Overlaps, TrackletBoxes, overlaps

Codes = npt.NDArray[np.int32]
Form = Literal["table", "general"]

ALPHAS = np.arange(0.05, 0.99, 0.05)  # 19
THRESHOLD = 0.5  # smallest IoU of a match in identity and CLEAR metrics
EPS = float(np.finfo("float").eps)
LEVELS = ALPHAS.size + 1


@dataclass(frozen=True)
class TrackingCounts:
    """Sums over the boxes of one procedure or of several.

    A leading axis may hold resamples, or assignments of the boxes to tracks.

    Attributes:
        true: Number of true boxes (...,).
        detected: Number of detected boxes (...,).
        tp: Number of matched pairs at every threshold (..., 19).
        ass_a: Sum over matched pairs of their tracks' association score (..., 19).
        ass_pr: Sum of their association precision (..., 19).
        ass_re: Sum of their association recall (..., 19).
        loc: Sum of their IoU (..., 19).
        idtp: Number of boxes matched under the best one-to-one matching of whole tracks (...,).
        clear_tp: Number of boxes matched frame by frame at IoU 0.5 (...,).
        switches: Number of matched boxes with another track than at the polyp's last match (...,).
    """

    true: Floats
    detected: Floats
    tp: Floats
    ass_a: Floats
    ass_pr: Floats
    ass_re: Floats
    loc: Floats
    idtp: Floats
    clear_tp: Floats
    switches: Floats

    @classmethod
    def weighted(cls, counts: Sequence[Self], weights: npt.ArrayLike) -> Self:
        """Sum over procedures, weighted by their draws.

        Args:
            counts: Sums of each of p procedures.
            weights: Draws of each procedure, (p,) or (r, p).
        """
        draws = np.asarray(weights, dtype=np.float64)
        sums = {}
        for field in fields(cls):
            per_procedure = [
                np.asarray(getattr(of_procedure, field.name)) for of_procedure in counts
            ]
            sums[field.name] = draws @ np.stack(per_procedure)
        return cls(**sums)

    @classmethod
    def total(cls, counts: Iterable[Self]) -> Self:
        """Add procedures up, as TrackEval combines sequences."""
        all_counts = list(counts)
        sums: dict[str, Any] = {}
        for field in fields(cls):
            sums[field.name] = sum(getattr(of_procedure, field.name) for of_procedure in all_counts)
        return cls(**sums)

    def take(self, rows: npt.ArrayLike) -> Self:
        """One or some entries of the leading axis."""
        at = np.asarray(rows)
        return type(self)(**{field.name: getattr(self, field.name)[at] for field in fields(self)})


def tracking_figures(
    counts: TrackingCounts, metrics: Mapping[str, Metric] | None = None
) -> dict[str, Floats]:
    """The figures from the sums; NaN without a true box (TrackEval reports 0).

    Args:
        counts: The sums (...,).
        metrics: Metrics of tracking by name; the built-in ones by default.

    Returns:
        Figures by name, each (...,).
    """
    metrics = metrics_of("tracking") if metrics is None else metrics
    has_boxes = np.asarray(counts.true) > 0
    figures = {}
    for name, metric in metrics.items():
        values = values_of(name, metric, counts, has_boxes.shape)
        figures[name] = np.where(has_boxes, values, np.nan)
    return figures


def _detection(c: TrackingCounts) -> Floats:
    """Jaccard index of the boxes at each of the 19 thresholds of IoU (..., 19)."""
    boxes = np.asarray(c.true)[..., None] + np.asarray(c.detected)[..., None]
    return np.asarray(c.tp / np.maximum(1, boxes - c.tp))


def _association(total: Floats, c: TrackingCounts) -> Floats:
    """Mean over matched boxes of a share, given its total, at each threshold (..., 19)."""
    return np.asarray(total / np.maximum(1, c.tp))


def _hota(c: TrackingCounts) -> Floats:
    return np.asarray(np.sqrt(_detection(c) * _association(c.ass_a, c)).mean(axis=-1))


def _localisation(c: TrackingCounts) -> Floats:
    return np.asarray((np.maximum(1e-10, c.loc) / np.maximum(1e-10, c.tp)).mean(axis=-1))


HOTA = Metric(
    task="tracking",
    title="higher order tracking accuracy",
    meaning="detection and association in one",
    value=_hota,
    with_mean=True,
)
DETA = Metric(
    task="tracking",
    title="detection accuracy",
    meaning="true boxes that were detected, and boxes that are true",
    value=lambda c: _detection(c).mean(axis=-1),
)
ASSA = Metric(
    task="tracking",
    title="association accuracy",
    meaning="how well boxes of one polyp are kept together and apart from others",
    value=lambda c: _association(c.ass_a, c).mean(axis=-1),
    with_mean=True,
)
ASSPR = Metric(
    task="tracking",
    title="association precision",
    meaning="of the boxes of a track, those of its polyp",
    value=lambda c: _association(c.ass_pr, c).mean(axis=-1),
    with_mean=True,
)
ASSRE = Metric(
    task="tracking",
    title="association recall",
    meaning="of the boxes of a polyp, those of its track",
    value=lambda c: _association(c.ass_re, c).mean(axis=-1),
    with_mean=True,
)
LOCA = Metric(
    task="tracking",
    title="localisation accuracy",
    meaning="IoU of matched boxes",
    value=_localisation,
)
IDF1 = Metric(
    task="tracking",
    title="identity F1",
    meaning="boxes under the best one-to-one matching of tracks and polyps",
    value=lambda c: c.idtp / np.maximum(1, (c.true + c.detected) / 2),
    with_mean=True,
)
IDP = Metric(
    task="tracking",
    title="identity precision",
    meaning="of the detected boxes",
    value=lambda c: c.idtp / np.maximum(1, c.detected),
)
IDR = Metric(
    task="tracking",
    title="identity recall",
    meaning="of the true boxes",
    value=lambda c: c.idtp / np.maximum(1, c.true),
)
IDSW = Metric(
    task="tracking",
    title="identity switches",
    meaning="changes of a polyp's track",
    value=lambda c: np.asarray(c.switches, dtype=np.float64),
    ideal=0.0,
)
MOTA = Metric(
    task="tracking",
    title="multiple object tracking accuracy",
    meaning="misses, false alarms and changes of track",
    value=lambda c: (2 * c.clear_tp - c.detected - c.switches) / np.maximum(1, c.true),
)


@njit()
def assign(cost: Floats) -> Ints:  # noqa: PLR0912
    """Column of every row (r,) in the cheapest one-to-one assignment of costs (r, c), r <= c.

    Source: Crouse, On implementing 2D rectangular assignment algorithms, IEEE TAES 2016. Follows
    scipy 1.17's `linear_sum_assignment` step by step, to choose the same of several optimal
    assignments. Compiled code cannot call scipy, and for small tables the call takes longer than
    the solution.
    """
    rows, columns = cost.shape
    row_dual, column_dual = np.zeros(rows), np.zeros(columns)
    row_of, column_of = np.full(columns, -1), np.full(rows, -1)
    last, unassigned, length = np.full(columns, -1), np.full(columns, -1), np.zeros(columns)
    row_on, column_on = np.zeros(rows, np.bool_), np.zeros(columns, np.bool_)
    for row in range(rows):
        # The shortest path from the row to a free column, by Dijkstra's algorithm.
        for k in range(columns):
            unassigned[k] = columns - 1 - k  # backwards, so that equal costs give the diagonal
            length[k], column_on[k] = np.inf, False
        for k in range(rows):
            row_on[k] = False
        distance, i, j, n_unassigned = 0.0, row, -1, columns
        while True:
            row_on[i] = True
            best, lowest = -1, np.inf
            for k in range(n_unassigned):
                j = unassigned[k]
                through = distance + cost[i, j] - row_dual[i] - column_dual[j]
                if through < length[j]:
                    last[j], length[j] = i, through
                if length[j] < lowest or (length[j] == lowest and row_of[j] == -1):
                    best, lowest = k, length[j]
            distance, j = lowest, unassigned[best]
            column_on[j] = True
            if row_of[j] == -1:
                break
            n_unassigned -= 1
            i, unassigned[best] = row_of[j], unassigned[n_unassigned]
        # Update the duals so that reduced costs stay non-negative.
        row_dual[row] += distance
        for k in range(rows):
            if row_on[k] and k != row:
                row_dual[k] += distance - length[column_of[k]]
        for k in range(columns):
            if column_on[k]:
                column_dual[k] -= distance - length[k]
        # Flip the assignments along the path.
        i = -1
        while i != row:
            i = last[j]
            row_of[j] = i
            j, column_of[i] = column_of[i], j
    return column_of


@njit()
def best_matching(table: Ints) -> int:
    """Largest sum of cells (g, t) with at most one in a row and in a column."""
    rows, columns = table.shape
    cost = np.zeros((min(rows, columns), max(rows, columns)))
    for row in range(rows):
        for column in range(columns):  # whole numbers, so the sum is exact
            if rows <= columns:
                cost[row, column] = -table[row, column]
            else:
                cost[column, row] = -table[row, column]
    column_of = assign(cost)
    total = 0.0
    for row in range(column_of.size):
        total -= cost[row, column_of[row]]
    return int(total)


def score_table(tracklets: TrackletBoxes, tracks: Codes, n_tracks: Ints) -> TrackingCounts:
    """Score assignments of tracklets to tracks in the table form.

    Args:
        tracklets: The n tracklets of a procedure, at least one, with true boxes.
        tracks: Track of every tracklet under p assignments (p, n), from 0 without gaps.
        n_tracks: Number of tracks (p,).

    Returns:
        Sums with a leading axis (p, ...); only correct if no two boxes of a frame overlap, and no
        polyp is in a frame twice.
    """
    _, polyp = np.unique(tracklets.polyp, return_inverse=True)
    order = np.lexsort((tracklets.first, polyp))
    true = np.bincount(polyp, tracklets.sizes).astype(np.int64)
    sums, single = _count_table(tracks, n_tracks, (polyp, true), tracklets.sizes, order)
    boxes = np.full(len(tracks), float(tracklets.sizes.sum()))

    def at_thresholds(values: Floats) -> Floats:
        """The same values (p,) at every threshold (p, 19): a view, no copy."""
        return np.broadcast_to(values[:, None], (values.size, ALPHAS.size))

    # Every box is matched with itself, with an IoU of 1.
    return TrackingCounts(
        true=boxes,
        detected=boxes,
        tp=at_thresholds(boxes),
        ass_a=at_thresholds(sums[0]),
        ass_pr=at_thresholds(sums[1]),
        ass_re=at_thresholds(sums[2]),
        loc=at_thresholds(boxes),
        idtp=single[0],
        clear_tp=boxes,
        switches=single[1],
    )


@njit()
def _count_table(
    tracks: Codes, n_tracks: Ints, polyps: tuple[Ints, Ints], sizes: Ints, order: Ints
) -> tuple[Floats, Floats]:
    """Compute the table of polyps and tracks of every assignment, and its sums.

    Args:
        tracks: Track of every tracklet (p, n).
        n_tracks: Number of tracks (p,).
        polyps: Polyp of every tracklet (n,), from 0, and number of boxes of every polyp (g,).
        sizes: Number of boxes of every tracklet (n,).
        order: The tracklets sorted by polyp and first frame (n,).

    Returns:
        Association accuracy, precision and recall (3, p); boxes under the best matching, and
        switches (2, p).
    """
    polyp, true = polyps
    n, g, n_settings = polyp.size, true.size, tracks.shape[0]
    sums, single = np.zeros((3, n_settings)), np.zeros((2, n_settings))
    track_sizes = np.empty(n, np.int64)
    for p in range(n_settings):
        table = np.zeros((g, n_tracks[p]), np.int64)
        for i in range(n):
            track_sizes[i] = 0
        for i in range(n):
            table[polyp[i], tracks[p, i]] += sizes[i]
            track_sizes[tracks[p, i]] += sizes[i]
        for row in range(g):
            for t in range(n_tracks[p]):
                c = table[row, t]
                if c:
                    sums[0, p] += c * c / (true[row] + track_sizes[t] - c)
                    sums[1, p] += c * c / track_sizes[t]
                    sums[2, p] += c * c / true[row]
        single[0, p] = best_matching(table)
        for k in range(1, n):
            a, b = order[k - 1], order[k]
            single[1, p] += polyp[a] == polyp[b] and tracks[p, a] != tracks[p, b]
    return sums, single


def score_tracks(true: BoxTracks, detected: BoxTracks) -> TrackingCounts:
    """Score the tracks of one procedure against the true ones, in the general form.

    Args:
        true: True boxes, with polyps as tracks.
        detected: A tracker's boxes.

    Example:
        >>> boxes = [[0, 0, 10, 10]] * 10
        >>> true = BoxTracks.of(range(10), ["p"] * 10, boxes)
        >>> detected = BoxTracks.of(range(10), ["a"] * 5 + ["b"] * 5, boxes)
        >>> figures = tracking_figures(score_tracks(true, detected))
        >>> float(figures["AssA"]), float(figures["IDSW"])
        (0.5, 1.0)
    """
    identity = np.arange(detected.tracks, dtype=np.int32)[None]
    return score_boxes(true, detected, identity).take(0)


def score_boxes(true: BoxTracks, detected: BoxTracks, tracks: Codes) -> TrackingCounts:
    """Score assignments of detected boxes to tracks, in the general form.

    Args:
        true: True boxes, with polyps as tracks.
        detected: Detected boxes; its tracks are the n parts that are assigned to tracks.
        tracks: Track of every part under p assignments (p, n), no track twice in a frame.

    Returns:
        Sums with a leading axis (p, ...).
    """
    pairs = overlaps(true, detected)
    s = pairs.similarity
    sums = np.zeros((len(tracks), 5, ALPHAS.size))
    single = np.zeros((len(tracks), 3), dtype=np.int64)
    if s.size and len(tracks):
        by_true = np.bincount(pairs.true, s, minlength=true.frame.size)
        by_detected = np.bincount(pairs.detected, s, minlength=detected.frame.size)
        # The contribution of each pair to the similarity of its tracks, and its level of IoU.
        share = s / (by_true[pairs.true] + by_detected[pairs.detected] - s)
        level = np.searchsorted(ALPHAS - EPS, s, side="right")
        contested = (_contested(pairs, s > 0), _contested(pairs, s >= THRESHOLD - EPS))
        boxes_of_polyp = np.bincount(true.track, minlength=true.tracks)
        sums, single = _score_frames(
            tracks,
            tracks.max(axis=1) + 1,
            (true.track, boxes_of_polyp),
            detected.track,
            pairs,
            share,
            level,
            *contested,
        )
    boxes = (np.full(len(tracks), float(side.frame.size)) for side in (true, detected))
    return TrackingCounts(*boxes, *np.moveaxis(sums, 1, 0), *single.T.astype(np.float64))


def _contested(pairs: Overlaps, use: Flags) -> Flags:
    """Whether some box of a frame has two partners among the pairs in use (f,)."""
    true, detected = pairs.true[use], pairs.detected[use]
    flags = np.zeros(pairs.starts.size - 1, dtype=np.bool_)
    if true.size:
        has_rival = (np.bincount(true)[true] > 1) | (np.bincount(detected)[detected] > 1)  # (u,)
        frames = np.searchsorted(pairs.starts, np.flatnonzero(use)[has_rival], side="right") - 1
        flags[frames] = True
    return flags


@njit()
def _score_frames(  # noqa: PLR0917
    tracks: Codes,
    n_tracks: Codes,
    polyps: tuple[Ints, Ints],
    part: Ints,
    pairs: Overlaps,
    share: Floats,
    level: Ints,
    contested_hota: Flags,
    contested_clear: Flags,
) -> tuple[Floats, Ints]:
    """Score every assignment of the n parts of the detected boxes to tracks.

    Loops take the place of numpy functions: each numpy function in compiled code adds tenths of a
    second to the first call.

    Args:
        tracks: Track of every part (q, n).
        n_tracks: Number of tracks (q,).
        polyps: Polyp of every true box (d,), and number of boxes of every polyp (g,).
        part: Part of every detected box (e,).
        pairs: The p pairs of overlapping boxes, in f frames.
        share: Contribution of every pair to the similarity of its tracks (p,).
        level: Number of thresholds that its IoU reaches (p,).
        contested_hota: Whether boxes of a frame compete for a partner at any IoU (f,).
        contested_clear: Whether they compete at the IoU of CLEAR (f,).

    Returns:
        Matches, association accuracy, precision and recall, and IoU at every threshold (q, 5, 19);
        boxes under the best matching, matches and switches of CLEAR (q, 3).
    """
    polyp, true = polyps
    sums = np.zeros((tracks.shape[0], 5, LEVELS - 1))
    single = np.zeros((tracks.shape[0], 3), np.int64)
    similarity, pair_polyp = pairs.similarity, polyp[pairs.true]  # (p,)
    most_tracks = 0
    for q in range(tracks.shape[0]):
        most_tracks = max(most_tracks, n_tracks[q])
    # Matched pairs by cell of the table of polyps and tracks, and by level of IoU; zeros again
    # after each assignment.
    counts = np.zeros((true.size * most_tracks, LEVELS), np.int64)
    cell, track = np.empty(share.size, np.int64), np.empty(share.size, np.int64)
    for q in range(tracks.shape[0]):
        # Track and cell of every pair under this assignment.
        track_sizes = np.zeros(n_tracks[q], np.int64)
        for box in range(part.size):
            track_sizes[tracks[q, part[box]]] += 1
        for p in range(share.size):
            track[p] = tracks[q, part[pairs.detected[p]]]
            cell[p] = pair_polyp[p] * track_sizes.size + track[p]

        # The pairs that HOTA matches, by cell and level.
        matched_pairs = _match_hota(pairs, cell, (true, track_sizes), share, contested_hota)
        table = np.zeros((true.size, track_sizes.size), np.int64)  # pairs of IoU 0.5
        filled, loc = np.zeros(true.size * track_sizes.size, np.bool_), np.zeros(LEVELS)
        for p in range(share.size):
            table[pair_polyp[p], track[p]] += similarity[p] >= THRESHOLD
            if matched_pairs[p]:
                counts[cell[p], level[p]] += 1
                filled[cell[p]] = True
                loc[level[p]] += similarity[p]

        # Their sums at every threshold.
        for c in range(filled.size):
            if not filled[c]:
                continue
            matched, g, t = 0, c // track_sizes.size, c % track_sizes.size
            for a in range(LEVELS - 2, -1, -1):  # a pair counts at all thresholds up to its level
                matched += counts[c, a + 1]
                if matched:
                    sums[q, 0, a] += matched
                    sums[q, 1, a] += matched * matched / (true[g] + track_sizes[t] - matched)
                    sums[q, 2, a] += matched * matched / track_sizes[t]
                    sums[q, 3, a] += matched * matched / true[g]
            for a in range(LEVELS):
                counts[c, a] = 0
        total = 0.0
        for a in range(LEVELS - 2, -1, -1):
            total += loc[a + 1]
            sums[q, 4, a] = total

        # Identity and CLEAR.
        single[q, 0] = best_matching(table)
        single[q, 1], single[q, 2] = _match_clear(
            pairs, pair_polyp, track, contested_clear, true.size
        )
    return sums, single


@njit()
def _match_hota(
    pairs: Overlaps, cell: Ints, boxes: tuple[Ints, Ints], share: Floats, contested: Flags
) -> Flags:
    """Whether HOTA matches each pair at threshold 0 (p,): one matching serves all thresholds.

    cell (p,) is each pair's cell in the table of polyps and tracks, boxes the numbers of boxes of
    every polyp (g,) and track (t,), share (p,) each pair's contribution to its tracks' similarity.
    """
    true, track_sizes = boxes
    matched = np.ones(cell.size, np.bool_)
    possible, score = np.zeros(true.size * track_sizes.size), np.zeros(cell.size)
    for p in range(cell.size):
        possible[cell[p]] += share[p]
    for frame in range(contested.size):
        if contested[frame]:
            for p in range(pairs.starts[frame], pairs.starts[frame + 1]):
                c = cell[p]
                either = (
                    true[c // track_sizes.size] + track_sizes[c % track_sizes.size] - possible[c]
                )
                score[p] = possible[c] / either * pairs.similarity[p]
            _assign_frame(frame, pairs, score, matched)
    return matched


@njit()
def _match_clear(
    pairs: Overlaps, polyp: Ints, track: Ints, contested: Flags, polyps: int
) -> tuple[int, int]:
    """Matches and switches at IoU 0.5; matches of the frame before are kept if possible."""
    starts, similarity, limit = pairs.starts, pairs.similarity, THRESHOLD - EPS
    last, last_frame = np.full(polyps, -1), np.full(polyps, -2)
    score, matched = np.zeros(polyp.size), np.zeros(polyp.size, np.bool_)
    for p in range(polyp.size):
        matched[p] = similarity[p] >= limit
    matches = switches = 0
    for frame in range(contested.size):
        if contested[frame]:
            for p in range(starts[frame], starts[frame + 1]):
                stays = last_frame[polyp[p]] == frame - 1 and last[polyp[p]] == track[p]
                score[p] = 1000.0 * stays + similarity[p] if similarity[p] >= limit else 0.0
            _assign_frame(frame, pairs, score, matched)
        for p in range(starts[frame], starts[frame + 1]):
            g = polyp[p]
            if matched[p]:
                matches += 1
                switches += last[g] >= 0 and last[g] != track[p]
                last[g], last_frame[g] = track[p], frame
    return matches, switches


@njit()
def _assign_frame(frame: int, pairs: Overlaps, score: Floats, matched: Flags) -> None:
    """Match a frame's pairs with the Hungarian algorithm, by their scores (p,).

    Pairs with a score of 0 are not used; matched (p,) is written for the pairs of the frame.
    """
    true, detected, _, starts, true_rows, detected_rows = pairs
    i, j = true_rows[frame, 0], detected_rows[frame, 0]
    rows, columns = true_rows[frame, 1] - i, detected_rows[frame, 1] - j
    is_wide = rows <= columns
    cost = np.zeros((min(rows, columns), max(rows, columns)))
    for p in range(starts[frame], starts[frame + 1]):
        row, column = true[p] - i, detected[p] - j
        if is_wide:
            cost[row, column] = -score[p]
        else:
            cost[column, row] = -score[p]
    partner = assign(cost)
    for p in range(starts[frame], starts[frame + 1]):
        row, column = true[p] - i, detected[p] - j
        chosen = partner[row] == column if is_wide else partner[column] == row
        matched[p] = score[p] > 0 and chosen
