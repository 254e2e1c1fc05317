import numpy as np
import pytest

from polyplink.simulate.boxes import boxes_of
from polyplink.simulate.plan import Plan, plan_procedure
from tests.simulate.plans import MINI, mini_plan, mini_spec


def assert_same(first: Plan, second: Plan) -> None:
    for name in ("positions", "rotations", "exposures", "whites"):
        np.testing.assert_array_equal(getattr(first.path, name), getattr(second.path, name))
    assert first.timeline == second.timeline
    assert first.traits == second.traits
    assert boxes_of(first).equals(boxes_of(second))


def test_the_same_seed_gives_the_same_plan() -> None:
    assert_same(mini_plan(0), plan_procedure(MINI, 0, mini_spec()))
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
    assert set(boxes_of(plan).select("frame", "polyp").iter_rows()) == expected


def test_every_frame_has_a_camera_and_conditions() -> None:
    plan = mini_plan(0)
    n = plan.spec.n_frames
    assert len(plan.path.positions) == len(plan.conditions.blink) == len(plan.looks) == n
    for name in ("positions", "rotations", "exposures", "whites"):
        assert np.isfinite(getattr(plan.path, name)).all()


def test_a_procedure_without_polyps_is_all_way() -> None:
    plan = plan_procedure(MINI, 0, mini_spec(()))
    assert len(boxes_of(plan)) == 0
    assert len(plan.path.positions) == 240
    assert np.all(plan.looks == -1)


def test_polyps_are_individual_and_stand_on_calm_wall() -> None:
    plan = mini_plan()
    assert len({traits.heading for traits in plan.traits}) == 3
    assert len(plan.colon.calm) == 3
    assert plan.colon.wave > 0
    for traits, polyp, lump in zip(plan.traits, plan.spec.polyps, plan.lumps, strict=True):
        assert traits.size_mm == polyp.size_mm
        assert float(lump.radii[0]) == pytest.approx(polyp.size_mm / 36)
