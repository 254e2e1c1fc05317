"""A small scene that several tests look at."""

from typing import NamedTuple

import numpy as np

from polyplink.simulate.colon.polyp import draw_traits, place_lump, surface_maps, wall_frame
from polyplink.simulate.picture.body import Skin
from polyplink.simulate.picture.paint import paint_map
from polyplink.simulate.picture.patient import Patient, draw_patient


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
