"""One patient's colon: its tube, the colour and texture of its mucosa, its wetness."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from polyplink.simulate.colon.surface import Colon, draw_colon
from polyplink.simulate.picture.mucosa import Mucosa, Wall, draw_mucosa

WALL = (0.90, 0.27, 0.175)  # linear RGB of a mean wall
VESSEL = (0.74, 0.40, 0.45)  # factors on it


@dataclass(frozen=True)
class Patient:
    """What all views of a procedure share.

    Attributes:
        colon: The tube.
        mucosa: Its textures.
        wall: (3,) mean colour of the mucosa, linear RGB.
        tissue: (3,) colour of this patient's polyps before their own factor.
        wetness: Strength of the highlights.
        relief: Strength of the fine relief.
    """

    colon: Colon
    mucosa: Mucosa
    wall: Tensor
    tissue: Tensor
    wetness: float
    relief: float

    def to(self, device: torch.device) -> "Patient":
        """The same patient on another device."""
        return replace(
            self,
            mucosa=self.mucosa.to(device),
            wall=self.wall.to(device),
            tissue=self.tissue.to(device),
        )


def draw_patient(rng: np.random.Generator, bbps: float = 8.5) -> Patient:
    """Draw one patient.

    Args:
        rng: The patient's own generator.
        bbps: Boston bowel preparation scale, 0 to 9: the less, the more residue and bubbles.
    """
    hue, value = rng.normal(0, 0.13), rng.normal(0, 0.10)
    wall = np.array(WALL) * np.exp(value + np.array([0.0, hue, 1.2 * hue]))
    shift = np.exp(np.array([0.04, -0.10, -0.08]) + rng.normal(0, 0.06, 3))
    colon = draw_colon(rng)
    substance = Wall(
        colour=(float(wall[0]), float(wall[1]), float(wall[2])),
        vessel=VESSEL,
        density=float(rng.uniform(-0.4, 0.7)),
        grain=float(rng.uniform(40, 70)),
        residue=float(np.clip(0.16 * (9.6 - bbps) + 0.1 * rng.normal(), 0, 1)),
    )
    return Patient(
        colon=colon,
        mucosa=draw_mucosa(rng, substance),
        wall=torch.from_numpy(wall.astype(np.float32)),
        tissue=torch.from_numpy((wall * shift).astype(np.float32)),
        wetness=float(rng.uniform(0.5, 1.1)),
        relief=float(rng.uniform(0.5, 1.2)),
    )
