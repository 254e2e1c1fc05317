"""A small scene that several tests look at."""

import math
from typing import NamedTuple

import numpy as np
import torch

from polyplink.simulate.course.rotations import look_along
from polyplink.simulate.picture.paint import paint_map
from polyplink.simulate.picture.patient import Patient, draw_patient
from polyplink.simulate.picture.polyp import draw_traits, place_lump, surface_maps, wall_frame
from polyplink.simulate.picture.scene import centre_line
from polyplink.simulate.picture.shade import Shots, Skin


class Kind(NamedTuple):
    """Size and class of a polyp."""

    size_mm: float
    histology_class: str


def small_scene(seed: int = 0) -> tuple[Patient, Skin]:
    """A patient with one polyp at z = 0."""
    rng = np.random.default_rng(seed)
    patient = draw_patient(rng)
    traits = draw_traits(rng, Kind(7.0, "AD"), 0.5)
    point, axes = wall_frame(patient.colon, 0.0, 1.0)
    maps = surface_maps(rng, traits)
    lump = place_lump(traits, maps, point, axes)
    return patient, Skin(lump, paint_map(traits, maps, patient.tissue))


def shots_at(patient: Patient, skin: Skin, *, away: bool = False, frames: int = 1) -> Shots:
    """Cameras in the middle of the lumen that look at the polyp, or away from it."""
    z = torch.linspace(-0.3, 0.3, frames) if frames > 1 else torch.tensor([-0.3])
    origins = torch.stack([*centre_line(patient.colon, z), z], dim=1)
    forward = (skin.lump.centre - origins) * (-1 if away else 1)
    up = np.repeat([[0.0, 0.1, 1.0]], frames, 0)
    rotations = torch.from_numpy(look_along(forward.double().numpy(), up)).float()
    return Shots(origins, rotations, torch.ones(frames), torch.ones(frames, 3))


def degrees(first: np.ndarray, last: np.ndarray) -> float:
    """Angle between two rotations, by quaternion-free trace formula, degrees."""
    cosine = (np.trace(first.T @ last) - 1) / 2
    return math.degrees(math.acos(float(np.clip(cosine, -1, 1))))
