"""Water on the lens: drops that run together, bend what is seen through them, and slide down.

A drop on the lens is too near to be in focus: its edge is soft, what lies behind it is blurred
and shifted towards the drop's own slope, and the lamp beside the lens leaves a faint glint on it.
Drops are placed in shares of the frame's width, so that a window shows what its frame shows.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyplink.simulate.colon.texture import periodic_noise
from polyplink.simulate.picture.blur import defocus
from polyplink.simulate.picture.veil import read_clouds
from polyplink.simulate.picture.window import Windows, colour_like, onto

TEXELS = 192
ZOOM = 1.5  # frame widths that the tile is wide
COUNT = 60  # drops of the tile
RADIUS, RADIUS_SIGMA = 0.032, 0.55  # of a drop, frame widths: median, log-sigma
FILM = 0.35  # height of the film between drops, median drops' heights
LEVELS = 64  # quantiles of the height that are kept
EDGE = 0.8  # height over which an edge is soft, median drops' heights
FIRST = 0.12  # share of the view under water up to which drops fade in
SHIFT = 0.020  # farthest that a drop shifts what is behind it, frame widths
BLUR = 0.005  # of what is seen through water, frame widths
SHADE = 0.16  # how much brighter the lower side of a drop is than its middle
RIM = 0.11  # how much darker its edge is
GLINT, GLINT_SIZE = 0.30, 0.16  # brightness; share of the range of slopes
LAMP = (-0.45, -0.55)  # slope that mirrors the lamp: up and to the left
WATER = (0.86, 0.88, 0.88)
CLOUDY = 0.05


@dataclass(frozen=True)
class Drops:
    """Water that a lens may catch.

    Attributes:
        tile: (3, m, m) height, and its slopes right and down in units of a median drop's; the
            last row and column repeat the first.
        levels: (LEVELS,) quantiles of the height, ascending: what is above one is the rest's
            share of the view.
    """

    tile: Tensor
    levels: NDArray[np.float32]

    def to(self, device: torch.device) -> "Drops":
        """The same on another device."""
        return replace(self, tile=self.tile.to(device))


def draw_drops(rng: np.random.Generator) -> Drops:
    """Draw the drops of a procedure: rounded heaps, the larger the higher, on an uneven film."""
    edge = ZOOM * np.arange(TEXELS) / TEXELS  # frame widths
    height = FILM * periodic_noise(rng, TEXELS, 4.0).astype(np.float64)
    radii = RADIUS * np.exp(RADIUS_SIGMA * rng.standard_normal(COUNT))
    for (x, y), radius in zip(rng.uniform(0, ZOOM, (COUNT, 2)), radii, strict=True):
        across, down = (np.abs(edge - middle) for middle in (x, y))
        across, down = (np.minimum(away, ZOOM - away) / radius for away in (across, down))
        # Heavy drops hang: they are longer than they are wide.
        down = down / min(1 + 2 * radius, 1.5)
        height += radius / RADIUS * np.exp(-0.5 * (down[:, None] ** 2 + across**2))
    step = ZOOM / TEXELS / RADIUS
    slopes = [
        (np.roll(height, -1, axis) - np.roll(height, 1, axis)) / (2 * step) for axis in (1, 0)
    ]
    tile = np.pad(np.stack([height, *slopes]), ((0, 0), (0, 1), (0, 1)), mode="wrap")
    levels = np.quantile(height, np.linspace(0, 1, LEVELS))
    return Drops(torch.from_numpy(tile.astype(np.float32)), levels.astype(np.float32))


def _shifted(images: Tensor, shift: Tensor, windows: Windows) -> Tensor:
    """Images (3, s, h, w) read (2, s, h, w) frame widths away; at edges the edge goes on."""
    s, h, w = images.shape[1:]
    rows = (torch.arange(h, device=images.device) + 0.5)[:, None]
    columns = torch.arange(w, device=images.device) + 0.5
    pixels = shift * windows.scale[:, None, None]
    places = torch.stack([(columns + pixels[0]) * (2 / w) - 1, (rows + pixels[1]) * (2 / h) - 1], 3)
    if images.device.type != "cpu":
        together = functional.grid_sample(
            images.transpose(0, 1), places, padding_mode="border", align_corners=False
        )
        return together.transpose(0, 1)
    # Each frame by itself: together they would be read in another order, and round otherwise.
    read = [
        functional.grid_sample(
            images[None, :, k], places[k : k + 1], padding_mode="border", align_corners=False
        )[0]
        for k in range(s)
    ]
    return torch.stack(read, dim=1)


def water(
    images: Tensor, splash: NDArray[np.float32], drops: Drops, drift: Tensor, windows: Windows
) -> Tensor:
    """Pictures through a wet lens; 0 changes nothing.

    Args:
        images: (3, s, h, w), 0 to 1.
        splash: (s,) share of the view that is under water, 0 to 1.
        drops: Where it gathers.
        drift: (s, 2) how far it has run right and down, frame widths.
        windows: s windows.
    """
    quantiles = np.linspace(0, 1, LEVELS)
    least = np.interp(1 - splash, quantiles, drops.levels).astype(np.float32)
    height, right, down = read_clouds(drops.tile, windows, drift, ZOOM)  # (s, h, w) each
    level = onto(least, images.device)[:, None, None]
    strength = onto(np.minimum(splash / FIRST, 1), images.device)[:, None, None]
    cover = ((height - level) / EDGE + 0.5).clamp(0, 1)
    cover = cover * cover * (3 - 2 * cover) * strength
    slope = torch.stack([right, down]).tanh()  # (2, s, h, w)
    behind = _shifted(images, -SHIFT * cover * slope, windows)
    behind = defocus(behind, np.float32(BLUR) * windows.host_scale)
    lamp = colour_like(images, LAMP)[:, None, None, None]
    glint = GLINT * torch.exp(-((slope - lamp) / GLINT_SIZE).square().sum(0)) * cover
    behind = behind * (1 + SHADE * slope[1] - RIM * 4 * cover * (1 - cover))
    paint = colour_like(images, WATER)[:, None, None, None]
    behind = torch.lerp(behind, paint, (CLOUDY + glint)[None])
    return torch.lerp(images, behind, cover).clamp(0, 1)
