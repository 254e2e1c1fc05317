"""Surface patterns of polyps after Kudo: grooves, small pits, wide open pits, a fine mosaic."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

THIRDS = (0.0, 2 * math.pi / 3, 4 * math.pi / 3)


def _lattice(u: Array, v: Array, rate: float, phase: Sequence[float]) -> Array:
    """Three plane waves 120 degrees apart: a hexagonal grid of peaks; -0.5 to 1."""
    waves = [
        np.cos(rate * (u * math.cos(t) + v * math.sin(t)) + p)
        for t, p in zip(THIRDS, phase, strict=True)
    ]
    return np.asarray(sum(waves) / 3)


def _wander(rng: np.random.Generator, u: Array, v: Array, rate: float) -> Array:
    """A slow, smooth shift, about -1 to 1: five random plane waves."""
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
    """Mix the four patterns; each is bent by a slow wander of its own, as tissue is.

    Args:
        rng: Where phases and bends come from.
        shares: Of grooves, small pits, wide pits and mosaic.
        towards: (3, m, m) unit directions of the map.
        pitch: Angular frequency on the map.
        slant: Direction of the grooves, radians.

    Returns:
        (m, m) from -1 to 1; high where the surface stands out, low in grooves and pits.
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
