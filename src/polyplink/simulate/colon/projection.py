"""Where polyps are in the picture: the box of an outline seen by a camera through its lens.

A box needs no picture. Under a perspective view the extremes of a body in front of the camera are
those of its convex hull, so that a few hundred points do; where the lens cuts the body, its
surface is clipped by the cone of the lens in camera coordinates, where nothing can go wrong
behind the camera; see `lens_boxes`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polyplink.simulate.colon.lens_boxes import widen_boxes
from polyplink.simulate.colon.patches import Array, Index, Patches, cut_up, join_patches

FIELD = math.radians(88.0)  # horizontal field of view
FOCAL = 0.5 / math.tan(FIELD / 2)  # of the camera, in frame widths
Corner = tuple[float, float]

ASPECT = 1.28  # about what released frames have; makes the rounded corners round


def _cut(legs: float) -> list[Corner]:
    """The right lower corner cut off straight; legs in shares of the width."""
    return [(1.0, 1 - legs * ASPECT), (1 - legs, 1.0)]


def _rounded(radius: float, steps: int) -> list[Corner]:
    """The right lower corner rounded; radius in shares of the width."""
    turns = [0.5 * math.pi * step / steps for step in range(steps + 1)]
    return [
        (1 - radius * (1 - math.cos(t)), 1 - radius * ASPECT * (1 - math.sin(t))) for t in turns
    ]


def _all_four(corner: Sequence[Corner]) -> tuple[Corner, ...]:
    """The polygon whose corners all look like the right lower one."""
    right = [*((x, 1 - y) for x, y in reversed(corner)), *corner]  # downwards
    return (*right, *((1 - x, y) for x, y in reversed(right)))


RIGHT_LOWER: Mapping[str, list[Corner]] = {
    "Olympus": _cut(0.165),
    "Fujifilm": _rounded(0.21, 3),
}
LENS_CORNERS: Mapping[str, tuple[Corner, ...]] = {
    brand: _all_four(corner) for brand, corner in RIGHT_LOWER.items()
}


@dataclass(frozen=True)
class Outline:
    """What of a polyp is projected, in material coordinates as the wave carries them.

    Attributes:
        points: (n, 7) of the surface: centre line x, y; offset from it x, y; z; sine and cosine
            of the wave's angle at z.
        triangles: (m, 3) of the points.
        hull: (k,) points on the convex hull, as many as the picture can tell apart.
        ball: (8,) a ball around all of it: its middle as in points, its radius.
    """

    points: Array
    triangles: Index
    hull: Index
    ball: Array


@dataclass(frozen=True)
class Outlines:
    """Several bodies in one piece; where each begins in `starts` (k + 1, 3).

    Attributes:
        points: (n, 7) of all.
        hull: (h,) points on the convex hulls, counted from a body's first.
        balls: (k, 8) around each.
        patches: Of all surfaces.
        starts: (k + 1, 3) where each begins among the points, the patches and the hull.
    """

    points: Array
    hull: Index
    balls: Array
    patches: Patches
    starts: Index

    @staticmethod
    def of(bodies: Sequence[Outline]) -> "Outlines":
        """Put bodies together."""
        cut = [cut_up(b.points, b.triangles) for b in bodies]
        sizes = [
            (len(b.points), len(p.balls), len(b.hull)) for b, p in zip(bodies, cut, strict=True)
        ]
        starts = np.zeros((len(bodies) + 1, 3), np.int64)
        starts[1:] = np.cumsum(np.array(sizes, np.int64).reshape(-1, 3), axis=0)
        if not bodies:
            none = np.zeros(0, np.int64)
            return Outlines(np.zeros((0, 7)), none, np.zeros((0, 8)), join_patches([]), starts)
        return Outlines(
            np.concatenate([b.points for b in bodies]),
            np.concatenate([b.hull for b in bodies]),
            np.stack([b.ball for b in bodies]),
            join_patches(cut),
            starts,
        )


@dataclass(frozen=True)
class Lens:
    """The cone that a lens shows, and the scales of the picture.

    Attributes:
        planes: (m, 3) unit normals in camera coordinates, into the cone.
        bounds: (4,) left, top, right, bottom of it, tangents.
        across: Tangent of the angle to the picture's place in widths.
        down: The same in heights.
    """

    planes: Array
    bounds: Array
    across: float
    down: float

    @staticmethod
    def of(corners: Sequence[tuple[float, float]], width: int, height: int) -> "Lens":
        """The lens of a convex polygon in shares of the frame's width and height."""
        across, down = FOCAL, FOCAL * width / height
        x, y = (np.array(corners).T - 0.5) / np.array([[across], [down]])  # tangents
        points = np.stack([x, y, np.ones_like(x)], axis=1)
        planes = np.cross(points, np.roll(points, -1, axis=0))
        length = np.linalg.norm(planes, axis=1)
        planes = planes[length > 1e-12] / length[length > 1e-12, None]  # repeated corners
        inwards = np.sign(planes @ points.mean(0))
        bounds = np.array([x.min(), y.min(), x.max(), y.max()])
        return Lens(np.ascontiguousarray(planes * inwards[:, None]), bounds, across, down)


def shots(positions: Array, rotations: Array, wave: float, phase: Array) -> Array:
    """Cameras as `project` takes them.

    Args:
        positions: (s, 3).
        rotations: (s, 3, 3) columns: right, down, forward.
        wave: Size of the peristaltic wave.
        phase: (s,) its phase, radians.

    Returns:
        (s, 14): position, rotation by rows, wave times the cosine and the sine of the phase.
    """
    shift = wave * np.stack([np.cos(phase), np.sin(phase)], axis=1)
    return np.concatenate([positions, rotations.reshape(-1, 9), shift], axis=1, dtype=np.float64)


def project(bodies: Outlines, cameras: Array, lens: Lens, frames: Index, which: Index) -> Array:
    """Boxes of bodies in the picture.

    Args:
        bodies: The bodies.
        cameras: (s, 14), see `shots`.
        lens: What the cameras show.
        frames: (n,) index of a camera.
        which: (n,) index of the body that is asked for there.

    Returns:
        (n, 4) left, top, right, bottom in shares of the frame's width and height; NaN where the
        body is not in the picture. What stands before it is not asked.
    """
    boxes = np.repeat(np.array([[np.inf, np.inf, -np.inf, -np.inf]]), len(frames), 0)
    widen_boxes(
        bodies.points,
        bodies.hull,
        bodies.balls,
        bodies.starts,
        bodies.patches.columns,
        bodies.patches.corners,
        bodies.patches.balls,
        bodies.patches.starts,
        np.ascontiguousarray(frames, np.int64),
        np.ascontiguousarray(which, np.int64),
        cameras,
        lens.planes,
        lens.bounds,
        boxes,
    )
    boxes[~np.isfinite(boxes).all(1)] = np.nan
    return np.asarray(0.5 + boxes * np.array([lens.across, lens.down, lens.across, lens.down]))
