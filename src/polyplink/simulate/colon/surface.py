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

CalmPlace = tuple[Tensor, Tensor, Tensor]  # cosine and sine of its direction, z; broadcast

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


def at_rest(colon: Colon, points: Tensor, phase: Tensor | float) -> tuple[Tensor, ...]:
    """Where points (3, ...) were before the wave moved them; see the module.

    Returns:
        x and y of the centre line, x and y of the offset from it at rest, and how much wider the
        tube is than at rest; each (...).
    """
    x, y, z = points
    line_x, line_y = centre_line(colon, z)
    wider = 1 + colon.wave * torch.sin(colon.wave_rate * z - phase)
    return line_x, line_y, (x - line_x) / wider, (y - line_y) / wider, wider


def to_material(colon: Colon, points: Tensor, phase: Tensor | float) -> Tensor:
    """Where points were before the wave moved them: (3, ...) to (3, ...); see the module.

    Args:
        colon: The tube.
        points: (3, ...) world positions.
        phase: Of the wave, radians; broadcasts with points[0].
    """
    line_x, line_y, x, y, _ = at_rest(colon, points, phase)
    return torch.stack([line_x + x, line_y + y, points[2].expand_as(x)])


def to_world(colon: Colon, points: Tensor, phase: Tensor | float) -> Tensor:
    """Where the wave moves points to: (3, ...) to (3, ...), the inverse of `to_material`."""
    x, y, z = points
    line_x, line_y, _, _, wider = at_rest(colon, points, phase)
    moved = [line_x + (x - line_x) * wider, line_y + (y - line_y) * wider, z.expand_as(wider)]
    return torch.stack(moved)


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
        apart = (z - z0).square().addcmul(c, -2 * c0).addcmul(s, -2 * s0)  # less 2
        bell = (apart * (-1 / CALM_RADIUS**2) + (1 - 2 / CALM_RADIUS**2)).clamp_min(0)
        one = bell.square() * -CALM_DEPTH + 1
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
    squares = 4 * c.square()
    corner = (squares - 3) * c * math.cos(colon.corner_phase)  # cos(3a) = c (4 c^2 - 3)
    # sin(3a) = s (3 - 4 s^2) = s (4 c^2 - 1)
    corner = corner.sub((squares - 1) * s, alpha=math.sin(colon.corner_phase))
    phase = (colon.fold_rate * z + colon.fold_phase).add(middle, alpha=UNEVEN)
    ridge = 0.5 + 0.5 * torch.cos(phase.add(c, alpha=colon.fold_tilt))
    for _ in range(RIDGE_SQUARINGS):
        ridge = ridge.square()
    places = calm
    if calm is None:
        rows = [z.new_tensor(calm_place(colon, place)) for place in colon.calm]
        places = [(row[0], row[1], row[2]) for row in rows]
    share = fold_share(places or (), z, c, s)
    if share is not None:
        ridge = ridge * share
    return RADIUS + colon.corner_depth * corner - colon.fold_depth * ridge * (0.7 + 0.3 * corner)


def wall_from(
    colon: Colon,
    z: Tensor,
    middle: Tensor,
    offset: tuple[Tensor, Tensor],
    calm: Sequence[CalmPlace] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Bound of the distance to the wall at rest; cosine and sine of the way from the centre line.

    Args:
        colon: The tube.
        z: (...) along it.
        middle: (...) x of the centre line.
        offset: x and y (...) from the centre line.
        calm: The calm places that count; None for all of the tube's.
    """
    x, y = offset
    square = (x * x).addcmul(y, y) + 1e-8
    per = square.rsqrt()
    c, s = x * per, y * per
    radius = wall_radius(colon, z, middle, c, s, calm)
    return radius.addcmul(square, per, value=-1) * WALL_BOUND, c, s


def wall_distance(colon: Colon, points: Tensor, phase: Tensor | float = 0.0) -> Tensor:
    """Bound of the distance to the wall, above 0 inside the lumen.

    Args:
        colon: The tube.
        points: (3, ...) world positions.
        phase: Of the peristaltic wave, radians; broadcasts with points[0].

    Returns:
        (...) distances.

    Example:
        >>> colon = draw_colon(np.random.default_rng(0))
        >>> wall_distance(colon, torch.zeros(3, 5)).shape
        torch.Size([5])
    """
    middle, _, x, y, wider = at_rest(colon, points, phase)
    return wall_from(colon, points[2], middle, (x, y))[0] * wider


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

    turn: tuple[Sequence[Tensor], ...]
    shift: Sequence[Tensor]
    radii: Sequence[Tensor]
    blend: Tensor
    stalk: Sequence[Tensor]
    texture: Tensor

    @classmethod
    def of(cls, row: Sequence[Tensor]) -> "Placed":
        """From numbers in the order of `polyp_row`."""
        turn = row[0:3], row[3:6], row[6:9]
        return cls(turn, row[9:12], row[12:15], row[15], row[16:18], row[18])

    def local(self, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        """Material points, each (...), in the polyp's own axes, in units of its radii."""
        rows = zip(self.turn, self.shift, strict=True)
        return tuple(shift.addcmul(a, x).addcmul(b, y).addcmul(c, z) for (a, b, c), shift in rows)


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


def map_place(local: Sequence[Tensor], length: Tensor) -> tuple[Tensor, Tensor]:
    """Column and row (...) of a polyp's map, -1 to 1, in the direction of points at a distance."""
    per = ((length + local[2]).clamp_min(1e-3) * MAP_EXTENT).reciprocal()
    return local[0] * per, local[1] * per


def read_maps(stack: Tensor, texture: Tensor, place: tuple[Tensor, Tensor]) -> Tensor:
    """Maps of polyps, bilinear; the border's value beyond the border.

    Args:
        stack: (c, k * m, m) the maps of k polyps, one below the other.
        texture: Which polyp's; broadcasts with the places.
        place: Column and row (...), -1 to 1.

    Returns:
        (c, ...) values.
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
    polyp: Placed, stack: Tensor, local: Sequence[Tensor], *, stalked: bool
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Bound of the distance (...) to a polyp's surface, below 0 inside; the place on its map.

    The head is an ellipsoid whose relative radius rho changes with direction; its bound is that of
    an ellipsoid, (|q| - rho) |q| / |q / radii| with q in units of the radii. A stalk is joined to
    it smoothly over its own radius; the polyp stays star-shaped about its centre.

    Args:
        polyp: Its numbers.
        stack: (1, k * m, m) maps of the relative radius, see `read_maps`.
        local: Points (...), see `Placed.local`.
        stalked: Whether there may be a stalk.
    """
    a, b, c = polyp.radii
    p, q, r = local
    length = _length(p, q, r)
    place = map_place(local, length)
    rho = read_maps(stack, polyp.texture, place)[0]
    steep = _length(p * (1 / a), q * (1 / b), r * (1 / c))
    head = (length - rho) * (length * LUMP_BOUND) / steep
    if not stalked:
        return head, place
    radius, reach = polyp.stalk
    z = r * c
    beside = z + (-z).clamp_min(0).clamp(max=reach)
    stalk = LUMP_BOUND * (_length(p * a, q * b, beside) - radius)
    return join(stalk, head, radius)[0], place


def lump_distance(lump: Lump, points: Tensor) -> Tensor:
    """Bound of the distance (...) from material points (3, ...) to a polyp's surface."""
    polyp = Placed.of(points.new_tensor(polyp_row(lump)).unbind())
    stack = lump.maps[:1].to(points.dtype)
    return polyp_distance(polyp, stack, polyp.local(*points), stalked=bool(lump.stalk[1]))[0]


def join(wall: Tensor, lump: Tensor, blend: Tensor | float) -> tuple[Tensor, Tensor]:
    """Smooth minimum of two distances, and the share of the lump in it (0 to 1).

    Quadratic polynomial of Quilez (iquilezles.org, "smooth minimum").
    """
    share = ((wall - lump) * (0.5 / blend) + 0.5).clamp(0, 1)
    return torch.lerp(wall, lump, share) + (share.square() - share) * blend, share


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
