"""The colon and its polyps as signed distances, in units of about one lumen radius.

The colon is a tube along z whose centre bends in x and y, narrowed by haustral folds that the
three taeniae interrupt. A polyp is a star-shaped lump around a point of the wall, joined to it
smoothly. Distances are bounds (never above the true distance by much), as ray marching needs:
Hart, Sphere tracing, The Visual Computer 12 (1996).

The wall moves: a peristaltic wave widens and narrows the tube. Wall, folds, polyps and textures
are described at rest (material points); `to_world` carries them along with the wave,

    world = line(z) + g * (material - line(z)),   g = 1 + wave * sin(wave_rate * z - phase),

with z unchanged and line(z) the centre line in x and y. `to_material` is its exact inverse.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

MM_PER_UNIT = 18.0  # an inflated colon is some 36 mm wide
RADIUS = 1.0
RIDGE_SQUARINGS = 3  # a fold is a cosine's half wave to the power of 2^3
UNEVEN = 0.9
WALL_BOUND = 0.75  # folds and bends make the plain radial distance up to this much too long
LUMP_BOUND = 0.85
CALM_RADIUS = 1.4  # units around a calm place within which folds fade
CALM_DEPTH = 0.85  # share of their depth that folds lose there
MAP_EXTENT = 1.7  # edge of a polyp's map in stereographic coordinates: 119 degrees from its top


@dataclass(frozen=True)
class Colon:
    """One patient's tube; angles in radians, lengths in units.

    Attributes:
        bend: Amplitude of the centre line in x and y.
        bend_rate: Angular frequency of the bends along z.
        bend_phase: Phase of the bends.
        fold_rate: Angular frequency of the folds along z.
        fold_phase: Phase of the folds.
        fold_depth: How far a fold stands into the lumen.
        fold_tilt: How much a fold leans, as a phase across the lumen.
        corner_depth: How triangular the lumen is.
        corner_phase: Where its corners are.
        wave: Amplitude of the peristaltic wave, as a share of the radius.
        wave_rate: Its angular frequency along z.
        calm: Points (x, y, z) near the wall around which folds fade, so that none stands before
            what is there. Only their z and their direction from the centre line count.
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
    """Draw one patient's tube."""
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
        centre: (3,) its centre, near the wall.
        axes: (3, 3) columns: two directions along the wall, then the way into the lumen.
        radii: (3,) half sizes along the axes.
        blend: Width of the smooth joint with the wall.
        maps: (c, m, m) maps over its surface, stereographic seen from its top; the first is the
            relative radius, the others belong to its material.
        stalk: Radius and length of a stalk from the centre against the third axis, units; length
            0 for none. It is part of the lump.
    """

    centre: Tensor
    axes: Tensor
    radii: Tensor
    blend: float
    maps: Tensor
    stalk: tuple[float, float] = (0.0, 0.0)

    def to(self, device: torch.device) -> "Lump":
        """The same lump on another device."""
        return Lump(
            self.centre.to(device),
            self.axes.to(device),
            self.radii.to(device),
            self.blend,
            self.maps.to(device),
            self.stalk,
        )


def centre_line(colon: Colon, z: Tensor) -> tuple[Tensor, Tensor]:
    """Where the middle of the lumen is at z, in x and y; same shape as z."""
    x = colon.bend[0] * torch.sin(colon.bend_rate[0] * z + colon.bend_phase[0])
    y = colon.bend[1] * torch.sin(colon.bend_rate[1] * z + colon.bend_phase[1])
    return x, y


def wave_factor(colon: Colon, z: Tensor, phase: Tensor | float) -> Tensor:
    """How much wider the tube is than at rest; shapes of z and phase broadcast."""
    return 1 + colon.wave * torch.sin(colon.wave_rate * z - phase)


def to_material(colon: Colon, points: Tensor, phase: Tensor | float) -> Tensor:
    """Where points were before the wave moved them: (3, ...) to (3, ...); see the module.

    Args:
        colon: The tube.
        points: (3, ...) world positions.
        phase: Of the wave, radians; broadcasts with points[0].
    """
    x, y = centre_line(colon, points[2])
    g = wave_factor(colon, points[2], phase)
    return torch.stack([x + (points[0] - x) / g, y + (points[1] - y) / g, points[2].expand_as(g)])


def to_world(colon: Colon, points: Tensor, phase: Tensor | float) -> Tensor:
    """Where the wave moves points to: (3, ...) to (3, ...), the inverse of `to_material`."""
    x, y = centre_line(colon, points[2])
    g = wave_factor(colon, points[2], phase)
    return torch.stack([x + (points[0] - x) * g, y + (points[1] - y) * g, points[2].expand_as(g)])


def calm_place(colon: Colon, place: tuple[float, float, float]) -> tuple[float, float, float]:
    """Cosine and sine of a calm place's direction from the centre line, and its z."""
    x, y, z = place
    x -= colon.bend[0] * math.sin(colon.bend_rate[0] * z + colon.bend_phase[0])
    y -= colon.bend[1] * math.sin(colon.bend_rate[1] * z + colon.bend_phase[1])
    away = math.hypot(x, y)
    return x / away, y / away, z


def fold_share(colon: Colon, z: Tensor, c: Tensor, s: Tensor) -> Tensor | None:
    """What the calm places leave of the folds' depth, 0 to 1; None where there is no such place.

    Each place leaves 1 - CALM_DEPTH * max(0, 1 - d^2 / CALM_RADIUS^2)^2, a bell of compact
    support, where d^2 = (z - z0)^2 + |(c, s) - (c0, s0)|^2 is measured on the tube of radius 1
    with its bends taken out; shares of several places multiply.
    """
    share = None
    for place in colon.calm:
        c0, s0, z0 = calm_place(colon, place)
        apart = (z - z0).square() + 2 - (2 * c0) * c - (2 * s0) * s
        bell = (1 - apart / CALM_RADIUS**2).clamp_min(0)
        one = 1 - CALM_DEPTH * bell * bell
        share = one if share is None else share * one
    return share


def wall_radius(colon: Colon, z: Tensor, middle: Tensor, c: Tensor, s: Tensor) -> Tensor:
    """Radius of the lumen at rest.

    Args:
        colon: The tube.
        z: Where along it.
        middle: x of the centre line there; its bends make the folds come at uneven distances.
        c: Cosine of the direction from the centre line.
        s: Its sine.

    Returns:
        The radius, in the shape of all arguments.
    """
    triple_c = c * (4 * c * c - 3)  # cos 3a
    triple_s = s * (3 - 4 * s * s)  # sin 3a
    corner = triple_c * math.cos(colon.corner_phase) - triple_s * math.sin(colon.corner_phase)
    phase = colon.fold_rate * z + colon.fold_phase + UNEVEN * middle + colon.fold_tilt * c
    ridge = 0.5 + 0.5 * torch.cos(phase)
    for _ in range(RIDGE_SQUARINGS):
        ridge = ridge * ridge
    share = fold_share(colon, z, c, s)
    if share is not None:
        ridge = ridge * share
    return RADIUS + colon.corner_depth * corner - colon.fold_depth * ridge * (0.7 + 0.3 * corner)


def wall_distance(colon: Colon, points: Tensor, phase: Tensor | float = 0.0) -> Tensor:
    """Bound of the distance to the wall, above 0 inside the lumen.

    Args:
        colon: The tube.
        points: (3, ...) world positions.
        phase: Of the peristaltic wave, radians; broadcasts with points[0].

    Returns:
        (...) distances.
    """
    if colon.wave:
        rest = wall_distance(_at_rest(colon), to_material(colon, points, phase))
        return rest * wave_factor(colon, points[2], phase)
    x, y, z = points
    middle_x, middle_y = centre_line(colon, z)
    x, y = x - middle_x, y - middle_y
    square = x * x + y * y + 1e-8
    per_r = torch.rsqrt(square)
    radius = wall_radius(colon, z, middle_x, x * per_r, y * per_r)
    distance: Tensor = WALL_BOUND * (radius - square * per_r)
    return distance


def _at_rest(colon: Colon) -> Colon:
    return replace(colon, wave=0.0)


def lengths(vectors: Tensor) -> Tensor:
    """Lengths (n,) of vectors (3, n); above 0. Far faster here than a norm over dimension 0."""
    square = vectors * vectors
    return (square[0] + square[1] + square[2] + 1e-12).sqrt()


def to_lump(lump: Lump, points: Tensor) -> Tensor:
    """Positions (3, n) in a lump's own frame, in units of its radii (3, n)."""
    turn = lump.axes.T / lump.radii[:, None]
    return torch.addmm(-(turn @ lump.centre)[:, None], turn, points)


def read_maps(maps: Tensor, local: Tensor, length: Tensor) -> Tensor:
    """Read a lump's maps in the direction of local positions.

    Args:
        maps: (c, m, m) maps, stereographic from the top, up to `MAP_EXTENT`.
        local: (3, n) positions in the lump's frame.
        length: (n,) their lengths.

    Returns:
        (c, n) values, bilinear; the border's value beyond the border.
    """
    place = local[:2] / ((length + local[2]).clamp_min(1e-3) * MAP_EXTENT)  # (2, n)
    grid = place.T[None, None]  # (1, 1, n, 2)
    values = functional.grid_sample(
        maps[None], grid, mode="bilinear", padding_mode="border", align_corners=True
    )
    return values[0, :, 0]


def lump_distance(lump: Lump, points: Tensor) -> Tensor:
    """Bound of the distance (n,) from positions (3, n) to a polyp's surface, below 0 inside.

    The lump is an ellipsoid whose relative radius changes with direction; its bound is that of
    an ellipsoid, (|q| - rho) |q| / |q / radii| with q in units of the radii. A stalk is joined to
    it smoothly over its own radius; the lump stays star-shaped about its centre.
    """
    local = to_lump(lump, points)
    length = lengths(local)
    steep = lengths(local / lump.radii[:, None])
    rho = read_maps(lump.maps[:1], local, length)[0]
    head = LUMP_BOUND * (length - rho) * length / steep
    return with_stalk(lump, local, head) if lump.stalk[1] else head


def with_stalk(lump: Lump, local: Tensor, head: Tensor) -> Tensor:
    """Distances (n,) to a head joined to its stalk, from positions (3, n) in the lump's frame."""
    radius, reach = lump.stalk
    x, y, z = local * lump.radii[:, None]  # units
    beside = z + (-z).clamp(0, reach)
    stalk = LUMP_BOUND * ((x * x + y * y + beside * beside + 1e-12).sqrt() - radius)
    return join(stalk, head, radius)[0]


def join(wall: Tensor, lump: Tensor, blend: float | Tensor) -> tuple[Tensor, Tensor]:
    """Smooth minimum of two distances, and the share of the lump in it (0 to 1).

    Quadratic polynomial of Quilez (iquilezles.org, "smooth minimum").
    """
    share = (0.5 + 0.5 * (wall - lump) / blend).clamp(0, 1)
    return torch.lerp(wall, lump, share) - blend * share * (1 - share), share


def surface(
    colon: Colon, lumps: Sequence[Lump], points: Tensor, phase: Tensor | float = 0.0
) -> tuple[Tensor, Tensor]:
    """Bound of the distance to the nearest surface, and which polyps it is made of.

    Args:
        colon: The tube.
        lumps: The k polyps.
        points: (3, n) world positions.
        phase: Of the peristaltic wave, radians; broadcasts with (n,).

    Returns:
        Distances (n,) and shares (k, n) from 0 (wall) to 1 (polyp).
    """
    if colon.wave:
        rest, share = surface(_at_rest(colon), lumps, to_material(colon, points, phase))
        return rest * wave_factor(colon, points[2], phase), share
    distance = wall_distance(colon, points)
    shares = []
    for lump in lumps:
        distance, share = join(distance, lump_distance(lump, points), lump.blend)
        shares.append(share)
    return distance, torch.stack(shares) if shares else points.new_zeros(0, points.shape[1])


def scene_distance(
    colon: Colon, lumps: Sequence[Lump], points: Tensor, phase: Tensor | float = 0.0
) -> Tensor:
    """The distances (n,) of `surface` alone."""
    return surface(colon, lumps, points, phase)[0]


def normals(
    colon: Colon,
    lumps: Sequence[Lump],
    points: Tensor,
    here: Tensor,
    step: float,
    *,
    phase: Tensor | float = 0.0,
) -> Tensor:
    """Unit normals (3, n) of the surface, into the lumen, by forward differences.

    Args:
        colon: The tube.
        lumps: The polyps.
        points: (3, n) positions near the surface.
        here: (n,) their distances.
        step: Length of a difference.
        phase: Of the peristaltic wave, radians; broadcasts with (n,).
    """
    slopes = torch.empty_like(points)
    for axis in range(3):
        moved = points.clone()
        moved[axis] += step
        slopes[axis] = scene_distance(colon, lumps, moved, phase) - here
    return slopes / lengths(slopes)
