"""Looks at polyps: where the camera stands around a polyp and how it moves there.

A look is planned around its polyp (distance, azimuth, elevation, aim, roll); each of these
wanders smoothly about its middle, slower in short looks, under a trembling hand and the
patient's breath. All looks of a procedure are drawn and followed at once.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from polyplink.simulate.colon.projection import FOCAL
from polyplink.simulate.colon.surface import Colon
from polyplink.simulate.course.camera import (
    WANDER_RATE,
    Array,
    CameraPath,
    Index,
    Mask,
    Rows,
    carry,
    look_down,
    turn_own,
    wander,
)

WIDTH = (0.335, 0.46)  # median and log sd over looks of the share of the frame a polyp is wide
PAIR_WIDTH = (0.6, 0.9)  # share that two polyps in one view take together
SPREAD = (0.36, 0.5)  # median and log sd of the sd of log distance within a look
FARTHEST = 1.7  # units from a polyp that the lumen leaves room for
GAP = 0.04  # units between a polyp and the lens at least
ELEVATION = (math.radians(28), math.radians(80))
HEADROOM = 1.25  # units above the wall at most
CYCLE = 120  # frames: a longer look is wandered through more than once
# The most that distance (log), azimuth, elevation, roll and aim (radians) change in a frame.
RATES = (0.05, 0.03, 0.02, 0.03, 0.018)
SWINGS = (0.5, 0.2, 0.3, 0.12)  # of azimuth, elevation, roll and aim, radians
AIM = 0.17  # sd of the angle between the picture's middle and the polyp
AIM_LIMIT = (0.5, 0.4)  # right and down
MOVES = 6  # things that wander: distance, azimuth, elevation, roll, aim right and down


@dataclass(frozen=True)
class Targets(Rows):
    """What k looks are directed at, at rest.

    Attributes:
        centres: (k, 3).
        axes: (k, 3, 3) columns along the wall, around, into the lumen.
        reaches: (k,) radius of a ball around what is looked at.
        pair: (k,) whether that is two polyps.
    """

    centres: Array
    axes: Array
    reaches: Array
    pair: Mask


@dataclass(frozen=True)
class Poses(Rows):
    """How k looks are taken; a middle and a swing in the last dimension of 2.

    Attributes:
        frames: (k,) length.
        distance: (k,) typical distance from the centre.
        nearest: (k,) distance that it never falls below.
        spread: (k,) standard deviation of the logarithm of the distance.
        azimuth: (k, 2) around the polyp.
        elevation: (k, 2) above the wall.
        roll: (k, 2) about the camera's axis.
        aim: (k, 2, 2) right, down: angle from the picture's middle to the polyp.
        cycles: (k,) turns of the wandering in the look.
        phases: (k, 6, 2) of the wanderings.
        tremor: (k, 3, 3) turns a frame, phase, size of three small swings.
        breath: (k, 4) turns a frame, phase, size as a share of the distance, direction.
        exposure: (k, 2) logarithm of the factor on the automatic exposure.
        white: (k, 2, 3) logarithm of the white balance.
    """

    frames: Index
    distance: Array
    nearest: Array
    spread: Array
    azimuth: Array
    elevation: Array
    roll: Array
    aim: Array
    cycles: Array
    phases: Array
    tremor: Array
    breath: Array
    exposure: Array
    white: Array


def _log_normal(rng: np.random.Generator, law: tuple[float, float], k: int) -> Array:
    return law[0] * np.exp(law[1] * rng.standard_normal(k))


def _swings(
    rng: np.random.Generator, middle: Array, swing: float, rate: float, pace: Array
) -> Array:
    """Middles (k,) with swings (k, 2): as drawn, or as much as the rate a frame allows."""
    size = swing * rng.uniform(0.3, 1.0, len(middle))
    return np.stack([middle, np.minimum(size, rate / pace)], axis=1)


def draw_poses(
    rng: np.random.Generator,
    targets: Targets,
    frames: Index,
    *,
    fps: float,
    unrest: float,
    nearer: float = 1.0,
) -> Poses:
    """Draw k looks.

    Args:
        rng: Where they come from.
        targets: What they are directed at.
        frames: (k,) their lengths.
        fps: Frames per second.
        unrest: Factor on all change within a look and on how far off the middle it aims.
        nearer: Factor on the share of the frame that is filled.
    """
    k = len(frames)
    share = np.where(targets.pair, rng.uniform(*PAIR_WIDTH, k), _log_normal(rng, WIDTH, k))
    nearest = 1.05 * targets.reaches + GAP
    distance = FOCAL * 1.9 * targets.reaches / np.clip(share * nearer, 0.08, 0.95)
    distance = np.clip(distance, nearest, FARTHEST)
    cycles = rng.uniform(0.35, 0.8, k) * np.maximum(1, frames / CYCLE)
    pace = WANDER_RATE * cycles / frames  # of a wander of size 1, a frame
    sine = rng.uniform(math.sin(ELEVATION[0]), math.sin(ELEVATION[1]), k)
    elevation = np.arcsin(np.minimum(sine, np.maximum(HEADROOM / distance, 0.55)))
    spread = unrest * _log_normal(rng, SPREAD, k) * np.where(targets.pair, 0.2, 1)
    aims = [
        _swings(
            rng, unrest * AIM * rng.standard_normal(k), unrest * SWINGS[3], RATES[4], pace
        ).clip(-limit, limit)
        for limit in AIM_LIMIT
    ]
    white = unrest * rng.normal(0, [0.10, 0.05], (k, 2))
    white = np.stack([white[:, 0], white[:, 1], -white[:, 0]], axis=1)
    turns = [rng.uniform(-math.pi, math.pi, k) for _ in range(2)]
    return Poses(
        frames=frames,
        distance=distance,
        nearest=nearest,
        spread=np.minimum(spread, 0.65 * RATES[0] / pace),
        azimuth=_swings(rng, turns[0], unrest * SWINGS[0], RATES[1], pace),
        elevation=_swings(rng, elevation, unrest * SWINGS[1], RATES[2], pace),
        roll=_swings(rng, turns[1], unrest * SWINGS[2], RATES[3], pace),
        aim=np.stack(aims, axis=1),
        cycles=cycles,
        phases=rng.uniform(0, 2 * math.pi, (k, MOVES, 2)),
        tremor=np.stack(
            [
                rng.uniform(0.5, 3.0, (k, 3)) / fps,
                rng.uniform(0, 2 * math.pi, (k, 3)),
                unrest * rng.uniform(0.004, 0.012, (k, 3)),
            ],
            axis=1,
        ),
        breath=np.stack(
            [
                rng.uniform(0.2, 0.3, k) / fps,
                rng.uniform(0, 2 * math.pi, k),
                unrest * rng.uniform(0.01, 0.06, k),
                rng.uniform(0, 2 * math.pi, k),
            ],
            axis=1,
        ),
        exposure=unrest * rng.normal(0, [0.25, 0.08], (k, 2)),
        white=np.stack([white, unrest * rng.normal(0, 0.015, (k, 3))], axis=1),
    )


def link_poses(rng: np.random.Generator, poses: Poses, linked: Mask) -> Poses:
    """Let looks begin about where the one before ended, where a gap is too short to go elsewhere.

    Args:
        rng: How far they are apart all the same.
        poses: k looks.
        linked: (k,) whether a look belongs to the one before.
    """
    head = np.maximum.accumulate(np.where(linked, 0, np.arange(len(linked))))
    near = linked.astype(float)

    def shifted(pair: Array, by: float) -> Array:
        middle = pair[head, 0] + by * near * rng.standard_normal(len(head))
        return np.stack([middle, pair[:, 1]], axis=1)

    return replace(
        poses,
        distance=np.maximum(poses.distance[head], poses.nearest),
        azimuth=shifted(poses.azimuth, 0.12),
        elevation=shifted(poses.elevation, 0.06),
        roll=shifted(poses.roll, 0.12),
        exposure=shifted(poses.exposure, 0.03),
        white=np.stack([poses.white[head, 0], poses.white[:, 1]], axis=1),
    )


def look_times(frames: Index) -> tuple[Index, Index]:
    """Which look (n,) and how far into it (n,) each frame of k looks is, n their sum."""
    which = np.repeat(np.arange(len(frames)), frames)
    starts = np.cumsum(frames) - frames
    return which, np.arange(len(which)) - starts[which]


def _distances(poses: Poses, which: Index, unrest: Array) -> Array:
    """Distances (n,) whose logarithm has the look's spread, as far as there is room."""
    count = np.maximum(poses.frames, 1)
    mean = np.bincount(which, unrest, len(count)) / count
    rest = unrest - mean[which]
    sd = np.sqrt(np.bincount(which, rest * rest, len(count)) / count)
    # A look too short for its wander to get anywhere is not blown up to its spread.
    logarithm = (poses.spread / np.maximum(sd, 0.3))[which] * rest
    return np.clip(poses.distance[which] * np.exp(logarithm), poses.nearest[which], FARTHEST)


def follow_looks(colon: Colon, targets: Targets, poses: Poses, phase: Array) -> CameraPath:
    """The camera during k looks, one after the other.

    Args:
        colon: The tube.
        targets: What the looks are directed at.
        poses: The looks.
        phase: (n,) of the peristaltic wave in their frames, n the sum of their lengths.
    """
    which, time = look_times(poses.frames)
    turns = (poses.cycles / np.maximum(poses.frames, 1))[which] * time
    moves = [wander(turns, poses.phases[which, move]) for move in range(MOVES)]

    def swung(pair: Array, move: int) -> Array:
        return np.asarray(pair[which, 0] + pair[which, 1] * moves[move])

    rate, start, size = (poses.tremor[which, row] for row in range(3))
    shake = size * np.sin(2 * math.pi * rate * time[:, None] + start)  # (n, 3)
    distance = _distances(poses, which, moves[0])
    azimuth = swung(poses.azimuth, 1)
    elevation = swung(poses.elevation, 2).clip(ELEVATION[0], math.radians(86))
    way, turned = look_down(targets.axes[which], azimuth, elevation)
    # The camera rides on the wall that the wave carries; the breath shifts it.
    rate, start, size, heading = poses.breath[which].T
    breath = distance * size * np.sin(2 * math.pi * rate * time + start)
    aside = turned[:, :, 0] * np.cos(heading)[:, None] + turned[:, :, 1] * np.sin(heading)[:, None]
    rest = targets.centres[which]
    positions = carry(colon, rest, phase) + distance[:, None] * way + breath[:, None] * aside
    aim_x = swung(poses.aim[:, 0], 4).clip(-AIM_LIMIT[0], AIM_LIMIT[0])
    aim_y = swung(poses.aim[:, 1], 5).clip(-AIM_LIMIT[1], AIM_LIMIT[1])
    turned = turn_own(turned, 2, swung(poses.roll, 3) + shake[:, 2])
    turned = turn_own(turned, 1, aim_x + shake[:, 0])
    turned = turn_own(turned, 0, aim_y + shake[:, 1])
    slow = wander(0.7 * turns, poses.phases[which, 0])
    white = poses.white[which, 0] + poses.white[which, 1] * slow[:, None]
    return CameraPath(positions, turned, np.exp(swung(poses.exposure, 3)), np.exp(white))
