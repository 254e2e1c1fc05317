import numpy as np
import pytest

from polyplink.simulate import smoke
from polyplink.simulate.first_plan import EMPTY_FRAMES, SPACING, plan_procedure
from polyplink.simulate.picture.scene import lengths


def test_the_same_generator_state_gives_the_same_plan() -> None:
    first, again, other = (plan_procedure(np.random.default_rng(s), smoke(), 2) for s in (0, 0, 1))
    assert first.traits == again.traits
    np.testing.assert_array_equal(first.path.positions, again.path.positions)
    assert first.traits != other.traits


@pytest.mark.parametrize("polyps", [1, 3])
def test_polyps_lie_one_after_the_other_along_the_tube(polyps: int) -> None:
    plan = plan_procedure(np.random.default_rng(0), smoke(), polyps)
    places = [float(skin.lump.centre[2]) for skin in plan.skins]
    assert len(places) == len(plan.traits) == polyps
    steps = -np.diff(places)
    assert np.all(steps > SPACING[0] - 0.5)
    assert np.all(steps < SPACING[1] + 0.5)


def test_every_polyp_is_visited_in_turn() -> None:
    plan = plan_procedure(np.random.default_rng(0), smoke(), 3)
    nearest = np.argmin(
        [
            np.linalg.norm(plan.path.positions - skin.lump.centre.numpy(), axis=1)
            for skin in plan.skins
        ],
        axis=0,
    )
    assert np.all(np.diff(nearest) >= 0)
    assert np.all(np.bincount(nearest) > 3 * smoke().long_frames[0])


def test_a_procedure_without_polyps_still_has_frames() -> None:
    plan = plan_procedure(np.random.default_rng(0), smoke(), 0)
    assert plan.skins == ()
    assert len(plan.path.positions) == EMPTY_FRAMES


def test_polyps_of_one_patient_share_a_look() -> None:
    """Colours vary less inside a procedure than over procedures."""
    colours = np.array(
        [
            [
                float(skin.colour[1] / skin.colour[0])
                for skin in plan_procedure(np.random.default_rng(seed), smoke(), 3).skins
            ]
            for seed in range(12)
        ]
    )
    patients = colours.mean(1).std()
    assert patients > 0.02
    assert colours.std(axis=1).mean() > 0.01
    assert (
        float(lengths(plan_procedure(np.random.default_rng(0), smoke(), 1).patient.wall[:, None]))
        > 0.5
    )
