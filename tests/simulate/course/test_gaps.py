import itertools
import math

import numpy as np
import pytest
import torch

from polyplink.simulate.colon.surface import centre_line, draw_colon
from polyplink.simulate.course.camera import to_tube
from polyplink.simulate.course.gaps import (
    AHEAD,
    Ends,
    lost_rotations,
    travel,
    turn_away,
)
from polyplink.simulate.course.looks import look_times
from polyplink.simulate.course.rotations import look_down
from tests.simulate.course.single_turns import angle_between

COLON = draw_colon(np.random.default_rng(0))
AXES = np.tile(np.array([[0.0, 0, -1], [0, 1.0, 0], [1.0, 0, 0]]), (3, 1, 1))


def turned(lengths: np.ndarray) -> tuple[Ends, tuple[Ends, Ends]]:
    rng = np.random.default_rng(0)
    x, y = (float(part) for part in centre_line(COLON, torch.tensor(-2.0)))
    ends = []
    for azimuth in (0.3, 2.0):
        way, rotations = look_down(AXES, np.full(3, azimuth), np.full(3, 0.8))
        ends.append(Ends(np.array([x - 0.6, y, -2.0]) + 0.4 * way, rotations))
    lost = (
        lost_rotations(rng, AXES, ends[0].rotations),
        lost_rotations(rng, AXES, ends[1].rotations),
    )
    which, time = look_times(lengths)
    phases = rng.uniform(0, 6, (3, 2, 2))
    seen = turn_away(COLON, (ends[0], ends[1]), lost, which, time, lengths, phases)
    return seen, (ends[0], ends[1])


def test_a_gap_turns_away_and_back_without_a_jump() -> None:
    lengths = np.array([8, 30, 200])
    seen, (before, after) = turned(lengths)
    for gap, stop in enumerate(np.cumsum(lengths)):
        rows = slice(stop - lengths[gap], stop)
        chain = np.concatenate(
            [before.rotations[gap][None], seen.rotations[rows], after.rotations[gap][None]]
        )
        steps = [angle_between(a, b) for a, b in itertools.pairwise(chain)]
        assert max(steps) < math.radians(130 if lengths[gap] < 10 else 75)
        # In its middle the gap looks into the lumen, not at the wall that the polyp is on.
        middle = seen.rotations[rows][lengths[gap] // 2][:, 2]
        assert middle @ AXES[0][:, 2] > 0.5
        ways = np.concatenate(
            [before.positions[gap][None], seen.positions[rows], after.positions[gap][None]]
        )
        assert np.linalg.norm(np.diff(ways, axis=0), axis=1).max() < 0.2


@pytest.mark.parametrize("fps", [25.0, 60.0])
def test_the_way_stays_in_the_stretch_and_looks_up_it(fps: float) -> None:
    forward = np.arange(900) < 300
    seen = travel(np.random.default_rng(0), COLON, forward, fps, 5.0)
    places = to_tube(COLON, seen.positions)
    assert places[:, 2].min() >= 5.0 - 1e-9
    step = np.diff(places[:, 2])
    assert np.all(step[:299] > 0)
    assert np.all(step[300:] < 0)
    assert np.hypot(places[:, 0], places[:, 1]).max() < 0.55
    assert seen.rotations[:, 2, 2].min() > 0.2
    turns = np.einsum("sij,sij->s", seen.rotations[1:], seen.rotations[:-1])
    assert np.degrees(np.arccos(np.clip((turns - 1) / 2, -1, 1))).max() < 6
    assert AHEAD > 0


def test_a_way_of_no_frames_is_empty() -> None:
    seen = travel(np.random.default_rng(0), COLON, np.zeros(0, bool), 25.0, 5.0)
    assert seen.positions.shape == (0, 3)
