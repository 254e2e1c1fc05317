"""The boxes of polyps in the picture: project outlines to a camera and clip them by its lens.

Boxes are computed without rendering. In a perspective view, the extremes of a body in front of the
camera are those of its convex hull, so a few hundred points suffice. If the lens cuts the body, its
surface is clipped by the cone of the lens in camera coordinates, which is also correct behind the
camera. Boxes are compared as tangents: x / z and y / z.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyplink.core.compiled import njit

Array = NDArray[np.float64]
Index = NDArray[np.int64]

FIELD = math.radians(88.0)  # horizontal field of view
FOCAL = 0.5 / math.tan(FIELD / 2)  # of the camera, in frame widths
CELLS = 6  # cells along a block's edge
_SIDE = CELLS + 1
POINTS = _SIDE * _SIDE
# Largest relative increase of a distance by a wave of size 1: 1 across the tube, and along it the
# shear by the bends (1.1 per unit) and by the wave's rate (1.6 per unit at the wall).
STRETCH = 4.0
SAME = 1e-9  # difference of tangents that is far below a pixel
MAX_SIDES = 31  # of a lens polygon: one bit per side
FAST = {"contract", "reassoc", "nsz", "arcp"}  # no flag that forbids infinite numbers
Corner = tuple[float, float]

ASPECT = 1.28  # of most released frames; with it the rounded corners are circular


def _all_four(corner: Sequence[Corner]) -> tuple[Corner, ...]:
    """The polygon with four corners like the given lower right one, in shares of the frame."""
    right = [*((x, 1 - y) for x, y in reversed(corner)), *corner]  # downwards
    return (*right, *((1 - x, y) for x, y in reversed(right)))


LENS_CORNERS: Mapping[str, tuple[Corner, ...]] = {
    "Olympus": _all_four([(1.0, 1 - 0.165 * ASPECT), (1 - 0.165, 1.0)]),
    "Fujifilm": _all_four(
        [
            (1 - 0.21 * (1 - math.cos(turn)), 1 - 0.21 * ASPECT * (1 - math.sin(turn)))
            for turn in (0.5 * math.pi * step / 3 for step in range(4))
        ]
    ),
}


class Outline(NamedTuple):
    """The surface of a polyp that may be visible in a mask, in material coordinates.

    Attributes:
        grid: (r, c, 7) points on rings from the top to the rim: centre line x, y; offset from it
            x, y; z; sine and cosine of the wave's angle at z.
        hull: (k,) indices of points on the convex hull, as many as matter at pixel resolution.
        ball: (8,) bounding ball: its centre, in the coordinates of a point, and its radius.
    """

    grid: Array
    hull: Index
    ball: Array


class Outlines(NamedTuple):
    """Several outlines in contiguous arrays, each divided into blocks of `CELLS` x `CELLS` cells.

    A block is skipped if its bounding ball is outside the lens or cannot widen a box.

    Attributes:
        points: (n, 7) points of all outlines.
        balls: (k, 8) bounding ball of each outline.
        hulls: (7, h) points on the convex hulls.
        blocks: (7, b * POINTS) points of the blocks; shared points are repeated.
        block_balls: (8, b) bounding ball of each block at rest; a wave enlarges it by at most
            `STRETCH` times the size of the wave.
        starts: (k + 1, 3) first index of each outline in the points, hulls and blocks.
    """

    points: Array
    balls: Array
    hulls: Array
    blocks: Array
    block_balls: Array
    starts: Index

    @classmethod
    def of(cls, outlines: Sequence[Outline]) -> "Outlines":
        """Concatenate outlines."""
        points, hulls, blocks = [np.zeros((0, 7))], [np.zeros((0, 7))], [np.zeros((0, POINTS, 7))]
        step = np.arange(_SIDE)
        for grid, hull, _ in outlines:
            rows, columns = grid.shape[:2]
            points.append(grid.reshape(-1, 7))
            hulls.append(points[-1][hull])
            # The grid closes around; blocks share their edges.
            row = np.minimum(np.arange(0, rows - 1, CELLS)[:, None] + step, rows - 1)
            column = (np.arange(0, columns, CELLS)[:, None] + step) % columns
            block = grid[row[:, None, :, None], column[None, :, None, :]]
            blocks.append(block.reshape(-1, POINTS, 7))
        sizes = [[len(part) for part in parts] for parts in zip(points, hulls, blocks, strict=True)]
        all_blocks = np.concatenate(blocks)
        middle = all_blocks[:, POINTS // 2]
        radius = np.linalg.norm(rest_of(all_blocks) - rest_of(middle)[:, None], axis=2).max(1)
        return cls(
            points=np.concatenate(points),
            balls=np.array([outline.ball for outline in outlines]).reshape(-1, 8),
            hulls=np.concatenate(hulls).T.copy(),
            blocks=all_blocks.reshape(-1, 7).T.copy(),
            block_balls=np.column_stack([middle, radius]).T.copy(),
            starts=np.cumsum(np.array(sizes, np.int64), axis=0),
        )


def rest_of(points: Array) -> Array:
    """Positions (..., 3) at rest of points (..., 7)."""
    across: Array = points[..., :2] + points[..., 2:4]
    return np.asarray(np.concatenate([across, points[..., 4:5]], axis=-1))


class Lens(NamedTuple):
    """The visible cone of a lens, and the scales of the picture.

    Attributes:
        planes: (m, 3) unit normals in camera coordinates, pointing into the cone.
        bounds: (4,) left, top, right, bottom of the cone, tangents.
        across: Factor from tangents to shares of the frame's width.
        down: Factor from tangents to shares of the frame's height.
    """

    planes: Array
    bounds: Array
    across: float
    down: float

    @classmethod
    def of(cls, corners: Sequence[Corner], width: int, height: int) -> "Lens":
        """The lens of a convex polygon in shares of the frame's width and height."""
        across, down = FOCAL, FOCAL * width / height
        x, y = (np.array(corners).T - 0.5) / np.array([[across], [down]])  # tangents
        points = np.stack([x, y, np.ones_like(x)], axis=1)
        planes = np.cross(points, np.roll(points, -1, axis=0))
        length = np.linalg.norm(planes, axis=1)
        planes = planes[length > 1e-12] / length[length > 1e-12, None]  # repeated corners
        inwards = np.sign(planes @ points.mean(0))
        bounds = np.array([x.min(), y.min(), x.max(), y.max()])
        return cls(np.ascontiguousarray(planes * inwards[:, None]), bounds, across, down)


def shots(positions: Array, rotations: Array, wave: float, phase: Array) -> Array:
    """Cameras (s, 14) for `project`.

    They consist of positions (s, 3), rotations (s, 3, 3; columns right, down, forward) row by row,
    and the size of the peristaltic wave times the cosine and the sine of its phase (s,), radians.
    """
    shift = wave * np.stack([np.cos(phase), np.sin(phase)], axis=1)
    return np.concatenate([positions, rotations.reshape(-1, 9), shift], axis=1, dtype=np.float64)


def project(outlines: Outlines, cameras: Array, lens: Lens, frames: Index, bodies: Index) -> Array:
    """Boxes of polyps in the picture.

    Args:
        outlines: The polyps.
        cameras: (s, 14), see `shots`.
        lens: The lens of the cameras.
        frames: (n,) index of a camera.
        bodies: (n,) index of a polyp.

    Returns:
        (n, 4) left, top, right, bottom in shares of the frame's width and height; NaN if the polyp
        is not in the picture. Occlusion is not considered.
    """
    boxes = np.empty((len(frames), 4))
    rows, polyps = (np.ascontiguousarray(index, np.int64) for index in (frames, bodies))
    boxes[:, :2], boxes[:, 2:] = np.inf, -np.inf
    _boxes(outlines, cameras, lens, rows, polyps, boxes)
    boxes[~np.isfinite(boxes).all(1)] = np.nan
    return np.asarray(0.5 + boxes * np.array([lens.across, lens.down, lens.across, lens.down]))


@njit(fastmath=FAST)
def _to_camera(  # pragma: no cover
    points: Array, first: int | np.int64, count: int | np.int64, shot: Array, out: Array
) -> None:
    """Transform `count` points of (7, n) to camera coordinates: first three rows of out (5, v)."""
    eye_x, eye_y, eye_z, c, s = shot[0], shot[1], shot[2], shot[12], shot[13]
    a0, a1, a2, b0, b1, b2 = shot[3], shot[4], shot[5], shot[6], shot[7], shot[8]
    d0, d1, d2 = shot[9], shot[10], shot[11]
    for j in range(count):
        i = first + j
        g = 1 + points[5, i] * c - points[6, i] * s  # the wave
        x = points[0, i] + points[2, i] * g - eye_x
        y = points[1, i] + points[3, i] * g - eye_y
        z = points[4, i] - eye_z
        out[0, j] = x * a0 + y * b0 + z * d0
        out[1, j] = x * a1 + y * b1 + z * d1
        out[2, j] = x * a2 + y * b2 + z * d2


@njit(fastmath=FAST)
def _ball_sides(  # pragma: no cover
    in_camera: Array, j: int | np.int64, radius: float, planes: Array, sides: int
) -> int:
    """Bits of the `sides` that may cut ball j of (5, v); -1 if the ball is outside."""
    cutting = 0
    for k in range(planes.shape[0]):
        if not sides >> k & 1:
            continue
        depth = (
            in_camera[0, j] * planes[k, 0]
            + in_camera[1, j] * planes[k, 1]
            + in_camera[2, j] * planes[k, 2]
        )
        if depth < -radius:
            return -1
        if depth <= radius:
            cutting |= 1 << k
    return cutting


@njit(fastmath=FAST)
def _outside(  # pragma: no cover
    in_camera: Array, planes: Array, sides: int, outcodes: NDArray[np.int32]
) -> None:
    """Set, for every point of (5, v), the bits of the `sides` of the lens that exclude it."""
    for j in range(len(outcodes)):
        outcodes[j] = 0
    for k in range(planes.shape[0]):
        if sides >> k & 1:
            a, b, c, bit = planes[k, 0], planes[k, 1], planes[k, 2], np.int32(1 << k)
            for j in range(len(outcodes)):
                is_outside = in_camera[0, j] * a + in_camera[1, j] * b + in_camera[2, j] * c < 0
                outcodes[j] |= bit if is_outside else np.int32(0)


@njit(fastmath=FAST | {"nnan"})
def _grow(in_camera: Array, outcodes: NDArray[np.int32], box: Array) -> None:  # pragma: no cover
    """Widen a box by the points without bits; tangents are written to the last two rows."""
    left, top, right, bottom = box[0], box[1], box[2], box[3]
    for j in range(len(outcodes)):
        scale = 1 / in_camera[2, j]
        u, v, inside = in_camera[0, j] * scale, in_camera[1, j] * scale, outcodes[j] == 0
        in_camera[3, j], in_camera[4, j] = u, v
        left, top = min(left, u if inside else np.inf), min(top, v if inside else np.inf)
        right, bottom = max(right, u if inside else -np.inf), max(bottom, v if inside else -np.inf)
    box[0], box[1], box[2], box[3] = left, top, right, bottom


@njit(fastmath=FAST)
def _idle(
    low: float, high: float, k: int | np.int64, bounds: Array, box: Array
) -> bool:  # pragma: no cover
    """Whether the visible part between two tangents along axis k cannot widen a box."""
    return not (max(low, bounds[k] + SAME) < box[k] or min(high, bounds[2 + k] - SAME) > box[2 + k])


@njit(fastmath=FAST)
def _clip(  # noqa: PLR0917  # pragma: no cover
    in_camera: Array,
    corners: tuple[int, int, int],
    planes: Array,
    sides: int,
    buffer: Array,
    box: Array,
) -> None:
    """Widen a box by a triangle that is clipped by some sides of the lens.

    Sutherland and Hodgman, Reentrant polygon clipping, Communications of the ACM 17(1), 1974.
    """
    polygon, out = buffer[0], buffer[1]
    count = 3
    for a in range(3):
        for i in range(3):
            polygon[a, i] = in_camera[i, corners[a]]
    for k in range(planes.shape[0]):
        if not sides >> k & 1:
            continue
        n_corners = 0
        x, y, z = planes[k, 0], planes[k, 1], planes[k, 2]
        last = count - 1
        last_depth = polygon[last, 0] * x + polygon[last, 1] * y + polygon[last, 2] * z
        for a in range(count):
            depth = polygon[a, 0] * x + polygon[a, 1] * y + polygon[a, 2] * z
            if (depth >= 0) != (last_depth >= 0):
                for i in range(3):
                    edge = polygon[a, i] - polygon[last, i]
                    out[n_corners, i] = polygon[last, i] + edge * last_depth / (last_depth - depth)
                n_corners += 1
            if depth >= 0:
                for i in range(3):
                    out[n_corners, i] = polygon[a, i]
                n_corners += 1
            last, last_depth = a, depth
        polygon, out, count = out, polygon, n_corners
    for a in range(count):
        if polygon[a, 2] > 1e-9:
            u, v = polygon[a, 0] / polygon[a, 2], polygon[a, 1] / polygon[a, 2]
            box[0], box[1] = min(box[0], u), min(box[1], v)
            box[2], box[3] = max(box[2], u), max(box[3], v)


@njit(fastmath=FAST)
def _grow_by_block(  # noqa: PLR0917  # pragma: no cover
    in_camera: Array, outcodes: NDArray[np.int32], lens: Lens, sides: int, buffer: Array, box: Array
) -> None:
    """Widen a box by a block (5, v), which some sides of the lens may cut."""
    _outside(in_camera, lens.planes, sides, outcodes)
    _grow(in_camera, outcodes, box)
    if sides == 0:
        return
    across, down = np.int64(0), np.int64(1)
    for cell in range(CELLS * CELLS):
        a = cell // CELLS * _SIDE + cell % CELLS
        for half in range(2):
            p, q, r = (a, a + _SIDE, a + 1) if half else (a + 1, a + _SIDE, a + _SIDE + 1)
            crossed = outcodes[p] | outcodes[q] | outcodes[r]
            if crossed == 0 or outcodes[p] & outcodes[q] & outcodes[r] != 0:
                continue  # the triangle is entirely visible or entirely hidden
            u0, u1 = (
                min(in_camera[3, p], in_camera[3, q], in_camera[3, r]),
                max(in_camera[3, p], in_camera[3, q], in_camera[3, r]),
            )
            v0, v1 = (
                min(in_camera[4, p], in_camera[4, q], in_camera[4, r]),
                max(in_camera[4, p], in_camera[4, q], in_camera[4, r]),
            )
            ahead = min(in_camera[2, p], in_camera[2, q], in_camera[2, r]) > 1e-6
            idle = _idle(u0, u1, across, lens.bounds, box) and _idle(v0, v1, down, lens.bounds, box)
            if not (ahead and idle):
                _clip(in_camera, (p, q, r), lens.planes, crossed, buffer, box)


@njit(fastmath=FAST)
def _boxes(  # noqa: PLR0912, PLR0917  # pragma: no cover
    outlines: Outlines, cameras: Array, lens: Lens, frames: Index, polyps: Index, boxes: Array
) -> None:
    """Compute boxes (n, 4) of polyps as tangents; boxes of invisible polyps stay infinite."""
    # Typed, because plain numbers would cause another compilation of the called functions.
    zero, one = np.int64(0), np.int64(1)
    buffer, ball = np.empty((2, MAX_SIDES + 3, 3)), np.empty((5, 1))
    corners, cut = np.empty((5, 4)), np.empty(4, np.int32)
    block, block_bits = np.empty((5, POINTS)), np.empty(POINTS, np.int32)
    for i in range(len(frames)):
        body, shot, box = polyps[i], cameras[frames[i]], boxes[i]
        cutting = (1 << lens.planes.shape[0]) - 1
        _to_camera(outlines.balls[body].reshape(8, 1), zero, one, shot, ball)
        if _ball_sides(ball, zero, outlines.balls[body, 7], lens.planes, cutting) < 0:
            continue
        # The box of an uncut polyp is that of its hull.
        (_, first_hull, first), (_, last_hull, last) = (
            outlines.starts[body],
            outlines.starts[body + 1],
        )
        in_camera = np.empty((5, last_hull - first_hull))
        outcodes = np.empty(last_hull - first_hull, np.int32)
        _to_camera(outlines.hulls, first_hull, len(outcodes), shot, in_camera)
        nearest = np.inf
        for j in range(len(outcodes)):
            outcodes[j], nearest = 0, min(nearest, in_camera[2, j])
        if nearest > 1e-6:
            _grow(in_camera, outcodes, box)
            for k in range(4):
                corners[0, k], corners[1, k] = box[k & 2], box[1 + 2 * (k & 1)]
                corners[2, k] = 1.0
            _outside(corners, lens.planes, cutting, cut)
            cutting = cut[0] | cut[1] | cut[2] | cut[3]  # sides that cut the box, and so the polyp
            if cutting == 0:
                continue
            box[0] = box[1] = np.inf
            box[2] = box[3] = -np.inf
            if cut[0] & cut[1] & cut[2] & cut[3] != 0:
                continue
        # If the lens cuts the polyp: first the visible points of the hull, then the blocks on the
        # cut, then the others, most of which cannot widen the box.
        _outside(in_camera, lens.planes, cutting, outcodes)
        _grow(in_camera, outcodes, box)
        balls, sides = np.empty((5, last - first)), np.empty(last - first, np.int64)
        _to_camera(outlines.block_balls, first, last - first, shot, balls)
        grown = 1 + STRETCH * math.sqrt(shot[12] ** 2 + shot[13] ** 2)
        radii = grown * outlines.block_balls[7, first:last]
        for k in range(last - first):
            sides[k] = _ball_sides(balls, k, radii[k], lens.planes, cutting)
        for on_cut in (True, False):
            for k in range(last - first):
                if sides[k] < 0 or (sides[k] > 0) != on_cut:
                    continue
                # |x / z - (x + a) / (z + c)| <= radius |(x, z)| / (z (z - radius))
                # for all |(a, c)| <= radius.
                z, radius = balls[2, k], radii[k]
                idle = z > radius
                for axis in range(2):
                    if idle:
                        x = balls[axis, k]
                        extent = radius * math.sqrt(x * x + z * z) / (z * (z - radius))
                        idle = _idle(x / z - extent, x / z + extent, axis, lens.bounds, box)
                if not idle:
                    _to_camera(outlines.blocks, (first + k) * POINTS, len(block_bits), shot, block)
                    _grow_by_block(block, block_bits, lens, sides[k], buffer, box)
