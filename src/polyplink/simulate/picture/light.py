"""From surface points to light: colour of wall, polyps and wounds, and a light at the camera.

The light sits at the camera, so that the half vector of Blinn's highlights is the ray itself and
brightness falls with the square of the depth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyplink.simulate.picture.field import Touch
from polyplink.simulate.picture.march import FAR
from polyplink.simulate.picture.mucosa import read_mucosa
from polyplink.simulate.picture.patient import Patient
from polyplink.simulate.picture.scar import Scar, stain

RELIEF = 0.12  # how far the relief tilts the normal: enough to break the highlights up
FINE_RELIEF = 0.8  # the fine relief's strength beside the coarse one's
SHINE = 256  # a power of 2
SHINE_STRENGTH = 1.3
LIGHT_CORE = 0.03  # keeps the fall-off finite at the lens
SCATTER = (0.30, 0.12, 0.10)  # red light travels furthest under the mucosa


@dataclass(frozen=True)
class Wound:
    """A scar in s frames: `since` (s, 1) is the seconds since the polyp's removal."""

    scar: Scar
    since: Tensor


def surface_colour(
    patient: Patient, touch: Touch, wounds: Sequence[Wound], pixel: Tensor
) -> tuple[Tensor, Tensor]:
    """Colour of the surface, before any light.

    Args:
        patient: The patient.
        touch: (s, n) surface points.
        wounds: That can be seen.
        pixel: (s, n) how wide a pixel is there, units.

    Returns:
        Linear RGB (3, s, n), and how far the relief tilts the normal (2, s, n), across and along.
    """
    shape = pixel.shape
    turn = torch.atan2(touch.turn[1], touch.turn[0])
    coarse, fine = read_mucosa(patient.mucosa, turn.flatten(), touch.z.flatten(), pixel.flatten())
    colour, relief = coarse[:3].view(3, *shape), coarse[3:].view(2, *shape)
    fine = fine.view(3, *shape)
    for share, paint in zip(touch.shares, touch.paints, strict=True):
        colour = torch.lerp(colour, paint, share)
        relief = relief * (1 - share)
    for wound in wounds:
        points = torch.stack([axis.flatten() for axis in touch.material])
        age = wound.since.expand(shape).flatten()
        colour = stain(colour.reshape(3, -1), points, wound.scar, age).view(3, *shape)
    relief = (RELIEF * patient.relief) * torch.add(relief, fine[1:], alpha=FINE_RELIEF)
    return colour * (1 + fine[0]), relief


def normals(touch: Touch, relief: Tensor) -> Tensor:
    """Unit normals (3, s, n) into the lumen, tilted by the relief (2, s, n) across and along."""
    u, v, w = touch.slope
    per = (u * u).addcmul_(v, v).addcmul_(w, w).add_(1e-12).rsqrt_()
    c, s = touch.turn
    across, along = relief
    normal = torch.stack([u * per - across * s, v * per + across * c, w * per + along])
    square = normal * normal
    return normal.mul_(square[0].add_(square[1]).add_(square[2]).rsqrt_())


def light(patient: Patient, colour: Tensor, normal: Tensor, rays: Tensor, depth: Tensor) -> Tensor:
    """Light leaving the surface towards the camera: linear RGB (3, ...).

    Args:
        patient: For the wetness.
        colour: (3, ...) surface colour.
        normal: (3, ...) unit normals.
        rays: (3, ...) unit directions from the camera.
        depth: (...) distances from the camera.
    """
    cosine = (normal[0] * rays[0]).addcmul_(normal[1], rays[1]).addcmul_(normal[2], rays[2])
    facing = cosine.neg_().clamp_(0, 1)
    fall = (FAR - depth).div_((depth * depth).add_(LIGHT_CORE).mul_(FAR))
    # facing ** SHINE by squarings.
    shine = facing.square()
    for _ in range(SHINE.bit_length() - 2):
        shine.square_()
    shine.mul_(SHINE_STRENGTH * patient.wetness)
    lit = torch.empty_like(colour)
    for channel, scatter in enumerate(SCATTER):
        part = torch.mul(facing, 1 - scatter, out=lit[channel]).add_(scatter)
        part.mul_(colour[channel]).add_(shine).mul_(fall)
    return lit
