"""The camera of a whole procedure: its looks, drawn until each shows what it should, and between.

A look is drawn again, ever calmer, until its polyp has a box in every frame that holds together
from one frame to the next, nothing hides the polyp, and no other polyp can be seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyplink.simulate.course.camera import (
    Array,
    CameraPath,
    Index,
    carry,
    empty_path,
    wander,
)
from polyplink.simulate.course.gaps import (
    BLINK_GAP,
    FREE,
    JOINT,
    TURN_GAP,
    Ends,
    lost_rotations,
    travel,
    turn_away,
)
from polyplink.simulate.course.looks import (
    Poses,
    Targets,
    draw_poses,
    follow_looks,
    link_poses,
    look_times,
)
from polyplink.simulate.course.placing import Place, wall_axes
from polyplink.simulate.course.sight import Stage, hidden, misses, strays
from polyplink.simulate.course.timeline import Look, Timeline

Mask = NDArray[np.bool_]

# Unrest of a look and how much nearer it is taken, try after try.
TRIES = (
    *((1.0, 1.0),) * 4,
    *((0.7, 1.1),) * 4,
    *((0.4, 1.25),) * 6,
    *((0.2, 1.5),) * 8,
    *((0.05, 1.8),) * 10,
)
LINKED = 15  # frames: after a shorter gap a polyp is seen again about as it was
BLINK_SHARE = 0.004  # of the frames on the way begin a blink
BLINK_FRAMES = (2, 12)


@dataclass(frozen=True)
class Course:
    """The looks of a procedure as arrays over k looks.

    Attributes:
        polyp: (k,).
        beside: (k,) the other polyp in view, -1 for none.
        first: (k,) first frames.
        frames: (k,) lengths.
        slot: (k,) the place along the tube, the same for polyps side by side.
    """

    polyp: Index
    beside: Index
    first: Index
    frames: Index
    slot: Index

    @staticmethod
    def of(looks: Sequence[Look], pairs: Sequence[tuple[int, int]]) -> "Course":
        """From a timeline's looks and pairs."""
        rows = [(k.polyp, -1 if k.beside is None else k.beside, k.first, k.frames) for k in looks]
        polyp, beside, first, frames = np.array(rows, np.int64).reshape(-1, 4).T
        partner = {max(pair): min(pair) for pair in pairs}
        slot = np.array([partner.get(p, p) for p in polyp.tolist()], np.int64)
        return Course(polyp, beside, first, frames, slot)

    def some(self, which: Index) -> "Course":
        """Those of some looks."""
        return Course(
            self.polyp[which],
            self.beside[which],
            self.first[which],
            self.frames[which],
            self.slot[which],
        )

    @property
    def times(self) -> tuple[Index, Index]:
        """The look and the frame in the procedure of every frame of a look, (n,) each."""
        which, time = look_times(self.frames)
        return which, self.first[which] + time


@dataclass(frozen=True)
class Route:
    """Where the camera is, and what it looks at.

    Attributes:
        path: The camera in every frame.
        blink: (s,) frames in which nothing may be recognised.
        look: (s,) index of the look, -1 between looks.
        goals: (s, 3) what the camera looks at.
        failed: (k,) looks for which no pose was found that shows what it should.
    """

    path: CameraPath
    blink: Mask
    look: Index
    goals: Array
    failed: Index


def draw_phase(rng: np.random.Generator, n: int, fps: float) -> Array:
    """Phase (n,) of the peristaltic wave, some 3 to 6 a minute, at an uneven pace."""
    second = np.arange(n) / fps
    pace, start = 2 * np.pi * rng.uniform(0.05, 0.1), rng.uniform(0, 2 * np.pi)
    return np.asarray(start + pace * second + 0.6 * wander(0.04 * second, rng.uniform(0, 6, 2)))


def aim_at(stage: Stage, places: Sequence[Place], course: Course) -> Targets:
    """What looks are directed at: a polyp, or the middle of two."""
    balls = stage.bodies.balls
    rest = np.stack(
        [balls[:, 0] + balls[:, 2], balls[:, 1] + balls[:, 3], balls[:, 4]], axis=1
    )  # (p, 3)
    radii = balls[:, 7] / (1 + 2 * abs(stage.colon.wave))
    pair = course.beside >= 0
    first, second = course.polyp, np.where(pair, course.beside, course.polyp)
    way = rest[second] - rest[first]  # (k, 3)
    away = np.linalg.norm(way, axis=1)
    reach = np.where(pair, 0.5 * (away + radii[first] + radii[second]), radii[first])
    # The middle of the span that both take, not of their centres.
    along = 0.5 * (1 + (radii[second] - radii[first]) / np.maximum(away, 1e-9))
    centres = rest[first] + np.where(pair, along, 0)[:, None] * way
    axes = np.stack([wall_axes(stage.colon, place)[1] for place in places])[first]
    return Targets(centres, axes, reach, pair)


def _faulty(stage: Stage, course: Course, path: CameraPath, phase: Array) -> Mask:
    """Looks (k,) that do not show what they should."""
    which, frames = course.times
    args = (stage, path, phase[frames], frames, which)
    bad = misses(*args, course.polyp)
    if (course.beside >= 0).any():
        bad |= misses(*args, course.beside)
    stray = strays(*args, np.stack([course.polyp, course.beside], axis=1))
    bad |= np.bincount(which, stray, len(bad)) > 0
    bad |= hidden(stage, path, phase[frames], which, course.polyp, course.beside)
    pair = np.flatnonzero((course.beside >= 0) & ~bad)
    if len(pair):
        rows = np.isin(which, pair)
        again = np.searchsorted(pair, which[rows])
        some = path.some(rows), phase[frames[rows]], again
        bad[pair] |= hidden(stage, *some, course.beside[pair], course.polyp[pair])
    return np.asarray(bad)


def draw_looks(
    rng: np.random.Generator,
    stage: Stage,
    course: Course,
    targets: Targets,
    phase: Array,
    *,
    fps: float,
    unrest: float,
) -> tuple[CameraPath, Index]:
    """Draw and follow the looks until every one shows what it should.

    Args:
        rng: Where they come from.
        stage: What is there.
        course: The looks.
        targets: What they are directed at.
        phase: (s,) of the wave in all frames of the procedure.
        fps: Frames per second.
        unrest: Factor on changes within looks.

    Returns:
        The camera in the frames of the looks, one after the other, and the looks that failed.
    """
    k = len(course.frames)
    todo = np.arange(k)
    poses: Poses | None = None
    for calmer, nearer in TRIES:
        part = course.some(todo)
        drawn = draw_poses(
            rng, targets.some(todo), part.frames, fps=fps, unrest=unrest * calmer, nearer=nearer
        )
        if poses is None:
            drawn = link_poses(rng, drawn, _linked(course))
        poses = drawn if poses is None else poses.put(todo, drawn)
        path = follow_looks(stage.colon, targets.some(todo), drawn, phase[part.times[1]])
        todo = todo[_faulty(stage, part, path, phase)]
        if not len(todo):
            break
    assert poses is not None
    return follow_looks(stage.colon, targets, poses, phase[course.times[1]]), todo


def _linked(course: Course) -> Mask:
    """Looks (k,) that follow another at the same polyps after a short gap."""
    gap = course.first[1:] - course.first[:-1] - course.frames[:-1]
    same = (course.polyp[1:] == course.polyp[:-1]) & (course.beside[1:] == course.beside[:-1])
    return np.append(False, same & (gap < LINKED))


def _gap_spans(course: Course, n: int) -> tuple[Index, Index]:
    """First frames (k + 1,) and lengths (k + 1,) of what lies before, between, after looks."""
    starts = np.append(0, course.first + course.frames)
    return starts, np.append(course.first, n) - starts


def _runs(rng: np.random.Generator, n: int) -> Mask:
    """Blinks (n,) that come by chance on the way."""
    starts = np.flatnonzero(rng.random(n) < BLINK_SHARE)
    lengths = rng.integers(*BLINK_FRAMES, len(starts))
    edges = np.zeros(n + 1, np.int64)
    np.add.at(edges, starts, 1)
    np.add.at(edges, np.minimum(starts + lengths, n), -1)
    return np.asarray(np.cumsum(edges)[:n] > 0)


def _fill_turns(  # noqa: PLR0917
    rng: np.random.Generator,
    colon_axes: Array,
    stage: Stage,
    route: Route,
    spans: tuple[Index, Index],
    turns: Index,
) -> None:
    """The frames of gaps `turns` in which the camera turns away and back."""
    starts, lengths = spans
    which, time = look_times(lengths[turns])
    rows = starts[turns][which] + time
    ends = Ends(route.path.positions, route.path.rotations)
    before, after = ends.some(starts[turns] - 1), ends.some(starts[turns] + lengths[turns])
    lost = (
        lost_rotations(rng, colon_axes[turns - 1], before.rotations),
        lost_rotations(rng, colon_axes[turns], after.rotations),
    )
    phases = rng.uniform(0, 2 * np.pi, (len(turns), 2, 2))
    seen = turn_away(stage.colon, (before, after), lost, which, time, lengths[turns], phases)
    route.path.positions[rows], route.path.rotations[rows] = seen.positions, seen.rotations
    route.goals[rows] = seen.positions + seen.rotations[:, :, 2]


def follow_route(
    rng: np.random.Generator,
    stage: Stage,
    places: Sequence[Place],
    timeline: Timeline,
    phase: Array,
    *,
    fps: float,
    unrest: float,
) -> Route:
    """The camera of a procedure.

    Args:
        rng: The stream "camera".
        stage: What is there.
        places: Of the polyps.
        timeline: What happens when.
        phase: (s,) of the wave.
        fps: Frames per second.
        unrest: Factor on all change within a look.
    """
    n = timeline.n_frames
    course = Course.of(timeline.looks, timeline.pairs)
    path, look = empty_path(n), np.full(n, -1)
    on_way = np.ones(n, np.bool_)
    failed = np.zeros(0, np.int64)
    route = Route(path, np.zeros(n, np.bool_), look, np.zeros((n, 3)), failed)
    if len(course.frames):
        targets = aim_at(stage, places, course)
        seen, failed = draw_looks(rng, stage, course, targets, phase, fps=fps, unrest=unrest)
        which, frames = course.times
        path.put(frames, seen)
        look[frames], on_way[frames] = which, False
        route.goals[frames] = carry(stage.colon, targets.centres[which], phase[frames])
        spans = _gap_spans(course, n)
        inner = np.append(False, course.slot[1:] == course.slot[:-1])
        inner &= spans[1][:-1] <= TURN_GAP
        turns = np.flatnonzero(inner)
        if len(turns):
            _fill_turns(rng, targets.axes, stage, route, spans, turns)
            which, time = look_times(spans[1][turns])
            rows = spans[0][turns][which] + time
            on_way[rows] = False
            route.blink[rows] = (spans[1][turns] <= BLINK_GAP)[which]
    _fill_way(rng, stage, route, on_way, timeline.turn, fps)
    _blend_exposures(path, look >= 0)
    strange = (look < 0) & ~on_way & ~route.blink
    route.blink[strange] = _recognised(stage, path, phase, np.flatnonzero(strange))
    return Route(path, route.blink, look, route.goals, failed)


def _fill_way(  # noqa: PLR0917
    rng: np.random.Generator, stage: Stage, route: Route, on_way: Mask, turn: int, fps: float
) -> None:
    """The frames on the way through the tube, with blinks where they are joined to looks."""
    rows = np.flatnonzero(on_way)
    seen = travel(rng, stage.colon, rows < turn, fps, FREE)
    route.path.positions[rows], route.path.rotations[rows] = seen.positions, seen.rotations
    route.goals[rows] = seen.positions + seen.rotations[:, :, 2]
    near = ~on_way
    edge = np.zeros(len(near), np.int64)
    for row in np.flatnonzero(near[1:] != near[:-1]):
        edge[max(row + 1 - JOINT, 0) : row + 1 + JOINT] = 1
    route.blink[on_way] = (edge > 0)[on_way] | _runs(rng, len(rows))


def _blend_exposures(path: CameraPath, known: Mask) -> None:
    """Exposure and white balance between looks: from one look's to the next one's."""
    rows, every = np.flatnonzero(known), np.arange(len(known))
    if len(rows):
        path.exposures[:] = np.interp(every, rows, path.exposures[rows])
        for channel in range(3):
            path.whites[:, channel] = np.interp(every, rows, path.whites[rows, channel])


def _recognised(stage: Stage, path: CameraPath, phase: Array, rows: Index) -> Mask:
    """Which of some frames (n,) between looks show a polyp, or lie in the wall."""
    some = path.some(rows)
    none = np.full((1, 2), -1)
    same = np.zeros(len(rows), np.int64)
    return strays(stage, some, phase[rows], rows, same, none)
