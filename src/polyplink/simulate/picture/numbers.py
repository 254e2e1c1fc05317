"""Numbers of a scene as tensors: a float among a call's arguments costs it twice its time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyplink.simulate.colon.surface import (
    CALM_DEPTH,
    CALM_RADIUS,
    LUMP_BOUND,
    MAP_EXTENT,
    RADIUS,
    WALL_BOUND,
    Colon,
    calm_place,
)
from polyplink.simulate.picture.body import Body

Number = Tensor  # without dimensions: a float would be made one in every call


def number(value: float) -> Number:
    """A number as a tensor."""
    return torch.tensor(value, dtype=torch.float32)


@dataclass(frozen=True)
class OwnNumbers:
    """A body's numbers: rows and offset in units of its radii, and what `_away` needs besides."""

    rows: tuple[tuple[Number, float | Tensor, float | Tensor], ...]
    offset: tuple[Number, ...]
    steep: tuple[Number, ...]
    per_blend: Number
    extent: Number
    tiny: Number

    @classmethod
    def of(cls, body: Body) -> "OwnNumbers":
        """Those of a body."""
        return cls(
            rows=tuple(
                (number(row[0] / radius), row[1] / radius, row[2] / radius)
                for row, radius in zip(body.rows, body.radii, strict=True)
            ),
            offset=tuple(number(o / r) for o, r in zip(body.offset, body.radii, strict=True)),
            steep=tuple(number(1 / (radius * LUMP_BOUND)) for radius in body.radii),
            per_blend=number(0.5 / body.blend),
            extent=number(MAP_EXTENT),
            tiny=number(1e-12),
        )


@dataclass(frozen=True)
class Numbers:
    """A tube's and its bodies' numbers."""

    line: tuple[tuple[Number, Number, Number], ...]
    wave: Number
    wave_rate: Number
    bound: Number
    corner_cos: Number
    corner_depth: Number
    fold_rate: Number
    fold_phase: Number
    calm: tuple[tuple[float | Tensor, float | Tensor, float | Tensor], ...]
    calm_z: tuple[Number, ...]
    bodies: tuple[OwnNumbers, ...]
    calm_scale: Number
    calm_shift: Number
    calm_depth: Number
    tiny: Number
    half: Number
    one: Number
    three: Number
    four: Number
    low: Number
    extent: Number
    smallest: Number
    tall: Number

    @classmethod
    def of(cls, colon: Colon, bodies: Sequence[Body]) -> "Numbers":
        """Those of a scene."""
        line = zip(colon.bend_rate, colon.bend_phase, colon.bend, strict=True)
        calm = tuple(calm_place(colon, place) for place in colon.calm)
        return cls(
            line=tuple((number(a), number(b), number(c)) for a, b, c in line),
            wave=number(colon.wave),
            wave_rate=number(colon.wave_rate),
            bound=number(WALL_BOUND),
            corner_cos=number(math.cos(colon.corner_phase)),
            corner_depth=number(colon.corner_depth),
            fold_rate=number(colon.fold_rate),
            fold_phase=number(colon.fold_phase),
            calm=calm,
            calm_z=tuple(number(place[2]) for place in calm),
            calm_scale=number(-1 / CALM_RADIUS**2),
            calm_shift=number(1 - 2 / CALM_RADIUS**2),
            calm_depth=number(-CALM_DEPTH),
            tiny=number(1e-8),
            half=number(0.5),
            one=number(RADIUS),
            three=number(3),
            four=number(4),
            low=number(0.7),
            extent=number(MAP_EXTENT),
            smallest=number(1e-12),
            tall=number(0.3),
            bodies=tuple(OwnNumbers.of(body) for body in bodies),
        )
