"""The camera: rotations, motion, and looks at polyps."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.spatial.transform import Rotation

from polyplink_lab.simulate.colon.surface import draw_colon
from polyplink_lab.simulate.course.camera import (
    AIM_LIMIT,
    AZIMUTH,
    FARTHEST,
    GAP,
    Poses,
    Targets,
    carry,
    draw_poses,
    follow_looks,
    from_tube,
    link_poses,
    to_tube,
    turn_between,
    unit,
)
from tests.simulate.scenes import angles_between

COLON = dataclasses.replace(draw_colon(np.random.default_rng(0)), wave=0.05, wave_rate=1.3)
STILL = dataclasses.replace(COLON, wave=0.0)
SEEDS = st.integers(0, 2**32 - 1)
VECTORS = st.tuples(*[st.floats(-1, 1)] * 3).map(np.array).filter(lambda v: np.linalg.norm(v) > 0.1)
ANGLES = st.floats(0, math.pi)
PLACES: st.SearchStrategy[np.ndarray] = st.lists(
    st.tuples(*[st.floats(-3, 3)] * 3), min_size=1, max_size=9
).map(np.asarray)


def matrix(axis: np.ndarray, angle: float) -> np.ndarray:
    return np.asarray(Rotation.from_rotvec(unit(axis) * angle).as_matrix())


# --- Rotations ------------------------------------------------------------------------------


@given(st.lists(st.tuples(VECTORS, ANGLES, VECTORS, st.floats(0, 3)), min_size=1, max_size=4))
def test_turns_take_the_shortest_path(
    turns: list[tuple[np.ndarray, float, np.ndarray, float]],
) -> None:
    first = np.stack([matrix(start_axis, start_angle) for _, _, start_axis, start_angle in turns])
    last = np.stack([matrix(axis, angle) for axis, angle, _, _ in turns]) @ first
    turn_index, t = np.repeat(np.arange(len(turns)), 5), np.tile(np.linspace(0, 1, 5), len(turns))
    steps = turn_between(first, last, t, turn_index).reshape(-1, 5, 3, 3)
    np.testing.assert_allclose(steps[:, 0], first, atol=1e-9)
    np.testing.assert_allclose(steps[:, -1], last, atol=3e-3)
    for steps_of_turn, (_, angle, _, _) in zip(steps, turns, strict=True):
        np.testing.assert_allclose(angles_between(steps_of_turn), angle / 4, atol=1e-3)


# --- Motion ---------------------------------------------------------------------------------


@given(PLACES, st.floats(0, 6))
def test_the_wave_scales_distances_from_the_centre_line(places: np.ndarray, phase: float) -> None:
    points = from_tube(COLON, places)
    np.testing.assert_allclose(to_tube(COLON, points), places, atol=1e-9)
    places_after = to_tube(COLON, carry(COLON, points, np.full(len(points), phase)))
    for before, after in zip(places, places_after, strict=True):
        g = 1 + COLON.wave * math.sin(COLON.wave_rate * before[2] - phase)
        np.testing.assert_allclose(after, before * [g, g, 1], atol=1e-9)


# --- Looks ----------------------------------------------------------------------------------


def targets(k: int, reach: float = 0.1) -> Targets:
    axes = np.array([[0.0, 0, -1], [0, 1.0, 0], [1.0, 0, 0]])
    centres = np.tile([0.5, 0.1, -2.0], (k, 1))
    return Targets(centres, np.tile(axes, (k, 1, 1)), np.full(k, reach), np.zeros(k, bool))


def poses(seed: int, frames: list[int], unsteadiness: float = 1.0, reach: float = 0.1) -> Poses:
    rng = np.random.default_rng(seed)
    return draw_poses(
        rng, targets(len(frames), reach), np.array(frames), fps=30.0, unsteadiness=unsteadiness
    )


@given(SEEDS, st.sampled_from([0.03, 0.1, 0.4]))
def test_a_look_keeps_its_distance_and_its_polyp_in_view(seed: int, reach: float) -> None:
    frames = [1, 6, 40, 300]
    path = follow_looks(STILL, targets(4, reach), poses(seed, frames, reach=reach), np.zeros(347))
    to_polyp = targets(1).centres - path.positions
    distance = np.linalg.norm(to_polyp, axis=1)
    assert distance.min() > reach + 0.7 * GAP  # breathing moves the camera a little
    assert distance.max() < 1.1 * FARTHEST
    ahead = (to_polyp / distance[:, None] * path.rotations[:, :, 2]).sum(1)
    assert np.degrees(np.arccos(ahead)).max() < math.degrees(math.hypot(*AIM_LIMIT)) + 8
    square = path.rotations.transpose(0, 2, 1) @ path.rotations
    np.testing.assert_allclose(square, np.tile(np.eye(3), (347, 1, 1)), atol=1e-9)


@given(SEEDS)
def test_a_look_moves_smoothly(seed: int) -> None:
    path = follow_looks(STILL, targets(1), poses(seed, [90]), np.zeros(90))
    distance = np.linalg.norm(targets(1).centres - path.positions, axis=1)
    assert np.abs(np.diff(np.log(distance))).max() < 0.12
    assert angles_between(path.rotations).max() < math.radians(8)
    assert np.abs(np.diff(np.log(path.exposures))).max() < 0.1


def spread(frames: int, unsteadiness: float) -> float:
    path = follow_looks(
        STILL, targets(60), poses(0, [frames] * 60, unsteadiness), np.zeros(60 * frames)
    )
    logarithm = np.log(np.linalg.norm(targets(1).centres - path.positions, axis=1))
    return float(np.median(logarithm.reshape(60, frames).std(1)))


def test_the_distance_changes_less_in_short_and_calm_looks() -> None:
    assert spread(8, 1.0) < 0.5 * spread(120, 1.0)
    assert spread(120, 0.5) < 0.7 * spread(120, 1.0)


def test_linked_looks_share_distance_and_nearly_the_azimuth() -> None:
    unlinked = poses(0, [10] * 6)
    linked = np.array([False, True, True, False, True, False])
    linked_poses = link_poses(np.random.default_rng(1), unlinked, linked)
    assert linked_poses.distance.tolist() == unlinked.distance[[0, 0, 0, 3, 3, 5]].tolist()
    assert (
        np.abs(
            linked_poses.angles[:, AZIMUTH, 0] - unlinked.angles[[0, 0, 0, 3, 3, 5], AZIMUTH, 0]
        ).max()
        < 0.6
    )
    np.testing.assert_array_equal(linked_poses.angles[~linked], unlinked.angles[~linked])
    np.testing.assert_array_equal(linked_poses.angles[..., 1], unlinked.angles[..., 1])


def test_polyps_take_the_published_share_of_the_frame_width() -> None:
    """Half of the views take 0.2 to 0.45 of the width, as in CVC-ClinicDB."""
    share = 0.518 * 1.9 * 0.1 / poses(0, [40] * 2000).distance
    low, middle, high = np.quantile(share, [0.25, 0.5, 0.75])
    assert 0.15 < low < middle < high < 0.6
    assert middle == pytest.approx(0.32, abs=0.04)
