"""Image effects: defocus and motion blur, smoke, water on the lens, and blinks.

Images are (3, s, h, w) in 0 to 1. Clouds and drops are sampled from a tile at coordinates of the
frame, so that a window agrees with its frame. Blurs pad a window by replicating its border, so
that a window differs slightly from its frame within the blur's radius of the border. Where torch
rounds differently for one image than for a batch, images are processed one by one: a frame must
not depend on the batch it is rendered in.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyplink_lab.simulate.colon.tissue import periodic_noise
from polyplink_lab.simulate.course.conditions import blink_runs
from polyplink_lab.simulate.picture.rays import Windows, colour_like, onto
from polyplink_lab.simulate.picture.shading import read_tile, tiling

LEAST_BLUR = 0.25  # pixels; smaller standard deviations are ignored
REACH = 5  # pixels; radius at which a Gaussian is truncated
MOST_TAPS = 9  # shifted images that motion blur averages
WIDE = 2.0  # pixels; a wider Gaussian is computed at a lower resolution
CLOUD_TEXELS = 96
SMOKE = (0.74, 0.72, 0.71)
# Drops on the lens; lengths in frame widths, heights in heights of a median drop.
DROP_TEXELS = 192
DROP_ZOOM = 1.5  # width of the tile in frame widths
DROPS = 60  # number of drops on the tile
DROP_RADIUS, DROP_SIGMA = 0.032, 0.55  # frame widths: median, log-sigma
FILM = 0.35  # height of the film between drops
LEVELS = 64  # number of quantiles of the height
EDGE = 0.8  # height over which an edge fades
FIRST = 0.12  # share of the view under water up to which drops fade in
SHIFT = 0.020  # frame widths; maximum shift of the image behind a drop
DROP_BLUR = 0.005  # frame widths; standard deviation of the blur behind a drop
SHADE = 0.16  # how much brighter the lower side of a drop is than its middle
RIM = 0.11  # how much darker the edge of a drop is
GLINT, GLINT_SIZE = 0.30, 0.16  # brightness; share of the range of slopes
LAMP = (-0.45, -0.55)  # slope that mirrors the lamp: up and to the left
WATER = (0.86, 0.88, 0.88)
CLOUDY = 0.05
# Water on the lens: a tile (3, m, m), see `shading.tiling`, of the height and its slopes to the
# right and down, in units of a median drop; and (LEVELS,) ascending quantiles of the height, to
# choose the height above which a share of the view is under water.
Drops = tuple[Tensor, NDArray[np.float32]]
BLINKS = ("red", "smear", "white")  # the lens on the wall, under a smear, blinded
BLINK_CHANCES = (0.5, 0.35, 0.15)
BLINK_ZOOM = 2.0
RED = (0.9, 0.5, 0.45)  # factors of the patient's tissue colour
SLIME = (0.78, 0.62, 0.36)
GLARE = (0.99, 0.95, 0.90)


def defocus(images: Tensor, sigma: NDArray[np.float32]) -> Tensor:
    """Blur images (3, s, h, w) by Gaussians with standard deviations (s,) in pixels.

    A wide Gaussian is computed at a lower resolution.
    """
    h, w = images.shape[2:]
    blurred = images.clone()
    for k in np.flatnonzero(sigma >= LEAST_BLUR):
        width, small = float(sigma[k]), images[None, :, k]
        factor = 2 ** max(0, math.ceil(math.log2(width / WIDE)))
        if factor > 1:
            small = functional.pad(small, (0, -w % factor, 0, -h % factor), mode="replicate")
            small = functional.avg_pool2d(small, factor)
            # Pooling and upsampling blur too: by a box and a tent of `factor` pixels.
            variance = (factor * factor - 1) / 12 + (factor * factor) / 6
            width = math.sqrt(max(width * width - variance, 0.1)) / factor
        weights = np.exp(-0.5 * (np.arange(-REACH, REACH + 1) / width) ** 2)
        weights /= weights.sum()
        small = functional.pad(small, (REACH,) * 4, mode="replicate")
        for axis in (2, 3):  # sums of shifted images are several times faster than conv2d here
            size = small.shape[axis] - 2 * REACH
            total = small.narrow(axis, 0, size) * weights[0]
            for tap in range(1, len(weights)):
                total.add_(small.narrow(axis, tap, size), alpha=weights[tap])
            small = total
        if factor > 1:
            small = functional.interpolate(small, scale_factor=float(factor), mode="bilinear")
        blurred[:, k] = small[0, :, :h, :w]
    return blurred


def smear(images: Tensor, motion: NDArray[np.float32]) -> Tensor:
    """Blur images (3, s, h, w) along their motion (s, 2), pixels to the right and down."""
    h, w = images.shape[2:]
    along = np.linspace(-0.5, 0.5, MOST_TAPS, dtype=np.float32)
    moved = torch.zeros_like(images)
    for k, shift in enumerate(motion):
        # Whole-pixel shifts along the motion, each computed once.
        shifts, counts = np.unique(np.rint(along[:, None] * shift), axis=0, return_counts=True)
        reach = int(np.abs(shifts).max())
        padded = functional.pad(images[:, k], (reach,) * 4, mode="replicate")
        for (x, y), count in zip(shifts.astype(int).tolist(), counts.tolist(), strict=True):
            part = padded[:, reach - y : reach - y + h, reach - x : reach - x + w]
            moved[:, k].add_(part, alpha=count / MOST_TAPS)
    return moved


def draw_clouds(rng: np.random.Generator) -> Tensor:
    """Draw a tile (2, c, c) of low- and high-frequency noise, 0 to 1; see `shading.tiling`."""
    slow = 0.8 * periodic_noise(rng, CLOUD_TEXELS, 2.2) + 0.4 * periodic_noise(rng, CLOUD_TEXELS, 7)
    fast = 0.8 * periodic_noise(rng, CLOUD_TEXELS, 8) + 0.4 * periodic_noise(rng, CLOUD_TEXELS, 16)
    return tiling(np.clip(0.5 + 0.25 * np.stack([slow, fast]), 0, 1))


def read_clouds(clouds: Tensor, windows: Windows, drift: Tensor, zoom: float = 1.0) -> Tensor:
    """Sample a tile at the pixels of windows, to (c, s, h, w).

    The tile `clouds` (c, m, m), see `draw_clouds`, is shifted by `drift` (s, 2) frame widths to
    the right and down, and is `zoom` frame widths wide.
    """
    x = (windows.x - drift[:, :1]) / zoom  # (s, w)
    y = (windows.y - drift[:, 1:]) / zoom  # (s, h)
    shape = (len(x), y.shape[1], x.shape[1])
    return read_tile(clouds, x[:, None, :].expand(shape), y[:, :, None].expand(shape))


def smoke(images: Tensor, haze: Tensor, cloud: Tensor) -> Tensor:
    """Add smoke of strength `haze` (s,), 0 (none) to 1, denser where `cloud` (s, h, w) is high."""
    cover = (haze[:, None, None] * (0.45 + 0.6 * cloud)).clamp(0, 0.96)
    return torch.lerp(images, colour_like(images, SMOKE), cover)


def draw_drops(rng: np.random.Generator) -> Drops:
    """Draw the drops of a procedure: Gaussian bumps, higher if larger, on an uneven film."""
    edge = DROP_ZOOM * np.arange(DROP_TEXELS) / DROP_TEXELS  # frame widths
    height = FILM * periodic_noise(rng, DROP_TEXELS, 4.0).astype(np.float64)
    radii = DROP_RADIUS * np.exp(DROP_SIGMA * rng.standard_normal(DROPS))
    for (x, y), radius in zip(rng.uniform(0, DROP_ZOOM, (DROPS, 2)), radii, strict=True):
        across, down = (np.abs(edge - middle) for middle in (x, y))
        across, down = (
            np.minimum(distance, DROP_ZOOM - distance) / radius for distance in (across, down)
        )
        # Heavy drops hang: they are longer than they are wide.
        down = down / min(1 + 2 * radius, 1.5)
        height += radius / DROP_RADIUS * np.exp(-0.5 * (down[:, None] ** 2 + across**2))
    step = DROP_ZOOM / DROP_TEXELS / DROP_RADIUS
    slopes = [
        (np.roll(height, -1, axis) - np.roll(height, 1, axis)) / (2 * step) for axis in (1, 0)
    ]
    levels = np.quantile(height, np.linspace(0, 1, LEVELS))
    return tiling(np.stack([height, *slopes])), levels.astype(np.float32)


def water(
    images: Tensor, splash: NDArray[np.float32], drops: Drops, drift: Tensor, windows: Windows
) -> Tensor:
    """Render images (3, s, h, w) as seen through a wet lens.

    A drop on the lens is out of focus: its edge is soft, the image behind it is blurred and
    shifted along the drop's slope, and the lamp beside the lens causes a faint glint. `splash`
    (s,) is the share of the view under water, 0 (images unchanged) to 1; `drift` (s, 2) is the
    displacement of the drops to the right and down, in frame widths.
    """
    tile, levels = drops
    quantiles = np.linspace(0, 1, LEVELS)
    threshold = np.interp(1 - splash, quantiles, levels).astype(np.float32)
    height, right, down = read_clouds(tile, windows, drift, DROP_ZOOM)  # (s, h, w) each
    level = onto(threshold, images.device)[:, None, None]
    strength = onto(np.minimum(splash / FIRST, 1), images.device)[:, None, None]
    cover = ((height - level) / EDGE + 0.5).clamp(0, 1)
    cover = cover * cover * (3 - 2 * cover) * strength
    slope = torch.stack([right, down]).tanh()  # (2, s, h, w)
    # Sample the image at shifted coordinates; the border is replicated.
    h, w = images.shape[2:]
    rows = (torch.arange(h, device=images.device) + 0.5)[:, None]
    columns = torch.arange(w, device=images.device) + 0.5
    x, y = -SHIFT * cover * slope * windows.scale[:, None, None]  # (s, h, w) each, pixels
    places = torch.stack([(columns + x) * (2 / w) - 1, (rows + y) * (2 / h) - 1], 3)
    sampled = [
        functional.grid_sample(
            images[None, :, k], place[None], padding_mode="border", align_corners=False
        )
        for k, place in enumerate(places)
    ]
    refracted = torch.cat(sampled).transpose(0, 1)
    refracted = defocus(refracted, np.float32(DROP_BLUR) * windows.host_scale)
    glint = torch.exp(-((slope - colour_like(slope, LAMP)) / GLINT_SIZE).square().sum(0)) * cover
    refracted = refracted * (1 + SHADE * slope[1] - RIM * 4 * cover * (1 - cover))
    refracted = torch.lerp(refracted, colour_like(images, WATER), (CLOUDY + GLINT * glint)[None])
    return torch.lerp(images, refracted, cover).clamp(0, 1)


def draw_blinks(rng: np.random.Generator, blink: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Draw indices (s,) into `BLINKS` for the frames of `blink` (s,), -1 for other frames.

    All frames of an unbroken run get the same kind.
    """
    run, count = blink_runs(blink)
    kinds = rng.choice(len(BLINKS), count, p=BLINK_CHANCES)
    return np.where(blink, kinds[run], -1).astype(np.int8)


def blinded(kind: Tensor, cloud: Tensor, tissue: Tensor) -> Tensor:
    """Render blinks (3, s, h, w), in which nothing can be recognised, from clouds (2, s, h, w).

    `kind` (s,) are indices into `BLINKS`; `tissue` (3,) is the linear colour of the colon wall.
    """
    slow, fast = cloud
    red = (colour_like(tissue, RED) * tissue)[:, None, None, None]
    red = red * (0.12 + 1.7 * slow * slow + 0.15 * fast)
    red = (1 - torch.exp(-2.2 * red)).sqrt()
    slime = colour_like(red, SLIME) * (0.55 + 0.5 * slow)
    over = torch.lerp(red, slime, (0.1 + 1.6 * fast * slow).clamp(0, 1))
    glare = colour_like(red, GLARE) * (0.86 + 0.16 * slow)
    kinds = kind[:, None, None]
    return torch.where(kinds == 0, red, torch.where(kinds == 1, over, glare)).clamp(0, 1)
