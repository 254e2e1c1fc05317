import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from polyplink.simulate.boxes import boxes_of, pixel_boxes
from polyplink.simulate.course.sight import MIN_AREA
from polyplink.simulate.plan import Plan
from tests.simulate.masks import box_of, mask_of
from tests.simulate.plans import enlarged, mini_plan

EDGES: st.SearchStrategy[np.ndarray] = st.lists(
    st.tuples(*[st.floats(0, 1)] * 4), min_size=1, max_size=5
).map(np.asarray)


@example(np.array([[0.0, 0.0, 0.58, 1.0]]), 25, 2)
@given(EDGES, st.integers(2, 40), st.integers(2, 40))
def test_pixels_of_a_box_have_their_middles_within(
    edges: np.ndarray, width: int, height: int
) -> None:
    boxes = np.concatenate(
        [np.minimum(edges[:, :2], edges[:, 2:]), np.maximum(*np.split(edges, 2, 1))], 1
    )
    for (left, top, right, bottom), (x, y, w, h) in zip(
        boxes, pixel_boxes(boxes, width, height), strict=True
    ):
        # In pixels, as edges are: 0.58 of 25 pixels ends a last bit before the middle of the 15th.
        columns = [c for c in range(width) if left * width - 0.5 <= c <= right * width - 0.5]
        rows = [r for r in range(height) if top * height - 0.5 <= r <= bottom * height - 0.5]
        if columns and rows:
            expected = [columns[0], rows[0], columns[-1] - columns[0], rows[-1] - rows[0]]
            assert np.abs(np.array([x, y, w, h]) - expected).max() <= 1e-9
        assert bool(columns) == (w >= 0)
        assert bool(rows) == (h >= 0)


def test_an_unseen_polyp_has_no_pixels() -> None:
    assert pixel_boxes(np.full((1, 4), np.nan), 10, 10)[0, 2:].tolist() == [-1, -1]


def table(plan: Plan) -> dict[tuple[int, int], tuple[int, ...]]:
    return {(frame, polyp): tuple(box) for frame, polyp, *box in boxes_of(plan).iter_rows()}


def assert_boxes_are_those_of_masks(plan: Plan, frames: list[int]) -> int:
    """Boxes found on the way."""
    boxes, found = table(plan), 0
    for frame in frames:
        mask = mask_of(plan, frame)
        for polyp in range(len(plan.lumps)):
            drawn, box = box_of(mask, polyp), boxes.get((frame, polyp))
            assert (drawn is None) == (box is None), (frame, polyp, drawn, box)
            if drawn is not None and box is not None:
                found += 1
                edges = np.array([drawn, box])
                edges[:, 2:] += edges[:, :2]
                assert np.abs(edges[0] - edges[1]).max() <= 2, (frame, polyp, drawn, box)
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_a_box_is_the_box_of_the_drawn_mask(seed: int) -> None:
    """In frames of every look, pairs included, and in frames between them."""
    plan = mini_plan(seed)
    rng = np.random.default_rng(seed)
    shown = [look.first + int(rng.integers(look.frames)) for look in plan.timeline.looks]
    between = np.flatnonzero((plan.looks < 0) & ~plan.conditions.blink)
    gone = [frame for frame in plan.timeline.removed if frame is not None]
    frames = [*shown, *rng.choice(between, 3, replace=False).tolist(), *gone]
    assert assert_boxes_are_those_of_masks(plan, frames) >= len(shown) + 1


def test_boxes_are_as_exact_in_large_frames() -> None:
    plan = enlarged(mini_plan(), 384, 336)
    look = plan.timeline.looks[1]
    assert look.beside is not None
    assert assert_boxes_are_those_of_masks(plan, [look.first + 3]) == 2


def test_boxes_cut_by_the_edge_are_those_of_masks() -> None:
    plan = mini_plan(1)
    edge = [
        frame
        for (frame, _), (x, y, w, h) in table(plan).items()
        if min(x, y) == 0 or x + w >= 95 or y + h >= 83
    ]
    assert len(edge) > 3
    assert assert_boxes_are_those_of_masks(plan, edge[:: len(edge) // 3 + 1]) >= 1


def test_boxes_lie_in_the_frame_and_are_no_specks() -> None:
    plan = mini_plan()
    boxes = boxes_of(plan)
    x, y, w, h = (boxes[name].to_numpy() for name in "xywh")
    assert min(x.min(), y.min()) >= 0
    assert (x + w).max() <= 95
    assert (y + h).max() <= 83
    assert (w * h).min() >= MIN_AREA * 96 * 84
    assert boxes.select("frame", "polyp").is_duplicated().sum() == 0


def test_nothing_has_a_box_in_a_blink_or_after_its_removal() -> None:
    plan = mini_plan()
    boxes = boxes_of(plan)
    assert not plan.conditions.blink[boxes["frame"].to_numpy()].any()
    for polyp, gone in enumerate(plan.timeline.removed):
        last = boxes.filter(boxes["polyp"] == polyp)["frame"].max()
        assert isinstance(last, int)
        assert gone is not None
        assert last < gone
