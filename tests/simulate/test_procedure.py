import dataclasses

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from polyplink.simulate import smoke
from polyplink.simulate.first_plan import plan_procedure
from polyplink.simulate.procedure import CHUNK, MIN_AREA, render_procedure, tight_boxes

QUICK = dataclasses.replace(
    smoke(), width=24, height=20, long_views=(1, 1), short_views=(0, 0), long_frames=(9, 9)
)
MASKS = arrays.arrays(np.int8, (2, 9, 11), elements=st.integers(-1, 1))


def naive_boxes(which: np.ndarray, polyps: int) -> list[tuple[int, int, int, int, int, int]]:
    boxes = []
    for frame in range(len(which)):
        for polyp in range(polyps):
            cells = [
                (x, y)
                for y in range(which.shape[1])
                for x in range(which.shape[2])
                if which[frame, y, x] == polyp
            ]
            if len(cells) < MIN_AREA * which[frame].size:
                continue
            left, right = min(x for x, _ in cells), max(x for x, _ in cells)
            top, bottom = min(y for _, y in cells), max(y for _, y in cells)
            if right > left and bottom > top:
                boxes.append((frame, polyp, left, top, right - left, bottom - top))
    return boxes


@given(MASKS)
def test_boxes_are_the_naive_ones(which: np.ndarray) -> None:
    assert tight_boxes(which, 2) == naive_boxes(which, 2)


def test_too_little_of_a_polyp_gets_no_box() -> None:
    which = np.full((1, 60, 60), -1, np.int8)
    which[0, 10:12, 10:12] = 0  # 4 of 3600 pixels
    assert tight_boxes(which, 1) == []
    which[0, 10:13, 10:13] = 0
    assert tight_boxes(which, 1) == [(0, 0, 10, 10, 2, 2)]


def test_frames_come_in_order_and_whole() -> None:
    plan = plan_procedure(np.random.default_rng(0), QUICK, 1)
    chunks = list(render_procedure(plan, QUICK, torch.device("cpu")))
    sizes = [len(images) for images, _ in chunks]
    assert sum(sizes) == len(plan.path.positions)
    assert set(sizes[:-1]) == {CHUNK}
    assert {images.shape[1:] for images, _ in chunks} == {(20, 24, 3)}
    assert {images.dtype for images, _ in chunks} == {np.dtype(np.uint8)}
    assert {int(value) for _, which in chunks for value in np.unique(which)} == {-1, 0}


def test_polyps_are_named_by_their_place_in_the_plan() -> None:
    """The second polyp keeps its index in frames where the first is out of reach."""
    plan = plan_procedure(np.random.default_rng(0), QUICK, 2)
    last = None
    for _, which in render_procedure(plan, QUICK, torch.device("cpu")):
        last = which if (which >= 0).any() else last
    assert last is not None
    assert set(np.unique(last).tolist()) == {-1, 1}
