"""One patient's mucosa: its colour, wetness and relief, and two textures with all that lies on it.

The first texture goes once around the lumen and holds colours and relief; the second is a small,
fine one that repeats and fades where a pixel is wider than its detail. The camera comes as near as
2 mm, where the first alone would be a blur.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyplink.simulate.colon.tissue import Texture, periodic_noise, vessel_net

TEXELS = 384  # once around the lumen, 0.3 mm each
FINE_TEXELS = 256
REPEATS = 9  # of the fine texture once around the lumen: 0.05 mm a texel
DETAIL = 0.008  # units; the fine texture's waves are about three times as long
# Linear RGB.
WALL = np.array([0.90, 0.27, 0.175])  # of a mean wall
RESIDUE = np.array([0.74, 0.27, 0.075])  # of stool
FOAM = np.array([0.98, 0.62, 0.50])  # of a bubble's rim
VESSEL = np.array([0.74, 0.40, 0.45])  # factors on the wall's colour where there is a vessel
FINE_SHADE = 0.09


@dataclass(frozen=True)
class Patient:
    """The properties shared by all views of a procedure. The textures tile, see `read_tile`.

    Attributes:
        coarse: (5, m, m) linear RGB, then two slopes of the relief, across and along.
        fine: (3, f, f) shade, mean 0, then two slopes.
        wall: (3,) mean colour of the mucosa, linear RGB.
        tissue: (3,) colour of this patient's polyps before their own factor.
        wetness: Strength of the highlights.
        relief: Strength of the fine relief.
    """

    coarse: Tensor
    fine: Tensor
    wall: Tensor
    tissue: Tensor
    wetness: float
    relief: float


def draw_patient(rng: np.random.Generator, bbps: float = 8.5) -> Patient:
    """Draw one patient.

    Args:
        rng: The patient's own generator.
        bbps: Boston bowel preparation scale, 0 to 9: the less, the more residue and bubbles.
    """
    hue, value = rng.normal(0, 0.13), rng.normal(0, 0.10)
    wall = WALL * np.exp(value + np.array([0.0, hue, 1.2 * hue]))
    shift = np.exp(np.array([0.04, -0.10, -0.08]) + rng.normal(0, 0.06, 3))
    rng.uniform(size=12)  # an earlier version drew these: without them every patient would change
    vessels, waves = float(rng.uniform(-0.4, 0.7)), float(rng.uniform(40, 70))
    residue = float(np.clip(0.16 * (9.6 - bbps) + 0.1 * rng.normal(), 0, 1))
    return Patient(
        coarse=_coarse_texture(rng, wall, vessels, waves, residue),
        fine=_fine_texture(rng),
        wall=torch.from_numpy(wall.astype(np.float32)),
        tissue=torch.from_numpy((wall * shift).astype(np.float32)),
        wetness=float(rng.uniform(0.5, 1.1)),
        relief=float(rng.uniform(0.5, 1.2)),
    )


def _coarse_texture(
    rng: np.random.Generator, wall: NDArray[np.float64], vessels: float, waves: float, amount: float
) -> Tensor:
    """Colours and relief (5, m, m).

    Args:
        rng: Where they come from.
        wall: (3,) mean colour.
        vessels: Density of the vessels, about -0.5 to 1.
        waves: Of the relief once around the lumen.
        amount: Of stool residue and bubbles, 0 to 1.
    """
    mottle = 0.5 * periodic_noise(rng, TEXELS, 4.0) + 0.5 * periodic_noise(rng, TEXELS, 15.0)
    flush = periodic_noise(rng, TEXELS, 7.0)  # redder and paler places
    vessel = vessel_net(rng, TEXELS, vessels)
    residue = residue_film(rng, TEXELS, amount)
    rim, dome_y, dome_x = bubbles(rng, TEXELS, amount)
    relief = periodic_noise(rng, TEXELS, waves)
    mean, vessel_factor, stool, foam = (c[:, None, None] for c in (wall, VESSEL, RESIDUE, FOAM))
    hue = np.array([0.01, -0.06, -0.06])[:, None, None] * flush
    colour = mean * (1 + 0.09 * mottle + hue)  # (3, m, m)
    colour = colour * (1 - vessel * (1 - vessel_factor))
    colour = colour + residue * (stool - colour)
    colour = colour + 0.55 * rim * (foam - colour)
    smooth = 1 - 0.7 * residue
    slopes = [
        (np.roll(relief, -1, 0) - relief) * smooth + 1.6 * dome_y,
        (np.roll(relief, -1, 1) - relief) * smooth + 1.6 * dome_x,
    ]
    return tiling(np.concatenate([colour, np.stack(slopes)]))


def _fine_texture(rng: np.random.Generator) -> Tensor:
    """Shade and two slopes (3, f, f)."""
    shade = periodic_noise(rng, FINE_TEXELS, 34.0, 0.45)
    pits = periodic_noise(rng, FINE_TEXELS, 34.0, 0.45)
    mixed = FINE_SHADE * (0.6 * shade + 0.4 * pits)
    return tiling(np.stack([mixed, np.roll(pits, -1, 0) - pits, np.roll(pits, -1, 1) - pits]))


def residue_film(rng: np.random.Generator, size: int, amount: float) -> Texture:
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


def bubbles(rng: np.random.Generator, size: int, amount: float) -> Texture:
    """Bubbles in small crowds: (3, size, size) rims (0 to 1) and slopes of their domes."""
    total = np.zeros((3, size, size), np.float32)
    for _ in range(rng.poisson(14 * amount)):
        crowd = rng.uniform(0, size, 2)
        for _ in range(rng.integers(3, 14)):
            radius = float(rng.uniform(1.4, 3.6))  # texels
            reach = int(np.ceil(radius + 1))
            y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1] / radius
            away = np.hypot(x, y)
            within = np.clip((1 - away) * radius + 0.5, 0, 1)
            rim = np.exp(-(((away - 0.85) / 0.16) ** 2)) * within
            stamp = np.stack([rim, y * within * (away < 1), x * within * (away < 1)])
            at = (crowd + rng.normal(0, 7, 2)).astype(int)
            rows, columns = (place + np.arange(2 * reach + 1) for place in at)
            total[:, rows[:, None] % size, columns % size] += stamp
    return np.clip(total, -1, 1)


def tiling(texture: NDArray[np.floating]) -> Tensor:
    """A texture (c, m, m) that tiles as `read_tile` reads it: a row and a column more."""
    padded = np.pad(texture, ((0, 0), (0, 1), (0, 1)), mode="wrap")
    return torch.from_numpy(padded.astype(np.float32))


def read_tile(texture: Tensor, across: Tensor, along: Tensor) -> Tensor:
    """Read a texture that tiles: (c, ...), bilinear.

    Args:
        texture: (c, m + 1, m + 1), its last row and column equal to the first, see `tiling`.
        across: (...) the place along a row of texels; whole numbers are seams.
        along: (...) likewise along a column.
    """
    place = torch.stack([across.flatten(), along.flatten()])  # (2, n)
    place = place.sub_(place.floor()).mul_(2).sub_(1)
    values = functional.grid_sample(
        texture[None], place.T[None, None], mode="bilinear", align_corners=True
    )
    return values[0, :, 0].view(-1, *across.shape)


def read_mucosa(patient: Patient, turn: Tensor, z: Tensor, pixel: Tensor) -> tuple[Tensor, Tensor]:
    """Read both textures.

    Args:
        patient: Whose.
        turn: (...) angles around the lumen, radians.
        z: (...) positions along it, units.
        pixel: (...) how wide a pixel is there, units.

    Returns:
        (5, ...) as in `Patient.coarse`, and (3, ...) as in `Patient.fine`, faded.
    """
    across, along = turn / (2 * math.pi), z / (2 * math.pi)
    coarse = read_tile(patient.coarse, across, along)
    fine = read_tile(patient.fine, REPEATS * across, REPEATS * along)
    return coarse, fine / (1 + (pixel / DETAIL).square())
