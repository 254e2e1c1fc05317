"""Tracking, general form: true and found boxes are matched frame by frame.

HOTA, identity and CLEAR measures with TrackEval 1.3.0's results (`trackeval/metrics`). What is
different is the order of the work: a pair of boxes that overlap each other and no other box is
matched whatever the scores are, so that the Hungarian algorithm is asked only about the frames in
which boxes compete.
"""

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from polyplink.core.compiled import njit
from polyplink.evaluate.box_tracks import BoxTracks, Ints, Overlaps, Reals, overlaps
from polyplink.evaluate.tracking_scores import (
    ALPHAS,
    EPS,
    THRESHOLD,
    TrackingCounts,
    association_sums,
)


def _contested(pairs: Overlaps, use: npt.NDArray[np.bool_]) -> Ints:
    """Frames in which some box has two partners among the pairs in use (c,), rising."""
    true, found = pairs.true[use], pairs.found[use]
    if not true.size:
        return np.zeros(0, dtype=np.int64)
    busy = (np.bincount(true)[true] > 1) | (np.bincount(found)[found] > 1)  # (u,)
    at = np.searchsorted(pairs.starts, np.flatnonzero(use)[busy], side="right") - 1
    return np.unique(at).astype(np.int64)


def _solve(pairs: Overlaps, frame: int, rows: Ints, scores: Reals) -> Ints:
    """The Hungarian algorithm in one frame.

    Args:
        pairs: All pairs.
        frame: Which of the common frames.
        rows: The frame's pairs in use (k,).
        scores: Their scores (k,), above 0.

    Returns:
        The pairs chosen (m,).
    """
    (i, i_end), (j, j_end) = pairs.true_rows[frame], pairs.found_rows[frame]
    shape = (i_end - i, j_end - j)
    table, row_of = np.zeros(shape), np.full(shape, -1, dtype=np.int64)
    place = (pairs.true[rows] - i, pairs.found[rows] - j)
    table[place], row_of[place] = scores, rows
    chosen = linear_sum_assignment(-table)
    taken = row_of[chosen]
    chosen_rows: Ints = taken[taken >= 0]
    return chosen_rows


def _hota_pairs(true: BoxTracks, found: BoxTracks, pairs: Overlaps) -> Ints:
    """The pairs that HOTA matches at threshold 0 (m,): one matching serves all thresholds."""
    s = pairs.similarity
    by_true = np.bincount(pairs.true, weights=s, minlength=true.frame.size)
    by_found = np.bincount(pairs.found, weights=s, minlength=found.frame.size)
    share = s / (by_true[pairs.true] + by_found[pairs.found] - s)  # (p,)
    cell = true.track[pairs.true] * found.tracks + found.track[pairs.found]  # (p,)
    possible = np.bincount(cell, weights=share, minlength=true.tracks * found.tracks)
    either = np.add.outer(np.bincount(true.track), np.bincount(found.track)).ravel() - possible
    scores = (possible / either)[cell] * s  # (p,)
    contested = _contested(pairs, np.ones(s.size, dtype=np.bool_))
    kept = np.ones(s.size, dtype=np.bool_)
    for frame in contested.tolist():
        rows = np.arange(pairs.starts[frame], pairs.starts[frame + 1])
        kept[rows] = False
        kept[_solve(pairs, frame, rows, scores[rows])] = True
    return np.flatnonzero(kept)


def _hota_sums(true: BoxTracks, found: BoxTracks, pairs: Overlaps) -> tuple[Reals, ...]:
    """Matches, sums of association accuracy, precision, recall, and of IoU: five (19,)."""
    taken = _hota_pairs(true, found, pairs)
    s = pairs.similarity[taken]  # (m,)
    level = np.searchsorted(ALPHAS - EPS, s, side="right")  # thresholds that the pair passes
    cell = true.track[pairs.true[taken]] * found.tracks + found.track[pairs.found[taken]]
    cells = true.tracks * found.tracks
    size = (ALPHAS.size + 1) * cells
    counts = np.bincount(level * cells + cell, minlength=size).reshape(-1, cells)
    # A pair that passes five thresholds is a match at the first five.
    tables = counts[::-1].cumsum(axis=0)[::-1][1:].astype(np.float64)  # (19, cells)
    sums = association_sums(
        tables.reshape(-1, true.tracks, found.tracks),
        np.bincount(true.track).astype(np.float64),
        np.bincount(found.track).astype(np.float64),
    )
    iou = np.bincount(level, weights=s, minlength=ALPHAS.size + 1)[::-1].cumsum()[::-1][1:]
    return tables.sum(axis=1), *sums, iou


def _identity(true: BoxTracks, found: BoxTracks, pairs: Overlaps) -> int:
    """Boxes matched under the best one-to-one matching of whole tracks."""
    use = pairs.similarity >= THRESHOLD
    cell = true.track[pairs.true[use]] * found.tracks + found.track[pairs.found[use]]
    table = np.bincount(cell, minlength=true.tracks * found.tracks)
    return best_matching(table.reshape(true.tracks, found.tracks))


def best_matching(table: npt.NDArray[np.integer]) -> int:
    """Largest sum of cells (g, t) with at most one in a row and in a column."""
    return int(table[linear_sum_assignment(-table)].sum())


@njit()
def _follow(first: int, last: int, bounds: Ints, tracks: Ints, state: Ints) -> int:
    """Follow the tracks through frames first to last, in which no two boxes compete.

    Args:
        first: First of the common frames.
        last: The one after the last.
        bounds: First pair of every frame, and the end (f + 1,).
        tracks: True and found track of every pair (2, u).
        state: Of every true track (2, g) the track at its last match and, in the second row, in
            the frame before alone; -1: none; changed.

    Returns:
        Switches of track.
    """
    switches = 0
    for f in range(first, last):
        state[1] = -1
        for p in range(bounds[f], bounds[f + 1]):
            g, t = tracks[0, p], tracks[1, p]
            if state[0, g] >= 0 and state[0, g] != t:
                switches += 1
            state[0, g] = t
            state[1, g] = t
    return switches


def _clear(true: BoxTracks, found: BoxTracks, pairs: Overlaps) -> tuple[int, int]:
    """Matches and switches at IoU 0.5; a match of the frame before is kept where it can be."""
    use = pairs.similarity >= THRESHOLD - EPS
    rows = np.flatnonzero(use)
    bounds = np.searchsorted(rows, pairs.starts).astype(np.int64)  # (f + 1,) into rows
    tracks = np.stack([true.track[pairs.true], found.track[pairs.found]])  # (2, p)
    mine = np.ascontiguousarray(tracks[:, rows])  # (2, u)
    state = np.full((2, true.tracks), -1, dtype=np.int64)
    matches, switches, at = rows.size, 0, 0
    for frame in _contested(pairs, use).tolist():
        switches += _follow(at, frame, bounds, mine, state)
        own = rows[bounds[frame] : bounds[frame + 1]]
        kept = state[1, tracks[0, own]] == tracks[1, own]
        taken = _solve(pairs, frame, own, 1000.0 * kept + pairs.similarity[own])
        g, t = tracks[:, taken]
        switches += int(((state[0, g] >= 0) & (state[0, g] != t)).sum())
        state[1] = -1
        state[:, g] = t
        matches += taken.size - own.size
        at = frame + 1
    switches += _follow(at, pairs.starts.size - 1, bounds, mine, state)
    return int(matches), int(switches)


def score_tracks(true: BoxTracks, found: BoxTracks) -> TrackingCounts:
    """Score the tracks of one procedure against the true ones.

    Args:
        true: True boxes, tracks being polyps.
        found: A tracker's boxes.
    """
    pairs = overlaps(true, found)
    if pairs.true.size:
        sums = _hota_sums(true, found, pairs)
        single = (_identity(true, found, pairs), *_clear(true, found, pairs))
    else:  # as where one side is empty
        sums, single = (np.zeros(ALPHAS.size),) * 5, (0, 0, 0)
    names = ("tp", "ass_a", "ass_pr", "ass_re", "loc", "idtp", "clear_tp", "switches")
    values = [np.asarray(value, dtype=np.float64) for value in (*sums, *single)]
    return TrackingCounts(
        true=np.array(true.frame.size, dtype=np.float64),
        found=np.array(found.frame.size, dtype=np.float64),
        **dict(zip(names, values, strict=True)),
    )
