"""Procedural patterns: a patient's mucosa with its vessels, and periodic noise to make them of."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

MUCOSA_TEXELS = 384  # once around the lumen


def periodic_noise(
    rng: np.random.Generator, size: int, waves: float, spread: float = 0.5
) -> NDArray[np.float32]:
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


def vessel_net(rng: np.random.Generator, size: int, density: float) -> NDArray[np.float32]:
    """Branching vessels, 0 (none) to 1: thin level lines of noise, shown only here and there."""
    net = np.zeros((size, size), np.float32)
    for waves, width, weight in ((5.0, 0.055, 1.0), (9.0, 0.06, 0.7), (17.0, 0.08, 0.4)):
        lines = np.exp(-((periodic_noise(rng, size, waves) / width) ** 2))
        shown = 1 / (1 + np.exp(-4 * (periodic_noise(rng, size, waves / 2) + density - 0.3)))
        net = np.maximum(net, weight * lines * shown)
    return net.astype(np.float32)


def mucosa(rng: np.random.Generator, vessels: float, grain: float) -> Tensor:
    """One patient's mucosa as a texture that tiles.

    Args:
        rng: Where it comes from.
        vessels: Density of the vessels, about -0.5 to 1.
        grain: Waves of the fine relief once around the lumen.

    Returns:
        (4, m, m) float32: mottle, vessels, two slopes of the fine relief; m a texel more than the
        tile, so that bilinear reading meets itself at the seam.
    """
    size = MUCOSA_TEXELS
    mottle = 0.6 * periodic_noise(rng, size, 4.0) + 0.4 * periodic_noise(rng, size, 14.0)
    relief = periodic_noise(rng, size, grain)
    channels = np.stack(
        [
            mottle,
            vessel_net(rng, size, vessels),
            np.roll(relief, -1, 0) - relief,
            np.roll(relief, -1, 1) - relief,
        ]
    )
    return torch.from_numpy(np.pad(channels, ((0, 0), (0, 1), (0, 1)), mode="wrap"))


def read_mucosa(texture: Tensor, turn: Tensor, z: Tensor) -> Tensor:
    """Read a mucosa texture.

    Args:
        texture: (c, m, m), see `mucosa`.
        turn: (n,) angles around the lumen, radians.
        z: (n,) positions along it.

    Returns:
        (c, n) values, bilinear.
    """
    across, down = turn / (2 * math.pi), z / (2 * math.pi)
    place = torch.stack([across - across.floor(), down - down.floor()], dim=-1)  # (n, 2)
    values = functional.grid_sample(
        texture[None], (2 * place - 1)[None, None], mode="bilinear", align_corners=True
    )
    return values[0, :, 0]
