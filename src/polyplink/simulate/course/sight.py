"""Whether looks show what they should: boxes that hold together, and nothing in the way."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from polyplink.simulate.colon.outline import COARSE_AROUND, COARSE_DOWN
from polyplink.simulate.colon.projection import Lens, Outlines, project, shots
from polyplink.simulate.colon.surface import (
    Colon,
    Lump,
    lump_distance,
    to_material,
    to_world,
    wall_distance,
)
from polyplink.simulate.course.camera import Array, CameraPath, Index

Mask = NDArray[np.bool_]

MIN_AREA = 1 / 480  # share of the frame that a box's w * h must have
FIRM, FAINT = 1.5, 0.45  # times as much is surely a box; less is surely none
LEAST_OVERLAP = 0.25  # IoU of the boxes of consecutive frames of a look
IN_SIGHT = 10.0  # units along the tube beyond which nothing is seen
BETWEEN = np.array([0.08, 0.18, 0.28, 0.38, 0.48, 0.58, 0.68, 0.78, 0.87, 0.94, 0.98])
CALM_REACH = 1.5  # units along the tube that a camera is from its polyp, and a bit
KEY_FRAMES = 40  # frames between two that are looked into for what stands in the way
CLEARANCE = 0.025  # units from the wall that the lens keeps, by the bound of the distance


@dataclass(frozen=True)
class Stage:
    """What is there to be seen in a procedure, and the lens it is seen through.

    Attributes:
        colon: The tube.
        lumps: Its polyps, at rest.
        bodies: Their outlines, coarse.
        lens: Of the endoscope.
        size: Width and height of the frame, pixels.
        removed: (k,) frame from which each polyp is gone.
    """

    colon: Colon
    lumps: tuple[Lump, ...]
    bodies: Outlines
    lens: Lens
    size: tuple[int, int]
    removed: Index


def box_areas(boxes: Array, size: tuple[int, int]) -> Array:
    """Areas (n,) of boxes (n, 4) as shares of the frame, from first to last pixel; 0 for none."""
    width, height = size
    w = np.nan_to_num((boxes[:, 2] - boxes[:, 0]) * width - 1).clip(0)
    h = np.nan_to_num((boxes[:, 3] - boxes[:, 1]) * height - 1).clip(0)
    return np.asarray(w * h / (width * height))


def overlaps(first: Array, second: Array) -> Array:
    """IoU (n,) of boxes (n, 4) row by row; 0 where one is missing."""
    low, high = np.maximum(first[:, :2], second[:, :2]), np.minimum(first[:, 2:], second[:, 2:])
    both = (high - low).clip(0).prod(1)
    either = (first[:, 2:] - first[:, :2]).prod(1) + (second[:, 2:] - second[:, :2]).prod(1) - both
    return np.asarray(np.nan_to_num(both / np.maximum(either, 1e-12)))


def shots_of(colon: Colon, path: CameraPath, phase: Array) -> Array:
    """A path (s,) as `project` takes it, phases (s,)."""
    return shots(path.positions, path.rotations, colon.wave, phase)


def in_reach(
    bodies: Outlines, removed: Index, path: CameraPath, frames: Index
) -> tuple[Index, Index]:
    """All pairs of a frame and a polyp that is there and near enough along the tube.

    Args:
        bodies: Outlines of the k polyps.
        removed: (k,) frame from which each is gone.
        path: The camera in s frames.
        frames: (s,) numbers of these frames in the procedure.

    Returns:
        Rows of the path (n,) and polyps (n,), by row, then polyp.
    """
    z = bodies.balls[:, 4]  # (k,)
    near = np.abs(path.positions[:, 2, None] - z) < IN_SIGHT
    rows, polyps = np.nonzero(near & (frames[:, None] < removed))
    return rows, polyps


def any_of(flags: Mask, which: Index, k: int) -> Mask:
    """For each of k looks, whether one of its flags (n,) is set."""
    return np.asarray(np.bincount(which, flags, k) > 0)


def misses(  # noqa: PLR0917
    stage: Stage, path: CameraPath, phase: Array, frames: Index, which: Index, polyp: Index
) -> Mask:
    """Looks that do not show their polyp well in every frame.

    Args:
        stage: What is there.
        path: The camera in n frames of k looks.
        phase: (n,) of the wave.
        frames: (n,) numbers of the frames.
        which: (n,) the look of each, ascending.
        polyp: (k,) the polyp that each look must show; -1 for none to be shown.

    Returns:
        (k,).
    """
    k = len(polyp)
    rows = np.flatnonzero(polyp[which] >= 0)
    boxes = project(
        stage.bodies, shots_of(stage.colon, path, phase), stage.lens, rows, polyp[which[rows]]
    )
    faint = box_areas(boxes, stage.size) < FIRM * MIN_AREA
    gone = frames[rows] >= stage.removed[polyp[which[rows]]]
    same = which[rows][1:] == which[rows][:-1]
    broken = same & (overlaps(boxes[1:], boxes[:-1]) < LEAST_OVERLAP)
    return any_of(faint | gone, which[rows], k) | any_of(broken, which[rows][1:], k)


def strays(  # noqa: PLR0917
    stage: Stage, path: CameraPath, phase: Array, frames: Index, which: Index, polyps: Array
) -> Mask:
    """Frames (n,) that show a polyp that they should not.

    Args:
        stage: What is there.
        path: The camera in n frames.
        phase: (n,) of the wave.
        frames: (n,) numbers of the frames.
        which: (n,) rows of polyps.
        polyps: (k, 2) the polyps that may be shown, -1 for none.
    """
    rows, polyp = in_reach(stage.bodies, stage.removed, path, frames)
    other = (polyps[which[rows]] != polyp[:, None]).all(1)
    rows, polyp = rows[other], polyp[other]
    boxes = project(stage.bodies, shots_of(stage.colon, path, phase), stage.lens, rows, polyp)
    width, height = stage.size
    padded = boxes + np.array([-1, -1, 1, 1]) / np.array([width, height, width, height])
    seen = box_areas(padded, stage.size) >= FAINT * MIN_AREA
    return any_of(seen, rows, len(frames))


def key_rows(which: Index) -> Index:
    """Rows to look into: the first and last of every look, and some between."""
    first = np.append(True, which[1:] != which[:-1])
    last = np.append(first[1:], True)
    return np.flatnonzero(first | last | (np.arange(len(which)) % KEY_FRAMES == 0))


def near_only(colon: Colon, z: float) -> Colon:
    """The tube with those of its calm places alone that count about z."""
    return replace(colon, calm=tuple(p for p in colon.calm if abs(p[2] - z) < 3 * CALM_REACH))


def marks(body_points: Array) -> Array:
    """Points (m, 7) of a coarse outline that sight lines are drawn to: rim, middle ring, top."""
    grid = body_points.reshape(COARSE_DOWN, COARSE_AROUND, 7)
    return np.concatenate([grid[-1, ::2], grid[COARSE_DOWN // 2, ::4], grid[0, :1]])


def hidden(  # noqa: PLR0917
    stage: Stage, path: CameraPath, phase: Array, which: Index, polyp: Index, before: Index
) -> Mask:
    """Looks (k,) whose camera is too near the wall, or has something between it and the polyp.

    Args:
        stage: What is there.
        path: The camera in n frames of k looks.
        phase: (n,) of the wave.
        which: (n,) the look of each.
        polyp: (k,) the polyp looked at.
        before: (k,) a polyp that must not stand before it, -1 for none.
    """
    rows = key_rows(which)
    origins = torch.from_numpy(path.positions[rows])
    waves = torch.from_numpy(phase[rows])
    bad = wall_distance(stage.colon, origins.T, waves).numpy() < CLEARANCE
    for index in np.unique(polyp[which[rows]]):
        some = np.flatnonzero(polyp[which[rows]] == index)
        colon = near_only(stage.colon, stage.bodies.balls[index, 4])
        m = marks(body_points(stage.bodies, int(index)))
        still = torch.from_numpy(
            np.stack([m[:, 0] + m[:, 2], m[:, 1] + m[:, 3], m[:, 4]])[:, None, :]
        )  # (3, 1, m)
        phases = waves[some][:, None]
        goals = to_world(colon, still.expand(3, len(some), -1), phases)  # (3, f, m)
        start = origins[some].T[:, :, None]
        shares = torch.from_numpy(BETWEEN)
        points = start[..., None] + (goals - start)[..., None] * shares  # (3, f, m, b)
        wall = wall_distance(colon, points, phases[..., None])
        bad[some] |= (wall < 0).flatten(1).any(1).numpy()
        for other in np.unique(before[which[rows[some]]]):
            if other >= 0:
                here = torch.from_numpy(before[which[rows[some]]] == other)
                rest = to_material(stage.colon, points[:, here], phases[here][..., None])
                flat = rest.float().reshape(3, -1)
                inside = lump_distance(stage.lumps[int(other)], flat) < 0.01
                bad[some] |= _spread(here, inside.view(int(here.sum()), -1).any(1)).numpy()
    return any_of(bad, which[rows], len(polyp))


def _spread(here: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
    """Flags of the places that are here, False elsewhere."""
    out = torch.zeros_like(here)
    out[here] = flags
    return out


def body_points(bodies: Outlines, index: int) -> Array:
    """The surface points (m, 7) of one body."""
    return bodies.points[bodies.starts[index, 0] : bodies.starts[index + 1, 0]]
