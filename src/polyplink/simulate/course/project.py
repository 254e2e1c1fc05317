"""Where polyps are in the picture: the box of an outline seen by a camera through its lens.

A box needs no picture. Under a perspective view the extremes of a body in front of the camera are
those of its convex hull, so that a few hundred points do; where the lens cuts the body, every
triangle of its surface is clipped by the cone of the lens (Sutherland and Hodgman, Reentrant
polygon clipping, Communications of the ACM 17(1), 1974), in camera coordinates, where nothing can
go wrong behind the camera.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from polyplink.simulate.picture.march import FIELD

Array = NDArray[np.float64]
Index = NDArray[np.int64]
FOCAL = 0.5 / math.tan(FIELD / 2)  # of the camera, in frame widths
FAST = {"contract", "reassoc", "nsz", "arcp"}  # not what forbids infinite numbers
MAX_SIDES = 31  # of a lens polygon, and so bits of the sides that a point is outside of


@dataclass(frozen=True)
class Body:
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
class Bodies:
    """Several bodies in one piece; where each begins in `starts` (k + 1, 3)."""

    points: Array
    triangles: Index
    hull: Index
    balls: Array
    starts: Index

    @staticmethod
    def of(bodies: Sequence[Body]) -> "Bodies":
        """Put bodies together."""
        sizes = [(len(b.points), len(b.triangles), len(b.hull)) for b in bodies]
        starts = np.zeros((len(bodies) + 1, 3), np.int64)
        starts[1:] = np.cumsum(np.array(sizes, np.int64).reshape(-1, 3), axis=0)
        if not bodies:
            none = np.zeros((0, 3), np.int64)
            return Bodies(np.zeros((0, 7)), none, none[:, 0], np.zeros((0, 8)), starts)
        return Bodies(
            np.concatenate([b.points for b in bodies]),
            np.concatenate([b.triangles for b in bodies]),
            np.concatenate([b.hull for b in bodies]),
            np.stack([b.ball for b in bodies]),
            starts,
        )


@dataclass(frozen=True)
class Lens:
    """The cone that a lens shows, and the scales of the picture.

    Attributes:
        planes: (m, 3) unit normals in camera coordinates, into the cone.
        across: Tangent of the angle to the picture's place in widths.
        down: The same in heights.
    """

    planes: Array
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
        return Lens(np.ascontiguousarray(planes * inwards[:, None]), across, down)


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _seen(  # noqa: PLR0917  # pragma: no cover
    points: Array, i: int, shots: Array, frame: int, out: Array, row: int
) -> None:
    """Point i in the coordinates of a frame's camera, into a row of `out`."""
    g = 1 + points[i, 5] * shots[frame, 12] - points[i, 6] * shots[frame, 13]
    x = points[i, 0] + points[i, 2] * g - shots[frame, 0]
    y = points[i, 1] + points[i, 3] * g - shots[frame, 1]
    z = points[i, 4] - shots[frame, 2]
    for k in range(3):
        out[row, k] = x * shots[frame, 3 + k] + y * shots[frame, 6 + k] + z * shots[frame, 9 + k]


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _depth(seen: Array, row: int, planes: Array, k: int) -> float:  # pragma: no cover
    """How far a point lies inside of side k of the lens."""
    depth: float = (
        seen[row, 0] * planes[k, 0] + seen[row, 1] * planes[k, 1] + seen[row, 2] * planes[k, 2]
    )
    return depth


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _outside(seen: Array, row: int, planes: Array, asked: int) -> int:  # pragma: no cover
    """Bits of those of the asked sides of the lens that a point is outside of."""
    bits = 0
    for k in range(planes.shape[0]):
        if asked >> k & 1 and _depth(seen, row, planes, k) < 0:
            bits |= 1 << k
    return bits


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _grow(boxes: Array, i: int, seen: Array, row: int) -> None:  # pragma: no cover
    """Widen a box of tangents to hold a point in front of the camera."""
    u, v = seen[row, 0] / seen[row, 2], seen[row, 1] / seen[row, 2]
    boxes[i, 0], boxes[i, 1] = min(boxes[i, 0], u), min(boxes[i, 1], v)
    boxes[i, 2], boxes[i, 3] = max(boxes[i, 2], u), max(boxes[i, 3], v)


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _clip_side(  # pragma: no cover
    piece: Array, count: int, spare: Array, planes: Array, k: int
) -> int:
    """Clip a polygon of `count` corners by side k; its new corners go to `spare`."""
    kept = 0
    for a in range(count):
        b = (a + 1) % count
        da, db = _depth(piece, a, planes, k), _depth(piece, b, planes, k)
        if da >= 0:
            for c in range(3):
                spare[kept, c] = piece[a, c]
            kept += 1
        if (da >= 0) != (db >= 0):
            t = da / (da - db)
            for c in range(3):
                spare[kept, c] = piece[a, c] + (piece[b, c] - piece[a, c]) * t
            kept += 1
    return kept


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _clip(  # noqa: PLR0917  # pragma: no cover
    piece: Array, spare: Array, planes: Array, bits: int, boxes: Array, i: int
) -> None:
    """Clip a triangle by the sides named in bits and widen the box by what is left."""
    count = 3
    for k in range(planes.shape[0]):
        if bits >> k & 1 and count:
            count = _clip_side(piece, count, spare, planes, k)
            for a in range(count):
                for c in range(3):
                    piece[a, c] = spare[a, c]
    for a in range(count):
        if piece[a, 2] > 1e-9:
            _grow(boxes, i, piece, a)


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _seen_all(  # pragma: no cover
    columns: Array, first: int, shots: Array, frame: int, seen: Array
) -> None:
    """All points of a body from `first` on in the coordinates of a frame's camera, (3, n)."""
    c, s = shots[frame, 12], shots[frame, 13]
    left, up, near = shots[frame, 0], shots[frame, 1], shots[frame, 2]
    for k in range(3):
        a, b, d = shots[frame, 3 + k], shots[frame, 6 + k], shots[frame, 9 + k]
        for j in range(seen.shape[1]):
            g = 1 + columns[5, first + j] * c - columns[6, first + j] * s
            x = columns[0, first + j] + columns[2, first + j] * g - left
            y = columns[1, first + j] + columns[3, first + j] * g - up
            seen[k, j] = x * a + y * b + (columns[4, first + j] - near) * d


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _outside_all(  # pragma: no cover
    seen: Array, planes: Array, asked: int, bits: NDArray[np.int32]
) -> None:
    """For every point (3, n) the bits of the asked sides of the lens that it is outside of."""
    bits[:] = 0
    for k in range(planes.shape[0]):
        if asked >> k & 1:
            a, b, c, bit = planes[k, 0], planes[k, 1], planes[k, 2], np.int32(1 << k)
            for j in range(seen.shape[1]):
                out = seen[0, j] * a + seen[1, j] * b + seen[2, j] * c < 0
                bits[j] |= bit if out else np.int32(0)


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _box_cut(  # noqa: PLR0917  # pragma: no cover
    columns: Array,
    triangles: NDArray[np.int32],
    starts: Index,
    body: int,
    shots: Array,
    frame: int,
    planes: Array,
    asked: int,
    boxes: Array,
    i: int,
) -> None:
    """Widen a box by a surface that the asked sides of the lens may cut."""
    first, last = starts[body, 0], starts[body + 1, 0]
    seen, bits = np.empty((3, last - first)), np.empty(last - first, np.int32)
    _seen_all(columns, first, shots, frame, seen)
    _outside_all(seen, planes, asked, bits)
    for j in range(last - first):
        if bits[j] == 0:
            u, v = seen[0, j] / seen[2, j], seen[1, j] / seen[2, j]
            boxes[i, 0], boxes[i, 1] = min(boxes[i, 0], u), min(boxes[i, 1], v)
            boxes[i, 2], boxes[i, 3] = max(boxes[i, 2], u), max(boxes[i, 3], v)
    piece, spare = np.empty((MAX_SIDES + 3, 3)), np.empty((MAX_SIDES + 3, 3))
    for t in range(starts[body, 1], starts[body + 1, 1]):
        p, q, r = bits[triangles[t, 0]], bits[triangles[t, 1]], bits[triangles[t, 2]]
        if p | q | r != 0 and p & q & r == 0:
            for c in range(3):
                for d in range(3):
                    piece[c, d] = seen[d, triangles[t, c]]
            _clip(piece, spare, planes, p | q | r, boxes, i)


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _box_whole(  # noqa: PLR0917  # pragma: no cover
    points: Array,
    hull: Index,
    starts: Index,
    body: int,
    shots: Array,
    frame: int,
    boxes: Array,
    i: int,
) -> bool:
    """Widen a box by the whole of a body; False where some of it is behind the camera."""
    seen = np.empty((1, 3))
    for h in range(starts[body, 2], starts[body + 1, 2]):
        _seen(points, starts[body, 0] + hull[h], shots, frame, seen, 0)
        if seen[0, 2] < 1e-6:
            return False
        _grow(boxes, i, seen, 0)
    return True


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _cutting(boxes: Array, i: int, planes: Array) -> int:  # pragma: no cover
    """Bits of the sides of the lens that cut a box of tangents; -1 where it is all outside."""
    corner, every, either, asked = np.empty((1, 3)), -1, 0, (1 << planes.shape[0]) - 1
    for c in range(4):
        corner[0, 0], corner[0, 1], corner[0, 2] = boxes[i, c & 2], boxes[i, 1 + 2 * (c & 1)], 1.0
        bits = _outside(corner, 0, planes, asked)
        every, either = every & bits, either | bits
    return -1 if every != 0 else either


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _project(  # noqa: PLR0917  # pragma: no cover
    points: Array,
    columns: Array,
    triangles: NDArray[np.int32],
    hull: Index,
    balls: Array,
    starts: Index,
    frames: Index,
    which: Index,
    shots: Array,
    planes: Array,
    boxes: Array,
) -> None:
    """Widen the empty box i of tangents (n, 4) to body which[i] in frame frames[i]."""
    seen = np.empty((1, 3))
    for i in range(frames.shape[0]):
        frame, body = frames[i], which[i]
        _seen(balls, body, shots, frame, seen, 0)
        near = True
        for k in range(planes.shape[0]):
            near = near and _depth(seen, 0, planes, k) >= -balls[body, 7]
        if near:
            cut = (1 << planes.shape[0]) - 1
            if _box_whole(points, hull, starts, body, shots, frame, boxes, i):
                cut = _cutting(boxes, i, planes)
            if cut != 0:
                boxes[i, 0], boxes[i, 1] = np.inf, np.inf
                boxes[i, 2], boxes[i, 3] = -np.inf, -np.inf
            if cut > 0:
                _box_cut(columns, triangles, starts, body, shots, frame, planes, cut, boxes, i)


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


def project(bodies: Bodies, cameras: Array, lens: Lens, frames: Index, which: Index) -> Array:
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
    _project(
        bodies.points,
        np.ascontiguousarray(bodies.points.T),
        bodies.triangles.astype(np.int32),
        bodies.hull,
        bodies.balls,
        bodies.starts,
        np.ascontiguousarray(frames, np.int64),
        np.ascontiguousarray(which, np.int64),
        cameras,
        lens.planes,
        boxes,
    )
    boxes[~np.isfinite(boxes).all(1)] = np.nan
    return np.asarray(0.5 + boxes * np.array([lens.across, lens.down, lens.across, lens.down]))
