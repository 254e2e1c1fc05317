"""Textures and colours for a planned procedure: all that its pictures need and its boxes do not."""

import datetime
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.colon.polyp import lump_foot
from polyplink.simulate.picture.blink import draw_blinks
from polyplink.simulate.picture.body import Skin
from polyplink.simulate.picture.drops import Drops, draw_drops
from polyplink.simulate.picture.grain import draw_grain
from polyplink.simulate.picture.paint import paint_map
from polyplink.simulate.picture.patient import Patient, draw_patient
from polyplink.simulate.picture.scar import Scar, draw_scar
from polyplink.simulate.picture.veil import draw_clouds
from polyplink.simulate.plan import Plan
from polyplink.simulate.procedure_specs import stream


@dataclass(frozen=True)
class Appearance:
    """What a procedure looks like.

    Attributes:
        patient: The patient, with the plan's own colon.
        skins: The polyps, in the plan's order.
        scars: The places of those that are removed.
        brand: Of the endoscope, see `lens.LENS_CORNERS`.
        blinks: (s,) kind of blink in every frame, -1 for none; see `blink.KINDS`.
        clouds: Tile of clouds, see `veil.draw_clouds`.
        drops: Water on the lens.
        grain: Tile of sensor noise, see `grain.draw_grain`.
        start: What the processor's clock shows in the first frame; made up.
        fps: Frames per second.
    """

    patient: Patient
    skins: tuple[Skin, ...]
    scars: tuple[Scar, ...]
    brand: str
    blinks: NDArray[np.int8]
    clouds: Tensor
    drops: Drops
    grain: Tensor
    start: datetime.datetime
    fps: float

    def to(self, device: torch.device) -> "Appearance":
        """The same appearance on another device."""
        return replace(
            self,
            patient=self.patient.to(device),
            skins=tuple(Skin(skin.lump.to(device), skin.paint.to(device)) for skin in self.skins),
            scars=tuple(scar.to(device) for scar in self.scars),
            clouds=self.clouds.to(device),
            drops=self.drops.to(device),
            grain=self.grain.to(device),
        )


def draw_clock(rng: np.random.Generator) -> datetime.datetime:
    """A made-up time of day on a made-up day."""
    day = datetime.datetime(2001, 1, 1) + datetime.timedelta(days=int(rng.integers(0, 9000)))
    return day + datetime.timedelta(seconds=int(rng.integers(8 * 3600, 15 * 3600)))


def draw_appearance(plan: Plan, seed: int) -> Appearance:
    """Draw the look of a planned procedure: the same plan and seed give the same look.

    Args:
        plan: The procedure.
        seed: Seed of the data set.
    """
    spec = plan.spec
    own = {
        concern: stream(seed, spec.procedure_id, concern)
        for concern in ("patient", "look", "scar", "drops")
    }
    patient = replace(draw_patient(own["patient"], spec.bbps), colon=plan.colon)
    skins = tuple(
        Skin(lump, paint_map(traits, lump.maps, patient.tissue))
        for traits, lump in zip(plan.traits, plan.lumps, strict=True)
    )
    scars = tuple(
        draw_scar(own["scar"], *lump_foot(traits, lump), removed)
        for traits, lump, removed in zip(
            plan.traits, plan.lumps, plan.timeline.removed, strict=True
        )
        if removed is not None
    )
    return Appearance(
        patient=patient,
        skins=skins,
        scars=scars,
        brand=spec.brand,
        blinks=draw_blinks(own["look"], plan.conditions.blink),
        clouds=draw_clouds(own["look"]),
        drops=draw_drops(own["drops"]),
        grain=draw_grain(own["look"]),
        start=draw_clock(own["look"]),
        fps=spec.fps,
    )
