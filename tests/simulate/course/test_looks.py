import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.simulate.colon.surface import draw_colon
from polyplink.simulate.course.looks import (
    AIM_LIMIT,
    FARTHEST,
    GAP,
    Poses,
    Targets,
    draw_poses,
    follow_looks,
    link_poses,
    look_times,
)
from tests.simulate.course.single_turns import angle_between

COLON = draw_colon(np.random.default_rng(0))
SEEDS = st.integers(0, 2**32 - 1)


def targets(k: int, reach: float = 0.1) -> Targets:
    axes = np.array([[0.0, 0, -1], [0, 1.0, 0], [1.0, 0, 0]])
    return Targets(
        np.tile([0.5, 0.1, -2.0], (k, 1)),
        np.tile(axes, (k, 1, 1)),
        np.full(k, reach),
        np.zeros(k, bool),
    )


def poses(seed: int, frames: list[int], unrest: float = 1.0, reach: float = 0.1) -> Poses:
    rng = np.random.default_rng(seed)
    return draw_poses(rng, targets(len(frames), reach), np.array(frames), fps=30.0, unrest=unrest)


def test_look_times_number_the_frames_of_each_look() -> None:
    which, time = look_times(np.array([2, 1, 3]))
    assert which.tolist() == [0, 0, 1, 2, 2, 2]
    assert time.tolist() == [0, 1, 0, 0, 1, 2]


@settings(deadline=None)
@given(SEEDS, st.sampled_from([0.03, 0.1, 0.4]))
def test_a_look_keeps_its_distance_and_its_polyp_in_view(seed: int, reach: float) -> None:
    frames = [1, 6, 40, 300]
    path = follow_looks(COLON, targets(4, reach), poses(seed, frames, reach=reach), np.zeros(347))
    way = targets(1).centres - path.positions
    distance = np.linalg.norm(way, axis=1)
    assert distance.min() > reach + 0.7 * GAP  # the breath moves the camera a little
    assert distance.max() < 1.1 * FARTHEST
    ahead = (way / distance[:, None] * path.rotations[:, :, 2]).sum(1)
    assert np.degrees(np.arccos(ahead)).max() < math.degrees(math.hypot(*AIM_LIMIT)) + 8
    np.testing.assert_allclose(
        path.rotations.transpose(0, 2, 1) @ path.rotations,
        np.tile(np.eye(3), (347, 1, 1)),
        atol=1e-9,
    )


@settings(deadline=None, max_examples=30)
@given(SEEDS)
def test_a_look_moves_smoothly(seed: int) -> None:
    path = follow_looks(COLON, targets(1), poses(seed, [90]), np.zeros(90))
    distance = np.linalg.norm(targets(1).centres - path.positions, axis=1)
    assert np.abs(np.diff(np.log(distance))).max() < 0.12
    turns = [angle_between(a, b) for a, b in itertools.pairwise(path.rotations)]
    assert max(turns) < math.radians(8)
    assert np.abs(np.diff(np.log(path.exposures))).max() < 0.1


def spread(frames: int, unrest: float) -> float:
    path = follow_looks(COLON, targets(60), poses(0, [frames] * 60, unrest), np.zeros(60 * frames))
    logarithm = np.log(np.linalg.norm(targets(1).centres - path.positions, axis=1))
    return float(np.median(logarithm.reshape(60, frames).std(1)))


def test_short_and_calm_looks_change_less() -> None:
    assert spread(8, 1.0) < 0.5 * spread(120, 1.0)
    assert spread(120, 0.5) < 0.7 * spread(120, 1.0)


def test_linked_looks_are_alike() -> None:
    drawn = poses(0, [10] * 6)
    linked = np.array([False, True, True, False, True, False])
    joined = link_poses(np.random.default_rng(1), drawn, linked)
    assert joined.distance.tolist() == drawn.distance[[0, 0, 0, 3, 3, 5]].tolist()
    assert np.abs(joined.azimuth[:, 0] - drawn.azimuth[[0, 0, 0, 3, 3, 5], 0]).max() < 0.6
    np.testing.assert_array_equal(joined.roll[~linked], drawn.roll[~linked])
    np.testing.assert_array_equal(joined.azimuth[:, 1], drawn.azimuth[:, 1])


def test_some_and_put_name_the_same_looks() -> None:
    first, other = poses(0, [10] * 4), poses(1, [10] * 2)
    merged = first.put(np.array([1, 3]), other)
    for field in dataclasses.fields(Poses):
        np.testing.assert_array_equal(
            getattr(merged.some(np.array([1, 3])), field.name), getattr(other, field.name)
        )
        np.testing.assert_array_equal(
            getattr(merged.some(np.array([0, 2])), field.name),
            getattr(first.some(np.array([0, 2])), field.name),
        )


def test_a_polyp_takes_about_the_published_share_of_the_frame() -> None:
    """Half of what is looked at takes 0.2 to 0.45 of the frame's width, as in CVC-ClinicDB."""
    share = 0.518 * 1.9 * 0.1 / poses(0, [40] * 2000).distance
    low, middle, high = np.quantile(share, [0.25, 0.5, 0.75])
    assert 0.15 < low < middle < high < 0.6
    assert middle == pytest.approx(0.32, abs=0.04)
