"""The camera of a whole procedure."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from polyplink.simulate.colon.surface import centre_line, draw_colon
from polyplink.simulate.course.camera import look_down, to_tube
from polyplink.simulate.course.route import (
    BLINK_GAP,
    FREE,
    Course,
    Pose,
    draw_phase,
    travel,
    turn_away,
)
from polyplink.simulate.course.timeline import Look
from tests.simulate.plans import mini_plan

COLON = draw_colon(np.random.default_rng(0))
AXES = np.tile(np.array([[0.0, 0, -1], [0, 1.0, 0], [1.0, 0, 0]]), (3, 1, 1))


def test_looks_become_arrays() -> None:
    course = Course.of([Look(0, 3, 2), Look(2, 9, 1, 1)])
    assert course.beside.tolist() == [-1, 1]
    which, frames = course.times
    assert which.tolist() == [0, 0, 1]
    assert frames.tolist() == [3, 4, 9]
    assert course[np.array([1])].first.tolist() == [9]


def test_the_wave_runs_on_at_a_few_a_minute() -> None:
    phase = draw_phase(np.random.default_rng(0), 3000, 30.0)
    assert np.all(np.abs(np.diff(phase)) < 0.05)
    assert 2 < (phase[-1] - phase[0]) / (2 * np.pi) < 12


def steps(rotations: np.ndarray) -> np.ndarray:
    """Angles, radians, from each rotation (s, 3, 3) to the next."""
    return np.asarray(
        Rotation.from_matrix(rotations[1:] @ rotations[:-1].swapaxes(1, 2)).magnitude()
    )


def test_a_gap_turns_away_and_back_without_a_jump() -> None:
    lengths = np.array([8, 30, 200])
    x, y = (float(part) for part in centre_line(COLON, torch.tensor(-2.0)))
    ends: list[Pose] = []
    for azimuth in (0.3, 2.0):
        way, rotations = look_down(AXES, np.full(3, azimuth), np.full(3, 0.8))
        ends.append((np.array([x - 0.6, y, -2.0]) + 0.4 * way, rotations))
    rng = np.random.default_rng(0)
    positions, turned = turn_away(rng, COLON, tuple(ends), (AXES, AXES), lengths)
    for gap, stop in enumerate(np.cumsum(lengths)):
        rows = slice(stop - lengths[gap], stop)
        parts = [ends[0][1][gap][None], turned[rows], ends[1][1][gap][None]]
        assert steps(np.concatenate(parts)).max() < math.radians(130 if lengths[gap] < 10 else 75)
        # In its middle the gap looks into the lumen, not at the wall that the polyp is on.
        assert turned[rows][lengths[gap] // 2][:, 2] @ AXES[0][:, 2] > 0.5
        parts = [ends[0][0][gap][None], positions[rows], ends[1][0][gap][None]]
        assert np.linalg.norm(np.diff(np.concatenate(parts), axis=0), axis=1).max() < 0.2


@pytest.mark.parametrize("fps", [25.0, 60.0])
def test_the_way_stays_in_the_stretch_and_looks_up_it(fps: float) -> None:
    forward = np.arange(900) < 300
    positions, turned = travel(np.random.default_rng(0), COLON, forward, fps, 5.0)
    places = to_tube(COLON, positions)
    assert places[:, 2].min() >= 5.0 - 1e-9
    step = np.diff(places[:, 2])
    assert np.all(step[:299] > 0)
    assert np.all(step[300:] < 0)
    assert np.hypot(places[:, 0], places[:, 1]).max() < 0.55
    assert turned[:, 2, 2].min() > 0.2
    assert steps(turned).max() < math.radians(6)
    none, _ = travel(np.random.default_rng(0), COLON, np.zeros(0, bool), 25.0, 5.0)
    assert none.shape == (0, 3)


def test_every_frame_has_a_camera_and_those_of_looks_never_blink() -> None:
    plan = mini_plan()
    n = plan.spec.n_frames
    for values in vars(plan.path).values():
        assert len(values) == n
        assert np.isfinite(values).all()
    for index, look in enumerate(plan.timeline.looks):
        assert np.all(plan.looks[look.first : look.end] == index)
    assert (plan.looks >= 0).sum() == sum(look.frames for look in plan.timeline.looks)
    assert not plan.conditions.blink[plan.looks >= 0].any()


def test_short_gaps_blink_and_cuts_are_hidden_by_blinks() -> None:
    plan = mini_plan()
    blink = plan.conditions.blink
    gaps = [(a.end, b.first) for a, b in itertools.pairwise(plan.timeline.looks)]
    short = [(start, stop) for start, stop in gaps if stop - start <= BLINK_GAP]
    assert short
    assert all(blink[start:stop].all() for start, stop in short)
    jump = np.linalg.norm(np.diff(plan.path.positions, axis=0), axis=1)
    cut = np.flatnonzero(jump > 0.5)
    assert len(cut)
    assert np.all(blink[cut] | blink[cut + 1])


def test_the_way_is_far_up_the_tube_and_looks_are_near_their_polyps() -> None:
    plan = mini_plan()
    z = plan.path.positions[:, 2]
    first = plan.timeline.looks[0].first
    assert np.all(z[: first // 2] >= FREE - 1e-6)
    for look in plan.timeline.looks:
        there = float(plan.lumps[look.polyp].centre[2])
        assert np.abs(z[look.first : look.end] - there).max() < 2.5


def test_exposures_go_on_from_look_to_look() -> None:
    plan = mini_plan()
    looks = plan.timeline.looks
    start, stop = looks[1].end, looks[2].first
    between = plan.path.exposures[start:stop]
    ends = plan.path.exposures[[start - 1, stop]]
    assert np.all((between >= ends.min() - 1e-9) & (between <= ends.max() + 1e-9))
