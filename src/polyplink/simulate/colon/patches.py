"""A mesh cut into patches with a ball around each, so that most of it need not be looked at.

A patch whose ball the lens does not show, or whose ball cannot widen a box, is passed over with
all its points and triangles.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

PATCH = 72  # triangles of a patch: 6 x 6 cells of a grid
# What a wave of size 1 adds to a distance, in shares of it: 1 across the tube, and along it what
# the bends (1.1 a unit) and the wave's own rate (1.6 a unit at the wall) shear.
STRETCH = 4.0


@dataclass(frozen=True)
class Patches:
    """The patches of a mesh, one after the other.

    Attributes:
        columns: (7, v) points as `project.Outline` keeps them, those of a patch side by side; one
            that several patches share is there for each.
        corners: (m, 3) the triangles, as points of their own patch, from 0.
        balls: (p, 8) a ball around each at rest: one of its points, its radius. A wave makes it
            larger by `STRETCH` times its own size at most.
        starts: (p + 1, 2) where each begins among the columns and the corners.
    """

    columns: Array
    corners: NDArray[np.int32]
    balls: Array
    starts: Index


def rest_of(points: Array) -> Array:
    """Where points (n, 7) are at rest: (n, 3)."""
    return np.stack([points[:, 0] + points[:, 2], points[:, 1] + points[:, 3], points[:, 4]], 1)


def _own_points(triangles: Index) -> tuple[Index, NDArray[np.int32], Index]:
    """Points (v,) of every run of `PATCH` triangles, the corners among them, and the starts."""
    runs = -(-len(triangles) // PATCH)
    flat = np.pad(triangles, ((0, runs * PATCH - len(triangles)), (0, 0)), mode="edge")
    flat = flat.reshape(runs, 3 * PATCH)
    order = np.argsort(flat, axis=1, kind="stable")
    ranked = np.take_along_axis(flat, order, 1)
    first = np.diff(ranked, axis=1, prepend=-1) > 0
    corners = np.empty_like(flat)
    np.put_along_axis(corners, order, np.cumsum(first, axis=1) - 1, 1)
    starts = np.append(0, np.cumsum(first.sum(1)))
    return ranked[first], corners.reshape(-1, 3)[: len(triangles)].astype(np.int32), starts


def cut_up(points: Array, triangles: Index) -> Patches:
    """Cut a mesh into patches of triangles that follow each other.

    Args:
        points: (n, 7) as `project.Outline` keeps them.
        triangles: (m, 3) of the points, near ones next to each other.
    """
    own, corners, first = _own_points(triangles)
    starts = np.stack([first, np.minimum(PATCH * np.arange(len(first)), len(triangles))], axis=1)
    counts = np.diff(first)
    rest, middle = rest_of(points)[own], own[first[:-1] + counts // 2]
    away = np.linalg.norm(rest - np.repeat(rest_of(points[middle]), counts, axis=0), axis=1)
    radii = np.maximum.reduceat(away, first[:-1])
    columns = np.ascontiguousarray(points[own].T)
    return Patches(columns, corners, np.column_stack([points[middle], radii]), starts)


def join_patches(parts: Sequence[Patches]) -> Patches:
    """The patches of several meshes, one after the other."""
    if not parts:
        none = np.zeros((0, 3), np.int32)
        return Patches(np.zeros((7, 0)), none, np.zeros((0, 8)), np.zeros((1, 2), np.int64))
    ends = np.cumsum([part.starts[-1] for part in parts], axis=0)
    moved = [
        part.starts[:-1] + end - part.starts[-1] for part, end in zip(parts, ends, strict=True)
    ]
    return Patches(
        np.concatenate([part.columns for part in parts], axis=1),
        np.concatenate([part.corners for part in parts]),
        np.concatenate([part.balls for part in parts]),
        np.concatenate([*moved, ends[-1:]]),
    )
