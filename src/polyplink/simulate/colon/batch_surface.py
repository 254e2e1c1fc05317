"""The surface of a procedure in a batch of frames that show different polyps.

A frame has as many places for polyps, and for calm places, as the frame of the batch that shows
most of them. All numbers of a frame are one row of a table, so that rays need to carry nothing but
the index of their frame. On a CPU the distances of `surface` are compiled here: a third of the time
that torch takes for its sixty passes over memory. On a GPU they are those of `surface` itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.core.compiled import njit
from polyplink.simulate.colon.surface import (
    CALM_DEPTH,
    CALM_RADIUS,
    LUMP_BOUND,
    MAP_EXTENT,
    NO_STALK,
    RIDGE_SQUARINGS,
    ROW,
    UNEVEN,
    WALL_BOUND,
    Colon,
    Lump,
    Placed,
    at_rest,
    calm_place,
    join,
    polyp_distance,
    polyp_row,
    read_maps,
    slopes,
    wall_from,
)

Single = NDArray[np.float32]
Index = NDArray[np.int64]

AWAY = 1e4  # units from everything, where whatever fills an empty place is
NOBODY = [0.0] * 11 + [AWAY] + [1.0] * 4 + [*NO_STALK, 0.0]  # a unit ball far away
NOWHERE = [1.0, 0.0, AWAY]
DIFFERENCE = 4e-3  # units between the points that a slope is measured between
BLOCK = 1024  # points whose temporaries are held together, in a processor's first cache
# Loops over a block run over a multiple of this many points. None of them is left to the scalar
# end of a SIMD loop, which may round differently: a point's distance does not depend on its place.
LANES = 64
# Allowed is what keeps the order of sums: fused products, and that there is no NaN.
FAST = {"contract", "nsz", "nnan"}

f32 = np.float32


@njit(error_model="numpy", fastmath=FAST, inline="always")
def _sine(x: np.float32) -> np.float32:  # pragma: no cover
    """sin(x) to 1e-6, in steps that a SIMD loop can take, as a call of the C library cannot."""
    turn = x * f32(0.5 / math.pi)
    turn -= np.floor(turn + f32(0.5))  # -0.5 to 0.5 turns
    t = min(abs(turn), f32(0.5) - abs(turn))  # sin(pi - a) = sin(a)
    q = t * t
    # The Taylor series of sin(2 pi t), the last term fitted.
    y = f32(-76.70585975) + q * (f32(42.05869394) - f32(15.0) * q)
    y = t * (f32(6.2831853) + q * (f32(-41.341702) + q * (f32(81.605249) + q * y)))
    return f32(math.copysign(y, turn))


@njit(error_model="numpy", fastmath=FAST)
def _distances(  # noqa: PLR0912, PLR0915, PLR0917  # pragma: no cover
    points: Single,
    runs: tuple[Index, Index],
    table: Single,
    tube: Single,
    sizes: tuple[int, int],
    maps: Single,
    out: Single,
    shares: Single,
) -> None:
    """Distances of `BatchSurface.plain`, one short loop over a block of points after another.

    Args:
        points: (3, n).
        runs: The frame of each run of points (r,), and where the runs begin and end (r + 1,).
        table: (s, q) as `BatchSurface.table`.
        tube: As `_tube` gives it.
        sizes: Calm places and polyps of a row.
        maps: (k * m, m) relative radii.
        out: (n,) where distances go.
        shares: (k, n) where the polyps' shares go; (0, n) for nowhere.
    """
    half, one, two, three, four = f32(0.5), f32(1), f32(2), f32(3), f32(4)
    none, tiny, small = f32(0), f32(1e-8), f32(1e-12)
    per_calm, calm_depth = f32(1 / CALM_RADIUS**2), f32(CALM_DEPTH)
    wall_bound, lump_bound = f32(WALL_BOUND), f32(LUMP_BOUND)
    x, y, z = np.empty(BLOCK, f32), np.empty(BLOCK, f32), np.empty(BLOCK, f32)
    c, s, wider = np.empty(BLOCK, f32), np.empty(BLOCK, f32), np.empty(BLOCK, f32)
    ridge, d, share = np.empty(BLOCK, f32), np.empty(BLOCK, f32), np.empty(BLOCK, f32)
    length, scale, stalk = np.empty(BLOCK, f32), np.empty(BLOCK, f32), np.empty(BLOCK, f32)
    u, v = np.empty(BLOCK, f32), np.empty(BLOCK, f32)
    m, texels = maps.shape[1], maps.ravel()
    top = f32(m - 1)
    frames, starts = runs
    for run in range(len(frames)):
        row = table[frames[run]]
        for start in range(starts[run], starts[run + 1], BLOCK):
            count = min(BLOCK, starts[run + 1] - start)
            lanes = (count + LANES - 1) // LANES * LANES
            for j in range(count):
                x[j], y[j] = points[0, start + j], points[1, start + j]
                z[j] = points[2, start + j]
            for j in range(count, lanes):
                x[j], y[j], z[j] = none, none, none
            # The wave undone, and the folds.
            for j in range(lanes):
                line_x = tube[0] * _sine(tube[1] * z[j] + tube[2])
                line_y = tube[3] * _sine(tube[4] * z[j] + tube[5])
                g = one + tube[6] * _sine(tube[7] * z[j] - row[0])
                dx, dy = (x[j] - line_x) / g, (y[j] - line_y) / g
                away = math.sqrt(dx * dx + dy * dy + tiny)
                x[j], y[j], wider[j], d[j] = line_x + dx, line_y + dy, g, away
                c[j], s[j] = dx / away, dy / away
                fold = tube[8] * z[j] + tube[9] + tube[10] * line_x + tube[11] * c[j]
                wave = half + half * _sine(fold + f32(0.5 * math.pi))
                for _ in range(RIDGE_SQUARINGS):
                    wave *= wave
                ridge[j] = wave
            for k in range(sizes[0]):
                c0, s0, z0 = row[1 + 3 * k], row[2 + 3 * k], row[3 + 3 * k]
                for j in range(lanes):
                    apart = (z[j] - z0) * (z[j] - z0) + two - two * (c0 * c[j] + s0 * s[j])
                    bell = max(one - apart * per_calm, none)
                    ridge[j] *= one - calm_depth * bell * bell
            for j in range(lanes):
                corner = c[j] * (four * c[j] * c[j] - three) * tube[12]
                corner -= s[j] * (three - four * s[j] * s[j]) * tube[13]
                depth = tube[15] * ridge[j] * (f32(0.7) + f32(0.3) * corner)
                d[j] = wall_bound * (one + tube[14] * corner - depth - d[j])
            for k in range(sizes[1]):
                n = row[1 + 3 * sizes[0] + ROW * k : 1 + 3 * sizes[0] + ROW * (k + 1)]
                blend, above = n[15], f32(n[18] * m)
                for j in range(lanes):
                    p = n[0] * x[j] + n[1] * y[j] + n[2] * z[j] + n[9]
                    q = n[3] * x[j] + n[4] * y[j] + n[5] * z[j] + n[10]
                    r = n[6] * x[j] + n[7] * y[j] + n[8] * z[j] + n[11]
                    far = math.sqrt(p * p + q * q + r * r + small)
                    per = one / (max(far + r, f32(1e-3)) * f32(MAP_EXTENT))
                    # Texels; a little less than the last, so that there is one more beside it.
                    u[j] = min(max((p * per + one) * half * top, none), top - f32(1e-3))
                    v[j] = min(max((q * per + one) * half * top, none), top - f32(1e-3))
                    length[j] = far
                    e, f, g = p / n[12], q / n[13], r / n[14]
                    scale[j] = lump_bound * far / math.sqrt(e * e + f * f + g * g + small)
                    e, f, g = p * n[12], q * n[13], r * n[14]
                    g += min(max(-g, none), n[17])
                    stalk[j] = lump_bound * (math.sqrt(e * e + f * f + g * g + small) - n[16])
                for j in range(lanes):
                    left, up = np.int32(u[j]), np.int32(v[j])
                    across, down = u[j] - f32(left), v[j] - f32(up)
                    at = (up + np.int32(above)) * np.int32(m) + left
                    high = texels[at] + (texels[at + 1] - texels[at]) * across
                    low = texels[at + m] + (texels[at + m + 1] - texels[at + m]) * across
                    length[j] -= high + (low - high) * down
                for j in range(lanes):
                    head = length[j] * scale[j]
                    mix = min(max(half + half * (stalk[j] - head) / n[16], none), one)
                    head = stalk[j] + (head - stalk[j]) * mix - n[16] * mix * (one - mix)
                    mix = min(max(half + half * (d[j] - head) / blend, none), one)
                    d[j] += (head - d[j]) * mix - blend * mix * (one - mix)
                    share[j] = mix
                if len(shares):
                    shares[k, start : start + count] = share[:count]
            for j in range(count):
                out[start + j] = d[j] * wider[j]


def _tube(colon: Colon) -> Single:
    """The numbers of a tube as `_distances` reads them."""
    (ax, ay), (rx, ry), (px, py) = colon.bend, colon.bend_rate, colon.bend_phase
    folds = colon.fold_rate, colon.fold_phase, UNEVEN, colon.fold_tilt
    corner = math.cos(colon.corner_phase), math.sin(colon.corner_phase), colon.corner_depth
    wave = colon.wave, colon.wave_rate
    return np.array([ax, rx, px, ay, ry, py, *wave, *folds, *corner, colon.fold_depth], np.float32)


@dataclass(frozen=True)
class Touch:
    """Points (s, n) at or near the surface, and what is there.

    Attributes:
        slope: (3, s, n) of the distance in the world, in no particular unit.
        shares: (s, n) of the polyp in every place.
        colours: (3, s, n) own colour of the polyp in every place.
        turn: Cosine and sine (s, n) of the direction from the centre line.
        material: (3, s, n) where the points are when the tube is at rest.
    """

    slope: Tensor
    shares: tuple[Tensor, ...]
    colours: tuple[Tensor, ...]
    turn: tuple[Tensor, Tensor]
    material: Tensor


def in_places(shown: NDArray[np.bool_]) -> Index:
    """Indices (s, k) of what is True in rows (s, n), ascending; n fills what is left of a row."""
    most = int(shown.sum(1).max(initial=0))
    which = np.argsort(~shown, axis=1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(shown, which, 1), which, shown.shape[1])


def stack_maps(maps: Sequence[Tensor]) -> Tensor:
    """Maps (c, m, m) of polyps one below the other, as `surface.read_maps` reads them."""
    return torch.cat(list(maps), 1).contiguous() if maps else torch.zeros(4, 2, 2)


class BatchSurface:
    """The surface in a batch of s frames.

    Args:
        colon: The tube.
        lumps: The n polyps of the procedure.
        stack: (c, n * m, m) their maps, see `stack_maps`: relative radius, linear RGB.
        shown: (s, n) which polyps a frame may show, and (s, l) which of the tube's calm places
            may be near; what is far away may be left out, for speed.
        phases: (s,) of the peristaltic wave, radians.
    """

    def __init__(
        self,
        colon: Colon,
        lumps: Sequence[Lump],
        stack: Tensor,
        shown: tuple[NDArray[np.bool_], NDArray[np.bool_]],
        phases: NDArray[np.floating],
    ) -> None:
        rows = [polyp_row(lump, index) for index, lump in enumerate(lumps)]
        who, where = (in_places(some) for some in shown)  # (s, k), (s, l)
        polyps = np.array([*rows, NOBODY])[who].reshape(len(who), -1)
        calm = np.array([*(calm_place(colon, p) for p in colon.calm), NOWHERE])[where]
        table = np.column_stack([phases, calm.reshape(len(where), -1), polyps])
        self.colon, self.stack = colon, stack
        self.sizes = where.shape[1], who.shape[1]
        self.table = np.ascontiguousarray(table, np.float32)  # (s, q)
        self._columns = torch.from_numpy(self.table.T.copy()).to(stack.device, non_blocking=True)
        self._tube = _tube(colon)
        self._stalked = any(lump.stalk[1] > 0 for lump in lumps)
        self._radii = stack[:1].contiguous()

    def distance(self, points: Tensor, frame: Tensor) -> Tensor:
        """Bound of the distance to the surface: (s, n) or (m,).

        Args:
            points: (3, s, n) or (3, m) world positions.
            frame: (s, 1) or (m,) the frame of each, ascending.
        """
        if points.device.type == "cpu":
            return self.fast(points, frame)[0]
        return self._joined(points, frame)[0]

    def fast(
        self, points: Tensor, frame: Tensor, *, with_shares: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Compiled distances, as `plain`; and the polyps' shares (k, ...), or none (0, ...)."""
        if frame.ndim == 2:
            frames = frame[:, 0].numpy()
            starts = np.arange(len(frames) + 1) * points.shape[2]
        else:
            of = frame.numpy()
            first = np.flatnonzero(np.diff(of, prepend=-1))
            frames, starts = of[first], np.append(first, len(of))
        flat = np.ascontiguousarray(points.flatten(1).numpy())
        out = torch.empty(points.shape[1:])
        shares = torch.empty(self.sizes[1] if with_shares else 0, *points.shape[1:])
        _distances(
            flat,
            (frames, starts),
            self.table,
            self._tube,
            self.sizes,
            self._radii[0].numpy(),
            out.view(-1).numpy(),
            shares.view(len(shares), flat.shape[1]).numpy(),
        )
        return out, shares

    def plain(self, points: Tensor, frame: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Distances and shares by `surface` alone."""
        distance, _, _, parts = self._joined(points, frame)
        return distance, tuple(share for share, _, _ in parts)

    def _joined(
        self, points: Tensor, frame: Tensor
    ) -> tuple[
        Tensor,
        tuple[Tensor, ...],
        tuple[Tensor, Tensor],
        list[tuple[Tensor, Placed, tuple[Tensor, Tensor]]],
    ]:
        """Distances, material points, `Touch.turn`; share, numbers and map place of every polyp."""
        numbers, z = self._columns[:, frame].unbind(), points[2]
        ends = 1 + 3 * self.sizes[0]
        calm = [(a, b, c) for a, b, c in zip(*[iter(numbers[1:ends])] * 3, strict=True)]
        line_x, line_y, x, y, wider = at_rest(self.colon, points, numbers[0])
        distance, c, s = wall_from(self.colon, z, line_x, (x, y), calm)
        rest, parts = (line_x + x, line_y + y, z), []
        for first in range(ends, len(numbers), ROW):
            polyp = Placed.of(numbers[first : first + ROW])
            local = polyp.local(*rest)
            away, place = polyp_distance(polyp, self._radii, local, stalked=self._stalked)
            distance, share = join(distance, away, polyp.blend)
            parts.append((share, polyp, place))
        return distance * wider, rest, (c, s), parts

    def touch(self, points: Tensor, frame: Tensor) -> Touch:
        """What is at points (3, s, n) of the surface, of frames (s, 1)."""
        here, rest, turn, parts = self._joined(points, frame)
        return Touch(
            slope=slopes(lambda moved: self.distance(moved, frame), points, here, DIFFERENCE),
            shares=tuple(share for share, _, _ in parts),
            colours=tuple(read_maps(self.stack[1:], p.texture, place) for _, p, place in parts),
            turn=turn,
            material=torch.stack(rest),
        )
