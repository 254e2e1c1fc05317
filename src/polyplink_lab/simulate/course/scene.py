"""The places of the polyps of a procedure, and whether looks of a camera are valid.

In a valid look the polyp has a box in every frame, which moves little from one frame to the next,
the polyp is not hidden, and no other polyp is in the picture.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from polyplink_lab.simulate.colon.outline import COARSE_AROUND, COARSE_DOWN
from polyplink_lab.simulate.colon.polyp import Traits, place_lump, surface_maps, wall_frame
from polyplink_lab.simulate.colon.projection import FOCAL, Lens, Outlines, project, shots
from polyplink_lab.simulate.colon.surface import (
    MM_PER_UNIT,
    Colon,
    Lump,
    lump_distance,
    to_material,
    to_world,
    wall_distance,
)
from polyplink_lab.simulate.course.camera import Array, CameraPath, Index, Mask, Rows

SPACING = (4.5, 6.0)  # units between one polyp and the next along the withdrawal
USUAL = 3.3  # typical distance of a look, in radii of the polyp
SPECK = 0.04  # width below which a polyp has no box, as a share of the frame's

MIN_AREA = 1 / 480  # least area w * h of a box, as a share of the frame
FIRM, FAINT = 1.5, 0.45  # times MIN_AREA: area above which there is certainly a box, below none
LEAST_OVERLAP = 0.25  # least IoU of the boxes of consecutive frames of a look
IN_SIGHT = 10.0  # largest visible distance along the tube, units
BETWEEN = (0.08, 0.18, 0.28, 0.38, 0.48, 0.58, 0.68, 0.78, 0.87, 0.94, 0.98)  # of a line of sight
CALM_REACH = 4.5  # distance along the tube within which folds may block a line of sight, units
KEY_FRAMES = 40  # distance of frames of a look that are checked for occlusion
CLEARANCE = 0.025  # least distance of the lens from the wall, by the bound of the distance, units


class Place(NamedTuple):
    """A place on the wall: position along the tube, and angle around it (radians)."""

    z: float
    angle: float


def distance_between(first: float, second: float) -> float:
    """Distance of adjacent polyps with two radii (units): each can still be viewed alone."""
    distance = 1.5 * (first + second) + 0.05
    for radius, second_radius in ((first, second), (second, first)):
        usual = USUAL * radius
        if 2 * second_radius * FOCAL / usual > SPECK:
            distance = max(distance, 1.05 * usual + second_radius)
    return distance


def draw_places(
    rng: np.random.Generator, sizes: Sequence[float], pairs: Sequence[tuple[int, int]]
) -> tuple[Place, ...]:
    """Sample the places of polyps.

    Args:
        rng: Source of randomness.
        sizes: Diameters of the polyps in mm, in the order of their first visit.
        pairs: Pairs of polyps that are adjacent.
    """
    partner = {max(pair): min(pair) for pair in pairs}
    radii = [0.5 * size / MM_PER_UNIT for size in sizes]
    places: list[Place] = []
    z = 0.0
    for index, radius in enumerate(radii):
        angle, heading, side = rng.uniform(-math.pi, math.pi), rng.uniform(-0.5, 0.5), rng.random()
        step = rng.uniform(*SPACING) + 4 * radius  # large polyps are viewed from further away
        if index in partner:
            beside = places[partner[index]]
            distance = distance_between(radii[partner[index]], radius) * (1 if side < 0.5 else -1)
            along, around = distance * math.cos(heading), distance * math.sin(heading)
            places.append(Place(beside.z + along, beside.angle + around))
        else:
            places.append(Place(z, angle))
            z -= step
    return tuple(places)


def calm_at(colon: Colon, places: Sequence[Place]) -> Colon:
    """The tube with folds that fade around places."""
    calm = []
    for z, angle in places:
        x, y = (
            bend * math.sin(rate * z + phase)
            for bend, rate, phase in zip(colon.bend, colon.bend_rate, colon.bend_phase, strict=True)
        )
        calm.append((x + math.cos(angle), y + math.sin(angle), z))
    return replace(colon, calm=tuple(calm))


def wall_axes(colon: Colon, place: Place) -> tuple[Array, Array]:
    """Point (3,) of a place, and its axes (3, 3) along, around and inwards, at rest."""
    point, axes = wall_frame(replace(colon, wave=0.0), place.z, place.angle)
    return point.double().numpy(), axes.double().numpy()


def set_lump(rng: np.random.Generator, colon: Colon, place: Place, traits: Traits) -> Lump:
    """The body of a polyp at a place, at rest; `rng` samples its surface."""
    point, axes = (torch.from_numpy(part).float() for part in wall_axes(colon, place))
    return place_lump(traits, surface_maps(rng, traits), point, axes)


@dataclass(frozen=True)
class Scene:
    """The tube with its polyps, and the lens of the endoscope.

    Attributes:
        colon: The tube.
        lumps: The polyps, at rest.
        bodies: Coarse outlines of the polyps.
        lens: The lens of the endoscope.
        size: Width and height of the frame, pixels.
        removed: (k,) first frame without each polyp.
    """

    colon: Colon
    lumps: tuple[Lump, ...]
    bodies: Outlines
    lens: Lens
    size: tuple[int, int]
    removed: Index


@dataclass(frozen=True)
class Views(Rows):
    """The n frames of k looks.

    Attributes:
        path: The camera in these frames.
        phase: (n,) phase of the peristaltic wave.
        frames: (n,) numbers of the frames.
        look: (n,) look of each frame, ascending.
    """

    path: CameraPath
    phase: Array
    frames: Index
    look: Index


def shots_of(colon: Colon, path: CameraPath, phase: Array) -> Array:
    """Cameras for `project`, from a path (s,) and phases (s,)."""
    return shots(path.positions, path.rotations, colon.wave, phase)


def in_reach(
    bodies: Outlines, removed: Index, path: CameraPath, frames: Index
) -> tuple[Index, Index]:
    """Pairs of rows of a path (n,) and polyps (n,) that exist and are near along the tube.

    Args:
        bodies: The polyps.
        removed: (k,) first frame without each polyp.
        path: The camera in s frames.
        frames: (s,) numbers of the frames.
    """
    near = np.abs(path.positions[:, 2, None] - bodies.balls[:, 4]) < IN_SIGHT  # (s, k)
    rows, polyps = np.nonzero(near & (frames[:, None] < removed))
    return rows, polyps


def box_areas(boxes: Array, size: tuple[int, int]) -> Array:
    """Areas (n,) of boxes (n, 4) as shares of the frame, from first to last pixel; 0 for none."""
    width, height = size
    w = np.nan_to_num((boxes[:, 2] - boxes[:, 0]) * width - 1).clip(0)
    h = np.nan_to_num((boxes[:, 3] - boxes[:, 1]) * height - 1).clip(0)
    return np.asarray(w * h / (width * height))


def overlaps(first: Array, second: Array) -> Array:
    """IoU (n,) of boxes (n, 4) row by row; 0 where one is missing."""
    low, high = np.maximum(first[:, :2], second[:, :2]), np.minimum(first[:, 2:], second[:, 2:])
    intersection = (high - low).clip(0).prod(1)
    either = (
        (first[:, 2:] - first[:, :2]).prod(1)
        + (second[:, 2:] - second[:, :2]).prod(1)
        - intersection
    )
    return np.asarray(np.nan_to_num(intersection / np.maximum(either, 1e-12)))


def _any_by_look(flags: Mask, look: Index, k: int) -> Mask:
    """For each of k looks, whether one of its flags (n,) is set."""
    return np.asarray(np.bincount(look, flags, k) > 0)


def misses(scene: Scene, views: Views, polyp: Index) -> Mask:
    """Looks (k,) in which their polyp (k,), -1 for none, has no good box in some frame."""
    views = views[polyp[views.look] >= 0]
    look, targets = views.look, polyp[views.look]
    cameras = shots_of(scene.colon, views.path, views.phase)
    boxes = project(scene.bodies, cameras, scene.lens, np.arange(len(look)), targets)
    faint = box_areas(boxes, scene.size) < FIRM * MIN_AREA
    removed = views.frames >= scene.removed[targets]
    jumps = (look[1:] == look[:-1]) & (overlaps(boxes[1:], boxes[:-1]) < LEAST_OVERLAP)
    k = len(polyp)
    return _any_by_look(faint | removed, look, k) | _any_by_look(jumps, look[1:], k)


def strays(scene: Scene, views: Views, polyps: Index) -> Mask:
    """Frames (n,) that show another polyp than the allowed ones (k, 2) of the look, -1 for none."""
    rows, polyp = in_reach(scene.bodies, scene.removed, views.path, views.frames)
    is_other = (polyps[views.look[rows]] != polyp[:, None]).all(1)
    rows, polyp = rows[is_other], polyp[is_other]
    cameras = shots_of(scene.colon, views.path, views.phase)
    boxes = project(scene.bodies, cameras, scene.lens, rows, polyp)
    padded = boxes + np.array([-1, -1, 1, 1]) / np.array(2 * scene.size)
    large = box_areas(padded, scene.size) >= FAINT * MIN_AREA
    return _any_by_look(large, rows, len(views.frames))


def find_hidden(scene: Scene, views: Views, polyp: Index, in_front: Index) -> Mask:
    """Looks (k,) with the camera too near the wall, or with the polyp (k,) hidden.

    A polyp may be hidden by the wall, or by another polyp `in_front` of it (k,), -1 for none. The
    first and last frame of every look are checked, and some in between.
    """
    first = np.append(True, views.look[1:] != views.look[:-1])
    regular = np.arange(len(first)) % KEY_FRAMES == 0
    views = views[first | np.append(first[1:], True) | regular]
    targets, blocking = polyp[views.look], in_front[views.look]
    origins = torch.from_numpy(views.path.positions)  # (f, 3)
    phases = torch.from_numpy(views.phase)
    hidden = wall_distance(scene.colon, origins.T, phases).numpy() < CLEARANCE
    between = torch.tensor(BETWEEN, dtype=torch.float64)
    for index in np.unique(targets):
        of_target = np.flatnonzero(targets == index)
        z = scene.bodies.balls[index, 4]
        calm_places = tuple(place for place in scene.colon.calm if abs(place[2] - z) < CALM_REACH)
        colon = replace(scene.colon, calm=calm_places)
        # Lines of sight lead to points of the polyp's rim, its middle ring and its top.
        first_point, last = scene.bodies.starts[index : index + 2, 0]
        grid = scene.bodies.points[first_point:last].reshape(COARSE_DOWN, COARSE_AROUND, 7)
        rows = np.concatenate([grid[-1, ::2], grid[COARSE_DOWN // 2, ::4], grid[0, :1]])
        ends = [rows[:, 0] + rows[:, 2], rows[:, 1] + rows[:, 3], rows[:, 4]]
        marks = torch.from_numpy(np.stack(ends))[:, None]  # (3, 1, m)
        phase = phases[of_target][:, None]
        goals = to_world(colon, marks.expand(3, len(of_target), -1), phase)  # (3, f, m)
        start = origins[of_target].T[:, :, None]
        points = start[..., None] + (goals - start)[..., None] * between  # (3, f, m, b)
        wall = wall_distance(colon, points, phase[..., None])
        hidden[of_target] |= (wall < 0).flatten(1).any(1).numpy()
        for blocker in np.unique(blocking[of_target][blocking[of_target] >= 0]):
            is_blocked = blocking[of_target] == blocker
            material = to_material(scene.colon, points[:, is_blocked], phase[is_blocked][..., None])
            is_inside = (
                lump_distance(scene.lumps[int(blocker)], material.float().reshape(3, -1)) < 0.01
            )
            hidden[of_target[is_blocked]] |= (
                is_inside.view(int(is_blocked.sum()), -1).any(1).numpy()
            )
    return _any_by_look(hidden, views.look, len(polyp))
