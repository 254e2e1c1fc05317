"""Tracking of one procedure under every setting of a sweep, in the general form.

The figures are those of `tracking.score_tracks`, to the bit. True and found boxes are the same,
so that which of them overlap, and in which frames they compete, is looked at once for all
settings.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from polyplink.core.compiled import njit
from polyplink.evaluate.assignment import assigned
from polyplink.evaluate.box_tracks import BoxTracks, Ints, Overlaps, Reals, overlaps
from polyplink.evaluate.matching import best_sum
from polyplink.evaluate.partitions import Codes
from polyplink.evaluate.tracking_scores import ALPHAS, EPS, THRESHOLD, TrackingCounts
from polyplink.evaluate.tracklet_boxes import TrackletBoxes

LEVELS = ALPHAS.size + 1
Flags = npt.NDArray[np.bool_]
Pairs = tuple[Ints, Ints, Ints, Ints]  # first box of every frame, first pair; true box, found box


def _contested(pairs: Overlaps, use: Flags) -> Flags:
    """Whether some box of a frame has two partners among the pairs in use (f,)."""
    true, found = pairs.true[use], pairs.found[use]
    busy = (np.bincount(true)[true] > 1) | (np.bincount(found)[found] > 1)  # (u,)
    at = np.searchsorted(pairs.starts, np.flatnonzero(use)[busy], side="right") - 1
    flags = np.zeros(pairs.starts.size - 1, dtype=np.bool_)
    flags[at] = True
    return flags


@dataclass(frozen=True)
class SameBoxes:
    """The boxes of a procedure, overlapping themselves; d boxes, p pairs, f frames.

    Attributes:
        pairs: First box of every frame (f + 1,), first pair of every frame (f + 1,), first and
            second box of every pair (p,), (p,).
        owner: Tracklet of every box (d,), boxes being in the order of frames.
        polyp: Polyp of every box (d,), from 0.
        similarity: IoU of every pair (p,).
        share: What it adds to the similarity of its tracks in HOTA (p,).
        level: How many thresholds it passes (p,).
        contested: Frames in which boxes compete, for HOTA and for CLEAR (2, f).
    """

    pairs: Pairs
    owner: Ints
    polyp: Ints
    similarity: Reals
    share: Reals
    level: Ints
    contested: Flags

    @classmethod
    def of(cls, tracklets: TrackletBoxes) -> Self:
        """Look at the boxes once."""
        order = np.argsort(tracklets.frame, kind="stable")
        owner = tracklets.owner()[order]
        _, polyp = np.unique(tracklets.polyp, return_inverse=True)
        side = BoxTracks(
            tracklets.frame[order], polyp[owner], tracklets.box[order], polyp.max() + 1
        )
        pairs = overlaps(side, side)
        s = pairs.similarity
        by_true, by_found = np.bincount(pairs.true, s), np.bincount(pairs.found, s)
        begin = np.append(pairs.true_rows[:, 0], order.size)
        return cls(
            pairs=(begin, pairs.starts, pairs.true, pairs.found),
            owner=owner,
            polyp=side.track,
            similarity=s,
            share=s / (by_true[pairs.true] + by_found[pairs.found] - s),
            level=np.searchsorted(ALPHAS - EPS, s, side="right"),
            contested=np.stack([_contested(pairs, s > 0), _contested(pairs, s >= THRESHOLD - EPS)]),
        )


@njit()
def _settle_frame(frame: int, pairs: Pairs, score: Reals, kept: Flags) -> None:
    """Keep those of a frame's pairs that the Hungarian algorithm chooses.

    Args:
        frame: The frame.
        pairs: All pairs.
        score: Their scores (p,), 0: not in use.
        kept: Whether a pair is kept (p,), written for those of the frame.
    """
    begin, starts, true, found = pairs
    first, n = begin[frame], begin[frame + 1] - begin[frame]
    cost = np.zeros((n, n))
    for p in range(starts[frame], starts[frame + 1]):
        cost[true[p] - first, found[p] - first] = -score[p]
    column = assigned(cost)
    for p in range(starts[frame], starts[frame + 1]):
        kept[p] = score[p] > 0 and column[true[p] - first] == found[p] - first


@njit()
def _match(
    pairs: Pairs,
    cell: Ints,
    boxes: tuple[Ints, Ints],
    values: tuple[Reals, Reals, Flags],
    possible: Reals,
) -> Flags:
    """Whether HOTA matches each pair (p,).

    Args:
        pairs: All pairs.
        cell: Their cells in the table of polyps and tracks (p,).
        boxes: Boxes of every polyp (g,) and of every track (t,).
        values: IoU and share of every pair (p,), (p,); contested frames (f,).
        possible: Room for the similarity of polyps and tracks (g * t,).
    """
    true, found = boxes
    similarity, share, contested = values
    kept = np.ones(cell.size, np.bool_)
    if not contested.any():
        return kept
    for p in range(cell.size):
        possible[cell[p]] = 0.0
    for p in range(cell.size):
        possible[cell[p]] += share[p]
    score = np.zeros(cell.size)
    for frame in range(contested.size):
        if not contested[frame]:
            continue
        for p in range(pairs[1][frame], pairs[1][frame + 1]):
            c = cell[p]
            either = true[c // found.size] + found[c % found.size] - possible[c]
            score[p] = possible[c] / either * similarity[p]
        _settle_frame(frame, pairs, score, kept)
    return kept


@njit()
def _clear(
    pairs: Pairs, polyp: Ints, track: Ints, similarity: Reals, contested: Flags
) -> tuple[int, int]:
    """Matches and switches at IoU 0.5; a match of the frame before is kept where it can be.

    Args:
        pairs: All pairs.
        polyp: Polyp of each (p,).
        track: Track of each (p,).
        similarity: IoU of each (p,).
        contested: Frames in which boxes compete (f,).
    """
    starts, limit = pairs[1], THRESHOLD - EPS
    last, seen = np.full(polyp.max() + 1, -1), np.full(polyp.max() + 1, -2)
    score, kept = np.zeros(polyp.size), similarity >= limit
    matches = switches = 0
    for frame in range(contested.size):
        if contested[frame]:
            for p in range(starts[frame], starts[frame + 1]):
                stays = seen[polyp[p]] == frame - 1 and last[polyp[p]] == track[p]
                score[p] = 1000.0 * stays + similarity[p] if similarity[p] >= limit else 0.0
            _settle_frame(frame, pairs, score, kept)
        for p in range(starts[frame], starts[frame + 1]):
            g = polyp[p]
            if kept[p]:
                matches += 1
                switches += last[g] >= 0 and last[g] != track[p]
                last[g], seen[g] = track[p], frame
    return matches, switches


@njit()
def _add_up(cell: Ints, kept: Flags, values: tuple[Reals, Ints], counts: Ints, loc: Reals) -> None:
    """Count pairs by cell: those of IoU 0.5 and, by level, those kept; add up the IoU of these.

    Args:
        cell: Cell of every pair (p,).
        kept: Whether HOTA matches it (p,).
        values: Its IoU and level (p,), (p,).
        counts: Pairs of IoU 0.5, and by level (cells, 1 + 20), zeros at first.
        loc: Sums of IoU at every threshold (19,), written.
    """
    similarity, level = values
    sums = np.zeros(LEVELS)
    for p in range(cell.size):
        counts[cell[p], 0] += similarity[p] >= THRESHOLD
        if kept[p]:
            counts[cell[p], 1 + level[p]] += 1
            sums[level[p]] += similarity[p]
    total = 0.0
    for a in range(LEVELS - 2, -1, -1):
        total += sums[a + 1]
        loc[a] = total


@njit()
def _tables(counts: Ints, true: Ints, found: Ints, sums: Reals) -> int:
    """Sums over the table of every threshold, and the best matching of whole tracks.

    Args:
        counts: As `_add_up` filled them (g * t, 21); zeros after.
        true: Boxes of every polyp (g,).
        found: Boxes of every track (t,).
        sums: Matches, association accuracy, precision, recall (4 or more, 19), zeros at first.
    """
    starts, filled = np.zeros(true.size + 1, np.int64), 0
    column, weight = np.empty(counts.shape[0], np.int64), np.empty(counts.shape[0], np.int64)
    for cell in range(counts.shape[0]):
        g, t = cell // found.size, cell % found.size
        if counts[cell, 0]:
            column[filled], weight[filled] = t, counts[cell, 0]
            filled += 1
        starts[g + 1] = filled
        c = 0
        for a in range(LEVELS - 2, -1, -1):
            c += counts[cell, a + 2]
            if c:
                sums[0, a] += c
                sums[1, a] += c * c / (true[g] + found[t] - c)
                sums[2, a] += c * c / found[t]
                sums[3, a] += c * c / true[g]
        counts[cell] = 0
    return best_sum(starts, column[:filled], weight[:filled], found.size)


@njit()
def _score(
    tracks: Codes,
    who: tuple[Ints, Ints, Ints],
    pairs: Pairs,
    values: tuple[Reals, Reals, Ints, Flags],
    out: tuple[Reals, Ints],
) -> None:
    """Score every partition.

    Args:
        tracks: Track of every tracklet (q, n).
        who: Tracklet and polyp of every box (d,), (d,); boxes of every polyp (g,).
        pairs: All pairs.
        values: Their IoU, share and level (p,); contested frames (2, f).
        out: Zeros for the sums (q, 5, 19), and for boxes under the best matching, matches and
            switches of CLEAR (q, 3).
    """
    owner, polyp, true = who
    similarity, share, level, contested = values
    sums, single = out
    width = tracks.max() + 1
    of_pair = polyp[pairs[2]]  # (p,)
    cell, track = np.empty(of_pair.size, np.int64), np.empty(of_pair.size, np.int64)
    counts, possible = (
        np.zeros((true.size * width, 1 + LEVELS), np.int64),
        np.zeros(true.size * width),
    )
    for q in range(tracks.shape[0]):
        found = np.zeros(tracks[q].max() + 1, np.int64)
        for box in range(owner.size):
            found[tracks[q, owner[box]]] += 1
        for p in range(cell.size):
            track[p] = tracks[q, owner[pairs[3][p]]]
            cell[p] = of_pair[p] * found.size + track[p]
        kept = _match(pairs, cell, (true, found), (similarity, share, contested[0]), possible)
        _add_up(cell, kept, (similarity, level), counts, sums[q, 4])
        single[q, 0] = _tables(counts[: true.size * found.size], true, found, sums[q])
        single[q, 1:] = _clear(pairs, of_pair, track, similarity, contested[1])


def score_same_boxes(tracklets: TrackletBoxes, tracks: Codes) -> TrackingCounts:
    """Score the tracks of many partitions, true and found boxes being the same.

    Args:
        tracklets: The tracklets of a procedure, no polyp twice in a frame.
        tracks: Track of every tracklet (q, n), no track twice in a frame.
    """
    seen = SameBoxes.of(tracklets)
    sums = np.zeros((len(tracks), 5, ALPHAS.size))
    single = np.zeros((len(tracks), 3), dtype=np.int64)
    values = (seen.similarity, seen.share, seen.level, seen.contested)
    who = (seen.owner, seen.polyp, np.bincount(seen.polyp))
    if len(tracks):
        _score(tracks, who, seen.pairs, values, (sums, single))
    boxes = np.full(len(tracks), float(seen.owner.size))
    tp, accuracy, precision, recall, loc = np.moveaxis(sums, 1, 0)
    idtp, clear_tp, switches = single.T.astype(np.float64)
    return TrackingCounts(
        true=boxes,
        found=boxes,
        tp=tp,
        ass_a=accuracy,
        ass_pr=precision,
        ass_re=recall,
        loc=loc,
        idtp=idtp,
        clear_tp=clear_tp,
        switches=switches,
    )
