"""Where the camera is and where it looks, frame by frame.

A look at a polyp is planned around the polyp (distance, azimuth, elevation, aim, roll); between
two looks the camera turns to the lumen, so that the polyp is lost, and comes back elsewhere.
Positions are kept in tube coordinates (offset from the centre line, z), in which every straight
way between two allowed places is allowed too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from polyplink.simulate.course.rotations import (
    Array,
    angle_between,
    look_along,
    rotation,
    turn_towards,
    unit,
)
from polyplink.simulate.picture.scene import Colon, centre_line

CLEARANCE = 0.55  # the camera keeps this near the centre line: folds stand at 0.65 and beyond
MAX_STEP = 0.4  # units a frame
MEAN_TURN = 0.7  # radians a frame while a polyp is lost or found
MIN_TURN_FRAMES = 4
IMAGE_SHARE = (0.22, 0.5)  # of the image's width that a polyp takes
DISTANCE = (0.42, 1.15)  # units from a polyp that the lumen leaves room for


@dataclass(frozen=True)
class Target:
    """A polyp to look at: centre (3,), axes (3, 3) along, around, inwards; largest radius."""

    centre: Array
    axes: Array
    radius: float


@dataclass(frozen=True)
class View:
    """One look at a polyp; pairs are its beginning and end.

    Attributes:
        target: Index of the polyp.
        frames: Number of frames.
        distance: From the polyp's centre, units.
        azimuth: Around the polyp, 0 along the tube, radians.
        elevation: Above the wall, radians.
        roll: Of the camera about its axis, radians.
        aim: (2, 2) angles right and down from the image's middle to the polyp, at begin and end.
        tremor: (3, 3) frequency (cycles a frame), phase and amplitude of three small swings.
        exposure: Factor on the automatic exposure.
        white: White balance, factors on RGB, at begin and end.
    """

    target: int
    frames: int
    distance: tuple[float, float]
    azimuth: tuple[float, float]
    elevation: tuple[float, float]
    roll: tuple[float, float]
    aim: Array
    tremor: Array
    exposure: tuple[float, float]
    white: Array


@dataclass(frozen=True)
class CameraPath:
    """The camera in s frames.

    Attributes:
        positions: (s, 3).
        rotations: (s, 3, 3) columns: right, down, forward.
        exposures: (s,) factor on the automatic exposure.
        whites: (s, 3) white balance, factors on RGB.
    """

    positions: Array
    rotations: Array
    exposures: Array
    whites: Array


def draw_view(rng: np.random.Generator, target: int, reach: float, frames: int) -> View:
    """Draw one look at a polyp.

    Args:
        rng: Where it comes from.
        target: Index of the polyp.
        reach: Distance at which the polyp is as wide as the image.
        frames: Length of the look.
    """
    share = rng.uniform(*IMAGE_SHARE)
    distance = float(np.clip(reach / share, *DISTANCE))
    azimuth, elevation = rng.uniform(-math.pi, math.pi), math.radians(rng.uniform(28, 80))
    roll = rng.uniform(-math.pi, math.pi)
    warmth, tint = rng.normal(0, 0.10), rng.normal(0, 0.05)
    drift = rng.normal(0, 0.02, 3)
    white = np.array([warmth, tint, -warmth])
    stay = 1 if frames >= 20 else 0.4  # a glimpse has no time to go far
    return View(
        target=target,
        frames=frames,
        distance=(distance, distance * math.exp(stay * rng.uniform(-0.3, 0.3))),
        azimuth=(azimuth, azimuth + stay * rng.uniform(-0.5, 0.5)),
        elevation=(elevation, elevation + stay * rng.uniform(-0.25, 0.25)),
        roll=(roll, roll + stay * rng.uniform(-0.4, 0.4)),
        aim=rng.uniform(-0.17, 0.17, (2, 2)),
        tremor=np.stack(
            [
                rng.uniform(0.02, 0.08, 3),
                rng.uniform(0, 2 * math.pi, 3),
                rng.uniform(0.005, 0.02, 3),
            ]
        ),
        exposure=(math.exp(rng.normal(0, 0.3)), math.exp(rng.normal(0, 0.1))),
        white=np.exp(np.stack([white, white + drift])),
    )


def smooth(t: Array) -> Array:
    """Smoothstep of t in 0 to 1: begins and ends at rest."""
    return t * t * (3 - 2 * t)


def between(ends: tuple[float, float], t: Array) -> Array:
    """From the first end to the second as t goes from 0 to 1."""
    return ends[0] + (ends[1] - ends[0]) * t


def to_tube(colon: Colon, positions: Array) -> Array:
    """World positions (s, 3) to tube coordinates (s, 3): offset from the centre line, z."""
    x, y = centre_line(colon, torch.from_numpy(positions[:, 2]))
    return np.asarray(positions - np.stack([x, y, torch.zeros_like(x)], axis=1))


def from_tube(colon: Colon, places: Array) -> Array:
    """Tube coordinates (s, 3) to world positions (s, 3)."""
    x, y = centre_line(colon, torch.from_numpy(places[:, 2]))
    return np.asarray(places + np.stack([x, y, torch.zeros_like(x)], axis=1))


def keep_clear(places: Array) -> Array:
    """Pull tube coordinates (s, 3) to within `CLEARANCE` of the centre line."""
    away = np.hypot(places[:, 0], places[:, 1])
    shrink = np.minimum(1, CLEARANCE / np.maximum(away, 1e-9))
    return np.asarray(places * np.stack([shrink, shrink, np.ones_like(shrink)], axis=1))


def follow_view(colon: Colon, target: Target, view: View) -> CameraPath:
    """The camera during one look at a polyp."""
    n = view.frames
    t = smooth(np.linspace(0, 1, n)) if n > 1 else np.zeros(1)
    rate, phase, size = view.tremor
    swing = size * np.sin(2 * math.pi * rate * np.arange(n)[:, None] + phase)  # (s, 3)
    azimuth = between(view.azimuth, t) + 2 * swing[:, 0]
    elevation = np.minimum(between(view.elevation, t), math.radians(85))
    flat = np.stack([np.cos(azimuth), np.sin(azimuth)], axis=1) * np.cos(elevation)[:, None]
    way = np.column_stack([flat, np.sin(elevation)]) @ target.axes.T  # (s, 3) world
    places = target.centre + between(view.distance, t)[:, None] * way
    positions = from_tube(colon, keep_clear(to_tube(colon, places)))
    base = look_along(target.centre - positions, np.repeat(target.axes[None, :, 0], n, 0))
    aim = view.aim[0] + (view.aim[1] - view.aim[0]) * t[:, None] + swing[:, 1:]  # (s, 2)
    e_x, e_y, e_z = (np.repeat(axis[None], n, 0) for axis in np.eye(3))
    turned = (
        base
        @ rotation(e_z, between(view.roll, t))
        @ rotation(e_y, aim[:, 0])
        @ rotation(e_x, aim[:, 1])
    )
    whites = view.white[0] + (view.white[1] - view.white[0]) * t[:, None]
    exposures = view.exposure[0] * between((1.0, view.exposure[1]), t)
    return CameraPath(positions, turned, exposures, whites)


def lost_rotation(rng: np.random.Generator, target: Target, rotation_now: Array) -> Array:
    """Turn (3, 3) away from a polyp: to the wall across from it, somewhat up or down the tube.

    The camera is always on the lumen's side of the polyp, so this is more than a quarter turn or
    nearly so from wherever it stands.
    """
    lean = rng.choice((-1, 1)) * rng.uniform(0.2, 0.7)
    forward, away = rotation_now[:, 2], unit(target.axes[:, 2] + lean * target.axes[:, 0])
    axis = np.cross(forward, away)
    angle = math.atan2(float(np.linalg.norm(axis)), float(forward @ away))
    return np.asarray(rotation(unit(axis[None]), np.array([angle]))[0] @ rotation_now)


def turn_frames(first: Array, last: Array) -> int:
    """Frames that a turn between two rotations (3, 3) takes."""
    return max(MIN_TURN_FRAMES, math.ceil(angle_between(first, last) / MEAN_TURN))


def follow_gap(
    rng: np.random.Generator,
    colon: Colon,
    targets: tuple[Target, Target],
    before: CameraPath,
    after: CameraPath,
) -> CameraPath:
    """The camera between two looks: it turns away, travels, and turns to the next polyp.

    Args:
        rng: Where it comes from.
        colon: The tube.
        targets: The polyp of the look before and of the look after; may be the same.
        before: The look before.
        after: The look after.
    """
    left, found = before.rotations[-1], after.rotations[0]
    lost = lost_rotation(rng, targets[0], left)
    still = lost if targets[0] is targets[1] else lost_rotation(rng, targets[1], found)
    start, stop = to_tube(colon, before.positions[-1:]), to_tube(colon, after.positions[:1])
    needed = math.ceil(1.5 * float(np.linalg.norm(stop - start)) / MAX_STEP)
    leave, back = turn_frames(left, lost), turn_frames(still, found)
    rest = int(rng.integers(1, 3)) if still is lost else turn_frames(lost, still)
    rest = max(rest, needed - leave - back)
    rotations = np.concatenate(
        [
            turn_towards(left, lost, smooth(np.arange(1, leave + 1) / leave)),
            turn_towards(lost, still, smooth(np.arange(1, rest + 1) / rest)),
            turn_towards(still, found, smooth(np.arange(1, back) / back)),
        ]
    )
    t = smooth(np.arange(1, leave + rest + back) / (leave + rest + back))
    return CameraPath(
        from_tube(colon, keep_clear(start + (stop - start) * t[:, None])),
        rotations,
        before.exposures[-1] + (after.exposures[0] - before.exposures[-1]) * t,
        before.whites[-1] + (after.whites[0] - before.whites[-1]) * t[:, None],
    )


def follow_lumen(rng: np.random.Generator, colon: Colon, frames: int) -> CameraPath:
    """The camera of a procedure without polyps: backwards through the lumen, looking up it."""
    time = np.arange(frames)
    swing = [
        0.2 * np.sin(0.05 * rng.uniform(0.5, 1.5) * time + rng.uniform(0, 6)) for _ in range(2)
    ]
    places = np.stack([*swing, -0.05 * time], axis=1)  # (s, 3)
    ahead = np.stack([-swing[1], swing[0], 1.2 - 0.05 * time], axis=1)
    positions = from_tube(colon, places)
    forward = from_tube(colon, ahead) - positions
    up = np.repeat(np.array([[0.0, 1.0, 0.0]]), frames, 0)
    exposures = np.exp(0.15 * np.sin(0.03 * time + rng.uniform(0, 6)))
    whites = np.repeat(np.exp(rng.normal(0, 0.06, (1, 3))), frames, 0)
    return CameraPath(positions, look_along(forward, up), exposures, whites)


def join_paths(parts: Sequence[CameraPath]) -> CameraPath:
    """One path after the other."""
    return CameraPath(
        np.concatenate([p.positions for p in parts]),
        np.concatenate([p.rotations for p in parts]),
        np.concatenate([p.exposures for p in parts]),
        np.concatenate([p.whites for p in parts]),
    )
