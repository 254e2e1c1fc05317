"""Where the polyps of a procedure are on the wall: one after the other, pairs side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from polyplink.simulate.colon.polyp import Traits, place_lump, surface_maps, wall_frame
from polyplink.simulate.colon.projection import FOCAL
from polyplink.simulate.colon.surface import MM_PER_UNIT, Colon, Lump
from polyplink.simulate.course.camera import Array

SPACING = (4.5, 6.0)  # units between one polyp and the next along the withdrawal
WAVE = (0.03, 0.06)  # size of the peristaltic wave
WAVE_RATE = (0.9, 1.6)  # radians a unit
USUAL = 3.3  # distance of a usual look, in radii of the polyp
FAINT = 0.04  # share of the frame's width below which a polyp is no box


@dataclass(frozen=True)
class Place:
    """A place on the wall: where along the tube, and where around it (radians)."""

    z: float
    angle: float


def apart(first: float, second: float) -> float:
    """How far two polyps of one view lie apart: near, but each can be looked at alone.

    Args:
        first: Radius of one, units.
        second: Radius of the other.
    """
    away = 1.5 * (first + second) + 0.05
    for own, other in ((first, second), (second, first)):
        usual = USUAL * own
        if 2 * other * FOCAL / usual > FAINT:
            away = max(away, 1.05 * usual + other)
    return away


def draw_places(
    rng: np.random.Generator, sizes: Sequence[float], pairs: Sequence[tuple[int, int]]
) -> tuple[Place, ...]:
    """Draw where polyps are.

    Args:
        rng: Where it comes from.
        sizes: Their diameters in millimetres, in the order of their first visit.
        pairs: Those that lie side by side.

    Returns:
        A place for each.
    """
    partner = {max(pair): min(pair) for pair in pairs}
    radii = [0.5 * size / MM_PER_UNIT for size in sizes]
    places: list[Place] = []
    z = 0.0
    for index, radius in enumerate(radii):
        angle, heading, side = rng.uniform(-math.pi, math.pi), rng.uniform(-0.5, 0.5), rng.random()
        step = rng.uniform(*SPACING) + 4 * radius  # a large polyp is seen from further away
        if index in partner:
            beside = places[partner[index]]
            away = apart(radii[partner[index]], radius) * (1 if side < 0.5 else -1)
            places.append(
                Place(beside.z + away * math.cos(heading), beside.angle + away * math.sin(heading))
            )
        else:
            places.append(Place(z, angle))
            z -= step
    return tuple(places)


def calm_at(colon: Colon, places: Sequence[Place]) -> Colon:
    """The tube with its folds faded around places."""
    x = [colon.bend[0] * math.sin(colon.bend_rate[0] * p.z + colon.bend_phase[0]) for p in places]
    y = [colon.bend[1] * math.sin(colon.bend_rate[1] * p.z + colon.bend_phase[1]) for p in places]
    calm = tuple(
        (mx + math.cos(p.angle), my + math.sin(p.angle), p.z)
        for mx, my, p in zip(x, y, places, strict=True)
    )
    return replace(colon, calm=calm)


def wall_axes(colon: Colon, place: Place) -> tuple[Array, Array]:
    """A place's point (3,) and axes (3, 3) along, around, inwards, at rest."""
    point, axes = wall_frame(replace(colon, wave=0.0), place.z, place.angle)
    return point.double().numpy(), axes.double().numpy()


def set_lump(rng: np.random.Generator, colon: Colon, place: Place, traits: Traits) -> Lump:
    """A polyp's body at its place, at rest; rng draws its surface."""
    point, axes = (torch.from_numpy(part).float() for part in wall_axes(colon, place))
    return place_lump(traits, surface_maps(rng, traits), point, axes)
