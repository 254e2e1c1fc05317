"""Linking the boxes of a detector, which do not say whose they are."""

import numpy as np
import numpy.typing as npt

from polyplink.tracklets.boxes import Floats, iou

Ints = npt.NDArray[np.int64]


def link(frames: Ints, boxes: Floats, *, max_gap: int = 1, min_iou: float = 0.1) -> Ints:
    """Link each box to the box before it, where each is the other's best.

    Boxes of two frames that follow one another in `frames` and are at most `max_gap` apart are
    compared all with all. Two boxes are linked when each has its largest IoU with the other and
    it is at least `min_iou`; among equals the earlier row is the best. This is the plainest
    tracker there is: it never bridges a missed detection beyond `max_gap`.

    Args:
        frames: (d,) frame numbers of one procedure's boxes, sorted.
        boxes: (d, 4), x, y, w, h in pixels.
        max_gap: Largest step between linked frames.
        min_iou: Smallest IoU of linked boxes.

    Returns:
        (d,) row of the box each was linked to; its own row where a tracklet begins.
    """
    previous = np.arange(len(frames))
    left, right = _pairs(frames, max_gap)
    if not len(left):
        return previous
    overlap = iou(boxes[left], boxes[right])  # pairs
    best_right = _best(left, right, overlap, len(frames))
    best_left = _best(right, left, overlap, len(frames))
    mutual = (best_right[left] == right) & (best_left[right] == left) & (overlap >= min_iou)
    previous[right[mutual]] = left[mutual]
    return previous


def chains(previous: Ints) -> Ints:
    """First row of the chain each row belongs to.

    Args:
        previous: (d,) from `link`; a row points to an earlier one or to itself.

    Returns:
        (d,) the row each chain begins with, found by doubling the step: log2(longest) passes.
    """
    root = previous
    while True:
        further = root[root]
        if np.array_equal(further, root):
            return root
        root = further


def _pairs(frames: Ints, max_gap: int) -> tuple[Ints, Ints]:
    """Rows of all pairs of boxes in neighbouring frames, left row then right row ascending."""
    values, first, count = np.unique(frames, return_index=True, return_counts=True)  # frames
    near = np.diff(values) <= max_gap
    first_left, count_left = first[:-1][near], count[:-1][near]
    first_right, count_right = first[1:][near], count[1:][near]
    # One run per left box: the boxes of the next frame.
    left = np.repeat(first_left, count_left) + _within(count_left)
    run, start = np.repeat(count_right, count_left), np.repeat(first_right, count_left)
    return np.repeat(left, run), np.repeat(start, run) + _within(run)


def _within(counts: Ints) -> Ints:
    """0 .. count - 1 for each count, in a row."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - counts, counts)


def _best(keys: Ints, partners: Ints, overlap: npt.NDArray[np.float64], n: int) -> Ints:
    """For each key its partner of largest overlap, the lowest row among equals."""
    order = np.lexsort((partners, -overlap, keys))
    found, first = np.unique(keys[order], return_index=True)
    best = np.arange(n)
    best[found] = partners[order][first]
    return best
