"""One polyp's own body: form, size, lobes, surface pattern and colour.

Forms are those of the Paris classification (Gastrointestinal Endoscopy 58(6), 2003): Is sessile,
Isp with a short neck, IIa flat and raised.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.picture.scene import (
    MAP_EXTENT,
    MM_PER_UNIT,
    Colon,
    Lump,
    centre_line,
    normals,
    wall_distance,
    wall_radius,
)

MAP_TEXELS = 80


@dataclass(frozen=True)
class Form:
    """What a Paris class looks like, as shares of half the width.

    Attributes:
        paris: Name of the class.
        height: Range of the half height.
        lift: How far the centre stands above the wall, in half heights.
        blend: Width of the joint with the wall, in half widths.
    """

    paris: str
    height: tuple[float, float]
    lift: float
    blend: float


FORMS = (
    Form("Is", (0.6, 0.8), 0.15, 0.25),
    Form("Isp", (0.8, 1.0), 0.65, 0.45),
    Form("IIa", (0.28, 0.42), 0.1, 0.2),
)


@dataclass(frozen=True)
class Traits:
    """What makes a polyp this polyp.

    Attributes:
        form: Its Paris form.
        size_mm: Largest diameter.
        narrow: Shorter over longer diameter.
        height: Half height over half width.
        heading: Direction of its longer axis on the wall, radians.
        lobes: Number of lobes.
        lobe_size: How far lobes stand out, relative to the radius.
        stripes, pits, bumps: Strengths of the three surface patterns, 0 to 1.
        pitch: Angular frequency of the pattern on the map.
        slant: Direction of the stripes, radians.
        colour: (3,) factor on the patient's polyp colour.
        cap: Strength of pale (above 0) or red (below 0) patches.
    """

    form: Form
    size_mm: float
    narrow: float
    height: float
    heading: float
    lobes: int
    lobe_size: float
    stripes: float
    pits: float
    bumps: float
    pitch: float
    slant: float
    colour: tuple[float, float, float]
    cap: float


def draw_traits(rng: np.random.Generator) -> Traits:
    """Draw one polyp."""
    form = FORMS[int(rng.choice(len(FORMS), p=(0.45, 0.25, 0.3)))]
    stripes, pits, bumps = rng.dirichlet((0.2, 0.2, 0.2))
    hue, value = rng.normal(0, 0.16), rng.normal(0, 0.10)
    return Traits(
        form=form,
        size_mm=round(float(rng.uniform(4.5, 10.0)), 1),
        narrow=float(rng.uniform(0.55, 1.0)),
        height=float(rng.uniform(*form.height)),
        heading=float(rng.uniform(0, math.pi)),
        lobes=int(rng.integers(0, 6)),
        lobe_size=float(rng.uniform(0.2, 0.55)),
        stripes=float(stripes),
        pits=float(pits),
        bumps=float(bumps),
        pitch=float(rng.uniform(8.0, 20.0)),
        slant=float(rng.uniform(0, math.pi)),
        colour=(math.exp(value), math.exp(value + hue), math.exp(value + 0.8 * hue)),
        cap=float(rng.normal(0, 0.5)),
    )


def map_directions() -> NDArray[np.float64]:
    """Unit directions (3, m, m) of a map's texels: z up at the middle, row = y, column = x."""
    edge = np.linspace(-MAP_EXTENT, MAP_EXTENT, MAP_TEXELS)
    b, a = np.meshgrid(edge, edge, indexing="ij")
    square = a * a + b * b
    return np.asarray(np.stack([2 * a, 2 * b, 1 - square]) / (1 + square))


def _lobes(
    rng: np.random.Generator, traits: Traits, towards: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bumps of the radius around random directions of the upper half; mean about 0."""
    total = np.zeros(towards.shape[1:])
    for index in range(traits.lobes):
        angle = 2 * math.pi * (index + rng.uniform(-0.3, 0.3)) / traits.lobes
        tilt = rng.uniform(0.5, 1.2)
        lobe = (math.sin(tilt) * math.cos(angle), math.sin(tilt) * math.sin(angle), math.cos(tilt))
        sharp = rng.uniform(8, 20)
        total += traits.lobe_size * np.exp(sharp * (np.tensordot(lobe, towards, 1) - 1))
    return np.asarray(total - total.mean())


def _pattern(
    rng: np.random.Generator, traits: Traits, towards: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Stripes, pits and bumps mixed, about -1 to 1; stripes wander with the direction."""
    plane = towards[:2] / (1.2 + towards[2])  # (2, m, m): flattens the lower half a little
    u = plane[0] * math.cos(traits.slant) + plane[1] * math.sin(traits.slant)
    v = plane[1] * math.cos(traits.slant) - plane[0] * math.sin(traits.slant)
    phase = rng.uniform(0, 2 * math.pi, 3)
    wander = 0.8 * np.sin(3 * v + phase[0])
    stripes = np.sin(1.3 * traits.pitch * u + wander + phase[1])
    # Three plane waves 120 degrees apart make a hexagonal grid of pits.
    waves = [
        np.cos(1.3 * traits.pitch * (u * math.cos(t) + v * math.sin(t)) + phase[2])
        for t in (0, 2.094, 4.189)
    ]
    pits = 1 - 2 * np.clip(sum(waves) / 3 + 0.5, 0, 1) ** 1.5
    bumps = np.sin(0.8 * traits.pitch * u + phase[1]) * np.sin(0.8 * traits.pitch * v + phase[2])
    return np.asarray(traits.stripes * stripes + traits.pits * pits + traits.bumps * bumps)


def surface_maps(rng: np.random.Generator, traits: Traits) -> Tensor:
    """Maps (3, m, m) over a polyp's surface: relative radius, pattern, patches."""
    towards = map_directions()
    pattern = _pattern(rng, traits, towards)
    radius = 1 + _lobes(rng, traits, towards) + 0.05 * pattern
    patches = np.zeros(towards.shape[1:])
    for _ in range(3):
        spot = rng.standard_normal(3)
        spot[2] = abs(spot[2])
        spot /= np.linalg.norm(spot)
        patches += np.exp(9 * (np.tensordot(spot, towards, 1) - 1))
    maps = np.stack([radius, pattern, traits.cap * patches])
    return torch.from_numpy(maps.astype(np.float32))


def wall_frame(colon: Colon, z: float, angle: float) -> tuple[Tensor, Tensor]:
    """A point of the wall and the axes there.

    Args:
        colon: The tube.
        z: Where along the tube.
        angle: Where around it, radians.

    Returns:
        The point (3,) and axes (3, 3): columns along the tube, around it, and into the lumen.
    """
    place = torch.tensor([z])
    c, s = torch.tensor([math.cos(angle)]), torch.tensor([math.sin(angle)])
    x, y = centre_line(colon, place)
    radius = wall_radius(colon, place, x, c, s)
    point = torch.stack([x + radius * c, y + radius * s, place])  # (3, 1)
    inward = normals(colon, [], point, wall_distance(colon, point), 1e-3)[:, 0]
    along = torch.tensor([0.0, 0.0, 1.0])
    along = along - inward * (along @ inward)
    along = along / along.norm()
    return point[:, 0], torch.stack([along, torch.linalg.cross(inward, along), inward], dim=1)


def place_lump(traits: Traits, maps: Tensor, point: Tensor, axes: Tensor) -> Lump:
    """Put a polyp on the wall at a point with axes as `wall_frame` gives them."""
    half = traits.size_mm / MM_PER_UNIT / 2
    c, s = math.cos(traits.heading), math.sin(traits.heading)
    turned = torch.stack(
        [axes[:, 0] * c + axes[:, 1] * s, axes[:, 1] * c - axes[:, 0] * s, axes[:, 2]], dim=1
    )
    radii = torch.tensor([half, half * traits.narrow, half * traits.height])
    centre = point + axes[:, 2] * (traits.form.lift * float(radii[2]))
    return Lump(centre, turned, radii, traits.form.blend * half, maps)
