"""Procedural patterns: periodic noise, and the vessels, residue and bubbles made of it."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def periodic_noise(rng: np.random.Generator, size: int, waves: float, spread: float = 0.5) -> Array:
    """Smooth noise that tiles: white noise kept in a band around `waves` waves per tile.

    Args:
        rng: Where the noise comes from.
        size: Edge of the tile, texels.
        waves: Middle of the band, waves per edge.
        spread: Width of the band in natural-log units of frequency.

    Returns:
        (size, size) values of mean 0 and standard deviation 1.
    """
    frequency = np.hypot(
        *np.meshgrid(np.fft.fftfreq(size, 1 / size), np.fft.rfftfreq(size, 1 / size), indexing="ij")
    )
    with np.errstate(divide="ignore"):
        band = np.exp(-0.5 * (np.log(frequency / waves) / spread) ** 2)
    noise = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((size, size))) * band, s=(size, size))
    return np.asarray((noise - noise.mean()) / noise.std(), np.float32)


def vessel_net(rng: np.random.Generator, size: int, density: float) -> Array:
    """Branching vessels, 0 (none) to 1: thin level lines of noise, shown only here and there."""
    net = np.zeros((size, size), np.float32)
    for waves, width, weight in ((5.0, 0.055, 1.0), (9.0, 0.06, 0.7), (17.0, 0.08, 0.4)):
        lines = np.exp(-((periodic_noise(rng, size, waves) / width) ** 2))
        shown = 1 / (1 + np.exp(-4 * (periodic_noise(rng, size, waves / 2) + density - 0.3)))
        net = np.maximum(net, weight * lines * shown)
    return net.astype(np.float32)


def residue_film(rng: np.random.Generator, size: int, amount: float) -> Array:
    """Where stool residue lies on the wall, 0 (none) to 1: soft films and small flecks.

    Args:
        rng: Where it comes from.
        size: Edge of the tile, texels.
        amount: 0 for a clean wall to 1 for a poorly prepared one.
    """
    pool, edge = periodic_noise(rng, size, 2.5, 0.4), periodic_noise(rng, size, 24.0)
    film = np.clip(0.8 * (pool + 0.35 * edge) - 1.9 + 1.3 * amount, 0, 1)
    flecks = np.clip(2.5 * (periodic_noise(rng, size, 60.0) + 0.5 * pool - 3.3 + amount), 0, 1)
    return np.asarray(np.maximum(0.8 * film, flecks * (amount > 0)), np.float32)


def bubble_stamp(radius: float) -> NDArray[np.float64]:
    """One bubble: (3, r, r) rim (0 to 1) and the two slopes of its dome; radius in texels."""
    reach = int(np.ceil(radius + 1))
    edge = np.arange(-reach, reach + 1) / radius
    y, x = np.meshgrid(edge, edge, indexing="ij")
    away = np.hypot(x, y)
    within = np.clip((1 - away) * radius + 0.5, 0, 1)
    rim = np.exp(-(((away - 0.85) / 0.16) ** 2)) * within
    return np.stack([rim, y * within * (away < 1), x * within * (away < 1)])


def bubbles(rng: np.random.Generator, size: int, amount: float) -> Array:
    """Bubbles in small crowds: (3, size, size) rims and slopes of their domes."""
    total = np.zeros((3, size, size), np.float32)
    for _ in range(rng.poisson(14 * amount)):
        crowd = rng.uniform(0, size, 2)
        for _ in range(rng.integers(3, 14)):
            stamp = bubble_stamp(float(rng.uniform(1.4, 3.6)))
            reach = stamp.shape[1]
            y, x = (crowd + rng.normal(0, 7, 2)).astype(int)
            rows, columns = (y + np.arange(reach)) % size, (x + np.arange(reach)) % size
            total[:, rows[:, None], columns] += stamp
    return np.clip(total, -1, 1)
