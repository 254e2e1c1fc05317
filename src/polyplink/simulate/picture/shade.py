"""From surface points to pixels: material, a light at the camera, exposure, the lens.

The light sits at the camera, so that the half vector of Blinn's highlights is the ray itself and
brightness falls with the square of the depth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from polyplink.simulate.picture.march import FAR, FIELD, march
from polyplink.simulate.picture.mucosa import read_mucosa
from polyplink.simulate.picture.patient import Patient
from polyplink.simulate.picture.scene import (
    Lump,
    centre_line,
    lengths,
    normals,
    read_maps,
    surface,
    to_lump,
)

NORMAL_STEP = 4e-3
RELIEF = 0.12  # how far the relief tilts the normal: enough to break the highlights up
FINE_RELIEF = 0.8  # the fine relief's strength beside the coarse one's
SHINE = 80.0
LIGHT_CORE = 0.03  # keeps the fall-off finite at the lens
TARGET = 0.42  # mean of the square roots of brightness that the exposure aims for
SOFTNESS = 0.5  # of the lens: share of a 3 x 3 mean
SCATTER = (0.30, 0.12, 0.10)  # red light travels furthest under the mucosa


@dataclass(frozen=True)
class Shots:
    """Cameras of s frames.

    Attributes:
        origins: (s, 3) positions.
        rotations: (s, 3, 3) columns: right, down, forward.
        exposures: (s,) factor on the automatic exposure.
        whites: (s, 3) white balance, factors on RGB.
    """

    origins: Tensor
    rotations: Tensor
    exposures: Tensor
    whites: Tensor

    def part(self, start: int, stop: int) -> "Shots":
        """Frames start to stop - 1."""
        return Shots(
            self.origins[start:stop],
            self.rotations[start:stop],
            self.exposures[start:stop],
            self.whites[start:stop],
        )


@dataclass(frozen=True)
class Skin:
    """A polyp as it is drawn: its lump, and (3, m, m) colours over its surface, linear RGB."""

    lump: Lump
    paint: Tensor


def lens_mask(width: int, height: int, device: torch.device) -> Tensor:
    """Vignette (height, width) from 1 in the middle to 0 in the cut corners of the view."""
    x = (torch.arange(width, device=device) + 0.5) / width * 2 - 1
    y = ((torch.arange(height, device=device) + 0.5) / height * 2 - 1)[:, None]
    edge = 1.72 - x.abs() - y.abs()
    return (1 - 0.22 * (x * x + y * y)) * (edge * width / 4).clamp(0, 1)


def surface_colour(
    patient: Patient, skins: Sequence[Skin], points: Tensor, shares: Tensor, pixel: Tensor
) -> tuple[Tensor, Tensor]:
    """Colour of the surface, before any light.

    Args:
        patient: The patient.
        skins: k polyps.
        points: (3, n) surface points.
        shares: (k, n) of every polyp in the surface.
        pixel: (n,) how wide a pixel is there, units.

    Returns:
        Linear RGB (3, n), and how far the relief tilts the normal (2, n), across and along.
    """
    x, y = centre_line(patient.colon, points[2])
    turn = torch.atan2(points[1] - y, points[0] - x)
    coarse, fine = read_mucosa(patient.mucosa, turn, points[2], pixel)
    colour, relief = coarse[:3], coarse[3:]
    if len(skins):
        relief = relief * (1 - shares.amax(0))
    for skin, share in zip(skins, shares, strict=True):
        local = to_lump(skin.lump, points)
        paint = read_maps(skin.paint, local, lengths(local))
        colour = torch.lerp(colour, paint, share)
    relief = RELIEF * patient.relief * torch.add(relief, fine[1:], alpha=FINE_RELIEF)
    return colour * (1 + fine[0]), relief


def light(patient: Patient, colour: Tensor, normal: Tensor, rays: Tensor, depth: Tensor) -> Tensor:
    """Light leaving the surface towards the camera: linear RGB (3, n).

    Args:
        patient: For the wetness.
        colour: (3, n) surface colour.
        normal: (3, n) unit normals.
        rays: (3, n) unit directions from the camera.
        depth: (n,) distances from the camera.
    """
    cosine = normal[0] * rays[0] + normal[1] * rays[1] + normal[2] * rays[2]
    facing = (-cosine).clamp(0, 1)
    scatter = colour.new_tensor(SCATTER)[:, None]
    diffuse = colour * (scatter + (1 - scatter) * facing)
    shine = 0.9 * patient.wetness * facing**SHINE
    fall = 1 / (depth * depth + LIGHT_CORE) * ((FAR - depth) / FAR)
    return (diffuse + shine) * fall


def develop(linear: Tensor, exposures: Tensor, whites: Tensor, mask: Tensor) -> Tensor:
    """Automatic exposure, white balance, tone curve and lens: (s, h, w, 3) in 0 to 1.

    Args:
        linear: (3, s, h, w) linear RGB.
        exposures: (s,) factor on the automatic exposure.
        whites: (s, 3) white balance.
        mask: (h, w) of the lens.
    """
    root = linear.amax(0).clamp(max=50).sqrt().mean(dim=(1, 2))  # (s,)
    gain = exposures * (TARGET / root) ** 2  # (s,)
    scaled = linear * (gain[:, None] * whites).T[:, :, None, None]
    toned = (1 - torch.exp(-2.2 * scaled)).sqrt()
    blurred = functional.avg_pool2d(toned, 3, stride=1, padding=1, count_include_pad=False)
    toned = torch.lerp(toned, blurred, SOFTNESS) * mask
    return toned.permute(1, 2, 3, 0).contiguous()


def render(
    patient: Patient, skins: Sequence[Skin], shots: Shots, rays: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Render s frames.

    Args:
        patient: The patient.
        skins: The k polyps that can be seen.
        shots: The cameras.
        rays: (3, h, w) camera rays, see `march.camera_rays`.
        mask: (h, w), see `lens_mask`.

    Returns:
        Images (s, h, w, 3) in 0 to 1, and which polyp a pixel shows (s, h, w), int8: an index
        into skins, or -1 for the wall and for what the lens cuts off.
    """
    lumps = [skin.lump for skin in skins]
    depth, pixels = march(patient.colon, lumps, shots.origins, shots.rotations, rays)
    points = pixels.at(depth)  # (3, n), n = s * h * w
    distance, shares = surface(patient.colon, lumps, points)
    pixel = depth * (2 * math.tan(FIELD / 2) / mask.shape[1])
    colour, rough = surface_colour(patient, skins, points, shares, pixel)
    normal = normals(patient.colon, lumps, points, distance, NORMAL_STEP)
    normal = normal + torch.stack([rough[0], rough[0], rough[1]])
    normal = normal / lengths(normal)
    linear = light(patient, colour, normal, pixels.directions, depth)
    linear = linear.view(3, len(shots.origins), *mask.shape)
    images = develop(linear, shots.exposures, shots.whites, mask)
    return images, polyp_pixels(shares, depth, mask)


def polyp_pixels(shares: Tensor, depth: Tensor, mask: Tensor) -> Tensor:
    """Which polyp a pixel shows: (s, h, w) int8, -1 for none.

    Args:
        shares: (k, n) of every polyp, n = s * h * w.
        depth: (n,) along the rays.
        mask: (h, w) of the lens.
    """
    if not len(shares):
        none = torch.full(depth.shape, -1, dtype=torch.int8, device=depth.device)
        return none.view(-1, *mask.shape)
    share, which = shares.max(0)
    seen = torch.where((share > 0.5) & (depth < FAR), which, -1).view(-1, *mask.shape)
    return torch.where(mask > 0.3, seen, -1).to(torch.int8)
