"""The scene of `scene` made ready for a renderer: fewer passes over memory, and exact slopes.

`Field.distance` is `scene.surface` written for speed. `Field.touch` gives what a pixel needs of
the point where its ray ends, in one pass: distance, slope (so that normals take no further
distances), shares, places to read textures at and the polyps' own colours.

All pixels of s frames are (s, n); a frame's phase is (s, 1). Every operation is elementwise and
in one order, so that a pixel's value does not depend on what is computed beside it.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from polyplink.simulate.colon.surface import (
    CALM_DEPTH,
    CALM_RADIUS,
    LUMP_BOUND,
    MAP_EXTENT,
    RADIUS,
    RIDGE_SQUARINGS,
    UNEVEN,
    WALL_BOUND,
    Colon,
    centre_line,
    join,
)
from polyplink.simulate.picture.body import Body, Number, Shape
from polyplink.simulate.picture.numbers import Numbers, OwnNumbers

Vector = tuple[Tensor, Tensor, Tensor]
Place = tuple[Number, Number, Number]


class Scene(Protocol):
    """What rays are marched through; states are the wave's phases, or what else it wants."""

    def distance(self, points: Tensor, states: Tensor, /) -> Tensor:
        """As `Field.distance`."""

    def touch(self, points: Tensor, states: Tensor, /) -> "Touch":
        """As `Field.touch`."""


def _plus(total: Tensor, part: Tensor, factor: Number) -> Tensor:
    """Add a part, `factor` times, in place."""
    if isinstance(factor, Tensor):
        return total.addcmul_(part, factor)
    return total.add_(part, alpha=factor)


def _turned(row: Place, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return _plus(_plus(torch.mul(x, row[0]), y, row[1]), z, row[2])


def _into(body: Shape, x: Tensor, y: Tensor, z: Tensor) -> Vector:
    """Positions in a lump's own axes, in units."""
    u, v, w = (
        _turned(row, x, y, z).add_(offset)
        for row, offset in zip(body.rows, body.offset, strict=True)
    )
    return u, v, w


def _length(u: Tensor, v: Tensor, w: Tensor) -> Tensor:
    return (u * u).addcmul_(v, v).addcmul_(w, w).add_(1e-12).sqrt_()


@dataclass(frozen=True)
class _Head:
    """Where points lie about a lump's head."""

    q: Vector  # in units of its radii
    length: Tensor
    scale: Tensor  # of a distance in units of the radii
    a: Tensor  # stereographic place
    b: Tensor
    inverse: Tensor  # 1 / (length + height), of which a and b are made


def _about(body: Shape, local: Vector) -> _Head:
    p, q, r = (u / radius for u, radius in zip(local, body.radii, strict=True))
    length = _length(p, q, r)
    a, b, c = body.radii
    scale = length / _length(p / a, q / b, r / c)
    inverse = (length + r).clamp_min_(1e-3).reciprocal_()
    return _Head((p, q, r), length, scale.mul_(LUMP_BOUND), p * inverse, q * inverse, inverse)


def _in_tile(body: Shape, row: Tensor) -> Tensor:
    """Rows of places in a body's own maps, -1 to 1, in those that hold them."""
    if body.tile is None:
        return row
    scale, shift = body.tile
    return row.clamp(-1, 1).mul_(scale).add_(shift)


def _read(body: Shape, head: _Head) -> Tensor:
    """A body's maps at the points' places: (c, s, n)."""
    a, b = head.a / MAP_EXTENT, head.b / MAP_EXTENT
    grid = torch.stack([a.reshape(-1), _in_tile(body, b).reshape(-1)])  # (2, s * n)
    values = functional.grid_sample(
        body.maps, grid.T[None, None], mode="bilinear", padding_mode="border", align_corners=True
    )
    return values[0, :, 0].reshape(-1, *head.a.shape)


def _stalk(stalk: Place, local: Vector) -> tuple[Tensor, Vector]:
    """Distance to the stalk, and its slope in the lump's axes."""
    radius, reach, _ = stalk
    u, v, w = local
    beside = w + (-w).clamp_min(0).clamp_max(reach)
    length = _length(u, v, beside)
    return LUMP_BOUND * (length - radius), (
        LUMP_BOUND * u / length,
        LUMP_BOUND * v / length,
        LUMP_BOUND * beside / length,
    )


@dataclass(frozen=True)
class Touch:
    """Points near the surface.

    Attributes:
        distance: (s, n) bound of the distance.
        slope: Its gradient in the world, three times (s, n).
        shares: (s, n) of every polyp in the surface.
        paints: (3, s, n) own colour of every polyp.
        turn: Cosine and sine (s, n) of the direction from the centre line.
        z: (s, n) along the tube.
        material: Where the points are when the tube is at rest, three times (s, n).
    """

    distance: Tensor
    slope: Vector
    shares: tuple[Tensor, ...]
    paints: tuple[Tensor, ...]
    turn: tuple[Tensor, Tensor]
    z: Tensor
    material: Vector


@dataclass(frozen=True)
class Field:
    """A scene: the tube, with only those calm places and polyps that matter."""

    colon: Colon
    bodies: tuple[Shape, ...] = ()
    given: Numbers | None = None  # None for the scene's own

    def near(self, bodies: Sequence[Body], calm: Sequence[tuple[float, float, float]]) -> "Field":
        """The same tube with some bodies and calm places alone."""
        return Field(replace(self.colon, calm=tuple(calm)), tuple(bodies))

    @functools.cached_property
    def numbers(self) -> Numbers:
        """The tube's and the bodies' numbers for `distance`."""
        bodies = [body for body in self.bodies if isinstance(body, Body)]
        return self.given or Numbers.of(self.colon, bodies)

    def distance(self, points: Tensor, phase: Tensor) -> Tensor:
        """Bound of the distance (s, n) of points (3, s, n); see `scene.surface`."""
        colon, by = self.colon, self.numbers
        x, y, z = points.unbind()
        middle_x, middle_y = (
            torch.mul(z, rate).add_(shift).sin_().mul_(bend) for rate, shift, bend in by.line
        )
        x, y = x - middle_x, y - middle_y
        if colon.wave:
            wider = torch.mul(z, by.wave_rate).sub_(phase).sin_().mul_(by.wave).add_(by.one)
            x, y = x.div_(wider), y.div_(wider)
        square = (x * x).addcmul_(y, y).add_(by.tiny)
        per_r = square.rsqrt()
        radius = _radius(colon, by, z, middle_x, (x * per_r, y * per_r))
        distance = radius.addcmul_(square, per_r, value=-1).mul_(by.bound)
        if self.bodies:
            place = (x.add_(middle_x), y.add_(middle_y), z)
        for body, own in zip(self.bodies, by.bodies, strict=True):
            away = _away(body, own, place)
            share = distance.sub(away).mul_(own.per_blend).add_(by.half).clamp_(0, 1)
            distance = torch.lerp(distance, away, share)
            _plus(distance, share.square().sub_(share), body.blend)
        return distance.mul_(wider) if colon.wave else distance

    def touch(self, points: Tensor, phase: Tensor) -> Touch:
        """All that is to know of points (3, s, n) near the surface."""
        colon = self.colon
        _, _, z = points
        line = centre_line(colon, z)
        lean = _lean(colon, z)
        x, y = points[0] - line[0], points[1] - line[1]
        if colon.wave:
            turn = _wave(colon, z, phase)
            wider = 1 + colon.wave * turn.sin()
            widens = turn.cos_().mul_(colon.wave * colon.wave_rate)
            x, y = x / wider, y / wider
        calm = self.numbers.calm
        wall, slope, c, s = _wall(colon, calm, z, (x, y), (line[0], *lean))
        place = (x + line[0], y + line[1], z)
        distance, shares, paints = wall, [], []
        for body in self.bodies:
            away, steep, paint = _polyp(body, place)
            distance, share = join(distance, away, body.blend)
            slope = _mix(slope, steep, share)
            shares.append(share)
            paints.append(paint)
        if colon.wave:
            # world = line + wider * offset: slopes across stay, the one along it gains terms.
            u, v, w = slope
            w = w * wider + u * (lean[0] * (wider - 1) - x * widens)
            w += v * (lean[1] * (wider - 1) - y * widens) + distance * widens
            slope, distance = (u, v, w), distance * wider
        return Touch(distance, slope, tuple(shares), tuple(paints), (c, s), z, place)


def _radius(
    colon: Colon, by: Numbers, z: Tensor, middle: Tensor, turn: tuple[Tensor, Tensor]
) -> Tensor:
    """`scene.wall_radius`, in place where it can be."""
    c, s = turn
    squares = c.square().mul_(by.four)
    corner = squares.sub(by.three).mul_(c).mul_(by.corner_cos)
    corner.sub_(squares.sub_(by.one).mul_(s), alpha=math.sin(colon.corner_phase))
    phase = torch.mul(z, by.fold_rate).add_(by.fold_phase)
    phase.add_(middle, alpha=UNEVEN).add_(c, alpha=colon.fold_tilt)
    ridge = phase.cos_().mul_(by.half).add_(by.half)
    for _ in range(RIDGE_SQUARINGS):
        ridge = ridge.square_()
    for (c0, s0, _), z0 in zip(by.calm, by.calm_z, strict=True):
        bell = _plus(_plus(z.sub(z0).square_(), c, -2 * c0), s, -2 * s0)
        bell = bell.mul_(by.calm_scale).add_(by.calm_shift).clamp_min_(0)
        ridge.mul_(bell.square_().mul_(by.calm_depth).add_(by.one))
    ridge.mul_(corner.mul(by.tall).add_(by.low))
    return corner.mul_(by.corner_depth).add_(by.one).sub_(ridge, alpha=colon.fold_depth)


def _away(body: Shape, own: OwnNumbers, place: Vector) -> Tensor:
    """Distance to one polyp, as `_polyp`, without anything else."""
    x, y, z = place
    p, q, r = (
        _turned(row, x, y, z).add_(offset) for row, offset in zip(own.rows, own.offset, strict=True)
    )
    length = (p * p).addcmul_(q, q).addcmul_(r, r).add_(own.tiny).sqrt_()
    a, b, c = own.steep
    steep = (p * a).square_().add_((q * b).square_()).add_((r * c).square_()).sqrt_()
    inverse = length.add(r).clamp_min_(1e-3).mul_(own.extent).reciprocal_()
    row = _in_tile(body, q * inverse)
    grid = torch.stack([(p * inverse).view(-1), row.view(-1)])  # (2, s * n)
    rho = torch.grid_sampler(body.radius, grid.T[None, None], 0, 1, True)
    away = length.sub(rho.view(length.shape)).mul_(length.div_(steep.add_(own.tiny)))
    if body.stalk is not None:
        stalk, _ = _stalk(body.stalk, _into(body, *place))
        away, _ = join(stalk, away, body.stalk[2])
    return away


def _wave(colon: Colon, z: Tensor, phase: Tensor) -> Tensor:
    return (colon.wave_rate * z).sub_(phase)


def _lean(colon: Colon, z: Tensor) -> tuple[Tensor, Tensor]:
    """How much the centre line goes to x and y a unit of z."""
    x, y = (
        amplitude * rate * torch.cos(rate * z + phase)
        for amplitude, rate, phase in zip(
            colon.bend, colon.bend_rate, colon.bend_phase, strict=True
        )
    )
    return x, y


def _mix(first: Vector, last: Vector, share: Tensor) -> Vector:
    u, v, w = (torch.lerp(a, b, share) for a, b in zip(first, last, strict=True))
    return u, v, w


def _calm(
    places: Sequence[Place], z: Tensor, c: Tensor, s: Tensor
) -> tuple[Tensor, Tensor, Tensor] | None:
    """`scene.fold_share` with its slopes around the tube and along it."""
    result: tuple[Tensor, Tensor, Tensor] | None = None
    for c0, s0, z0 in places:
        apart = (z - z0).square() + 2 - (2 * c0) * c - (2 * s0) * s
        bell = (1 - apart / CALM_RADIUS**2).clamp_min(0)
        share = 1 - CALM_DEPTH * bell * bell
        steep = (4 * CALM_DEPTH / CALM_RADIUS**2) * bell
        around, along = steep * (c0 * s - s0 * c), steep * (z - z0)
        if result is not None:
            other, other_around, other_along = result
            around = around * other + share * other_around
            along = along * other + share * other_along
            share = share * other
        result = share, around, along
    return result


def _wall(
    colon: Colon,
    places: Sequence[Place],
    z: Tensor,
    offset: tuple[Tensor, Tensor],
    line: tuple[Tensor, Tensor, Tensor],
) -> tuple[Tensor, Vector, Tensor, Tensor]:
    """Distance to the wall at rest and its slope; cosine and sine of the direction.

    Args:
        colon: The tube.
        places: Cosine, sine and z of its calm places.
        z: Along it.
        offset: From its centre line, in x and y.
        line: x of the centre line, and how much it leans, see `_lean`.
    """
    (x, y), (middle, *lean) = offset, line
    square = (x * x).addcmul_(y, y).add_(1e-8)
    per_r = square.rsqrt()
    c, s = x * per_r, y * per_r
    triple_c, triple_s = c * (4 * c * c - 3), s * (3 - 4 * s * s)
    cos, sin = math.cos(colon.corner_phase), math.sin(colon.corner_phase)
    corner = triple_c * cos - triple_s * sin
    corner_around = (triple_s * cos + triple_c * sin).mul_(-3)
    phase = colon.fold_rate * z + colon.fold_phase + UNEVEN * middle + colon.fold_tilt * c
    half = 0.5 + 0.5 * torch.cos(phase)
    fourth = half.square().square_()
    ridge = fourth * fourth
    steep = torch.sin(phase).mul_(-4).mul_(fourth).mul_(half).mul_(half).mul_(half)
    around = steep * s * -colon.fold_tilt
    along = steep * (colon.fold_rate + UNEVEN * lean[0])
    calm = _calm(places, z, c, s)
    if calm is not None:
        share, share_around, share_along = calm
        around, along = around * share + ridge * share_around, along * share + ridge * share_along
        ridge = ridge * share
    tall = 0.7 + 0.3 * corner
    radius = RADIUS + colon.corner_depth * corner - colon.fold_depth * ridge * tall
    distance = WALL_BOUND * (radius - square * per_r)
    radius_around = colon.corner_depth * corner_around - colon.fold_depth * (
        around * tall + 0.3 * ridge * corner_around
    )
    tilt = radius_around * per_r
    u, v = (c + tilt * s).mul_(-WALL_BOUND), (tilt * c - s).mul_(WALL_BOUND)
    w = (-WALL_BOUND * colon.fold_depth) * along * tall - lean[0] * u - lean[1] * v
    return distance, (u, v, w), c, s


def _polyp(body: Shape, place: Vector) -> tuple[Tensor, Vector, Tensor]:
    """Distance to one polyp, its slope in the world at rest, and its colour (3, s, n)."""
    local = _into(body, *place)
    head = _about(body, local)
    values = _read(body, head)
    rho, steep_a, steep_b = values[0], values[1] * head.inverse, values[2] * head.inverse
    distance = (head.length - rho) * head.scale
    # The radius is read at a = p / (length + r) and b = q / (length + r).
    drop = steep_a * head.a + steep_b * head.b
    outward = (1 + drop) / head.length
    p, q, r = head.q
    a, b, c = body.radii
    slope = (
        (p * outward - steep_a) * head.scale / a,
        (q * outward - steep_b) * head.scale / b,
        (r * outward + drop) * head.scale / c,
    )
    if body.stalk is not None:
        stalk, stalk_slope = _stalk(body.stalk, local)
        distance, share = join(stalk, distance, body.stalk[2])
        slope = _mix(stalk_slope, slope, share)
    columns = zip(*body.rows, strict=True)
    u, v, w = (_turned(column, *slope) for column in columns)
    return distance, (u, v, w), values[3:]
