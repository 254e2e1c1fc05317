"""Shading: the mucosa of a patient, wounds, lighting, exposure and tone curve.

The mucosa has two textures. The coarse one covers the lumen's circumference once and holds colours
and relief. The fine one repeats, and fades where a pixel is wider than its details; it is needed
because the camera comes as near as 2 mm, where the coarse texture alone looks blurred.

The light is at the camera, so that the half vector of Blinn's highlights is the ray itself, and
brightness falls with the square of the depth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyplink_lab.simulate.colon.surface import SurfaceSample
from polyplink_lab.simulate.colon.tissue import Texture, periodic_noise, vessel_net
from polyplink_lab.simulate.picture.rays import FAR, colour_like

TEXELS = 384  # of the coarse texture around the lumen, 0.3 mm each
FINE_TEXELS = 256
REPEATS = 9  # repetitions of the fine texture around the lumen: 0.05 mm a texel
DETAIL = 0.008  # units; the fine texture's waves are about three times as long
# Linear RGB.
WALL = np.array([0.90, 0.27, 0.175])  # mean colour of the wall over patients
RESIDUE = np.array([0.74, 0.27, 0.075])  # stool
FOAM = np.array([0.98, 0.62, 0.50])  # rims of bubbles
VESSEL = np.array([0.74, 0.40, 0.45])  # factors on the wall's colour in vessels
FINE_SHADE = 0.09


@dataclass(frozen=True)
class Patient:
    """Textures and colours of a patient's mucosa. The textures tile, see `read_tile`.

    Attributes:
        coarse: (5, m, m) linear RGB, then two slopes of the relief, across and along.
        fine: (3, f, f) shade, mean 0, then two slopes.
        wall: (3,) mean colour of the mucosa, linear RGB.
        tissue: (3,) base colour of the patient's polyps, linear RGB.
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

    `bbps` is the Boston bowel preparation scale, 0 to 9: lower means more residue and bubbles.
    """
    hue, value = rng.normal(0, 0.13), rng.normal(0, 0.10)
    wall = WALL * np.exp(value + np.array([0.0, hue, 1.2 * hue]))
    shift = np.exp(np.array([0.04, -0.10, -0.08]) + rng.normal(0, 0.06, 3))
    rng.uniform(size=12)  # unused; keeps the random numbers, and so all patients, unchanged
    vessels, waves = float(rng.uniform(-0.4, 0.7)), float(rng.uniform(40, 70))
    amount = float(np.clip(0.16 * (9.6 - bbps) + 0.1 * rng.normal(), 0, 1))  # of residue

    # Colours and relief.
    mottle = 0.5 * periodic_noise(rng, TEXELS, 4.0) + 0.5 * periodic_noise(rng, TEXELS, 15.0)
    flush = periodic_noise(rng, TEXELS, 7.0)  # redder and paler areas
    vessel = vessel_net(rng, TEXELS, vessels)
    # Stool residue, 0 (none) to 1: soft films and small flecks.
    pool, edge = periodic_noise(rng, TEXELS, 2.5, 0.4), periodic_noise(rng, TEXELS, 24.0)
    film = np.clip(0.8 * (pool + 0.35 * edge) - 1.9 + 1.3 * amount, 0, 1)
    flecks = np.clip(2.5 * (periodic_noise(rng, TEXELS, 60.0) + 0.5 * pool - 3.3 + amount), 0, 1)
    residue = np.asarray(np.maximum(0.8 * film, flecks * (amount > 0)), np.float32)
    rim, dome_y, dome_x = bubbles(rng, TEXELS, amount)
    relief = periodic_noise(rng, TEXELS, waves)
    mean, vessel_factor, stool, foam = (c[:, None, None] for c in (wall, VESSEL, RESIDUE, FOAM))
    blush = np.array([0.01, -0.06, -0.06])[:, None, None] * flush
    colour = mean * (1 + 0.09 * mottle + blush)  # (3, m, m)
    colour = colour * (1 - vessel * (1 - vessel_factor))
    colour = colour + residue * (stool - colour)
    colour = colour + 0.55 * rim * (foam - colour)
    smooth = 1 - 0.7 * residue
    slopes = [
        (np.roll(relief, -1, 0) - relief) * smooth + 1.6 * dome_y,
        (np.roll(relief, -1, 1) - relief) * smooth + 1.6 * dome_x,
    ]

    shade, pits = (periodic_noise(rng, FINE_TEXELS, 34.0, 0.45) for _ in range(2))
    mixed = FINE_SHADE * (0.6 * shade + 0.4 * pits)
    fine = [mixed, np.roll(pits, -1, 0) - pits, np.roll(pits, -1, 1) - pits]
    return Patient(
        coarse=tiling(np.concatenate([colour, np.stack(slopes)])),
        fine=tiling(np.stack(fine)),
        wall=torch.from_numpy(wall.astype(np.float32)),
        tissue=torch.from_numpy((wall * shift).astype(np.float32)),
        wetness=float(rng.uniform(0.5, 1.1)),
        relief=float(rng.uniform(0.5, 1.2)),
    )


def bubbles(rng: np.random.Generator, size: int, amount: float) -> Texture:
    """Draw clusters of bubbles: (3, size, size) rims (0 to 1) and two slopes of their domes."""
    total = np.zeros((3, size, size), np.float32)
    for _ in range(rng.poisson(14 * amount)):
        crowd = rng.uniform(0, size, 2)
        for _ in range(rng.integers(3, 14)):
            radius = float(rng.uniform(1.4, 3.6))  # texels
            reach = int(np.ceil(radius + 1))
            y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1] / radius
            distance = np.hypot(x, y)
            within = np.clip((1 - distance) * radius + 0.5, 0, 1)
            rim = np.exp(-(((distance - 0.85) / 0.16) ** 2)) * within
            stamp = np.stack([rim, y * within * (distance < 1), x * within * (distance < 1)])
            at = (crowd + rng.normal(0, 7, 2)).astype(int)
            rows, columns = (place + np.arange(2 * reach + 1) for place in at)
            total[:, rows[:, None] % size, columns % size] += stamp
    return np.clip(total, -1, 1)


def tiling(texture: NDArray[np.floating]) -> Tensor:
    """Pad a periodic texture (c, m, m) by one row and one column, for `read_tile`."""
    padded = np.pad(texture, ((0, 0), (0, 1), (0, 1)), mode="wrap")
    return torch.from_numpy(padded.astype(np.float32))


def read_tile(texture: Tensor, across: Tensor, along: Tensor) -> Tensor:
    """Sample a tiling texture bilinearly, to (c, ...).

    Args:
        texture: (c, m + 1, m + 1), its last row and column equal to the first, see `tiling`.
        across: (...) coordinates along rows, in tiles: whole numbers are seams.
        along: (...) coordinates along columns, in tiles.
    """
    place = torch.stack([across.flatten(), along.flatten()])  # (2, n)
    place = place.sub_(place.floor()).mul_(2).sub_(1)
    values = functional.grid_sample(
        texture[None], place.T[None, None], mode="bilinear", align_corners=True
    )
    return values[0, :, 0].view(-1, *across.shape)


def read_mucosa(patient: Patient, turn: Tensor, z: Tensor, pixel: Tensor) -> tuple[Tensor, Tensor]:
    """Sample both textures at (...) angles around the lumen (radians) and z along it (units).

    Returns (5, ...) as in `Patient.coarse`, and (3, ...) as in `Patient.fine`; the latter fades
    where pixels, `pixel` (...) units wide, are too coarse for its details.
    """
    across, along = turn / (2 * math.pi), z / (2 * math.pi)
    coarse = read_tile(patient.coarse, across, along)
    fine = read_tile(patient.fine, REPEATS * across, REPEATS * along)
    return coarse, fine / (1 + (pixel / DETAIL).square())


RELIEF = 0.12  # tilt of the normal by the relief: enough to break up highlights
FINE_RELIEF = 0.8  # strength of the fine relief relative to the coarse one
SHINE = 256  # exponent of the highlights, a power of 2
SHINE_STRENGTH = 1.3
LIGHT_CORE = 0.03  # limits the inverse square law near the lens
SCATTER = (0.30, 0.12, 0.10)  # red light travels farthest under the mucosa
# Linear RGB of the parts of a wound.
BLOOD = (0.42, 0.020, 0.016)
FIBRIN = (0.92, 0.60, 0.44)
RIM = (0.62, 0.085, 0.065)
WOUND_REACH = 2.5  # radius of the stained area, in radii of the wound
TARGET = 0.42  # target of the automatic exposure: mean square root of brightness
GLARE = 50.0  # brightness is clamped to this value for the exposure
SOFTNESS = 0.127  # of the lens: share of a pixel's light that goes to each neighbour
CONTRAST = 2.2


@dataclass(frozen=True)
class Scar:
    """The wound of a removed polyp: it bleeds at first, then is pale within a red rim.

    Attributes:
        place: (3,) position of the polyp's foot on the wall at rest.
        radius: Radius of the wound, units.
        since: First frame after the removal.
        ooze: Initial spread of blood beyond the wound, in radii.
        dries: Time constant of the bleeding, seconds.
        phase: (3,) phases of the irregular edge.
    """

    place: Tensor
    radius: float
    since: int
    ooze: float
    dries: float
    phase: Tensor


def draw_scar(rng: np.random.Generator, place: Tensor, radius: float, since: int) -> Scar:
    """Draw the size, bleeding and edge of a wound."""
    return Scar(
        place=place,
        radius=radius * float(rng.uniform(0.9, 1.25)),
        since=since,
        ooze=float(rng.uniform(0.1, 0.8)),
        dries=float(rng.uniform(6, 40)),
        phase=torch.from_numpy(rng.uniform(0, 6.28, 3).astype(np.float32)),
    )


def stain(colour: Tensor, points: Tensor, scar: Scar, age: Tensor) -> Tensor:
    """Blend a wound into the colour (3, s, n), linear RGB, of surface points (3, s, n) at rest.

    `age` (s, 1) is the time since the removal in seconds, negative before it (no wound).
    """
    x, y, z = (points - scar.place[:, None, None]) / scar.radius
    a, b, c = scar.phase
    uneven = torch.sin(2.1 * x + 1.3 * y + a) + torch.sin(3.4 * y - 1.7 * z + b)
    uneven = uneven + 0.6 * torch.sin(5.2 * z + 4.1 * x + c)
    # Clots and torn edges: finer waves, distorted by the coarse ones to look irregular.
    torn = torch.sin(9.1 * x - 6.3 * z + 1.7 * uneven + b) * torch.sin(8.3 * y + 5.9 * z + a)
    distance = (x * x + y * y + z * z + 1e-9).sqrt() + 0.11 * uneven + 0.09 * torn
    is_open = (age >= 0).to(colour.dtype)
    wet = torch.exp(-age.clamp_min(0) / scar.dries)
    rim = (0.45 + 0.4 * wet) * (2.5 * (1.35 - distance)).clamp(0, 1)
    fibrin = (0.75 + 0.15 * torn) * (3.5 * (0.85 - distance)).clamp(0, 1)
    blood = (2 * (1.05 + scar.ooze * wet + 0.14 * uneven - distance)).clamp(0, 1)
    layers = ((RIM, rim), (FIBRIN, fibrin), (BLOOD, (0.86 + 0.1 * torn) * wet * blood))
    for paint, cover in layers:
        colour = torch.lerp(colour, colour_like(colour, paint), cover * is_open)
    return colour


def surface_colour(
    patient: Patient, sample: SurfaceSample, wounds: Sequence[tuple[Scar, Tensor]], pixel: Tensor
) -> tuple[Tensor, Tensor]:
    """Colour (albedo) and relief of the surface.

    Args:
        patient: Textures and colours of the mucosa.
        sample: (s, n) surface points.
        wounds: Visible wounds, and the seconds (s, 1) since each polyp's removal.
        pixel: (s, n) width of a pixel on the surface, units.

    Returns:
        Linear RGB (3, s, n), and the tilt of the normal by the relief (2, s, n), across and along.
    """
    turn = torch.atan2(sample.turn[1], sample.turn[0])
    coarse, fine = read_mucosa(patient, turn, sample.material[2], pixel)
    colour, relief = coarse[:3], coarse[3:]
    for share, paint in zip(sample.shares, sample.colours, strict=True):
        colour = torch.lerp(colour, paint, share)
        relief = relief * (1 - share)
    for scar, age in wounds:
        colour = stain(colour, sample.material, scar, age)
    relief = (RELIEF * patient.relief) * torch.add(relief, fine[1:], alpha=FINE_RELIEF)
    return colour * (1 + fine[0]), relief


def normals(sample: SurfaceSample, relief: Tensor) -> Tensor:
    """Unit normals (3, s, n) into the lumen, tilted by the relief (2, s, n) across and along."""
    normal = sample.slope * _per_length(sample.slope)
    c, s = sample.turn
    normal[0].addcmul_(relief[0], s, value=-1)
    normal[1].addcmul_(relief[0], c)
    normal[2].add_(relief[1])
    return normal.mul_(_per_length(normal))


def _per_length(vectors: Tensor) -> Tensor:
    """Reciprocal lengths of vectors (3, ...); much faster than a norm over dimension 0."""
    x, y, z = vectors
    per: Tensor = (x * x).addcmul_(y, y).addcmul_(z, z).add_(1e-20).rsqrt_()
    return per


def light(patient: Patient, colour: Tensor, normal: Tensor, rays: Tensor, depth: Tensor) -> Tensor:
    """Light leaving the surface towards the camera: linear RGB (3, ...).

    Args:
        patient: Patient, of which the wetness is used.
        colour: (3, ...) colour of the surface, linear RGB.
        normal: (3, ...) unit normals of the surface.
        rays: (3, ...) unit directions from the camera.
        depth: (...) distances from the camera.
    """
    cosine = (normal[0] * rays[0]).addcmul_(normal[1], rays[1]).addcmul_(normal[2], rays[2])
    facing = cosine.neg_().clamp_(0, 1)
    fall = (FAR - depth).div_((depth * depth).add_(LIGHT_CORE).mul_(FAR))
    shine = facing.square()
    for _ in range(SHINE.bit_length() - 2):  # facing ** SHINE by squarings
        shine.square_()
    shine.mul_(SHINE_STRENGTH * patient.wetness)
    lit = torch.empty_like(colour)
    for channel, scatter in enumerate(SCATTER):
        part = torch.mul(facing, 1 - scatter, out=lit[channel]).add_(scatter)
        part.mul_(colour[channel]).add_(shine).mul_(fall)
    return lit


def automatic_gains(linear: Tensor) -> Tensor:
    """Exposure factors (s,) that bring light (3, s, n), sampled evenly over frames, to `TARGET`."""
    root = linear.amax(0).clamp_max(GLARE).sqrt().mean(dim=1)  # (s,)
    return (TARGET / root.clamp_min(1e-6)) ** 2


def develop(linear: Tensor, gains: Tensor, whites: Tensor) -> Tensor:
    """Convert light to images (3, s, h, w) in 0 to 1 as the sensor and processor do.

    `linear` (3, s, h, w) is overwritten; `gains` (s,) are the exposure factors, `whites` (s, 3) the
    white balance.
    """
    scaled = linear.mul_((-CONTRAST * gains[:, None] * whites).T[:, :, None, None])
    images = scaled.exp_().neg_().add_(1).sqrt_()
    # Soften: every pixel spreads a share of its light to its neighbours, edges replicated.
    for axis in (-1, -2):
        last = images.shape[axis] - 1
        soft = images * (1 - 2 * SOFTNESS)
        for target, neighbour in ((0, 1), (1, 0)):
            part = soft.narrow(axis, target, last)
            part.add_(images.narrow(axis, neighbour, last), alpha=SOFTNESS)
        for edge in (0, last):
            soft.select(axis, edge).add_(images.select(axis, edge), alpha=SOFTNESS)
        images = soft
    return images
