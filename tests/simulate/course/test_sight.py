import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyplink.simulate.colon.outline import coarser, outline
from polyplink.simulate.colon.projection import Outlines
from polyplink.simulate.course.camera import CameraPath
from polyplink.simulate.course.sight import (
    Stage,
    any_of,
    box_areas,
    hidden,
    key_rows,
    misses,
    overlaps,
    strays,
)
from polyplink.simulate.plan import Plan, gone_from, lens_of
from tests.simulate.plans import mini_plan

BOXES: st.SearchStrategy[np.ndarray] = (
    st.tuples(*[st.floats(0, 1)] * 4)
    .filter(lambda b: abs(b[0] - b[2]) > 0.05 and abs(b[1] - b[3]) > 0.05)
    .map(lambda b: np.array([[min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3])]]))
)


def stage(plan: Plan) -> Stage:
    bodies = [coarser(outline(plan.colon, lump)) for lump in plan.lumps]
    return Stage(
        plan.colon,
        plan.lumps,
        Outlines.of(bodies),
        lens_of(plan.spec),
        (plan.spec.width, plan.spec.height),
        gone_from(plan.timeline),
    )


def look(plan: Plan, index: int) -> tuple[CameraPath, np.ndarray, np.ndarray, np.ndarray]:
    one = plan.timeline.looks[index]
    frames = np.arange(one.first, one.end)
    phase = plan.conditions.phase[frames].astype(np.float64)
    return plan.path.some(frames), phase, frames, np.zeros(len(frames), np.int64)


@given(BOXES, BOXES)
def test_overlaps_are_the_shares_of_a_fine_grid(first: np.ndarray, second: np.ndarray) -> None:
    x, y = np.meshgrid((np.arange(200) + 0.5) / 200, (np.arange(200) + 0.5) / 200)
    a, b = (
        (x >= c[0, 0]) & (x <= c[0, 2]) & (y >= c[0, 1]) & (y <= c[0, 3]) for c in (first, second)
    )
    expected = (a & b).sum() / (a | b).sum()
    assert abs(overlaps(first, second)[0] - expected) < 0.12


def test_a_missing_box_has_no_area_and_no_overlap() -> None:
    none, some = np.full((1, 4), np.nan), np.array([[0.1, 0.1, 0.6, 0.5]])
    assert box_areas(none, (10, 10)).tolist() == [0]
    assert overlaps(none, some).tolist() == [0]
    np.testing.assert_allclose(box_areas(some, (10, 10)), 0.4 * 0.3)


def test_flags_are_gathered_by_look() -> None:
    flags, which = np.array([False, True, False]), np.array([0, 2, 2])
    assert any_of(flags, which, 4).tolist() == [False, False, True, False]
    assert key_rows(np.array([0, 0, 0, 1, 2, 2])).tolist() == [0, 2, 3, 4, 5]


def test_a_planned_look_misses_nothing_and_another_polyp_is_missed() -> None:
    plan = mini_plan()
    args = (stage(plan), *look(plan, 0))
    own = plan.timeline.looks[0].polyp
    assert not misses(*args, np.array([own])).any()
    assert misses(*args, np.array([2])).all()
    path, phase, frames, which = look(plan, 0)
    late = frames + plan.spec.n_frames
    assert misses(stage(plan), path, phase, late, which, np.array([own])).all()


def test_a_polyp_that_may_not_be_seen_is_a_stray() -> None:
    plan = mini_plan()
    own = plan.timeline.looks[0].polyp
    args = (stage(plan), *look(plan, 0))
    assert not strays(*args, np.array([[own, -1]])).any()
    assert strays(*args, np.array([[-1, -1]])).all()


def test_a_camera_in_the_wall_or_behind_it_is_hidden() -> None:
    plan = mini_plan()
    path, phase, _, which = look(plan, 0)
    own, none = np.array([plan.timeline.looks[0].polyp]), np.array([-1])
    assert not hidden(stage(plan), path, phase, which, own, none).any()
    lump = plan.lumps[own[0]]
    outside = lump.centre.double().numpy() - 0.3 * lump.axes.double().numpy()[:, 2]
    behind = CameraPath(
        np.tile(outside, (len(phase), 1)), path.rotations, path.exposures, path.whites
    )
    assert hidden(stage(plan), behind, phase, which, own, none).all()


def test_a_polyp_behind_another_is_hidden() -> None:
    plan = mini_plan()
    _, phase, _, which = look(plan, 0)
    first, second = (lump.centre.double().numpy() for lump in plan.lumps[:2])
    inwards = plan.lumps[0].axes.double().numpy()[:, 2]
    line = first + (first - second) * 0.6 + 0.03 * inwards
    n = len(phase)
    path = CameraPath(
        np.tile(line, (n, 1)), np.tile(np.eye(3), (n, 1, 1)), np.ones(n), np.ones((n, 3))
    )
    assert hidden(stage(plan), path, phase, which, np.array([1]), np.array([0])).all()
