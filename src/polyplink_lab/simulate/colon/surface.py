"""The surface of the colon and its polyps, as signed distances in units of about a lumen radius.

The colon is a tube along z with a centre line that bends in x and y, narrowed by haustral folds,
which the three taeniae interrupt. A polyp is a star-shaped lump around a point of the wall, joined
to it smoothly. Distances are bounds (never much above the true distance), as required for ray
marching: Hart, Sphere tracing, The Visual Computer 12 (1996).

The wall moves: a peristaltic wave widens and narrows the tube. Wall, folds, polyps and textures
are described at rest (material points); `to_world` moves them with the wave,

    world = line(z) + g * (material - line(z)),   g = 1 + wave * sin(wave_rate * z - phase),

with z unchanged and line(z) the centre line in x and y. `to_material` is its exact inverse.

`BatchSurface` is the surface in a batch of frames that show different polyps: every frame has as
many slots for polyps, and for calm places, as the largest number in a frame of the batch, and the
numbers of a frame are one row of a table. On a GPU distances are computed by torch; on a CPU they
are compiled, which takes a third of the time of torch's sixty passes over memory. A test ensures
that both are equal.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyplink.core.compiled import njit

Single = NDArray[np.float32]
Index = NDArray[np.int64]
CalmPlace = tuple[Tensor, Tensor, Tensor]  # cosine and sine of its direction, z; broadcast
# Share of the polyp in a slot, index of its maps, column and row of its map.
PolypPart = tuple[Tensor, Tensor, tuple[Tensor, Tensor]]

MM_PER_UNIT = 18.0  # an inflated colon is some 36 mm wide
RADIUS = 1.0
RIDGE_SQUARINGS = 3  # a fold is a cosine's half wave to the power of 2^3
UNEVEN = 0.9  # shift of the folds by the bends, radians, for uneven distances between folds
WALL_BOUND = 0.75  # true distance over radial distance, at least, because of folds and bends
LUMP_BOUND = 0.85  # the same for polyps
CALM_RADIUS = 1.4  # radius of a calm place, in which folds fade, units
CALM_DEPTH = 0.85  # share of their depth that folds lose in a calm place
MAP_EXTENT = 1.7  # edge of a polyp's map in stereographic coordinates: 119 degrees from its top
# Numbers of a polyp in a row: the matrix to its axes in units of its radii (9), the offset (3),
# radii (3), width of the joint, radius and length of the stalk, index of its maps.
ROW = 19
NO_STALK = (1e-3, 0.0)  # a point in the middle of the head, which does not affect the surface
AWAY = 1e4  # distance of the object in an empty slot, units
NOBODY = [0.0] * 11 + [AWAY] + [1.0] * 4 + [*NO_STALK, 0.0]  # a unit ball far away
NOWHERE = [1.0, 0.0, AWAY]
DIFFERENCE = 4e-3  # step of finite differences for slopes, units
BLOCK = 1024  # points per block, so that temporaries fit into the first-level cache
# Loops over a block are padded to a multiple of this many points. Otherwise the last points would
# be computed by the scalar end of a SIMD loop, which may round differently.
LANES = 64
# Only flags that keep the order of sums: fused products, and the absence of NaN.
FAST = {"contract", "nsz", "nnan"}

f32 = np.float32


@dataclass(frozen=True)
class Colon:
    """The tube of a patient; angles in radians, lengths in units.

    Attributes:
        bend: Amplitude of the centre line in x and y.
        bend_rate: Angular frequency of the bends along z.
        bend_phase: Phase of the bends.
        fold_rate: Angular frequency of the folds along z.
        fold_phase: Phase of the folds.
        fold_depth: Height of a fold into the lumen.
        fold_tilt: Tilt of a fold, as a phase across the lumen.
        corner_depth: Depth of the corners of the triangular lumen.
        corner_phase: Direction of the corners.
        wave: Amplitude of the peristaltic wave, as a share of the radius.
        wave_rate: Angular frequency of the wave along z.
        calm: Points (x, y, z) near the wall around which folds fade, so that no fold hides them.
            Only their z and their direction from the centre line matter.
    """

    bend: tuple[float, float]
    bend_rate: tuple[float, float]
    bend_phase: tuple[float, float]
    fold_rate: float
    fold_phase: float
    fold_depth: float
    fold_tilt: float
    corner_depth: float
    corner_phase: float
    wave: float = 0.0
    wave_rate: float = 0.0
    calm: tuple[tuple[float, float, float], ...] = ()


def draw_colon(rng: np.random.Generator) -> Colon:
    """Draw the tube of a patient."""
    phase = rng.uniform(0, 2 * math.pi, 4)
    return Colon(
        bend=(float(rng.uniform(0.6, 1.1)), float(rng.uniform(0.6, 1.1))),
        bend_rate=(float(rng.uniform(0.45, 0.65)), float(rng.uniform(0.5, 0.75))),
        bend_phase=(float(phase[0]), float(phase[1])),
        fold_rate=float(rng.uniform(4.2, 5.6)),
        fold_phase=float(phase[2]),
        fold_depth=float(rng.uniform(0.2, 0.3)),
        fold_tilt=float(rng.uniform(-0.8, 0.8)),
        corner_depth=float(rng.uniform(0.03, 0.08)),
        corner_phase=float(phase[3]),
    )


@dataclass(frozen=True)
class Lump:
    """The geometry of one polyp.

    Attributes:
        centre: (3,) centre, near the wall.
        axes: (3, 3) columns: two directions along the wall, then the direction into the lumen.
        radii: (3,) half sizes along the axes.
        blend: Width of the smooth joint with the wall.
        maps: (c, m, m) maps over the surface, in stereographic projection from the top; the first
            is the relative radius, the others describe the material.
        stalk: Radius and length of a stalk from the centre opposite to the third axis, units;
            length 0 for none. The stalk is part of the lump.
    """

    centre: Tensor
    axes: Tensor
    radii: Tensor
    blend: float
    maps: Tensor
    stalk: tuple[float, float] = (0.0, 0.0)


def centre_line(colon: Colon, z: Tensor) -> tuple[Tensor, Tensor]:
    """Centre line at z: x and y, in the shape of z."""
    x = colon.bend[0] * torch.sin(colon.bend_rate[0] * z + colon.bend_phase[0])
    y = colon.bend[1] * torch.sin(colon.bend_rate[1] * z + colon.bend_phase[1])
    return x, y


def at_rest(colon: Colon, points: Tensor, phase: Tensor | float) -> tuple[Tensor, ...]:
    """Undo the wave at points (3, ...); see the module.

    Returns:
        x and y of the centre line, x and y of the offset from it at rest, and the ratio of the
        tube's width to that at rest; each (...).
    """
    x, y, z = points
    line_x, line_y = centre_line(colon, z)
    wider = 1 + colon.wave * torch.sin(colon.wave_rate * z - phase)
    return line_x, line_y, (x - line_x) / wider, (y - line_y) / wider, wider


def to_material(colon: Colon, points: Tensor, phase: Tensor | float) -> Tensor:
    """Move world points (3, ...) to their positions at rest; phases broadcast."""
    line_x, line_y, x, y, _ = at_rest(colon, points, phase)
    return torch.stack([line_x + x, line_y + y, points[2].expand_as(x)])


def to_world(colon: Colon, points: Tensor, phase: Tensor | float) -> Tensor:
    """Move points (3, ...) at rest with the wave, the inverse of `to_material`."""
    x, y, z = points
    line_x, line_y, _, _, wider = at_rest(colon, points, phase)
    moved = [line_x + (x - line_x) * wider, line_y + (y - line_y) * wider, z.expand_as(wider)]
    return torch.stack(moved)


def calm_place(colon: Colon, place: tuple[float, float, float]) -> tuple[float, float, float]:
    """Cosine and sine of a calm place's direction from the centre line, and its z."""
    x, y, z = place
    x -= colon.bend[0] * math.sin(colon.bend_rate[0] * z + colon.bend_phase[0])
    y -= colon.bend[1] * math.sin(colon.bend_rate[1] * z + colon.bend_phase[1])
    radius = math.hypot(x, y)
    return x / radius, y / radius, z


def wall_radius(  # noqa: PLR0917
    colon: Colon,
    z: Tensor,
    middle: Tensor,
    c: Tensor,
    s: Tensor,
    calm: Sequence[CalmPlace] | None = None,
) -> Tensor:
    """Radius of the lumen at rest, in the broadcast shape of the tensors.

    Calm places multiply the folds' depth by 1 - CALM_DEPTH * max(0, 1 - d^2 / CALM_RADIUS^2)^2,
    bells of compact support, in which d^2 = (z - z0)^2 + |(c, s) - (c0, s0)|^2 is measured on a
    straight tube of radius 1.

    Args:
        colon: The tube.
        z: Position along the tube.
        middle: x of the centre line at z.
        c: Cosine of the direction from the centre line.
        s: Sine of this direction.
        calm: The calm places to consider; None for all of the tube.
    """
    squares = 4 * c.square()
    corner = (squares - 3) * c * math.cos(colon.corner_phase)  # cos(3a) = c (4 c^2 - 3)
    # sin(3a) = s (3 - 4 s^2) = s (4 c^2 - 1)
    corner = corner.sub((squares - 1) * s, alpha=math.sin(colon.corner_phase))
    phase = (colon.fold_rate * z + colon.fold_phase).add(middle, alpha=UNEVEN)
    ridge = 0.5 + 0.5 * torch.cos(phase.add(c, alpha=colon.fold_tilt))
    for _ in range(RIDGE_SQUARINGS):
        ridge = ridge.square()
    if calm is None:
        rows = [z.new_tensor(calm_place(colon, place)) for place in colon.calm]
        calm = [(row[0], row[1], row[2]) for row in rows]
    share: Tensor | float = 1.0
    for c0, s0, z0 in calm:
        apart = (z - z0).square().addcmul(c, -2 * c0).addcmul(s, -2 * s0)  # d^2 less 2
        bell = (apart * (-1 / CALM_RADIUS**2) + (1 - 2 / CALM_RADIUS**2)).clamp_min(0)
        share = (bell.square() * -CALM_DEPTH + 1) * share
    ridge = ridge * share
    return RADIUS + colon.corner_depth * corner - colon.fold_depth * ridge * (0.7 + 0.3 * corner)


def _wall(
    colon: Colon, points: Tensor, phase: Tensor | float, calm: Sequence[CalmPlace] | None = None
) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, Tensor], Tensor]:
    """Bound of the distance to the wall at rest; arguments as for `wall_distance`.

    Also returns the material points, cosine and sine of their direction from the centre line, and
    the ratio of the tube's width to that at rest.
    """
    line_x, line_y, x, y, wider = at_rest(colon, points, phase)
    square = (x * x).addcmul(y, y) + 1e-8
    inverse_radius = square.rsqrt()
    c, s = x * inverse_radius, y * inverse_radius
    radius = wall_radius(colon, points[2], line_x, c, s, calm)
    distance = radius.addcmul(square, inverse_radius, value=-1) * WALL_BOUND
    return distance, (line_x + x, line_y + y, points[2]), (c, s), wider


def wall_distance(colon: Colon, points: Tensor, phase: Tensor | float = 0.0) -> Tensor:
    """Bound of the distance to the wall, above 0 inside the lumen.

    Args:
        colon: The tube.
        points: (3, ...) world positions.
        phase: Phase of the peristaltic wave, radians; broadcasts with points[0].

    Returns:
        Distances (...).

    Example:
        >>> colon = draw_colon(np.random.default_rng(0))
        >>> wall_distance(colon, torch.zeros(3, 5)).shape
        torch.Size([5])
    """
    distance, _, _, wider = _wall(colon, points, phase)
    return distance * wider


def polyp_row(lump: Lump, texture: int = 0) -> list[float]:
    """The `ROW` numbers of a polyp; texture is the index of its maps."""
    radii = lump.radii.double().cpu()
    turn = lump.axes.double().cpu().T / radii[:, None]
    shift = -(turn @ lump.centre.double().cpu())
    numbers = [*turn.flatten().tolist(), *shift.tolist(), *radii.tolist(), lump.blend]
    return [*numbers, *(lump.stalk if lump.stalk[1] else NO_STALK), float(texture)]


def _length(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return (x * x).addcmul(y, y).addcmul(z, z).add(1e-12).sqrt()


def map_place(local: Sequence[Tensor], length: Tensor) -> tuple[Tensor, Tensor]:
    """Column and row (...) of a polyp's map, -1 to 1, in the direction of local points."""
    scale = ((length + local[2]).clamp_min(1e-3) * MAP_EXTENT).reciprocal()
    return local[0] * scale, local[1] * scale


def read_maps(stack: Tensor, texture: Tensor, place: tuple[Tensor, Tensor]) -> Tensor:
    """Read maps of polyps by bilinear interpolation: values (c, ...).

    Args:
        stack: (c, k * m, m) maps of k polyps, one below the other.
        texture: Index of the polyp; broadcasts with the places.
        place: Column and row (...), -1 to 1; beyond the border its value is repeated.
    """
    texels, last = stack.shape[2], max(stack.shape[1] - 1, 1)
    scale = (texels - 1) / last
    row = place[1].clamp(-1, 1) * scale + (texture * (2 * texels / last) + (scale - 1))
    grid = torch.stack([place[0].flatten(), row.flatten()])  # (2, n)
    values = functional.grid_sample(
        stack[None], grid.T[None, None], padding_mode="border", align_corners=True
    )
    return values[0, :, 0].view(-1, *place[0].shape)


def polyp_distance(
    row: Sequence[Tensor], stack: Tensor, points: Sequence[Tensor], *, stalked: bool
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Bound of the distance (...) to a polyp's surface, negative inside, and the place on its map.

    The head is an ellipsoid with a relative radius rho that depends on the direction; its bound is
    that of an ellipsoid, (|q| - rho) |q| / |q / radii| with q in units of the radii. A stalk is
    joined to it smoothly over the stalk's radius; the polyp stays star-shaped about its centre.

    Args:
        row: The numbers of the polyp, see `ROW`: of one polyp, or of the polyps in one slot of the
            frames of a batch.
        stack: (1, k * m, m) maps of the relative radius, see `read_maps`.
        points: x, y and z (...) of material points.
        stalked: Whether there may be a stalk.
    """
    x, y, z = points
    p, q, r = (
        row[9 + k].addcmul(row[3 * k], x).addcmul(row[3 * k + 1], y).addcmul(row[3 * k + 2], z)
        for k in range(3)
    )
    a, b, c, _, radius, reach, texture = row[12:]
    length = _length(p, q, r)
    place = map_place((p, q, r), length)
    rho = read_maps(stack, texture, place)[0]
    steep = _length(p * (1 / a), q * (1 / b), r * (1 / c))
    head = (length - rho) * (length * LUMP_BOUND) / steep
    if not stalked:
        return head, place
    beside = r * c
    beside = beside + (-beside).clamp_min(0).clamp(max=reach)
    stalk = LUMP_BOUND * (_length(p * a, q * b, beside) - radius)
    return join(stalk, head, radius)[0], place


def lump_distance(lump: Lump, points: Tensor) -> Tensor:
    """Bound of the distance (...) from material points (3, ...) to a polyp's surface."""
    row, stack = points.new_tensor(polyp_row(lump)).unbind(), lump.maps[:1].to(points.dtype)
    return polyp_distance(row, stack, points.unbind(), stalked=bool(lump.stalk[1]))[0]


def join(wall: Tensor, lump: Tensor, blend: Tensor | float) -> tuple[Tensor, Tensor]:
    """Smooth minimum of two distances, and the share of the lump in it (0 to 1).

    It is the quadratic polynomial of Quilez (iquilezles.org, "smooth minimum").
    """
    share = ((wall - lump) * (0.5 / blend) + 0.5).clamp(0, 1)
    return torch.lerp(wall, lump, share) + (share.square() - share) * blend, share


def slopes(
    distance: Callable[[Tensor], Tensor], points: Tensor, distance_here: Tensor, step: float
) -> Tensor:
    """Forward differences (3, ...) of a distance at points (3, ...): the slope times the step.

    Args:
        distance: The distance function.
        points: (3, ...) positions.
        distance_here: (...) distances at the points.
        step: Length of the step, units.
    """
    differences = torch.empty_like(points)
    for axis in range(3):
        moved = points.clone()
        moved[axis] += step
        differences[axis] = distance(moved) - distance_here
    return differences


@njit(error_model="numpy", fastmath=FAST, inline="always")
def _sine(x: np.float32) -> np.float32:  # pragma: no cover
    """sin(x) to 1e-6 by operations that can be vectorised, unlike a call of the C library."""
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
    """Distances as of `BatchSurface.plain`, computed by short loops over blocks of points.

    Args:
        points: (3, n).
        runs: Frame of each run of points (r,), and first points of the runs, with the end (r + 1,).
        table: (s, q) numbers of the frames, see `BatchSurface.table`.
        tube: Numbers of the tube, see `_tube`.
        sizes: Numbers of calm places and of polyps in a row.
        maps: (k * m, m) relative radii.
        out: (n,) output for distances.
        shares: (k, n) output for the polyps' shares; (0, n) for none.
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
            # A block of points, padded with zeros to whole lanes.
            for j in range(count):
                x[j], y[j] = points[0, start + j], points[1, start + j]
                z[j] = points[2, start + j]
            for j in range(count, lanes):
                x[j], y[j], z[j] = none, none, none
            # Undo the wave; height of the folds.
            for j in range(lanes):
                line_x = tube[0] * _sine(tube[1] * z[j] + tube[2])
                line_y = tube[3] * _sine(tube[4] * z[j] + tube[5])
                g = one + tube[6] * _sine(tube[7] * z[j] - row[0])
                dx, dy = (x[j] - line_x) / g, (y[j] - line_y) / g
                radius = math.sqrt(dx * dx + dy * dy + tiny)
                x[j], y[j], wider[j], d[j] = line_x + dx, line_y + dy, g, radius
                c[j], s[j] = dx / radius, dy / radius
                fold = tube[8] * z[j] + tube[9] + tube[10] * line_x + tube[11] * c[j]
                wave = half + half * _sine(fold + f32(0.5 * math.pi))
                for _ in range(RIDGE_SQUARINGS):
                    wave *= wave
                ridge[j] = wave
            # Folds fade around the calm places.
            for k in range(sizes[0]):
                c0, s0, z0 = row[1 + 3 * k], row[2 + 3 * k], row[3 + 3 * k]
                for j in range(lanes):
                    apart = (z[j] - z0) * (z[j] - z0) + two - two * (c0 * c[j] + s0 * s[j])
                    bell = max(one - apart * per_calm, none)
                    ridge[j] *= one - calm_depth * bell * bell
            # The wall of the tube, with its corners.
            for j in range(lanes):
                corner = c[j] * (four * c[j] * c[j] - three) * tube[12]
                corner -= s[j] * (three - four * s[j] * s[j]) * tube[13]
                depth = tube[15] * ridge[j] * (f32(0.7) + f32(0.3) * corner)
                d[j] = wall_bound * (one + tube[14] * corner - depth - d[j])
            # The polyps: each is blended with the surface so far.
            for k in range(sizes[1]):
                n = row[1 + 3 * sizes[0] + ROW * k : 1 + 3 * sizes[0] + ROW * (k + 1)]
                blend, above = n[15], f32(n[18] * m)
                # The point in the polyp's frame: place on its map, distance, head and stalk.
                for j in range(lanes):
                    p = n[0] * x[j] + n[1] * y[j] + n[2] * z[j] + n[9]
                    q = n[3] * x[j] + n[4] * y[j] + n[5] * z[j] + n[10]
                    r = n[6] * x[j] + n[7] * y[j] + n[8] * z[j] + n[11]
                    far = math.sqrt(p * p + q * q + r * r + small)
                    per = one / (max(far + r, f32(1e-3)) * f32(MAP_EXTENT))
                    # Texels; slightly less than the last, so that there is a next one.
                    u[j] = min(max((p * per + one) * half * top, none), top - f32(1e-3))
                    v[j] = min(max((q * per + one) * half * top, none), top - f32(1e-3))
                    length[j] = far
                    e, f, g = p / n[12], q / n[13], r / n[14]
                    scale[j] = lump_bound * far / math.sqrt(e * e + f * f + g * g + small)
                    e, f, g = p * n[12], q * n[13], r * n[14]
                    g += min(max(-g, none), n[17])
                    stalk[j] = lump_bound * (math.sqrt(e * e + f * f + g * g + small) - n[16])
                # Its relative radius, interpolated between four texels of its map.
                for j in range(lanes):
                    left, up = np.int32(u[j]), np.int32(v[j])
                    across, down = u[j] - f32(left), v[j] - f32(up)
                    at = (up + np.int32(above)) * np.int32(m) + left
                    high = texels[at] + (texels[at + 1] - texels[at]) * across
                    low = texels[at + m] + (texels[at + m + 1] - texels[at + m]) * across
                    length[j] -= high + (low - high) * down
                # Head and stalk joined smoothly, and then the polyp and the wall.
                for j in range(lanes):
                    head = length[j] * scale[j]
                    mix = min(max(half + half * (stalk[j] - head) / n[16], none), one)
                    head = stalk[j] + (head - stalk[j]) * mix - n[16] * mix * (one - mix)
                    mix = min(max(half + half * (d[j] - head) / blend, none), one)
                    d[j] += (head - d[j]) * mix - blend * mix * (one - mix)
                    share[j] = mix
                # The polyp's share of the surface there.
                if len(shares):
                    for j in range(count):
                        shares[k, start + j] = share[j]
            # Distances in the world, where the wave has widened the tube.
            for j in range(count):
                out[start + j] = d[j] * wider[j]


def _tube(colon: Colon) -> Single:
    """The numbers of a tube for `_distances`."""
    (ax, ay), (rx, ry), (px, py) = colon.bend, colon.bend_rate, colon.bend_phase
    folds = colon.fold_rate, colon.fold_phase, UNEVEN, colon.fold_tilt
    corner = math.cos(colon.corner_phase), math.sin(colon.corner_phase), colon.corner_depth
    wave = colon.wave, colon.wave_rate
    return np.array([ax, rx, px, ay, ry, py, *wave, *folds, *corner, colon.fold_depth], np.float32)


@dataclass(frozen=True)
class SurfaceSample:
    """Properties of the surface at points (s, n).

    Attributes:
        slope: (3, s, n) slope of the distance in the world, not normalised.
        shares: (s, n) share of the polyp in every slot.
        colours: (3, s, n) colour of the polyp in every slot.
        turn: Cosine and sine (s, n) of the direction from the centre line.
        material: (3, s, n) positions of the points at rest.
    """

    slope: Tensor
    shares: tuple[Tensor, ...]
    colours: tuple[Tensor, ...]
    turn: tuple[Tensor, Tensor]
    material: Tensor


def in_places(is_shown: NDArray[np.bool_]) -> Index:
    """Indices (s, k) of the True values in rows (s, n), ascending; rows are padded with n."""
    max_shown = int(is_shown.sum(1).max(initial=0))
    order = np.argsort(~is_shown, axis=1, kind="stable")[:, :max_shown]
    return np.where(np.take_along_axis(is_shown, order, 1), order, is_shown.shape[1])


def stack_maps(maps: Sequence[Tensor]) -> Tensor:
    """Stack maps (c, m, m) of polyps one below the other, for `surface.read_maps`."""
    return torch.cat(list(maps), 1).contiguous() if maps else torch.zeros(4, 2, 2)


class BatchSurface:
    """The surface in a batch of s frames.

    Args:
        colon: The tube.
        lumps: The n polyps of the procedure.
        stack: (c, n * m, m) maps of the polyps, see `stack_maps`: relative radius, linear RGB.
        visible: Polyps that a frame may show (s, n), and calm places that may be near (s, l);
            distant ones may be left out for speed.
        phases: (s,) phases of the peristaltic wave, radians.
    """

    def __init__(
        self,
        colon: Colon,
        lumps: Sequence[Lump],
        stack: Tensor,
        visible: tuple[NDArray[np.bool_], NDArray[np.bool_]],
        phases: NDArray[np.floating],
    ) -> None:
        rows = [polyp_row(lump, index) for index, lump in enumerate(lumps)]
        polyp_places, calm_places = (in_places(mask) for mask in visible)  # (s, k), (s, l)
        polyps = np.array([*rows, NOBODY])[polyp_places].reshape(len(polyp_places), -1)
        calm = np.array([*(calm_place(colon, p) for p in colon.calm), NOWHERE])[calm_places]
        table = np.column_stack([phases, calm.reshape(len(calm_places), -1), polyps])
        self.colon, self.stack = colon, stack
        self.sizes = calm_places.shape[1], polyp_places.shape[1]
        self.table = np.ascontiguousarray(table, np.float32)  # (s, q)
        self._columns = torch.from_numpy(self.table.T.copy()).to(stack.device, non_blocking=True)
        self._tube = _tube(colon)
        self._stalked = any(lump.stalk[1] > 0 for lump in lumps)
        self._radii = stack[:1].contiguous()

    def distance(self, points: Tensor, frame: Tensor) -> Tensor:
        """Bound of the distance to the surface: (s, n).

        Args:
            points: (3, s, n) world positions.
            frame: (s, 1) the frame of each row, ascending.
        """
        fast = points.device.type == "cpu"
        return self.fast(points, frame)[0] if fast else self.plain(points, frame)[0]

    def fast(
        self, points: Tensor, frame: Tensor, *, with_shares: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Compiled distances, as of `plain`, and the polyps' shares (k, ...), or none (0, ...)."""
        frame_of_row = frame[:, 0].numpy()
        first = np.flatnonzero(np.diff(frame_of_row, prepend=-1))
        starts = np.append(first, len(frame_of_row)) * points.shape[2]
        flat = np.ascontiguousarray(points.flatten(1).numpy())
        out = torch.empty(points.shape[1:])
        shares = torch.empty(self.sizes[1] if with_shares else 0, *points.shape[1:])
        texels, into = self._radii[0].numpy(), shares.view(len(shares), flat.shape[1]).numpy()
        numbers = self.table, self._tube, self.sizes, texels
        _distances(flat, (frame_of_row[first], starts), *numbers, out.view(-1).numpy(), into)
        return out, shares

    def plain(
        self, points: Tensor, frame: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, Tensor], list[PolypPart]]:
        """Distances by torch, material points, `SurfaceSample.turn`, and the polyp in each slot."""
        numbers = self._columns[:, frame].unbind()
        ends = 1 + 3 * self.sizes[0]
        calm = [(a, b, c) for a, b, c in zip(*[iter(numbers[1:ends])] * 3, strict=True)]
        distance, material, turn, wider = _wall(self.colon, points, numbers[0], calm)
        parts = []
        for first in range(ends, len(numbers), ROW):
            row = numbers[first : first + ROW]
            to_polyp, place = polyp_distance(row, self._radii, material, stalked=self._stalked)
            distance, share = join(distance, to_polyp, row[15])
            parts.append((share, row[18], place))
        return distance * wider, material, turn, parts

    def sample(self, points: Tensor, frame: Tensor) -> SurfaceSample:
        """Properties of the surface at points (3, s, n) of frames (s, 1)."""
        distance_here, material, turn, parts = self.plain(points, frame)
        return SurfaceSample(
            slope=slopes(
                lambda moved: self.distance(moved, frame), points, distance_here, DIFFERENCE
            ),
            shares=tuple(share for share, _, _ in parts),
            colours=tuple(read_maps(self.stack[1:], slot, place) for _, slot, place in parts),
            turn=turn,
            material=torch.stack(material),
        )
