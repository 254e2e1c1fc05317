"""The tissue of polyps and wall: procedural patterns, and how they depend on histology.

Endoscopists distinguish the classes by pit pattern, colour and vessels, and are often wrong. Kinds
of pit: Kudo et al., Gastrointestinal Endoscopy 44 (1996); colour and vessels: the NICE
classification, Hewett et al., Gastroenterology 143 (2012); open wide pits and mucus of sessile
serrated lesions: Kimura et al., American Journal of Gastroenterology 107 (2012). The numbers are
our choice: with them a classifier of clean pictures is clearly better than chance and clearly not
perfect.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.core.errors import find_named

Texture = NDArray[np.float32]
Array = NDArray[np.float64]

THIRDS = (0.0, 2 * math.pi / 3, 4 * math.pi / 3)
EVENNESS = 0.9  # of the four pattern weights: with small values one pattern dominates a polyp
# Changes of red, green and blue by a groove, a pale patch and a vessel; the colour of mucus.
GROOVE = (0.45, 1.0, 0.95)
PALE = (0.22, 0.75, 0.75)
VESSEL = (0.30, 0.62, 0.52)
MUCUS = (0.86, 0.56, 0.27)


def periodic_noise(
    rng: np.random.Generator, size: int, waves: float, spread: float = 0.5
) -> Texture:
    """Smooth noise that tiles: white noise kept in a band around `waves` waves per tile.

    Args:
        rng: Source of randomness.
        size: Edge of the tile, texels.
        waves: Middle of the band, waves per edge.
        spread: Width of the band in natural-log units of frequency.

    Returns:
        Values (size, size) with mean 0 and standard deviation 1.
    """
    rows, columns = np.fft.fftfreq(size, 1 / size), np.fft.rfftfreq(size, 1 / size)
    frequency = np.hypot(rows[:, None], columns)
    with np.errstate(divide="ignore"):
        band = np.exp(-0.5 * (np.log(frequency / waves) / spread) ** 2)
    noise = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((size, size))) * band, s=(size, size))
    return np.asarray((noise - noise.mean()) / noise.std(), np.float32)


def vessel_net(rng: np.random.Generator, size: int, density: float) -> Texture:
    """Branching vessels, 0 (none) to 1: thin level lines of noise, visible only in some areas."""
    net = np.zeros((size, size), np.float32)
    for waves, width, weight in ((5.0, 0.055, 1.0), (9.0, 0.06, 0.7), (17.0, 0.08, 0.4)):
        lines = np.exp(-((periodic_noise(rng, size, waves) / width) ** 2))
        presence = 1 / (1 + np.exp(-4 * (periodic_noise(rng, size, waves / 2) + density - 0.3)))
        net = np.maximum(net, weight * lines * presence)
    return net.astype(np.float32)


# Typical appearance of the polyps of a histology class: weights of tubular and gyrus-like grooves
# (Kudo IIIL, IV), of small stellar pits (II), of wide open pits (II-O) and of a fine mosaic as in
# normal mucosa (I); mean strength of the pattern's shade; mean log factor from green and blue to
# red (positive is browner and redder); mean log brightness; mean strength of the vessels and of a
# mucus cap; frequency of flat polyps relative to other classes.
HABITS: Mapping[str, tuple[float, ...]] = {
    "AD": (0.85, 0.45, 0.30, 0.50, 0.38, 0.085, -0.035, 0.40, 0.12, 1.0),
    "HP": (0.45, 0.80, 0.40, 0.50, 0.32, -0.06, 0.04, 0.22, 0.16, 1.3),
    "SSL": (0.30, 0.50, 0.95, 0.40, 0.32, -0.03, 0.01, 0.22, 0.45, 2.5),
    "TSA": (0.70, 0.45, 0.40, 0.50, 0.38, 0.05, -0.01, 0.33, 0.2, 0.7),
    "NO POLYP": (0.35, 0.40, 0.30, 0.90, 0.28, -0.02, 0.02, 0.26, 0.12, 1.3),
    "OTHER": (0.50, 0.50, 0.40, 0.50, 0.35, 0.0, 0.0, 0.3, 0.2, 1.0),
}


@dataclass(frozen=True)
class Tissue:
    """The appearance of a polyp's tissue.

    Attributes:
        pattern: Shares of stripes, pits, rounds and bumps.
        contrast: Strength of the pattern's shade, 0 to 1.
        hue: Log factor from green and blue to red.
        value: Log brightness.
        vessels: Strength of the vessels, 0 to 1.
        mucus: Strength of the mucus, 0 to 1.
    """

    pattern: tuple[float, float, float, float]
    contrast: float
    hue: float
    value: float
    vessels: float
    mucus: float


def flatness(histology_class: str) -> float:
    """Frequency of flat polyps in a histology class, relative to other classes.

    Raises:
        PolyplinkError: If the class is unknown; the message suggests the nearest.
    """
    return find_named("histology class", histology_class, HABITS)[-1]


def draw_tissue(rng: np.random.Generator, histology_class: str, spread: float) -> Tissue:
    """Draw the tissue of a polyp.

    Args:
        rng: Source of randomness.
        histology_class: A key of `HABITS`.
        spread: Factor on the differences between polyps, within classes and between them; usually
            1.

    Raises:
        PolyplinkError: If the class is unknown.
    """
    class_habit = np.array(find_named("histology class", histology_class, HABITS))
    middle = HABITS["OTHER"]
    # The distance from the middle, multiplied by `spread`.
    habit = middle + spread * (class_habit - middle)
    pattern = rng.dirichlet(EVENNESS * np.maximum(habit[:4], 0.1) / spread)
    shade, redness, brightness, vessel, cap = habit[4:9].tolist()
    hue, value, contrast = rng.normal(0, spread, 3) * (0.15, 0.11, 0.25)
    vessels, mucus = rng.gamma(1.5, 1 / 1.5, 2)
    return Tissue(
        pattern=(float(pattern[0]), float(pattern[1]), float(pattern[2]), float(pattern[3])),
        contrast=float(np.clip(shade * np.exp(contrast), 0, 0.7)),
        hue=redness + float(hue),
        value=brightness + float(value),
        vessels=float(np.clip(vessel * vessels, 0, 1)),
        mucus=float(np.clip(cap * mucus, 0, 1)),
    )


def _lattice(u: Array, v: Array, rate: float, phase: Sequence[float]) -> Array:
    """Three plane waves 120 degrees apart: a hexagonal grid of peaks; -0.5 to 1."""
    waves = [
        np.cos(rate * (u * math.cos(t) + v * math.sin(t)) + p)
        for t, p in zip(THIRDS, phase, strict=True)
    ]
    return np.asarray(sum(waves) / 3)


def _wander(rng: np.random.Generator, u: Array, v: Array, rate: float) -> Array:
    """A slow, smooth variation, about -1 to 1: five random plane waves."""
    angles, phases = rng.uniform(0, 2 * math.pi, (2, 5))
    rates = rate * rng.uniform(0.5, 1.5, 5)
    total = np.zeros_like(u)
    for angle, phase, r in zip(angles, phases, rates, strict=True):
        total += np.sin(r * (u * math.cos(angle) + v * math.sin(angle)) + phase)
    return total / math.sqrt(5)


def draw_pattern(
    rng: np.random.Generator,
    shares: Sequence[float],
    towards: Array,
    pitch: float,
    slant: float,
) -> Array:
    """A pit pattern: a mix of four patterns, distorted by slow variations.

    Args:
        rng: Source of randomness.
        shares: Shares of grooves, small pits, wide pits and mosaic.
        towards: (3, m, m) unit directions of the map.
        pitch: Angular frequency on the map.
        slant: Direction of the grooves, radians.

    Returns:
        Values (m, m) from -1 to 1; high on ridges, low in grooves and pits.
    """
    stripes, pits, rounds, bumps = shares
    plane = towards[:2] / (1.2 + towards[2])  # flattens the lower half a little
    bend_u, bend_v, bend_s = (_wander(rng, plane[0], plane[1], 0.35 * pitch) for _ in range(3))
    phase = rng.uniform(0, 2 * math.pi, (4, 3))
    u = plane[0] * math.cos(slant) + plane[1] * math.sin(slant) + 1.2 / pitch * bend_u
    v = plane[1] * math.cos(slant) - plane[0] * math.sin(slant) + 1.2 / pitch * bend_v
    groove = np.sin(1.2 * pitch * u + 1.1 * bend_s + phase[0, 0])
    small = 1 - 2 * np.clip(_lattice(u, v, 1.7 * pitch, phase[1]) + 0.35, 0, 1) ** 1.3
    wide = 1 - 2 * np.clip(2.2 * _lattice(u, v, 0.95 * pitch, phase[2]) - 0.3, 0, 1)
    mosaic = -_lattice(u, v, 2.3 * pitch, phase[3])
    return np.asarray(stripes * np.tanh(2 * groove) + pits * small + rounds * wide + bumps * mosaic)


def paint_map(tissue: Tissue, cap: float, maps: Tensor, mean: Tensor) -> Tensor:
    """Colours of a polyp's texels: (3, m, m) linear RGB.

    Args:
        tissue: The tissue of the polyp.
        cap: Strength of pale (above 0) or red (below 0) patches.
        maps: (5, m, m), see `polyp.surface_maps`.
        mean: (3,) mean colour of the patient's polyps, linear RGB.
    """
    _, pattern, patches, vessels, mucus = maps
    groove, pale, vessel, slime = (
        maps.new_tensor(values)[:, None, None] for values in (GROOVE, PALE, VESSEL, MUCUS)
    )
    factor = torch.tensor([0.3, -0.7, -0.9], dtype=maps.dtype).mul(tissue.hue).add(tissue.value)
    colour = (mean * factor.exp())[:, None, None]
    colour = colour * (1 - tissue.contrast * groove * (0.5 - 0.5 * pattern))
    colour = colour * (1 + (cap * pale * patches).clamp(-0.6, 1.2))
    colour = colour * (1 - tissue.vessels * vessel * vessels * (0.6 + 0.4 * pattern))
    return torch.lerp(colour, slime.expand_as(colour), 0.5 * tissue.mucus * mucus)
