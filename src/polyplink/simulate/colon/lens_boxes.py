"""Boxes of bodies through a lens, compiled: what of a surface a lens shows, and where.

Points are looked at in camera coordinates, boxes are tangents there. A body that the lens shows
whole has the box of its hull. Of one that it cuts, the patches (see `patches`) that may widen the
box are looked at, those on the cut first; triangles on the cut are clipped (Sutherland and
Hodgman, Reentrant polygon clipping, Communications of the ACM 17(1), 1974).
"""

import math

import numpy as np
from numpy.typing import NDArray

from polyplink.core.compiled import njit
from polyplink.simulate.colon.patches import PATCH, STRETCH, Array, Index

FAST = {"contract", "reassoc", "nsz", "arcp"}  # not what forbids infinite numbers
SAME = 1e-9  # a tangent less: nothing that a pixel could tell
MOST = 3 * PATCH  # points of a patch
MAX_SIDES = 31  # of a lens polygon, and so bits of the sides that a point is outside of


@njit(fastmath=FAST)
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


@njit(fastmath=FAST)
def _depth(seen: Array, row: int, planes: Array, k: int) -> float:  # pragma: no cover
    """How far a point lies inside of side k of the lens."""
    depth: float = (
        seen[row, 0] * planes[k, 0] + seen[row, 1] * planes[k, 1] + seen[row, 2] * planes[k, 2]
    )
    return depth


@njit(fastmath=FAST)
def _outside(seen: Array, row: int, planes: Array, asked: int) -> int:  # pragma: no cover
    """Bits of those of the asked sides of the lens that a point is outside of."""
    bits = 0
    for k in range(planes.shape[0]):
        if asked >> k & 1 and _depth(seen, row, planes, k) < 0:
            bits |= 1 << k
    return bits


@njit(fastmath=FAST)
def _grow(boxes: Array, i: int, seen: Array, row: int) -> None:  # pragma: no cover
    """Widen a box of tangents to hold a point in front of the camera."""
    u, v = seen[row, 0] / seen[row, 2], seen[row, 1] / seen[row, 2]
    boxes[i, 0], boxes[i, 1] = min(boxes[i, 0], u), min(boxes[i, 1], v)
    boxes[i, 2], boxes[i, 3] = max(boxes[i, 2], u), max(boxes[i, 3], v)


@njit(fastmath=FAST)
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


@njit(fastmath=FAST)
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


@njit(fastmath=FAST)
def _seen_all(  # noqa: PLR0917  # pragma: no cover
    columns: Array, first: int, count: int, shots: Array, frame: int, seen: Array
) -> None:
    """So many points from `first` on in the coordinates of a frame's camera, into (3, v)."""
    c, s = shots[frame, 12], shots[frame, 13]
    left, up, near = shots[frame, 0], shots[frame, 1], shots[frame, 2]
    a0, a1, a2 = shots[frame, 3], shots[frame, 4], shots[frame, 5]
    b0, b1, b2 = shots[frame, 6], shots[frame, 7], shots[frame, 8]
    d0, d1, d2 = shots[frame, 9], shots[frame, 10], shots[frame, 11]
    for j in range(count):
        g = 1 + columns[5, first + j] * c - columns[6, first + j] * s
        x = columns[0, first + j] + columns[2, first + j] * g - left
        y = columns[1, first + j] + columns[3, first + j] * g - up
        z = columns[4, first + j] - near
        seen[0, j] = x * a0 + y * b0 + z * d0
        seen[1, j] = x * a1 + y * b1 + z * d1
        seen[2, j] = x * a2 + y * b2 + z * d2


@njit(fastmath=FAST)
def _outside_all(  # pragma: no cover
    seen: Array, count: int, planes: Array, asked: int, bits: NDArray[np.int32]
) -> None:
    """For every point of (3, v) the bits of the asked sides of the lens that it is outside of."""
    bits[:count] = 0
    for k in range(planes.shape[0]):
        if asked >> k & 1:
            a, b, c, bit = planes[k, 0], planes[k, 1], planes[k, 2], np.int32(1 << k)
            for j in range(count):
                out = seen[0, j] * a + seen[1, j] * b + seen[2, j] * c < 0
                bits[j] |= bit if out else np.int32(0)


@njit(fastmath=FAST | {"nnan"})
def _grow_all(  # pragma: no cover
    seen: Array, count: int, bits: NDArray[np.int32], boxes: Array, i: int
) -> None:
    """Widen a box by those points of (5, v) that have no bits; tangents go to the last rows."""
    left, top, right, bottom = boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3]
    for j in range(count):
        near = 1 / seen[2, j]
        u, v, shown = seen[0, j] * near, seen[1, j] * near, bits[j] == 0
        seen[3, j], seen[4, j] = u, v
        left, top = min(left, u if shown else np.inf), min(top, v if shown else np.inf)
        right, bottom = max(right, u if shown else -np.inf), max(bottom, v if shown else -np.inf)
    boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3] = left, top, right, bottom


@njit(fastmath=FAST)
def _sides(  # pragma: no cover
    seen: Array, row: int, radius: float, planes: Array, asked: int
) -> int:
    """Bits of those of the asked sides of the lens that may cut a ball; -1 where it is outside."""
    cutting = 0
    for k in range(planes.shape[0]):
        if asked >> k & 1:
            depth = _depth(seen, row, planes, k)
            if depth < -radius:
                return -1
            if depth <= radius:
                cutting |= 1 << k
    return cutting


@njit(fastmath=FAST)
def _within(  # pragma: no cover
    seen: Array, row: int, radius: float, bounds: Array, box: Array
) -> bool:
    """Whether what the lens shows of a ball cannot widen a box of tangents.

    |x / z - (x + a) / (z + c)| <= radius |(x, z)| / (z (z - radius)) for all |(a, c)| <= radius.
    """
    z = seen[row, 2]
    if z <= radius:
        return False
    for k in range(2):
        x = seen[row, k]
        away = radius * math.sqrt(x * x + z * z) / (z * (z - radius))
        if max(x / z - away, bounds[k] + SAME) < box[k]:
            return False
        if min(x / z + away, bounds[2 + k] - SAME) > box[2 + k]:
            return False
    return True


@njit(fastmath=FAST)
def _between(  # pragma: no cover
    seen: Array, corners: NDArray[np.int32], t: int, bounds: Array, box: Array
) -> bool:
    """Whether what the lens shows of a triangle of (5, v), in front of it, cannot widen a box."""
    p, q, r = corners[t, 0], corners[t, 1], corners[t, 2]
    if min(seen[2, p], seen[2, q], seen[2, r]) < 1e-6:
        return False
    for k in range(2):
        low = min(seen[3 + k, p], seen[3 + k, q], seen[3 + k, r])
        high = max(seen[3 + k, p], seen[3 + k, q], seen[3 + k, r])
        if max(low, bounds[k] + SAME) < box[k] or min(high, bounds[2 + k] - SAME) > box[2 + k]:
            return False
    return True


@njit(fastmath=FAST)
def _grow_by_hull(  # noqa: PLR0917  # pragma: no cover
    points: Array,
    hull: Index,
    starts: Index,
    body: int,
    shots: Array,
    frame: int,
    planes: Array,
    asked: int,
    boxes: Array,
    i: int,
) -> None:
    """Widen a box by those points of a hull that the asked sides of the lens show."""
    seen = np.empty((1, 3))
    for h in range(starts[body, 2], starts[body + 1, 2]):
        _seen(points, starts[body, 0] + hull[h], shots, frame, seen, 0)
        if _outside(seen, 0, planes, asked) == 0:
            _grow(boxes, i, seen, 0)


@njit(fastmath=FAST)
def _grow_patch(  # noqa: PLR0917  # pragma: no cover
    columns: Array,
    corners: NDArray[np.int32],
    starts: Index,
    patch: int,
    shots: Array,
    frame: int,
    planes: Array,
    bounds: Array,
    sides: int,
    boxes: Array,
    i: int,
    room: tuple[Array, NDArray[np.int32], Array, Array],
) -> None:
    """Widen a box by a patch, of which some sides of the lens may cut a part off."""
    seen, bits, piece, spare = room
    first, count = starts[patch, 0], starts[patch + 1, 0] - starts[patch, 0]
    _seen_all(columns, first, count, shots, frame, seen)
    _outside_all(seen, count, planes, sides, bits)
    _grow_all(seen, count, bits, boxes, i)
    if sides == 0:
        return
    for t in range(starts[patch, 1], starts[patch + 1, 1]):
        p, q, r = bits[corners[t, 0]], bits[corners[t, 1]], bits[corners[t, 2]]
        if p | q | r != 0 and p & q & r == 0:
            if _between(seen, corners, t, bounds, boxes[i]):
                continue
            for c in range(3):
                for d in range(3):
                    piece[c, d] = seen[d, corners[t, c]]
            _clip(piece, spare, planes, p | q | r, boxes, i)


@njit(fastmath=FAST)
def _box_cut(  # noqa: PLR0917  # pragma: no cover
    columns: Array,
    corners: NDArray[np.int32],
    balls: Array,
    starts: Index,
    patches: tuple[int, int],
    shots: Array,
    frame: int,
    planes: Array,
    bounds: Array,
    asked: int,
    boxes: Array,
    i: int,
) -> None:
    """Widen a box by a surface that the asked sides of the lens may cut.

    First by the patches on the cut: most of the others cannot widen it any more.
    """
    ball = np.empty((1, 3))
    room = (
        np.empty((5, MOST)),
        np.empty(MOST, np.int32),
        np.empty((MAX_SIDES + 3, 3)),
        np.empty((MAX_SIDES + 3, 3)),
    )
    grown = 1 + STRETCH * math.sqrt(shots[frame, 12] ** 2 + shots[frame, 13] ** 2)
    for on_cut in (True, False):
        for patch in range(patches[0], patches[1]):
            _seen(balls, patch, shots, frame, ball, 0)
            radius = grown * balls[patch, 7]
            sides = _sides(ball, 0, radius, planes, asked)
            if sides < 0 or (sides > 0) != on_cut or _within(ball, 0, radius, bounds, boxes[i]):
                continue
            _grow_patch(
                columns, corners, starts, patch, shots, frame, planes, bounds, sides, boxes, i, room
            )


@njit(fastmath=FAST)
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


@njit(fastmath=FAST)
def _cutting(boxes: Array, i: int, planes: Array) -> int:  # pragma: no cover
    """Bits of the sides of the lens that cut a box of tangents; -1 where it is all outside."""
    corner, every, either, asked = np.empty((1, 3)), -1, 0, (1 << planes.shape[0]) - 1
    for c in range(4):
        corner[0, 0], corner[0, 1], corner[0, 2] = boxes[i, c & 2], boxes[i, 1 + 2 * (c & 1)], 1.0
        bits = _outside(corner, 0, planes, asked)
        every, either = every & bits, either | bits
    return -1 if every != 0 else either


@njit(fastmath=FAST)
def widen_boxes(  # noqa: PLR0917  # pragma: no cover
    points: Array,
    hull: Index,
    balls: Array,
    starts: Index,
    columns: Array,
    corners: NDArray[np.int32],
    patch_balls: Array,
    patch_starts: Index,
    frames: Index,
    which: Index,
    shots: Array,
    planes: Array,
    bounds: Array,
    boxes: Array,
) -> None:
    """Widen the empty box i of tangents (n, 4) to body which[i] in frame frames[i]."""
    seen, every = np.empty((1, 3)), (1 << planes.shape[0]) - 1
    for i in range(frames.shape[0]):
        frame, body = frames[i], which[i]
        _seen(balls, body, shots, frame, seen, 0)
        if _sides(seen, 0, balls[body, 7], planes, every) < 0:
            continue
        cut = every
        if _box_whole(points, hull, starts, body, shots, frame, boxes, i):
            cut = _cutting(boxes, i, planes)
        if cut != 0:
            boxes[i, 0], boxes[i, 1] = np.inf, np.inf
            boxes[i, 2], boxes[i, 3] = -np.inf, -np.inf
        if cut > 0:
            _grow_by_hull(points, hull, starts, body, shots, frame, planes, cut, boxes, i)
            patches = starts[body, 1], starts[body + 1, 1]
            _box_cut(
                columns,
                corners,
                patch_balls,
                patch_starts,
                patches,
                shots,
                frame,
                planes,
                bounds,
                cut,
                boxes,
                i,
            )
