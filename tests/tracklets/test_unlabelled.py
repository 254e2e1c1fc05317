from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.tracklets.boxes import iou
from polyplink.tracklets.unlabelled import chains, link
from tests.tracklets.sample import random_rows

Row = dict[str, Any]


def naive_link(frames: np.ndarray, boxes: np.ndarray, max_gap: int, min_iou: float) -> list[int]:
    """Every box against every box of the next frame; the first of equals is the best."""
    previous = list(range(len(frames)))
    times = sorted(set(frames.tolist()))
    for now, after in pairwise(times):
        left = [i for i in range(len(frames)) if frames[i] == now]
        right = [i for i in range(len(frames)) if frames[i] == after]
        if after - now > max_gap:
            continue
        overlap = {(i, j): iou(boxes[[i]], boxes[[j]])[0] for i in left for j in right}
        for i in left:
            j = max(right, key=lambda j: overlap[i, j])
            if max(left, key=lambda k: overlap[k, j]) == i and overlap[i, j] >= min_iou:
                previous[j] = i
    return previous


def of(rows: list[Row]) -> tuple[np.ndarray, np.ndarray]:
    rows = sorted(rows, key=lambda row: row["frame"])
    frames = np.array([row["frame"] for row in rows], dtype=np.int64)
    boxes = np.array([[row[k] for k in "xywh"] for row in rows], dtype=np.float32)
    return frames, boxes.reshape(-1, 4)


@settings(deadline=None)
@given(random_rows(labelled=False), st.integers(1, 3), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_link_equals_a_naive_loop(rows: list[Row], max_gap: int, min_iou: float) -> None:
    frames, boxes = of(rows)
    linked = link(frames, boxes, max_gap=max_gap, min_iou=min_iou)
    assert linked.tolist() == naive_link(frames, boxes, max_gap, min_iou)


@settings(deadline=None)
@given(random_rows(labelled=False))
def test_a_box_has_at_most_one_box_after_it(rows: list[Row]) -> None:
    linked = link(*of(rows))
    after = linked[linked != np.arange(len(linked))]
    assert len(set(after.tolist())) == len(after)


def test_two_boxes_that_cross_keep_their_best_partner() -> None:
    frames = np.array([0, 0, 1, 1])
    boxes = np.array([[0, 0, 10, 10], [8, 0, 10, 10], [9, 0, 10, 10], [1, 0, 10, 10]], float)
    assert link(frames, boxes).tolist() == [0, 1, 1, 0]


def test_the_first_of_equal_boxes_is_taken() -> None:
    frames = np.array([0, 0, 1])
    boxes = np.ones((3, 4))
    assert link(frames, boxes).tolist() == [0, 1, 0]


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6), max_size=40))
def test_chains_equal_a_walk_along_the_links(draws: list[int]) -> None:
    previous = np.array([draw % (i + 1) for i, draw in enumerate(draws)], dtype=np.int64)
    expected = []
    for row in range(len(previous)):
        at = row
        while previous[at] != at:
            at = int(previous[at])
        expected.append(at)
    assert chains(previous).tolist() == expected


def test_no_boxes_make_no_links() -> None:
    assert link(np.empty(0, np.int64), np.empty((0, 4))).tolist() == []
