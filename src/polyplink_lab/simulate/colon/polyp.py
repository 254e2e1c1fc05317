"""The body of a polyp: form, size, lobes, tissue, and its position on the wall.

Forms are those of the Paris classification (Gastrointestinal Endoscopy 58(6), 2003): Is sessile,
Isp with a short neck, Ip on a stalk, IIa flat and raised.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink_lab.simulate.colon import surface
from polyplink_lab.simulate.colon.surface import Colon, Lump
from polyplink_lab.simulate.colon.tissue import (
    Tissue,
    draw_pattern,
    draw_tissue,
    flatness,
    vessel_net,
)

MAP_TEXELS = 128
TALLEST = 0.62  # largest height of the centre of a head above the wall, units
FOOT = 0.03  # smallest radius of a wound, units
LARGE = 5.0  # mm; stalks are rare below this size


@dataclass(frozen=True)
class Form:
    """The shape of a Paris class, as shares of half the width.

    Attributes:
        paris: Name of the class.
        height: Range of the half height.
        lift: Height of the centre above the wall, in half heights; negative below the wall.
        blend: Width of the joint with the wall, in half widths.
        stalk: Radius of the stalk, in half widths; 0 for none.
    """

    paris: str
    height: tuple[float, float]
    lift: float
    blend: float
    stalk: float = 0.0


FORMS: Mapping[str, Form] = {
    "Is": Form("Is", (0.72, 0.92), -0.2, 0.45),
    "IIa": Form("IIa", (0.46, 0.66), -0.3, 0.45),
    "Isp": Form("Isp", (0.8, 1.0), 0.65, 0.5),
    "Ip": Form("Ip", (0.75, 0.95), 1.9, 0.3, stalk=0.36),
}
# Is 49, IIa 34, Isp 9, Ip 8 of the SUN database's 100 polyps (Misawa et al., Gastrointestinal
# Endoscopy 93, 2021), a third of which are above 5 mm.
SMALL_FORMS = (0.545, 0.38, 0.065, 0.01)
LARGE_FORMS = (0.38, 0.26, 0.14, 0.22)


@dataclass(frozen=True)
class Traits:
    """The parameters of one polyp.

    Attributes:
        form: The Paris form.
        size_mm: Largest diameter.
        narrow: Shorter over longer diameter.
        height: Half height over half width.
        heading: Direction of the longer axis on the wall, radians.
        lobes: Number of lobes.
        lobe_size: Height of lobes, relative to the radius.
        tissue: Pattern, colour, vessels and mucus.
        pitch: Angular frequency of the pattern on the map.
        slant: Direction of the stripes, radians.
        cap: Strength of pale (above 0) or red (below 0) patches.
    """

    form: Form
    size_mm: float
    narrow: float
    height: float
    heading: float
    lobes: int
    lobe_size: float
    tissue: Tissue
    pitch: float
    slant: float
    cap: float


def draw_traits(
    rng: np.random.Generator, size_mm: float, histology_class: str, difficulty: float
) -> Traits:
    """Draw the parameters of a polyp with a size and a histology.

    Args:
        rng: The generator of this polyp.
        size_mm: Largest diameter.
        histology_class: A key of `tissue.HABITS`.
        difficulty: 0 to 1; the variation between polyps is scaled by 1.5 minus the difficulty.

    Raises:
        PolyplinkError: If the histology class is unknown.
    """
    spread = 1.5 - difficulty
    chances = np.array(LARGE_FORMS if size_mm > LARGE else SMALL_FORMS)
    chances[list(FORMS).index("IIa")] *= flatness(histology_class)
    form = tuple(FORMS.values())[int(rng.choice(len(chances), p=chances / chances.sum()))]
    pitch = 13.0 * math.exp(0.28 * spread * rng.normal()) * (size_mm / 4) ** 0.3
    return Traits(
        form=form,
        size_mm=float(size_mm),
        narrow=float(rng.uniform(max(1 - 0.45 * spread, 0.4), 1.0)),
        height=float(rng.uniform(*form.height)),
        heading=float(rng.uniform(0, math.pi)),
        lobes=int(rng.integers(0, 6)),
        lobe_size=spread * float(rng.uniform(0.12, 0.42)),
        tissue=draw_tissue(rng, histology_class, spread),
        pitch=float(np.clip(pitch, 7.0, 28.0)),
        slant=float(rng.uniform(0, math.pi)),
        cap=spread * float(rng.normal(0, 0.45)),
    )


def map_directions() -> NDArray[np.float64]:
    """Unit directions (3, m, m) of a map's texels: z up at the middle, row = y, column = x."""
    edge = np.linspace(-surface.MAP_EXTENT, surface.MAP_EXTENT, MAP_TEXELS)
    b, a = np.meshgrid(edge, edge, indexing="ij")
    square = a * a + b * b
    return np.asarray(np.stack([2 * a, 2 * b, 1 - square]) / (1 + square))


def _patches(
    rng: np.random.Generator, towards: NDArray[np.float64], count: int, sharp: float
) -> NDArray[np.float64]:
    """Soft spots on the upper half, 0 to about 1."""
    total = np.zeros(towards.shape[1:])
    for _ in range(count):
        spot = rng.standard_normal(3)
        spot[2] = abs(spot[2])
        spot /= np.linalg.norm(spot)
        total += np.exp(sharp * (np.tensordot(spot, towards, 1) - 1))
    return total


def surface_maps(rng: np.random.Generator, traits: Traits) -> Tensor:
    """Maps over a polyp's surface: (5, m, m) float32.

    The first is the relative radius, which is the geometry; the others are used for colours by
    `tissue.paint_map`: pattern (-1 to 1), patches, vessels and mucus (0 to about 1).
    """
    towards = map_directions()
    pattern = draw_pattern(rng, traits.tissue.pattern, towards, traits.pitch, traits.slant)
    # Lobes around random directions of the upper half; their mean is about 0.
    lobes = np.zeros(towards.shape[1:])
    for index in range(traits.lobes):
        angle = 2 * math.pi * (index + rng.uniform(-0.3, 0.3)) / traits.lobes
        tilt = rng.uniform(0.5, 1.2)
        lobe = (math.sin(tilt) * math.cos(angle), math.sin(tilt) * math.sin(angle), math.cos(tilt))
        sharp = rng.uniform(8, 20)
        lobes += traits.lobe_size * np.exp(sharp * (np.tensordot(lobe, towards, 1) - 1))
    radius = 1 + (lobes - lobes.mean()) + 0.04 * pattern
    patches = _patches(rng, towards, 3, 9.0)
    vessels = vessel_net(rng, MAP_TEXELS, 0.4)
    mucus = np.clip(1.6 * _patches(rng, towards, 2, 4.0) - 0.4, 0, 1)
    maps = np.stack([radius, pattern, patches, vessels, mucus])
    return torch.from_numpy(maps.astype(np.float32))


def wall_frame(colon: Colon, z: float, angle: float) -> tuple[Tensor, Tensor]:
    """A point (3,) of the wall, and its axes (3, 3), columns along the tube, around it, inwards.

    Args:
        colon: The tube.
        z: Position along the tube.
        angle: Position around the tube, radians.
    """
    place = torch.tensor([z])
    c, s = torch.tensor([math.cos(angle)]), torch.tensor([math.sin(angle)])
    x, y = surface.centre_line(colon, place)
    radius = surface.wall_radius(colon, place, x, c, s)
    point = torch.stack([x + radius * c, y + radius * s, place])  # (3, 1)
    distance = surface.wall_distance(colon, point)
    slopes = surface.slopes(lambda at: surface.wall_distance(colon, at), point, distance, 1e-3)
    inward = slopes[:, 0] / slopes[:, 0].norm()
    along = torch.tensor([0.0, 0.0, 1.0])
    along = along - inward * (along @ inward)
    along = along / along.norm()
    return point[:, 0], torch.stack([along, torch.linalg.cross(inward, along), inward], dim=1)


def _lift(traits: Traits, half_height: float) -> float:
    """Height of a polyp's centre above the wall, units."""
    return min(traits.form.lift * half_height, TALLEST)


def lump_foot(traits: Traits, lump: Lump) -> tuple[Tensor, float]:
    """The point (3,) of the wall under a polyp, and the radius of the polyp's foot, units."""
    half = float(lump.radii[0])
    place = lump.centre - lump.axes[:, 2] * _lift(traits, float(lump.radii[2]))
    return place, max(half * (traits.form.stalk * 1.5 or 0.75), FOOT)


def place_lump(traits: Traits, maps: Tensor, point: Tensor, axes: Tensor) -> Lump:
    """Place a polyp on the wall at a point with axes, as from `wall_frame`."""
    half = traits.size_mm / surface.MM_PER_UNIT / 2
    c, s = math.cos(traits.heading), math.sin(traits.heading)
    turned = torch.stack(
        [axes[:, 0] * c + axes[:, 1] * s, axes[:, 1] * c - axes[:, 0] * s, axes[:, 2]], dim=1
    )
    radii = torch.tensor([half, half * traits.narrow, half * traits.height])
    lift = _lift(traits, float(radii[2]))
    stalk = (traits.form.stalk * half, 1.2 * lift) if traits.form.stalk else (0.0, 0.0)
    return Lump(point + axes[:, 2] * lift, turned, radii, traits.form.blend * half, maps, stalk)
