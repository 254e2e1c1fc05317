"""The camera of a whole procedure: looks at polyps, and the path between them.

A look is sampled again, with less and less motion, until its polyp has a box in every frame, is not
hidden, and no other polyp is visible (see `scene`). Between two looks at a polyp the camera turns
away and back; a gap of a few frames is a blink. Longer gaps take place in a section of the tube
without polyps: the camera looks up the lumen, away from all polyps, and a blink hides the jump to
that section.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polyplink_lab.simulate.colon.surface import Colon
from polyplink_lab.simulate.course.camera import (
    Array,
    CameraPath,
    Index,
    Mask,
    Poses,
    Targets,
    carry,
    draw_poses,
    follow_looks,
    from_tube,
    link_poses,
    look_along,
    look_times,
    smooth,
    to_tube,
    turn_between,
    turn_own,
    unit,
    wander,
)
from polyplink_lab.simulate.course.scene import (
    Place,
    Scene,
    Views,
    find_hidden,
    misses,
    strays,
    wall_axes,
)
from polyplink_lab.simulate.course.timeline import Timeline

# Factors on the unsteadiness of a look and on the size of its target, for successive tries.
TRIES = (
    *((1.0, 1.0),) * 4,
    *((0.7, 1.1),) * 4,
    *((0.4, 1.25),) * 6,
    *((0.2, 1.5),) * 8,
    *((0.05, 1.8),) * 10,
)
LINKED = 15  # frames: after a shorter gap a polyp is seen from a similar pose
BLINK_SHARE = 0.004  # share of the frames on the way through the tube in which a blink begins
BLINK_FRAMES = (2, 12)
BLINK_GAP = 5  # frames: a gap of this length or shorter is a blink
TURN_GAP = 240  # frames: a longer gap is spent elsewhere in the tube
LEAVE = 7  # frames for turning away, and for turning back
JOINT = 6  # frames of a blink that hides a cut, on either side of it
SPEED = (0.004, 0.012)  # through the tube, units per frame
FREE = 5.0  # start of the section without polyps, units up the tube from the first polyp
OFF_LINE = 0.28  # sway of the camera off the centre line, units
AHEAD = 1.3  # distance up the tube at which the camera looks, units

Pose = tuple[Array, Array]  # positions (k, 3) and rotations (k, 3, 3) of cameras


class Route(NamedTuple):
    """The camera in all s frames of a procedure.

    Attributes:
        path: The camera.
        blink: (s,) whether nothing is recognisable.
        look: (s,) index of the look, -1 between looks.
        targets: (s, 3) points that the camera looks at.
        failed: Looks for which no valid pose was sampled.
    """

    path: CameraPath
    blink: Mask
    look: Index
    targets: Array
    failed: tuple[int, ...]


def frames_of(course: Index) -> tuple[Index, Index]:
    """The look (n,) and the frame in the procedure (n,) of every frame of looks (k, 4)."""
    look, time = look_times(course[:, 3])
    return look, course[look, 2] + time


def draw_phase(rng: np.random.Generator, n: int, fps: float) -> Array:
    """Phase (n,) of the peristaltic wave: about 3 to 6 waves per minute, at a varying speed."""
    second = np.arange(n) / fps
    pace, start = 2 * np.pi * rng.uniform(0.05, 0.1), rng.uniform(0, 2 * np.pi)
    return np.asarray(start + pace * second + 0.6 * wander(0.04 * second, rng.uniform(0, 6, 2)))


def follow_route(
    rng: np.random.Generator,
    scene: Scene,
    places: Sequence[Place],
    timeline: Timeline,
    phase: Array,
    *,
    fps: float,
    unsteadiness: float,
) -> Route:
    """The camera in all looks of a procedure, and between them.

    Args:
        rng: The stream "camera".
        scene: The tube with its polyps.
        places: The places of the polyps.
        timeline: The timeline of the procedure.
        phase: (s,) phase of the peristaltic wave.
        fps: Frames per second.
        unsteadiness: Factor on all changes within a look.
    """
    n, looks = timeline.n_frames, timeline.looks
    # Looks (k, 4): polyp, the other one in view (-1 for none), first frame, number of frames.
    look_rows = [(k.polyp, -1 if k.beside is None else k.beside, k.first, k.frames) for k in looks]
    course = np.array(look_rows, np.int64).reshape(-1, 4)
    path = CameraPath(np.zeros((n, 3)), np.zeros((n, 3, 3)), np.ones(n), np.ones((n, 3)))
    goals, look, failed = np.zeros((n, 3)), np.full(n, -1), np.zeros(0, np.int64)
    blink, on_way = np.zeros(n, np.bool_), np.ones(n, np.bool_)

    def put_pose(rows: Index, pose: Pose) -> None:
        path.positions[rows], path.rotations[rows] = pose
        goals[rows] = pose[0] + pose[1][:, :, 2]

    if len(course):
        targets = aim_at(scene, places, course)
        looks_path, failed = draw_looks(
            rng, scene, course, targets, phase, fps=fps, unsteadiness=unsteadiness
        )
        look_of, frames = frames_of(course)
        path.put(frames, looks_path)
        look[frames], on_way[frames] = look_of, False
        goals[frames] = carry(scene.colon, targets.centres[look_of], phase[frames])
        # The gaps before, between and after looks; between looks at one place the camera turns.
        starts = np.append(0, course[:, 2:].sum(1))  # (k + 1,)
        lengths = np.append(course[:, 2], n) - starts
        beside = {max(pair): min(pair) for pair in timeline.pairs}
        place = np.array([beside.get(polyp, polyp) for polyp in course[:, 0].tolist()])
        one_place = np.append(False, place[1:] == place[:-1])
        turns = np.flatnonzero(one_place & (lengths[:-1] <= TURN_GAP))
        if len(turns):
            before, after = starts[turns] - 1, starts[turns] + lengths[turns]
            ends = tuple((path.positions[rows], path.rotations[rows]) for rows in (before, after))
            axes = targets.axes[turns - 1], targets.axes[turns]
            gap, time = look_times(lengths[turns])
            rows = starts[turns][gap] + time
            put_pose(rows, turn_away(rng, scene.colon, ends, axes, lengths[turns]))
            on_way[rows] = False
            blink[rows] = (lengths[turns] <= BLINK_GAP)[gap]
        # Between looks, exposure and white balance are interpolated.
        rows = np.flatnonzero(look >= 0)
        for values in (path.exposures, *path.whites.T):
            values[:] = np.interp(np.arange(n), rows, values[rows])
    rows = np.flatnonzero(on_way)
    put_pose(rows, travel(rng, scene.colon, rows < timeline.turn, fps, FREE))
    # Blinks at the cuts between looks and the way through the tube, and some random ones.
    joints = np.flatnonzero(on_way[1:] != on_way[:-1])[:, None] + np.arange(1 - JOINT, 1 + JOINT)
    joined = np.zeros(n, np.bool_)
    joined[joints.clip(0, n - 1)] = True
    begin = np.flatnonzero(rng.random(len(rows)) < BLINK_SHARE)
    end = np.minimum(begin + rng.integers(*BLINK_FRAMES, len(begin)), len(rows))
    begun, ended = (np.bincount(edges, minlength=len(rows) + 1) for edges in (begin, end))
    blink[rows] = joined[rows] | (np.cumsum(begun - ended)[:-1] > 0)
    # Other frames between looks in which a polyp is visible are blinks too.
    rows = np.flatnonzero((look < 0) & ~on_way & ~blink)
    views = Views(path[rows], phase[rows], rows, np.zeros(len(rows), np.int64))
    blink[rows] = strays(scene, views, np.full((1, 2), -1))
    return Route(path, blink, look, goals, tuple(failed.tolist()))


# --- Looks ----------------------------------------------------------------------------------


def aim_at(scene: Scene, places: Sequence[Place], course: Index) -> Targets:
    """The targets of looks: a polyp, or the middle of two."""
    balls = scene.bodies.balls
    x, y, z = balls[:, 0] + balls[:, 2], balls[:, 1] + balls[:, 3], balls[:, 4]
    points_at_rest = np.stack([x, y, z], axis=1)  # (p, 3)
    radii = balls[:, 7] / (1 + 2 * abs(scene.colon.wave))
    first, pair = course[:, 0], course[:, 1] >= 0
    second = np.where(pair, course[:, 1], first)
    offset = points_at_rest[second] - points_at_rest[first]  # (k, 3)
    apart = np.linalg.norm(offset, axis=1)
    reach = np.where(pair, 0.5 * (apart + radii[first] + radii[second]), radii[first])
    # The middle of the extent of both, not of their centres.
    along = 0.5 * (1 + (radii[second] - radii[first]) / np.maximum(apart, 1e-9))
    centres = points_at_rest[first] + np.where(pair, along, 0)[:, None] * offset
    axes = np.stack([wall_axes(scene.colon, place)[1] for place in places])[first]
    return Targets(centres, axes, reach, pair)


def draw_looks(
    rng: np.random.Generator,
    scene: Scene,
    course: Index,
    targets: Targets,
    phase: Array,
    *,
    fps: float,
    unsteadiness: float,
) -> tuple[CameraPath, Index]:
    """Sample looks until all are valid: target in every frame, not hidden, no other polyp.

    Returns:
        The camera in the frames of consecutive looks, and the looks that failed.
    """
    pending = np.arange(len(course))
    poses: Poses | None = None
    for calmer, nearer in TRIES:
        part, goal = course[pending], targets[pending]
        polyp, beside, _, lengths = part.T
        drawn = draw_poses(
            rng, goal, lengths, fps=fps, unsteadiness=unsteadiness * calmer, nearer=nearer
        )
        if poses is None:
            # A look at the same polyps after a short gap begins near the end of the last one.
            gap = course[1:, 2] - course[:-1, 2:].sum(1)
            one_target = (course[1:, :2] == course[:-1, :2]).all(1)
            poses = drawn = link_poses(rng, drawn, np.append(False, one_target & (gap < LINKED)))
        else:
            poses.put(pending, drawn)
        look_of, frames = frames_of(part)
        path = follow_looks(scene.colon, goal, drawn, phase[frames])
        views = Views(path, phase[frames], frames, look_of)
        # Invalid looks are sampled again.
        is_invalid = misses(scene, views, polyp)
        if (beside >= 0).any():
            is_invalid |= misses(scene, views, beside)
        is_stray = strays(scene, views, part[:, :2])
        is_invalid |= np.bincount(look_of, is_stray, len(is_invalid)) > 0
        is_invalid |= find_hidden(scene, views, polyp, beside)
        pair = np.flatnonzero((beside >= 0) & ~is_invalid)
        if len(pair):  # the other polyp of a pair must not be hidden either
            pair_views = views[np.isin(look_of, pair)]
            pair_looks = Views(
                pair_views.path,
                pair_views.phase,
                pair_views.frames,
                np.searchsorted(pair, pair_views.look),
            )
            is_invalid[pair] |= find_hidden(scene, pair_looks, beside[pair], polyp[pair])
        pending = pending[is_invalid]
        if not len(pending):
            break
    assert poses is not None
    return follow_looks(scene.colon, targets, poses, phase[frames_of(course)[1]]), pending


# --- Between looks --------------------------------------------------------------------------


def turn_away(
    rng: np.random.Generator,
    colon: Colon,
    ends: tuple[Pose, ...],
    axes: tuple[Array, Array],
    lengths: Index,
) -> Pose:
    """The camera in k gaps in which it turns away from a polyp and back to a nearby one.

    Args:
        rng: Source of randomness.
        colon: The tube.
        ends: The camera (k,) in the last frame before each gap, and in the first frame after it.
        axes: Axes (k, 3, 3) of the wall at the polyp before each gap, and after it.
        lengths: (k,) frames of the gaps.

    Returns:
        The camera in the frames of consecutive gaps.
    """
    (start, rotations_before), (stop, rotations_after) = ends
    k, averted = len(lengths), []
    for wall, rotations in zip(axes, (rotations_before, rotations_after), strict=True):
        # Away from the polyp, towards the opposite wall, somewhat up or down the tube. The picture
        # stays as upright as possible: its right side is orthogonalised.
        lean = rng.choice((-1.0, 1.0), k) * rng.uniform(0.2, 0.7, k)
        axis = unit(wall[:, :, 2] + lean[:, None] * wall[:, :, 0])
        right = unit(np.cross(rotations[:, :, 1], axis) + 1e-9)
        averted.append(np.stack([right, np.cross(axis, right), axis], axis=-1))
    phases = rng.uniform(0, 2 * np.pi, (k, 2, 2))
    gap, time = look_times(lengths)
    length = lengths[gap]
    leave = np.minimum(LEAVE, np.maximum(1, length // 3))
    # Three consecutive turns: away, from one averted view to the other, back.
    plain_length = np.maximum(length - 2 * leave, 1)
    part = np.where(time < leave, 0, np.where(time >= length - leave, 2, 1))
    t = np.choose(
        part,
        [(time + 1) / (leave + 1), (time - leave) / plain_length, (time - length + leave) / leave],
    )
    first = np.concatenate([rotations_before, *averted])
    last = np.concatenate([*averted, rotations_after])
    turned = turn_between(first, last, smooth(np.clip(t, 0, 1)), part * k + gap)
    sway = 0.12 * np.where(part == 1, np.sin(np.pi * np.clip(t, 0, 1)), 0)
    turned = turn_own(turned, 1, sway * wander(length / 150 * t, phases[gap, 0]))
    turned = turn_own(turned, 0, sway * wander(length / 150 * t, phases[gap, 1]))
    # Meanwhile the camera moves from one position to the other, nearer to the centre line.
    s = (time + 1) / (length + 1)
    begin, end = to_tube(colon, start)[gap], to_tube(colon, stop)[gap]
    places = begin + (end - begin) * smooth(s)[:, None]
    inwards = 1 - 0.5 * np.sin(np.pi * s)
    places[:, :2] *= inwards[:, None]
    return from_tube(colon, places), turned


def travel(rng: np.random.Generator, colon: Colon, forward: Mask, fps: float, start: float) -> Pose:
    """The camera in the section without polyps, looking up the lumen.

    Args:
        rng: Source of randomness.
        colon: The tube.
        forward: (n,) whether the camera is inserted in each frame, or withdrawn.
        fps: Frames per second.
        start: The lowest z.
    """
    n = len(forward)
    second = np.arange(n) / fps
    phases = rng.uniform(0, 2 * math.pi, (6, 2))
    rates = rng.uniform([0.03, 0.08, 0.08, 0.04, 0.04, 0.03], [0.07, 0.2, 0.2, 0.12, 0.12, 0.08])
    pace, x, y, heading, nod, roll = (
        wander(rate * second, phase) for rate, phase in zip(rates, phases, strict=True)
    )
    step = rng.uniform(*SPEED) * (30 / fps) * (1 + 0.75 * pace) * np.where(forward, 1, -1)
    z = np.cumsum(step)
    z += start - z.min(initial=0.0)
    places = np.stack([OFF_LINE * x, OFF_LINE * y, z], axis=1)
    ahead = np.stack([-0.3 * places[:, 0], -0.3 * places[:, 1], z + AHEAD], axis=1)
    positions = from_tube(colon, places)
    up = np.broadcast_to(np.array([0.0, 1.0, 0.0]), (n, 3))
    turned = look_along(from_tube(colon, ahead) - positions, up)
    turned = turn_own(turned, 2, 0.6 * roll + phases[0, 0])
    turned = turn_own(turned, 1, 0.22 * heading)
    return positions, turn_own(turned, 0, 0.22 * nod)
