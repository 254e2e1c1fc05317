"""Plans, their boxes beside rendered masks, and identities in pictures."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, strategies as st
from numpy.typing import NDArray

from polyplink_lab.simulate.course.stage import MIN_AREA
from polyplink_lab.simulate.picture.rays import Windows
from polyplink_lab.simulate.picture.render import Renderer, draw_appearance
from polyplink_lab.simulate.plan import Plan, boxes_of, pixel_boxes, plan_procedure
from tests.simulate.scenes import MINI, enlarged, mini_plan, mini_spec

EDGES: st.SearchStrategy[np.ndarray] = st.lists(
    st.tuples(*[st.floats(0, 1)] * 4), min_size=1, max_size=5
).map(np.asarray)
NEAR = 2  # pixels


# --- Plans ----------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_plan() -> None:
    first, second = mini_plan(0), plan_procedure(MINI, 0, mini_spec())
    for name in ("positions", "rotations", "exposures", "whites"):
        np.testing.assert_array_equal(getattr(first.path, name), getattr(second.path, name))
    assert (first.timeline, first.traits) == (second.timeline, second.traits)
    assert boxes_of(first).equals(boxes_of(second))
    assert mini_plan(0).timeline != mini_plan(1).timeline
    assert mini_plan(0).traits != mini_plan(1).traits


@pytest.mark.parametrize("seed", [0, 1])
def test_every_frame_of_a_look_has_its_boxes_and_no_other_frame_has_any(seed: int) -> None:
    plan = mini_plan(seed)
    assert plan.failed == ()
    expected = {
        (frame, polyp)
        for look in plan.timeline.looks
        for polyp in (look.polyp, look.beside)
        for frame in range(look.first, look.end)
        if polyp is not None
    }
    boxes = boxes_of(plan)
    assert boxes.height == len(expected)
    assert set(boxes.select("frame", "polyp").iter_rows()) == expected
    assert not plan.conditions.blink[boxes["frame"].to_numpy()].any()
    of_frames = np.full(plan.spec.n_frames, -1)
    for index, look in enumerate(plan.timeline.looks):
        of_frames[look.first : look.end] = index
    np.testing.assert_array_equal(plan.looks, of_frames)
    for polyp, gone in enumerate(plan.timeline.removed):
        assert gone is not None
        assert max(boxes.filter(boxes["polyp"] == polyp)["frame"]) < gone


def test_a_procedure_without_polyps_never_looks_at_one() -> None:
    plan = plan_procedure(MINI, 0, mini_spec(()))
    assert len(boxes_of(plan)) == 0
    assert len(plan.path.positions) == 240
    assert np.all(plan.looks == -1)


# --- Boxes ----------------------------------------------------------------------------------


@example(np.array([[0.0, 0.0, 0.58, 1.0]]), 25, 2)
@given(EDGES, st.integers(2, 40), st.integers(2, 40))
def test_pixels_of_a_box_have_their_centres_within(
    edges: np.ndarray, width: int, height: int
) -> None:
    boxes = np.concatenate(
        [np.minimum(edges[:, :2], edges[:, 2:]), np.maximum(*np.split(edges, 2, 1))], 1
    )
    for (left, top, right, bottom), (x, y, w, h) in zip(
        boxes, pixel_boxes(boxes, width, height), strict=True
    ):
        # In pixels, as edges are: 0.58 of 25 pixels ends a last bit before the centre of the 15th.
        columns = [c for c in range(width) if left * width - 0.5 <= c <= right * width - 0.5]
        rows = [r for r in range(height) if top * height - 0.5 <= r <= bottom * height - 0.5]
        if columns and rows:
            expected = [columns[0], rows[0], columns[-1] - columns[0], rows[-1] - rows[0]]
            assert np.abs(np.array([x, y, w, h]) - expected).max() <= 1e-9
        assert bool(columns) == (w >= 0)
        assert bool(rows) == (h >= 0)
    assert pixel_boxes(np.full((1, 4), np.nan), 10, 10)[0, 2:].tolist() == [-1, -1]


def masks_of(plan: Plan, frames: NDArray[np.int64]) -> NDArray[np.int8]:
    """Which polyp the pixels of rendered frames (s, h, w) show, -1 for none."""
    size = plan.spec.width, plan.spec.height
    renderer = Renderer(plan, draw_appearance(plan, 0), torch.device("cpu"))
    whole = np.tile([0.0, 0.0, *size], (len(frames), 1))
    return renderer.windows(frames, whole, size)[1]


def assert_boxes_are_those_of_masks(plan: Plan, frames: NDArray[np.int64]) -> int:
    """The number of boxes that were compared."""
    boxes = {(frame, polyp): tuple(box) for frame, polyp, *box in boxes_of(plan).iter_rows()}
    found = 0
    for frame, mask in zip(frames.tolist(), masks_of(plan, frames), strict=True):
        for polyp in range(len(plan.lumps)):
            drawn, box = mask == polyp, boxes.get((frame, polyp))
            rows, columns = np.flatnonzero(drawn.any(1)), np.flatnonzero(drawn.any(0))
            if box is not None:
                x, y, w, h = box
                edges = [columns[0], rows[0], columns[-1], rows[-1]]
                assert np.abs(np.subtract(edges, [x, y, x + w, y + h])).max() <= NEAR, (frame, box)
                found += 1
            elif len(rows):  # no box: a little smaller it would be too small for one
                w, h = columns[-1] - columns[0] - NEAR, rows[-1] - rows[0] - NEAR
                assert min(w, h) <= 0 or w * h < MIN_AREA * drawn.size
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_every_box_is_that_of_the_rendered_mask_and_none_is_missing(seed: int) -> None:
    """In frames of looks at one polyp and at two, between them, and after removals."""
    plan = mini_plan(seed)
    assert assert_boxes_are_those_of_masks(plan, np.arange(seed, plan.spec.n_frames, 6)) > 25


def test_boxes_are_as_exact_in_large_frames() -> None:
    plan = enlarged(mini_plan(), 384, 336)
    look = plan.timeline.looks[1]
    assert look.beside is not None
    assert assert_boxes_are_those_of_masks(plan, np.array([look.first + 3])) == 2


def test_boxes_cut_by_the_edge_are_those_of_masks() -> None:
    plan = mini_plan(1)
    boxes = boxes_of(plan)
    x, y, w, h = (boxes[name].to_numpy() for name in "xywh")
    assert min(x.min(), y.min()) == 0
    assert (x + w).max() <= 95
    assert (y + h).max() <= 83
    assert (w * h).min() >= MIN_AREA * 96 * 84
    edge = (np.minimum(x, y) == 0) | (x + w == 95) | (y + h == 83)
    frames = np.unique(boxes["frame"].to_numpy()[edge])
    assert assert_boxes_are_those_of_masks(plan, frames) > 3


# --- What pictures show ---------------------------------------------------------------------


def test_a_removed_polyp_is_not_rendered() -> None:
    """The camera does look at the place: were the polyp left there, its mask would show it."""
    plan = mini_plan(0)
    left = replace(plan, timeline=replace(plan.timeline, removed=(None,) * len(plan.lumps)))
    seen = 0
    for polyp, gone in enumerate(plan.timeline.removed):
        assert gone is not None
        after = np.arange(gone, min(gone + 12, plan.spec.n_frames), 2)
        assert not (masks_of(plan, after) == polyp).any()
        seen += int((masks_of(left, after) == polyp).any((1, 2)).sum())
    assert seen > 0


def light_of(plan: Plan, frame: int) -> torch.Tensor:
    """The scene of a frame as light (3, h, w), before exposure, blur, water and noise."""
    renderer = Renderer(plan, draw_appearance(plan, 0), torch.device("cpu"))
    size = plan.spec.width, plan.spec.height
    whole = Windows(torch.tensor([[0.0, 0.0, *size]]), size, size)
    with torch.inference_mode():
        ((_, linear, _),) = renderer.draw(np.array([frame]), whole)
    return linear[:, 0]


def test_the_same_pose_shows_the_same_surface_in_every_frame() -> None:
    plan = mini_plan(0)
    looks = [k for k in plan.timeline.looks if k.polyp == 0 and k.beside is None]
    first, second = (look.first + look.frames // 2 for look in looks[:2])
    here = light_of(plan, first)
    # The second frame with the camera and the wall of the first one.
    rows = np.arange(plan.spec.n_frames)
    rows[second] = first
    conditions = replace(plan.conditions, phase=plan.conditions.phase[rows])
    posed = replace(plan, path=plan.path[rows], conditions=conditions)
    assert torch.equal(light_of(posed, second), here)
    assert not torch.allclose(light_of(plan, second), here, rtol=0.05)  # another pose
    # The same camera before a polyp of other traits shows another surface.
    lump = replace(plan.lumps[0], maps=plan.lumps[0].maps.flip(-1))
    other = replace(plan, lumps=(lump, *plan.lumps[1:]))
    assert not torch.allclose(light_of(other, first), here, rtol=0.05)
