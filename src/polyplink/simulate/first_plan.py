"""The plan of a procedure, drawn from its seed: patient, polyps and camera path."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.course.first_camera import (
    CameraPath,
    Target,
    View,
    draw_view,
    follow_gap,
    follow_lumen,
    follow_view,
    join_paths,
)
from polyplink.simulate.picture.march import FIELD
from polyplink.simulate.picture.paint import paint_map
from polyplink.simulate.picture.patient import Patient, draw_patient
from polyplink.simulate.picture.polyp import (
    Traits,
    draw_traits,
    place_lump,
    surface_maps,
    wall_frame,
)
from polyplink.simulate.picture.shade import Skin
from polyplink.simulate.presets import Preset

SPACING = (4.5, 6.0)  # units between one polyp and the next along the tube
EMPTY_FRAMES = 300  # length of a procedure without polyps
GRAIN = 0.012  # standard deviation of the sensor's noise


class FirstSpec(NamedTuple):
    """Size and class of a polyp."""

    size_mm: float
    histology_class: str


@dataclass(frozen=True)
class Plan:
    """All that a procedure's frames are computed from.

    Attributes:
        patient: The patient.
        traits: What each polyp is.
        skins: What each polyp looks like, in the same order.
        path: The camera.
        grain: (2h, 2w) sensor noise that every frame reads at its own place.
        corners: (s, 2) where.
    """

    patient: Patient
    traits: tuple[Traits, ...]
    skins: tuple[Skin, ...]
    path: CameraPath
    grain: Tensor
    corners: NDArray[np.int64]


def _views(rng: np.random.Generator, preset: Preset, target: int, radius: float) -> list[View]:
    """All looks at one polyp, short ones anywhere among the long ones."""
    reach = radius / math.tan(FIELD / 2)
    long = rng.integers(
        preset.long_frames[0],
        preset.long_frames[1] + 1,
        rng.integers(preset.long_views[0], preset.long_views[1] + 1),
    )
    short = rng.integers(
        preset.short_frames[0],
        preset.short_frames[1] + 1,
        rng.integers(preset.short_views[0], preset.short_views[1] + 1),
    )
    frames = rng.permutation(np.concatenate([long, short]))
    return [draw_view(rng, target, reach, int(n)) for n in frames]


def _path(
    rng: np.random.Generator, preset: Preset, patient: Patient, targets: Sequence[Target]
) -> CameraPath:
    if not targets:
        return follow_lumen(rng, patient.colon, EMPTY_FRAMES)
    views = [
        view
        for index, target in enumerate(targets)
        for view in _views(rng, preset, index, target.radius)
    ]
    looks = [follow_view(patient.colon, targets[view.target], view) for view in views]
    parts = looks[:1]
    for index in range(1, len(looks)):
        pair = targets[views[index - 1].target], targets[views[index].target]
        parts += [
            follow_gap(rng, patient.colon, pair, looks[index - 1], looks[index]),
            looks[index],
        ]
    return join_paths(parts)


def plan_procedure(rng: np.random.Generator, preset: Preset, polyps: int) -> Plan:
    """Draw a procedure: the same generator state gives the same plan.

    Args:
        rng: The procedure's own generator.
        preset: Sizes and numbers.
        polyps: Number of polyps.
    """
    patient = draw_patient(rng)
    traits, skins, targets, z = [], [], [], 0.0
    for _ in range(polyps):
        size = round(float(rng.uniform(4.5, 10.0)), 1)
        traits.append(draw_traits(rng, FirstSpec(size, str(rng.choice(["AD", "HP"]))), 0.5))
        point, axes = wall_frame(patient.colon, z, rng.uniform(0, 2 * math.pi))
        maps = surface_maps(rng, traits[-1])
        lump = place_lump(traits[-1], maps, point, axes)
        skins.append(Skin(lump, paint_map(traits[-1], maps, patient.tissue)))
        targets.append(
            Target(lump.centre.double().numpy(), axes.double().numpy(), float(lump.radii[0]))
        )
        z -= rng.uniform(*SPACING)
    path = _path(rng, preset, patient, targets)
    shape = (2 * preset.height, 2 * preset.width, 1)
    grain = GRAIN * rng.standard_normal(shape).astype(np.float32)
    corners = rng.integers(0, (preset.height, preset.width), (len(path.positions), 2))
    return Plan(patient, tuple(traits), tuple(skins), path, torch.from_numpy(grain), corners)
