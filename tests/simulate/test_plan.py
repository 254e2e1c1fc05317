"""Plans of procedures, their boxes against rendered masks, and identities in pictures."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, strategies as st
from numpy.typing import NDArray

from polyplink_lab.simulate.course.scene import MIN_AREA
from polyplink_lab.simulate.picture.rays import Windows
from polyplink_lab.simulate.picture.render import Renderer
from polyplink_lab.simulate.plan import Plan, boxes_of, pixel_boxes, plan_procedure
from tests.simulate.scenes import MINI, mini_appearance, mini_plan, mini_spec, with_larger_frames

EDGES: st.SearchStrategy[np.ndarray] = st.lists(
    st.tuples(*[st.floats(0, 1)] * 4), min_size=1, max_size=5
).map(np.asarray)
NEAR = 2  # pixels


# --- Plans ----------------------------------------------------------------------------------


def test_a_seed_reproduces_its_plan() -> None:
    first, second = mini_plan(0), plan_procedure(MINI, 0, mini_spec())
    for name in ("positions", "rotations", "exposures", "whites"):
        np.testing.assert_array_equal(getattr(first.path, name), getattr(second.path, name))
    assert (first.timeline, first.traits) == (second.timeline, second.traits)
    assert boxes_of(first).equals(boxes_of(second))
    assert mini_plan(0).timeline != mini_plan(1).timeline
    assert mini_plan(0).traits != mini_plan(1).traits


@pytest.mark.parametrize("seed", [0, 1])
def test_exactly_the_frames_of_looks_have_boxes(seed: int) -> None:
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
    expected_looks = np.full(plan.spec.n_frames, -1)
    for index, look in enumerate(plan.timeline.looks):
        expected_looks[look.first : look.end] = index
    np.testing.assert_array_equal(plan.looks, expected_looks)
    for polyp, removed_at in enumerate(plan.timeline.removed):
        assert removed_at is not None
        assert max(boxes.filter(boxes["polyp"] == polyp)["frame"]) < removed_at


# --- Boxes ----------------------------------------------------------------------------------


@example(np.array([[0.0, 0.0, 0.58, 1.0]]), 25, 2)
@given(EDGES, st.integers(2, 40), st.integers(2, 40))
def test_pixel_boxes_contain_the_pixels_with_centres_inside(
    edges: np.ndarray, width: int, height: int
) -> None:
    boxes = np.concatenate(
        [np.minimum(edges[:, :2], edges[:, 2:]), np.maximum(*np.split(edges, 2, 1))], 1
    )
    for (left, top, right, bottom), (x, y, w, h) in zip(
        boxes, pixel_boxes(boxes, width, height), strict=True
    ):
        # Compare in pixels as edges are: 0.58 * 25 is just below the centre of the 15th pixel.
        columns = [c for c in range(width) if left * width - 0.5 <= c <= right * width - 0.5]
        rows = [r for r in range(height) if top * height - 0.5 <= r <= bottom * height - 0.5]
        if columns and rows:
            expected = [columns[0], rows[0], columns[-1] - columns[0], rows[-1] - rows[0]]
            assert np.abs(np.array([x, y, w, h]) - expected).max() <= 1e-9
        assert bool(columns) == (w >= 0)
        assert bool(rows) == (h >= 0)
    assert pixel_boxes(np.full((1, 4), np.nan), 10, 10)[0, 2:].tolist() == [-1, -1]


def masks_of(plan: Plan, frames: NDArray[np.int64], seed: int = 0) -> NDArray[np.int8]:
    """The polyp of each pixel of rendered frames (s, h, w), -1 for none; `seed` is the plan's."""
    size = plan.spec.width, plan.spec.height
    renderer = Renderer(plan, mini_appearance(seed), torch.device("cpu"))
    full_frames = np.tile([0.0, 0.0, *size], (len(frames), 1))
    return renderer.windows(frames, full_frames, size)[1]


def assert_boxes_bound_masks(plan: Plan, frames: NDArray[np.int64], seed: int = 0) -> int:
    """Assert that boxes bound the rendered masks; return the number of compared boxes."""
    boxes = {(frame, polyp): tuple(box) for frame, polyp, *box in boxes_of(plan).iter_rows()}
    compared = 0
    for frame, mask in zip(frames.tolist(), masks_of(plan, frames, seed), strict=True):
        for polyp in range(len(plan.lumps)):
            is_polyp, box = mask == polyp, boxes.get((frame, polyp))
            rows, columns = np.flatnonzero(is_polyp.any(1)), np.flatnonzero(is_polyp.any(0))
            if box is not None:
                x, y, w, h = box
                edges = [columns[0], rows[0], columns[-1], rows[-1]]
                assert np.abs(np.subtract(edges, [x, y, x + w, y + h])).max() <= NEAR, (frame, box)
                compared += 1
            elif len(rows):  # no box, because the mask is about the minimum size or smaller
                w, h = columns[-1] - columns[0] - NEAR, rows[-1] - rows[0] - NEAR
                assert min(w, h) <= 0 or w * h < MIN_AREA * is_polyp.size
    return compared


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_boxes_bound_the_rendered_masks_and_none_is_missing(seed: int) -> None:
    """Frames of looks at one polyp and two polyps, between looks, and after removals."""
    plan = mini_plan(seed)
    assert assert_boxes_bound_masks(plan, np.arange(seed, plan.spec.n_frames, 9), seed) > 25


def test_boxes_bound_the_masks_in_large_frames() -> None:
    plan = with_larger_frames(mini_plan(), 384, 336)
    look = plan.timeline.looks[1]
    assert look.beside is not None
    assert assert_boxes_bound_masks(plan, np.array([look.first + 3])) == 2


def test_boxes_cut_by_the_frame_edge_bound_the_masks() -> None:
    plan = mini_plan(1)
    boxes = boxes_of(plan)
    x, y, w, h = (boxes[name].to_numpy() for name in "xywh")
    assert min(x.min(), y.min()) == 0
    assert (x + w).max() <= 95
    assert (y + h).max() <= 83
    assert (w * h).min() >= MIN_AREA * 96 * 84
    edge = (np.minimum(x, y) == 0) | (x + w == 95) | (y + h == 83)
    frames = np.unique(boxes["frame"].to_numpy()[edge])
    assert assert_boxes_bound_masks(plan, frames[::4], seed=1) > 3


# --- What pictures show ---------------------------------------------------------------------


def test_a_removed_polyp_is_not_rendered() -> None:
    """The camera does look at its place: without the removal, masks show the polyp."""
    plan = mini_plan(0)
    without_removals = replace(
        plan, timeline=replace(plan.timeline, removed=(None,) * len(plan.lumps))
    )
    visible_frames = 0
    for polyp, removed_at in enumerate(plan.timeline.removed):
        assert removed_at is not None
        after = np.arange(removed_at, min(removed_at + 12, plan.spec.n_frames), 5)
        assert not (masks_of(plan, after) == polyp).any()
        visible_frames += int((masks_of(without_removals, after) == polyp).any((1, 2)).sum())
    assert visible_frames > 0


def light_of(plan: Plan, frame: int) -> torch.Tensor:
    """Linear light (3, h, w) of a frame, before exposure, blur, water and noise."""
    renderer = Renderer(plan, mini_appearance(), torch.device("cpu"))
    size = plan.spec.width, plan.spec.height
    full_frame = Windows(torch.tensor([[0.0, 0.0, *size]]), size, size)
    with torch.inference_mode():
        ((_, linear, _),) = renderer.draw(np.array([frame]), full_frame)
    return linear[:, 0]


def test_the_same_pose_shows_the_same_surface_in_every_frame() -> None:
    plan = mini_plan(0)
    looks = [k for k in plan.timeline.looks if k.polyp == 0 and k.beside is None]
    first, second = (look.first + look.frames // 2 for look in looks[:2])
    light_of_first = light_of(plan, first)
    # The second frame with the camera and wave phase of the first.
    rows = np.arange(plan.spec.n_frames)
    rows[second] = first
    conditions = replace(plan.conditions, phase=plan.conditions.phase[rows])
    with_first_pose = replace(plan, path=plan.path[rows], conditions=conditions)
    assert torch.equal(light_of(with_first_pose, second), light_of_first)
    assert not torch.allclose(light_of(plan, second), light_of_first, rtol=0.05)  # another pose
    # A polyp of other traits looks different to the same camera.
    lump = replace(plan.lumps[0], maps=plan.lumps[0].maps.flip(-1))
    other_plan = replace(plan, lumps=(lump, *plan.lumps[1:]))
    assert not torch.allclose(light_of(other_plan, first), light_of_first, rtol=0.05)
