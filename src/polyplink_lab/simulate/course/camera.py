"""The camera: its path, its rotations, and its looks at polyps.

Rotations are (3, 3) matrices with columns right, down, forward in the world. They are computed by
hand because `scipy.spatial` takes 0.3 s to import, in every worker process.

A look is an unbroken view of a polyp. It is described around the polyp (distance, azimuth,
elevation, roll, aim); each of these varies smoothly about a mean, more slowly in short looks, and
the operator's hand trembles and the patient breathes. All looks of a procedure are sampled and
followed at once, as arrays.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from polyplink_lab.simulate.colon.projection import FOCAL
from polyplink_lab.simulate.colon.surface import Colon, centre_line, to_world

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

# A wander is the sum of two sine waves: size and relative speed of each.
WANDER = ((0.8, 1.0), (0.45, 1.9))
WANDER_RATE = 2 * np.pi * sum(size * speed for size, speed in WANDER)


class Rows:
    """Base class of records of arrays (or of such records) with corresponding rows."""

    def __getitem__(self, rows: Index | Mask) -> Self:
        """A copy with some of the rows."""
        return type(self)(**{name: values[rows] for name, values in vars(self).items()})

    def put(self, rows: Index | Mask, other: Self) -> None:
        """Overwrite some of the rows."""
        for name, values in vars(self).items():
            values[rows] = getattr(other, name)


@dataclass(frozen=True)
class CameraPath(Rows):
    """The camera in s frames.

    Attributes:
        positions: (s, 3) positions.
        rotations: (s, 3, 3) columns: right, down, forward.
        exposures: (s,) factor on the automatic exposure.
        whites: (s, 3) white balance, factors on RGB.
    """

    positions: Array
    rotations: Array
    exposures: Array
    whites: Array


def wander(turns: NDArray[Any], phases: Array) -> Array:
    """A smooth variation between about -1.25 and 1.25, with a slope of at most `WANDER_RATE`.

    Args:
        turns: (n,) time, in turns of the slower wave.
        phases: (n, 2) or (2,) phases of the two waves, radians.
    """
    waves = [
        size * np.sin(2 * np.pi * speed * turns + phases[..., index])
        for index, (size, speed) in enumerate(WANDER)
    ]
    return np.asarray(sum(waves))


def smooth(t: Array) -> Array:
    """Smoothstep of t in [0, 1], with slope 0 at both ends."""
    return t * t * (3 - 2 * t)


def to_tube(colon: Colon, positions: Array) -> Array:
    """Convert world positions (s, 3) to tube coordinates: offset from the centre line, and z."""
    x, y = centre_line(colon, torch.from_numpy(positions[:, 2]))
    return np.asarray(positions - np.stack([x, y, torch.zeros_like(x)], axis=1))


def from_tube(colon: Colon, places: Array) -> Array:
    """Convert tube coordinates (s, 3) to world positions (s, 3)."""
    x, y = centre_line(colon, torch.from_numpy(places[:, 2]))
    return np.asarray(places + np.stack([x, y, torch.zeros_like(x)], axis=1))


def carry(colon: Colon, points: Array, phase: Array) -> Array:
    """World positions (n, 3) of points (n, 3) at rest, under waves of phases (n,)."""
    moved = to_world(colon, torch.from_numpy(points.T.copy()), torch.from_numpy(phase))
    return np.asarray(moved.numpy().T)


def unit(vectors: Array) -> Array:
    """Vectors (..., 3) scaled to length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def look_along(forward: Array, up: Array) -> Array:
    """Rotations (s, 3, 3) for viewing directions and rough up directions (s, 3)."""
    forward = unit(forward)
    right = unit(np.cross(forward, up))
    return np.stack([right, np.cross(forward, right), forward], axis=-1)


def look_down(axes: Array, azimuth: Array, elevation: Array) -> tuple[Array, Array]:
    """Cameras that look at points of a wall, without a singularity straight above them.

    The right side of the picture is tangential to the circle of azimuth, so that small changes of
    azimuth and elevation are small rotations everywhere.

    Args:
        axes: (s, 3, 3) columns along the wall, around, and into the lumen.
        azimuth: (s,) azimuth, 0 along the first axis, radians.
        elevation: (s,) elevation above the wall, radians.

    Returns:
        Unit directions (s, 3) from the points to the cameras, and rotations (s, 3, 3).
    """
    ca, sa = np.cos(azimuth)[:, None], np.sin(azimuth)[:, None]
    ce, se = np.cos(elevation)[:, None], np.sin(elevation)[:, None]
    along, around, inward = axes[:, :, 0], axes[:, :, 1], axes[:, :, 2]
    tangent = ca * along + sa * around
    outwards = ce * tangent + se * inward
    right = ca * around - sa * along
    down = se * tangent - ce * inward  # so that right x down = forward = -outwards
    return outwards, np.stack([right, down, -outwards], axis=-1)


def turn_own(rotations: Array, axis: int, angles: Array) -> Array:
    """Rotate cameras about one of their axes: R @ rotation(e_axis, angle), without the product.

    Args:
        rotations: (s, 3, 3).
        axis: 0 right (a positive angle looks up), 1 down (looks right), 2 forward (rolls).
        angles: (s,) radians.
    """
    c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
    i, j = (axis + 1) % 3, (axis + 2) % 3
    turned = rotations.copy()
    turned[:, :, i] = c * rotations[:, :, i] + s * rotations[:, :, j]
    turned[:, :, j] = c * rotations[:, :, j] - s * rotations[:, :, i]
    return turned


def turn_between(first: Array, last: Array, t: Array, look: Index) -> Array:
    """Interpolate between pairs of rotations along the shortest path: (s, 3, 3).

    Args:
        first: (k, 3, 3) rotations at t = 0.
        last: (k, 3, 3) rotations at t = 1.
        t: (s,) position on the path, 0 to 1.
        look: (s,) index of the pair.
    """
    # Axis and angle of the turns R = last first^T (k, 3, 3).
    turns = last @ first.transpose(0, 2, 1)
    trace = turns[:, 0, 0] + turns[:, 1, 1] + turns[:, 2, 2]
    angle = np.arccos(np.clip((trace - 1) / 2, -1, 1))
    skew = turns - turns.transpose(0, 2, 1)
    axis = np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=1)
    axis[angle < 1e-6] = (0.0, 0.0, 1.0)
    # Near half a turn the antisymmetric part vanishes: R + 1 is 2 a a^T.
    for row in np.flatnonzero(angle > np.pi - 1e-3):
        axis[row] = (turns[row] + np.eye(3))[:, int(np.argmax(np.diag(turns[row])))]
    # Rodrigues' formula: 1 + sin K + (1 - cos) K^2, K the cross product with the axis.
    x, y, z = unit(axis)[look].T
    zero = np.zeros(len(x))
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
    s, c = (part[:, None, None] for part in (np.sin(angle[look] * t), np.cos(angle[look] * t)))
    return np.asarray((np.eye(3) + s * cross + (1 - c) * (cross @ cross)) @ first[look])


WIDTH = (0.335, 0.46)  # width of a polyp as a share of the frame: median and log sd over looks
PAIR_WIDTH = (0.6, 0.9)  # width of two polyps in one view, as a share of the frame
SPREAD = (0.36, 0.5)  # sd of the log distance within a look: median and log sd over looks
FARTHEST = 1.7  # largest distance from a polyp, units: limited by the lumen
GAP = 0.04  # least distance between a polyp and the lens, units
ELEVATION = (math.radians(28), math.radians(80))
HEADROOM = 1.25  # largest height above the wall, units
CYCLE = 120  # frames of one cycle of a wander; a longer look has several
# The varying quantities: log distance, azimuth, elevation, roll, aim right and down.
DISTANCE, AZIMUTH, ELEVATE, ROLL, RIGHT, DOWN = range(6)
RATES = (0.05, 0.03, 0.02, 0.03, 0.018, 0.018)  # largest change per frame; radians but the first
SWINGS = (0.0, 0.5, 0.2, 0.3, 0.12, 0.12)  # amplitudes, radians; the distance has its spread
AIM = 0.17  # sd of the angle between the picture's centre and the polyp, radians
AIM_LIMIT = (0.5, 0.4)  # largest such angle, right and down


@dataclass(frozen=True)
class Targets(Rows):
    """The targets of k looks, at rest.

    Attributes:
        centres: (k, 3) centres.
        axes: (k, 3, 3) columns along the wall, around, into the lumen.
        reaches: (k,) radius of a ball around the target.
        pair: (k,) whether the target is two polyps.
    """

    centres: Array
    axes: Array
    reaches: Array
    pair: Mask


@dataclass(frozen=True)
class Poses(Rows):
    """The camera poses of k looks. Varying quantities have a mean and a swing (amplitude).

    Attributes:
        frames: (k,) number of frames.
        distance: (k,) typical distance from the centre.
        nearest: (k,) least distance.
        spread: (k,) standard deviation of the log distance.
        angles: (k, 6, 2) mean and swing of azimuth around the polyp, elevation above the wall,
            roll about the camera's axis, and aim: the angles right and down from the picture's
            centre to the polyp; the first row (distance) is 0.
        cycles: (k,) cycles of the wander in the look.
        phases: (k, 6, 2) phases of the wanders.
        tremor: (k, 3, 3) turns per frame, phase, size of three small oscillations.
        breath: (k, 4) turns per frame, phase, size as a share of the distance, direction.
        light: (k, 4, 2) mean and swing of the logarithms of the factor on the automatic
            exposure and of the white balance (RGB).
    """

    frames: Index
    distance: Array
    nearest: Array
    spread: Array
    angles: Array
    cycles: Array
    phases: Array
    tremor: Array
    breath: Array
    light: Array


def draw_poses(
    rng: np.random.Generator,
    targets: Targets,
    frames: Index,
    *,
    fps: float,
    unsteadiness: float,
    nearer: float = 1.0,
) -> Poses:
    """Sample the poses of k looks.

    Args:
        rng: Source of randomness.
        targets: The targets of the looks.
        frames: (k,) number of frames of each look.
        fps: Frames per second.
        unsteadiness: Factor on all changes within a look, and on the offset from the picture's
            centre.
        nearer: Factor on the share of the frame that the target fills.
    """
    k = len(frames)

    def log_normal(median: float, sigma: float) -> Array:
        return median * np.exp(sigma * rng.standard_normal(k))

    share = np.where(targets.pair, rng.uniform(*PAIR_WIDTH, k), log_normal(*WIDTH))
    nearest = 1.05 * targets.reaches + GAP
    distance = FOCAL * 1.9 * targets.reaches / np.clip(share * nearer, 0.08, 0.95)
    distance = np.clip(distance, nearest, FARTHEST)
    cycles = rng.uniform(0.35, 0.8, k) * np.maximum(1, frames / CYCLE)
    pace = WANDER_RATE * cycles / frames  # largest change in a frame of a wander of size 1
    sine = rng.uniform(math.sin(ELEVATION[0]), math.sin(ELEVATION[1]), k)
    elevation = np.arcsin(np.minimum(sine, np.maximum(HEADROOM / distance, 0.55)))
    spread = unsteadiness * log_normal(*SPREAD) * np.where(targets.pair, 0.2, 1)
    angles = np.zeros((k, 6, 2))

    def set_angle(move: int, mean: Array) -> None:
        """Set mean and swing of an angle; the swing is sampled and limited by the largest rate."""
        size = unsteadiness * SWINGS[move] * rng.uniform(0.3, 1.0, k)
        angles[:, move] = np.stack([mean, np.minimum(size, RATES[move] / pace)], axis=1)

    for move, limit in zip((RIGHT, DOWN), AIM_LIMIT, strict=True):
        set_angle(move, unsteadiness * AIM * rng.standard_normal(k))
        angles[:, move] = angles[:, move].clip(-limit, limit)
    warm, green = unsteadiness * rng.normal(0, [0.10, 0.05], (k, 2)).T
    azimuth, roll = (rng.uniform(-math.pi, math.pi, k) for _ in range(2))
    for move, mean in ((AZIMUTH, azimuth), (ELEVATE, elevation), (ROLL, roll)):
        set_angle(move, mean)
    phases = rng.uniform(0, 2 * math.pi, (k, 6, 2))
    tremor = [
        rng.uniform(0.5, 3.0, (k, 3)) / fps,
        rng.uniform(0, 2 * math.pi, (k, 3)),
        unsteadiness * rng.uniform(0.004, 0.012, (k, 3)),
    ]
    breath = [
        rng.uniform(0.2, 0.3, k) / fps,
        rng.uniform(0, 2 * math.pi, k),
        unsteadiness * rng.uniform(0.01, 0.06, k),
        rng.uniform(0, 2 * math.pi, k),
    ]
    exposure = unsteadiness * rng.normal(0, [0.25, 0.08], (k, 2))
    white = np.stack([warm, green, -warm], axis=1), unsteadiness * rng.normal(0, 0.015, (k, 3))
    return Poses(
        frames=frames,
        distance=distance,
        nearest=nearest,
        spread=np.minimum(spread, 0.65 * RATES[DISTANCE] / pace),
        angles=angles,
        cycles=cycles,
        phases=phases,
        tremor=np.stack(tremor, axis=1),
        breath=np.stack(breath, axis=1),
        light=np.concatenate([exposure[:, None], np.stack(white, axis=2)], axis=1),
    )


def link_poses(rng: np.random.Generator, poses: Poses, linked: Mask) -> Poses:
    """Let the `linked` looks (k,) begin near the end of the previous one, after a short gap."""
    k = len(linked)
    head = np.maximum.accumulate(np.where(linked, 0, np.arange(k)))
    angles, light = poses.angles.copy(), poses.light.copy()
    for move, size in ((AZIMUTH, 0.12), (ELEVATE, 0.06), (ROLL, 0.12)):
        angles[:, move, 0] = angles[head, move, 0] + size * linked * rng.standard_normal(k)
    light[:, :, 0] = light[head, :, 0]
    light[:, 0, 0] += 0.03 * linked * rng.standard_normal(k)
    distance = np.maximum(poses.distance[head], poses.nearest)
    return replace(poses, distance=distance, angles=angles, light=light)


def look_times(frames: Index) -> tuple[Index, Index]:
    """Look (n,) and frame within the look (n,) of all frames of k looks."""
    look = np.repeat(np.arange(len(frames)), frames)
    starts = np.cumsum(frames) - frames
    return look, np.arange(len(look)) - starts[look]


def follow_looks(colon: Colon, targets: Targets, poses: Poses, phase: Array) -> CameraPath:
    """The camera path in the n frames of k consecutive looks.

    Args:
        colon: The tube.
        targets: The targets of the looks.
        poses: The poses of the looks.
        phase: (n,) phase of the peristaltic wave in the frames.
    """
    look, time = look_times(poses.frames)
    count = np.maximum(poses.frames, 1)
    turns = (poses.cycles / count)[look] * time
    moves = [wander(turns, poses.phases[look, move]) for move in range(6)]

    def swung(pairs: Array, move: int) -> Array:
        """Mean plus swing (k, 2) in every frame (n,)."""
        return np.asarray(pairs[look, 0] + pairs[look, 1] * moves[move])

    # Scaled so that the log distance has the look's spread, unless the look is so short that its
    # wander hardly varies.
    mean = np.bincount(look, moves[DISTANCE], len(count)) / count
    residual = moves[DISTANCE] - mean[look]
    sd = np.sqrt(np.bincount(look, residual * residual, len(count)) / count)
    logarithm = (poses.spread / np.maximum(sd, 0.3))[look] * residual
    distance = np.clip(poses.distance[look] * np.exp(logarithm), poses.nearest[look], FARTHEST)
    elevation = swung(poses.angles[:, ELEVATE], ELEVATE).clip(ELEVATION[0], math.radians(86))
    azimuth = swung(poses.angles[:, AZIMUTH], AZIMUTH)
    outwards, turned = look_down(targets.axes[look], azimuth, elevation)
    # The camera moves with the wall under the wave, and is shifted by the breath.
    rate, start, size, heading = poses.breath[look].T
    breath = distance * size * np.sin(2 * math.pi * rate * time + start)
    aside = turned[:, :, 0] * np.cos(heading)[:, None] + turned[:, :, 1] * np.sin(heading)[:, None]
    rest_places = targets.centres[look]
    positions = (
        carry(colon, rest_places, phase) + distance[:, None] * outwards + breath[:, None] * aside
    )
    rates, starts, sizes = (poses.tremor[look, row] for row in range(3))
    shake = sizes * np.sin(2 * math.pi * rates * time[:, None] + starts)  # (n, 3)
    aim = [
        swung(poses.angles[:, move], move).clip(-limit, limit)
        for move, limit in zip((RIGHT, DOWN), AIM_LIMIT, strict=True)
    ]
    turned = turn_own(turned, 2, swung(poses.angles[:, ROLL], ROLL) + shake[:, 2])
    turned = turn_own(turned, 1, aim[0] + shake[:, 0])
    turned = turn_own(turned, 0, aim[1] + shake[:, 1])
    slow = wander(0.7 * turns, poses.phases[look, DISTANCE])
    white = poses.light[look, 1:, 0] + poses.light[look, 1:, 1] * slow[:, None]
    exposure = swung(poses.light[:, 0], ROLL)
    return CameraPath(positions, turned, np.exp(exposure), np.exp(white))
