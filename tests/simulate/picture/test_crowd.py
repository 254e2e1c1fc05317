import numpy as np
import pytest
import torch

from polyplink.simulate.picture.crowd import Crowd, in_places
from polyplink.simulate.picture.field import Field
from tests.simulate.picture.test_field import BODIES, CALM, PHASES, points

CROWD = Crowd(CALM, BODIES, torch.device("cpu"))
# What two frames show: bodies (without and with a stalk), and calm places.
SHOWN = (((True, False), (False, True)), ((True, True), (False, False)), ((False,) * 2,) * 2)


def plainly(frame: int, bodies: np.ndarray, calm: np.ndarray) -> Field:
    """The scene of one frame alone."""
    return Field(CALM).near(
        [BODIES[k] for k in np.flatnonzero(bodies[frame])],
        [CALM.calm[k] for k in np.flatnonzero(calm[frame])],
    )


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("calm", SHOWN)
def test_every_frame_is_as_if_it_were_alone(
    shown: tuple[tuple[bool, ...], ...], calm: tuple[tuple[bool, ...], ...]
) -> None:
    bodies, places = np.array(shown), np.array(calm)
    crew, numbers = CROWD.crew(bodies, places)
    own = torch.cat([PHASES[None], torch.from_numpy(numbers)[..., None]])
    distance, touch = crew.distance(points(), own), crew.touch(points(), own)
    for frame in (0, 1):
        field = plainly(frame, bodies, places)
        part, phase = points()[:, frame : frame + 1].contiguous(), PHASES[frame : frame + 1]
        alone = field.touch(part, phase)
        expected = field.distance(part, phase)
        torch.testing.assert_close(distance[frame : frame + 1], expected, atol=2e-6, rtol=1e-5)
        for slope, expected in zip(touch.slope, alone.slope, strict=True):
            torch.testing.assert_close(slope[frame : frame + 1], expected, atol=2e-4, rtol=1e-4)
        for place, (share, paint) in enumerate(zip(alone.shares, alone.paints, strict=True)):
            found = touch.shares[place][frame : frame + 1]
            torch.testing.assert_close(found, share, atol=1e-5, rtol=0)
            found = touch.paints[place][:, frame : frame + 1]
            torch.testing.assert_close(found, paint, atol=1e-4, rtol=0)
        for share in touch.shares[len(alone.shares) :]:
            assert not share[frame].any()


def test_a_place_that_is_not_needed_changes_no_bit() -> None:
    """A frame's distances are those of the same frame in a crew that has no empty places."""
    few, many = np.array([[True, False]] * 2), np.array([[True, False], [True, True]])
    results = []
    for bodies in (few, many):
        crew, numbers = CROWD.crew(bodies, bodies)
        own = torch.cat([PHASES[None], torch.from_numpy(numbers)[..., None]])
        results.append(crew.distance(points(), own)[0])
    assert torch.equal(*results)


def test_rays_have_the_numbers_of_their_frames() -> None:
    bodies = np.array([[True, False], [True, True]])
    crew, numbers = CROWD.crew(bodies, bodies)
    own = torch.cat([PHASES[None], torch.from_numpy(numbers)[..., None]])
    whole = crew.distance(points(), own)
    rays = points().flatten(1)
    frame = torch.arange(2).repeat_interleave(rays.shape[1] // 2)
    torch.testing.assert_close(
        crew.distance(rays, own[:, frame, 0]), whole.flatten(), atol=1e-6, rtol=1e-5
    )


def test_places_are_in_order_and_filled_up() -> None:
    shown = np.array([[False, True, True], [False, False, False], [True, False, False]])
    assert in_places(shown).tolist() == [[1, 2], [3, 3], [0, 3]]
    assert in_places(shown[1:2]).shape == (1, 0)
    assert in_places(np.zeros((2, 0), bool)).shape == (2, 0)


def test_a_procedure_without_polyps() -> None:
    crew, numbers = Crowd(CALM, [], torch.device("cpu")).crew(
        np.zeros((2, 0), bool), np.zeros((2, 2), bool)
    )
    own = torch.cat([PHASES[None], torch.from_numpy(numbers)[..., None]])
    expected = Field(CALM).near([], []).distance(points(), PHASES)
    assert torch.equal(crew.distance(points(), own), expected)
