"""One patient's colon: its tube, the colour and texture of its mucosa, its wetness."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from polyplink.simulate.picture.scene import Colon
from polyplink.simulate.picture.texture import mucosa


@dataclass(frozen=True)
class Patient:
    """What all views of a procedure share.

    Attributes:
        colon: The tube.
        texture: (4, m, m) mucosa, see `texture.mucosa`.
        wall: (3,) colour of the mucosa, linear RGB.
        vessel: (3,) factor where there is a vessel.
        tissue: (3,) colour of this patient's polyps before their own factor.
        wetness: Strength of the highlights.
        relief: Strength of the fine relief.
    """

    colon: Colon
    texture: Tensor
    wall: Tensor
    vessel: Tensor
    tissue: Tensor
    wetness: float
    relief: float

    def to(self, device: torch.device) -> "Patient":
        """The same patient on another device."""
        return replace(
            self,
            texture=self.texture.to(device),
            wall=self.wall.to(device),
            vessel=self.vessel.to(device),
            tissue=self.tissue.to(device),
        )


def draw_colon(rng: np.random.Generator) -> Colon:
    """Draw one patient's tube."""
    phase = rng.uniform(0, 2 * math.pi, 4)
    return Colon(
        bend=(float(rng.uniform(0.6, 1.1)), float(rng.uniform(0.6, 1.1))),
        bend_rate=(float(rng.uniform(0.45, 0.65)), float(rng.uniform(0.5, 0.75))),
        bend_phase=(float(phase[0]), float(phase[1])),
        fold_rate=float(rng.uniform(4.2, 5.6)),
        fold_phase=float(phase[2]),
        fold_depth=float(rng.uniform(0.2, 0.3)),
        fold_tilt=float(rng.uniform(-0.8, 0.8)),
        corner_depth=float(rng.uniform(0.03, 0.08)),
        corner_phase=float(phase[3]),
    )


def draw_patient(rng: np.random.Generator) -> Patient:
    """Draw one patient."""
    hue, value = rng.normal(0, 0.12), rng.normal(0, 0.10)
    wall = np.array([0.80, 0.36, 0.27]) * np.exp(value + np.array([0.0, hue, 1.2 * hue]))
    shift = np.exp(np.array([0.05, -0.22, -0.16]) + rng.normal(0, 0.06, 3))
    return Patient(
        colon=draw_colon(rng),
        texture=mucosa(rng, float(rng.uniform(-0.4, 0.7)), float(rng.uniform(40, 70))),
        wall=torch.from_numpy(wall.astype(np.float32)),
        vessel=torch.tensor([0.78, 0.42, 0.45]),
        tissue=torch.from_numpy((wall * shift).astype(np.float32)),
        wetness=float(rng.uniform(0.5, 1.1)),
        relief=float(rng.uniform(0.5, 1.2)),
    )
