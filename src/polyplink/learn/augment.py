"""Augmentations as in SimCLR (flips, affine maps, colour jitter), computed on the device.

Parameters are sampled per view and shared by its frames. Each kernel is called once per batch;
torchvision's transforms would sample once for the whole batch, or need a loop over views.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from polyplink.core.lazy_torch import torch
from polyplink.core.ranges import SHARE, Range, Ranged

_LUMA = (0.299, 0.587, 0.114)  # of R, G, B in grey (ITU-R BT.601), as torchvision weighs them


@dataclass(frozen=True)
class AugmentConfig(Ranged, prefix="augment"):
    """How strongly views are augmented in training; with all values at 0 nothing is changed.

    Attributes:
        flip: Probability of a horizontal flip and, independently, of a vertical one.
        degrees: Largest rotation in either direction, degrees.
        translate: Largest shift, as a share of the width and height.
        scale: Largest change of size: 0.2 draws a factor from 0.8 to 1.2.
        brightness: Largest change of the factor on all values: 0.2 draws it from 0.8 to 1.2.
        contrast: The same for the factor on the distance from the frame's mean grey.
        saturation: The same for the factor on the distance from each pixel's grey.
        hue: Largest rotation of the colours about the grey axis, as a share of a full turn.
    """

    flip: Annotated[float, SHARE] = 0.0
    degrees: Annotated[float, Range(0, 180)] = 0.0
    translate: Annotated[float, SHARE] = 0.0
    scale: Annotated[float, Range(0, 0.9)] = 0.0
    brightness: Annotated[float, SHARE] = 0.0
    contrast: Annotated[float, SHARE] = 0.0
    saturation: Annotated[float, SHARE] = 0.0
    hue: Annotated[float, Range(0, 0.5)] = 0.0

    @property
    def moves(self) -> bool:
        """Whether the augmentation may move pixels (flip, rotate, shift or scale)."""
        return max(self.flip, self.degrees, self.translate, self.scale) > 0

    @property
    def recolours(self) -> bool:
        """Whether the augmentation may change colours."""
        return max(self.brightness, self.contrast, self.saturation, self.hue) > 0


def _spread(n: int, largest: float, generator: torch.Generator) -> torch.Tensor:
    return (2 * torch.rand(n, generator=generator) - 1) * largest


def draw_affine(config: AugmentConfig, n: int, generator: torch.Generator) -> torch.Tensor:
    """Affine maps (n, 2, 3) from augmented to original coordinates, both in [-1, 1]."""
    angle = _spread(n, math.radians(config.degrees), generator)
    size = 1 + _spread(n, config.scale, generator)
    flips = torch.where(torch.rand(n, 2, generator=generator) < config.flip, -1.0, 1.0)  # n 2
    shift = 2 * torch.stack([_spread(n, config.translate, generator) for _ in range(2)], dim=1)
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], dim=1).view(n, 2, 2)
    return torch.cat([turn * flips[:, None, :] / size[:, None, None], shift[:, :, None]], dim=2)


def move(pixels: torch.Tensor, affine: torch.Tensor) -> torch.Tensor:
    """Warp frames (n, 3, h, w) by affine maps (n, 2, 3); areas outside become black."""
    grid = torch.nn.functional.affine_grid(affine, list(pixels.shape), align_corners=False)
    return torch.nn.functional.grid_sample(pixels, grid, align_corners=False)


def grey(pixels: torch.Tensor) -> torch.Tensor:
    """Grey values (n, 1, h, w) of RGB frames (n, 3, h, w)."""
    weights = torch.tensor(_LUMA, device=pixels.device).view(1, 3, 1, 1)
    return (pixels * weights).sum(dim=1, keepdim=True)


def jitter(
    pixels: torch.Tensor,
    brightness: torch.Tensor,
    contrast: torch.Tensor,
    saturation: torch.Tensor,
) -> torch.Tensor:
    """Change brightness, then contrast, then saturation, each as torchvision defines it.

    Args:
        pixels: (n, 3, h, w) in [0, 1].
        brightness: (n,) factor on all values.
        contrast: (n,) factor on the distance from the frame's mean grey.
        saturation: (n,) factor on the distance from each pixel's grey.

    Returns:
        (n, 3, h, w), clipped to [0, 1] after each change.
    """
    factors = [f.view(-1, 1, 1, 1) for f in (brightness, contrast, saturation)]
    pixels = (pixels * factors[0]).clamp(0, 1)
    mean = grey(pixels).mean(dim=(2, 3), keepdim=True)
    pixels = torch.lerp(mean, pixels, factors[1]).clamp(0, 1)
    return torch.lerp(grey(pixels), pixels, factors[2]).clamp(0, 1)


def turn_hue(pixels: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Rotate the colours of frames (n, 3, h, w) about the grey axis by angles (n,) in radians.

    This is a rotation of RGB space, which keeps R + G + B of every pixel; torchvision shifts the H
    of HSV instead, pixel by pixel.
    """
    axis = torch.full((3, 3), 1 / 3, device=pixels.device)
    cross = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], device=pixels.device) / 3**0.5
    cos, sin = angle.cos().view(-1, 1, 1), angle.sin().view(-1, 1, 1)
    rotation = cos * torch.eye(3, device=pixels.device) + (1 - cos) * axis + sin * cross  # n 3 3
    return torch.einsum("nij,njhw->nihw", rotation, pixels).clamp(0, 1)


def augment(
    config: AugmentConfig, crops: torch.Tensor, length: int, generator: torch.Generator
) -> torch.Tensor:
    """Augment the views of a batch.

    Args:
        config: How strongly the views are changed.
        crops: uint8 (n s, h, w, 3), the frames of n views.
        length: Frames s of each view.
        generator: A generator on the CPU, so that a seed draws the same on every device.

    Returns:
        float32 (n s, h, w, 3) in [0, 1]; `crops` unchanged if the configuration changes nothing.
    """
    if not (config.moves or config.recolours):
        return crops
    n = len(crops) // length
    pixels = crops.permute(0, 3, 1, 2).float() / 255.0  # n*s 3 h w

    def everywhere(values: torch.Tensor) -> torch.Tensor:
        return values.repeat_interleave(length, dim=0).to(crops.device)

    if config.moves:
        pixels = move(pixels, everywhere(draw_affine(config, n, generator)))
    if config.recolours:
        factors = [
            everywhere(1 + _spread(n, largest, generator))
            for largest in (config.brightness, config.contrast, config.saturation)
        ]
        pixels = jitter(pixels, *factors)
        angle = everywhere(_spread(n, 2 * math.pi * config.hue, generator))
        pixels = turn_hue(pixels, angle) if config.hue else pixels
    return pixels.permute(0, 2, 3, 1)
