"""A patient's mucosa: two textures on the wall, all that is computed once already in them.

The first goes once around the lumen and holds colours and relief; the second is a small, fine one
that repeats and fades where a pixel is wider than its detail. The camera comes as near as 2 mm,
where the first alone would be a blur.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from polyplink.simulate.colon.texture import bubbles, periodic_noise, residue_film, vessel_net

TEXELS = 384  # once around the lumen, 0.3 mm each
FINE_TEXELS = 256
REPEATS = 9  # of the fine texture once around the lumen: 0.05 mm a texel
DETAIL = 0.008  # units; the fine texture's waves are about three times as long
RESIDUE = (0.74, 0.27, 0.075)  # linear RGB of stool
FOAM = (0.98, 0.62, 0.50)  # of a bubble's rim
FINE_SHADE = 0.09


@dataclass(frozen=True)
class Mucosa:
    """Textures that tile; a texel more than the tile, so that bilinear reading meets at the seam.

    Attributes:
        coarse: (5, m, m) linear RGB, then two slopes of the relief, across and along.
        fine: (3, f, f) shade, mean 0, then two slopes.
    """

    coarse: Tensor
    fine: Tensor

    def to(self, device: torch.device) -> "Mucosa":
        """The same on another device."""
        return Mucosa(self.coarse.to(device), self.fine.to(device))


@dataclass(frozen=True)
class Wall:
    """What a patient's wall is made of.

    Attributes:
        colour: Linear RGB.
        vessel: Factors on it where there is a vessel.
        density: Of the vessels, about -0.5 to 1.
        grain: Waves of the relief once around the lumen.
        residue: Amount of stool residue and bubbles, 0 to 1.
    """

    colour: tuple[float, float, float]
    vessel: tuple[float, float, float]
    density: float
    grain: float
    residue: float


def _tile(channels: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> Tensor:
    return torch.from_numpy(np.pad(channels, ((0, 0), (0, 1), (0, 1)), mode="wrap"))


def draw_mucosa(rng: np.random.Generator, wall: Wall) -> Mucosa:
    """Paint one patient's mucosa."""
    mottle = 0.5 * periodic_noise(rng, TEXELS, 4.0) + 0.5 * periodic_noise(rng, TEXELS, 15.0)
    flush = periodic_noise(rng, TEXELS, 7.0)  # redder and paler places
    vessel = vessel_net(rng, TEXELS, wall.density)
    residue = residue_film(rng, TEXELS, wall.residue)
    rim, dome_y, dome_x = bubbles(rng, TEXELS, wall.residue)
    relief = periodic_noise(rng, TEXELS, wall.grain)
    hue = np.array([0.01, -0.06, -0.06])[:, None, None] * flush
    colour = np.array(wall.colour)[:, None, None] * (1 + 0.09 * mottle + hue)
    colour = colour * (1 - vessel * (1 - np.array(wall.vessel)[:, None, None]))
    colour = colour + residue * (np.array(RESIDUE)[:, None, None] - colour)
    colour = colour + 0.55 * rim * (np.array(FOAM)[:, None, None] - colour)
    smooth = 1 - 0.7 * residue
    slopes = [
        (np.roll(relief, -1, 0) - relief) * smooth + 1.6 * dome_y,
        (np.roll(relief, -1, 1) - relief) * smooth + 1.6 * dome_x,
    ]
    shade = periodic_noise(rng, FINE_TEXELS, 34.0, 0.45)
    pits = periodic_noise(rng, FINE_TEXELS, 34.0, 0.45)
    fine = [
        FINE_SHADE * (0.6 * shade + 0.4 * pits),
        np.roll(pits, -1, 0) - pits,
        np.roll(pits, -1, 1) - pits,
    ]
    return Mucosa(
        _tile(np.concatenate([colour, np.stack(slopes)]).astype(np.float32)),
        _tile(np.stack(fine).astype(np.float32)),
    )


def read_tile(texture: Tensor, across: Tensor, along: Tensor) -> Tensor:
    """Read a texture that tiles: (c, n), bilinear, at places (n,) in tiles.

    Args:
        texture: (c, m, m), its last row and column equal to the first.
        across: (n,) the place along a row of texels; whole numbers are seams.
        along: (n,) likewise along a column.
    """
    place = torch.stack([across, along])  # (2, n)
    place = place.sub_(place.floor()).mul_(2).sub_(1)
    values = functional.grid_sample(
        texture[None], place.T[None, None], mode="bilinear", align_corners=True
    )
    return values[0, :, 0]


def read_mucosa(mucosa: Mucosa, turn: Tensor, z: Tensor, pixel: Tensor) -> tuple[Tensor, Tensor]:
    """Read both textures.

    Args:
        mucosa: The patient's.
        turn: (n,) angles around the lumen, radians.
        z: (n,) positions along it, units.
        pixel: (n,) how wide a pixel is there, units.

    Returns:
        (5, n) as in `Mucosa.coarse`, and (3, n) as in `Mucosa.fine`, faded.
    """
    across, along = turn / (2 * math.pi), z / (2 * math.pi)
    coarse = read_tile(mucosa.coarse, across, along)
    fine = read_tile(mucosa.fine, REPEATS * across, REPEATS * along)
    step = pixel / DETAIL
    return coarse, fine / (1 + step * step)
