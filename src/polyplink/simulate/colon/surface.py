"""The surface of the colon and its polyps, as signed distances in units of about a lumen radius.

The colon is a tube along z whose centre line bends in x and y, narrowed by haustral folds that the
three taeniae interrupt. A polyp is a star-shaped lump around a point of the wall, joined to it
smoothly. Distances are bounds (never above the true distance by much), as ray marching needs:
Hart, Sphere tracing, The Visual Computer 12 (1996).

The wall moves: a peristaltic wave widens and narrows the tube. Wall, folds, polyps and textures
are described at rest (material points); `to_world` carries them along with the wave,

    world = line(z) + g * (material - line(z)),   g = 1 + wave * sin(wave_rate * z - phase),

with z unchanged and line(z) the centre line in x and y. `to_material` is its exact inverse.

Here is the plain form, in torch, whose numbers may be those of one scene or of a batch of frames
that show different polyps; `batch_surface`
holds the same distances compiled for the CPU, and a test holds both equal.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

Number = float | Tensor
"""One value for all points, or a tensor that broadcasts with them."""
CalmPlace = tuple[Number, Number, Number]  # cosine and sine of its direction, z

MM_PER_UNIT = 18.0  # an inflated colon is some 36 mm wide
RADIUS = 1.0
RIDGE_SQUARINGS = 3  # a fold is a cosine's half wave to the power of 2^3
UNEVEN = 0.9  # radians that the bends shift the folds by, so that these come at uneven distances
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


def fold_share(places: Sequence[CalmPlace], z: Tensor, c: Tensor, s: Tensor) -> Tensor | None:
    """What calm places leave of the folds' depth, 0 to 1; None where there is no such place.

    Each place leaves 1 - CALM_DEPTH * max(0, 1 - d^2 / CALM_RADIUS^2)^2, a bell of compact
    support, where d^2 = (z - z0)^2 + |(c, s) - (c0, s0)|^2 is measured on the tube of radius 1
    with its bends taken out; shares of several places multiply.
    """
    share = None
    for c0, s0, z0 in places:
        apart = (z - z0).square() + 2 - (2 * c0) * c - (2 * s0) * s
        bell = (1 - apart / CALM_RADIUS**2).clamp_min(0)
        one = 1 - CALM_DEPTH * bell * bell
        share = one if share is None else share * one
    return share


def wall_radius(  # noqa: PLR0917
    colon: Colon,
    z: Tensor,
    middle: Tensor,
    c: Tensor,
    s: Tensor,
    calm: Sequence[CalmPlace] | None = None,
) -> Tensor:
    """Radius of the lumen at rest, in the broadcast shape of the tensors.

    Args:
        colon: The tube.
        z: Where along it.
        middle: x of the centre line there.
        c: Cosine of the direction from the centre line.
        s: Its sine.
        calm: The calm places that count; None for all of the tube's.
    """
    corner = c * (4 * c * c - 3) * math.cos(colon.corner_phase)  # cos(3a) = c (4 c^2 - 3)
    corner = corner - s * (3 - 4 * s * s) * math.sin(colon.corner_phase)  # sin(3a)
    phase = colon.fold_rate * z + colon.fold_phase + UNEVEN * middle + colon.fold_tilt * c
    ridge = 0.5 + 0.5 * torch.cos(phase)
    for _ in range(RIDGE_SQUARINGS):
        ridge = ridge * ridge
    places = [calm_place(colon, place) for place in colon.calm] if calm is None else calm
    share = fold_share(places, z, c, s)
    if share is not None:
        ridge = ridge * share
    return RADIUS + colon.corner_depth * corner - colon.fold_depth * ridge * (0.7 + 0.3 * corner)


def _offset(colon: Colon, points: Tensor) -> tuple[Tensor, ...]:
    """The centre line's x; distance, cosine and sine of the way from it; each (...)."""
    x, y, z = points
    middle_x, middle_y = centre_line(colon, z)
    x, y = x - middle_x, y - middle_y
    square = (x * x).addcmul(y, y) + 1e-8
    per_r = torch.rsqrt(square)
    return middle_x, square * per_r, x * per_r, y * per_r


def wall_distance(
    colon: Colon,
    points: Tensor,
    phase: Tensor | float = 0.0,
    calm: Sequence[CalmPlace] | None = None,
) -> Tensor:
    """Bound of the distance to the wall, above 0 inside the lumen.

    Args:
        colon: The tube.
        points: (3, ...) world positions.
        phase: Of the peristaltic wave, radians; broadcasts with points[0].
        calm: The calm places that count; None for all of the tube's.

    Returns:
        (...) distances.

    Example:
        >>> colon = draw_colon(np.random.default_rng(0))
        >>> wall_distance(colon, torch.zeros(3, 5)).shape
        torch.Size([5])
    """
    wider = wave_factor(colon, points[2], phase)
    middle, away, c, s = _offset(colon, to_material(colon, points, phase))
    radius = wall_radius(colon, points[2], middle, c, s, calm)
    return WALL_BOUND * (radius - away) * wider


class Placed(NamedTuple):
    """Numbers of one polyp, or of the polyps that the frames of a batch have in one place.

    Attributes:
        turn: Rows of the matrix into its own axes, in units of its radii.
        shift: What is added then.
        radii: Half sizes.
        blend: Width of the joint with the wall.
        stalk: Radius and length.
        texture: Index of its maps.
    """

    turn: tuple[Sequence[Number], ...]
    shift: Sequence[Number]
    radii: Sequence[Number]
    blend: Number
    stalk: Sequence[Number]
    texture: Number

    @classmethod
    def of(cls, row: Sequence[Number]) -> "Placed":
        """From numbers in the order of `polyp_row`."""
        turn = row[0:3], row[3:6], row[6:9]
        return cls(turn, row[9:12], row[12:15], row[15], row[16:18], row[18])

    def local(self, points: Tensor) -> Tensor:
        """Material points (3, ...) in the polyp's own axes, in units of its radii."""
        x, y, z = points
        rows = zip(self.turn, self.shift, strict=True)
        return torch.stack([a * x + b * y + c * z + shift for (a, b, c), shift in rows])


ROW = 19  # numbers of a polyp
NO_STALK = (1e-3, 0.0)  # a dot in the middle of the head, which changes nothing at the surface


def polyp_row(lump: Lump, texture: int = 0) -> list[float]:
    """The numbers of a polyp as `Placed.of` reads them."""
    radii = lump.radii.double().cpu()
    turn = lump.axes.double().cpu().T / radii[:, None]
    shift = -(turn @ lump.centre.double().cpu())
    numbers = [*turn.flatten().tolist(), *shift.tolist(), *radii.tolist(), lump.blend]
    return [*numbers, *(lump.stalk if lump.stalk[1] else NO_STALK), float(texture)]


def _length(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return (x * x).addcmul(y, y).addcmul(z, z).add(1e-12).sqrt()


def map_place(local: Tensor) -> tuple[Tensor, Tensor]:
    """Column and row (...) of a polyp's map, -1 to 1, in the direction of local points (3, ...)."""
    per = 1 / ((_length(*local) + local[2]).clamp_min(1e-3) * MAP_EXTENT)
    return local[0] * per, local[1] * per


def read_maps(stack: Tensor, texture: Number, place: tuple[Tensor, Tensor]) -> Tensor:
    """Maps of polyps, bilinear; the border's value beyond the border.

    Args:
        stack: (c, k * m, m) the maps of k polyps, one below the other.
        texture: Which polyp's; broadcasts with the places.
        place: Column and row (...), -1 to 1.

    Returns:
        (c, ...) values.
    """
    texels, last = stack.shape[2], max(stack.shape[1] - 1, 1)
    row = (place[1].clamp(-1, 1) + 1) * (0.5 * (texels - 1)) + texture * texels
    grid = torch.stack([place[0].flatten(), (row * (2 / last) - 1).flatten()])  # (2, n)
    values = functional.grid_sample(
        stack[None], grid.T[None, None], padding_mode="border", align_corners=True
    )
    return values[0, :, 0].view(-1, *place[0].shape)


def polyp_distance(
    polyp: Placed, stack: Tensor, local: Tensor, place: tuple[Tensor, Tensor], *, stalked: bool
) -> Tensor:
    """Bound of the distance (...) to a polyp's surface, below 0 inside.

    The head is an ellipsoid whose relative radius rho changes with direction; its bound is that of
    an ellipsoid, (|q| - rho) |q| / |q / radii| with q in units of the radii. A stalk is joined to
    it smoothly over its own radius; the polyp stays star-shaped about its centre.

    Args:
        polyp: Its numbers.
        stack: (1, k * m, m) maps of the relative radius, see `read_maps`.
        local: (3, ...) points, see `Placed.local`.
        place: Of the points on the map, see `map_place`.
        stalked: Whether there may be a stalk.
    """
    a, b, c = polyp.radii
    p, q, r = local
    length = _length(p, q, r)
    rho = read_maps(stack, polyp.texture, place)[0]
    head = LUMP_BOUND * (length - rho) * length / _length(p / a, q / b, r / c)
    if not stalked:
        return head
    radius, reach = polyp.stalk
    z = r * c
    beside = z + (-z).clamp_min(0).clamp(max=reach)
    stalk = LUMP_BOUND * (_length(p * a, q * b, beside) - radius)
    return join(stalk, head, radius)[0]


def lump_distance(lump: Lump, points: Tensor) -> Tensor:
    """Bound of the distance (...) from material points (3, ...) to a polyp's surface."""
    polyp = Placed.of(polyp_row(lump))
    local = polyp.local(points)
    stack = lump.maps[:1].to(points.dtype)
    return polyp_distance(polyp, stack, local, map_place(local), stalked=bool(lump.stalk[1]))


def join(wall: Tensor, lump: Tensor, blend: Number) -> tuple[Tensor, Tensor]:
    """Smooth minimum of two distances, and the share of the lump in it (0 to 1).

    Quadratic polynomial of Quilez (iquilezles.org, "smooth minimum").
    """
    share = (0.5 + 0.5 * (wall - lump) / blend).clamp(0, 1)
    return torch.lerp(wall, lump, share) - blend * share * (1 - share), share


def slopes(
    distance: Callable[[Tensor], Tensor], points: Tensor, here: Tensor, step: float
) -> Tensor:
    """Forward differences (3, ...) of a distance: its slope times the step.

    Args:
        distance: From points (3, ...) to distances (...).
        points: (3, ...) where.
        here: (...) the distances there.
        step: Length of a difference.
    """
    found = torch.empty_like(points)
    for axis in range(3):
        moved = points.clone()
        moved[axis] += step
        found[axis] = distance(moved) - here
    return found
