"""Instruments in view: a snare with its loop, or biopsy forceps, out of the working channel.

Drawn flat in places of the frame (shares of its width) as shaded shapes: the tip of an instrument
hangs before the lens and moves with it, not with the wall.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from polyplink.simulate.picture.window import Windows, colour_like

SNARE, FORCEPS = 0, 1
ENTRY = 0.48  # frame widths from the middle of the frame to where the sheath comes from
RADII = (0.050, 0.026)  # of the sheath there and in the middle, by perspective
SHEATH = (0.80, 0.84, 0.88)
COIL = (0.60, 0.61, 0.64)
WIRE = (0.92, 0.84, 0.66)
STEEL = (0.74, 0.75, 0.78)
LOOP = (0.105, 0.058)  # half length and half width of a loop that is open
WIRE_RADIUS = 0.0045
JAW = (0.040, 0.016)  # half length and half width of a cup
JAW_TURN = math.radians(24)


@dataclass(frozen=True)
class Reach:
    """Instruments of s frames.

    Attributes:
        reach: (s,) 0 (not in view) to 1 (tip in the middle of the frame).
        angle: (s,) where it comes from, seen from the middle: 0 right, pi / 2 below, radians.
        kind: (s,) `SNARE` or `FORCEPS`.
    """

    reach: Tensor
    angle: Tensor
    kind: Tensor


def along_and_across(windows: Windows, angle: Tensor) -> tuple[Tensor, Tensor]:
    """Places of pixels seen from the entry: (s, h, w) towards the middle, and to the side."""
    tall = windows.frame[1] / windows.frame[0]
    c, s = angle.cos()[:, None], angle.sin()[:, None]
    x, y = windows.x - 0.5, windows.y - 0.5 * tall  # (s, w), (s, h)
    along = (ENTRY - s * y)[:, :, None] - (c * x)[:, None, :]
    across = (c * y)[:, :, None] - (s * x)[:, None, :]
    return along, across


def _cover(distance: Tensor, scale: Tensor) -> Tensor:
    """How much of a pixel lies inside, from the distance to the edge in frame widths."""
    return (0.5 - distance * scale).clamp(0, 1)


def _paint(
    images: Tensor, colour: tuple[float, float, float], light: Tensor, cover: Tensor
) -> Tensor:
    """Lay a colour, in light (s, h, w), over images where it covers them (s, h, w)."""
    paint = colour_like(images, colour)[:, None, None, None] * light
    return torch.lerp(images, paint.clamp(0, 1), cover)


def _rod(side: Tensor) -> Tensor:
    """Light on a round rod at -1 to 1 across it: darker edges, a highlight off the middle."""
    up = (1 - side * side).clamp_min(0).sqrt()
    return 0.30 + 0.62 * up + 0.55 * torch.exp(-(((side + 0.30) / 0.13) ** 2))


def _ellipse(x: Tensor, y: Tensor, half: tuple[float, float], open_: Tensor) -> Tensor:
    """About the signed distance to an ellipse that is `open_` (s, 1, 1) of its full size."""
    a, b = half[0] * open_, half[1] * open_
    u, v = x / a, y / b
    level = (u * u + v * v + 1e-9).sqrt()
    slope = ((u / a) ** 2 + (v / b) ** 2 + 1e-9).sqrt() / level
    return (level - 1) / slope


def draw_instruments(images: Tensor, windows: Windows, tools: Reach) -> Tensor:
    """Draw every frame's instrument over it.

    Args:
        images: (3, s, h, w) in 0 to 1.
        windows: s windows.
        tools: Their instruments.
    """
    scale = windows.scale[:, None, None]
    reach = tools.reach[:, None, None]
    along, across = along_and_across(windows, tools.angle)
    radius = RADII[0] + (RADII[1] - RADII[0]) * (along / ENTRY).clamp(0, 1.2)
    tip = reach * ENTRY - 0.02  # the loop or the jaws reach on from here
    body = _cover(torch.maximum(across.abs() - radius, along - tip), scale)
    near = 1.12 - 0.4 * (along / ENTRY).clamp(0, 1)  # the light is at the lens
    shadow = torch.exp(-((across - 0.02).abs() - radius).clamp_min(0) / 0.02)
    shadow = 0.35 * shadow * ((tip + 0.03 - along) / 0.05).clamp(0, 1) * (reach > 0)
    images = images * (1 - shadow)
    is_snare = (tools.kind == SNARE)[:, None, None]
    light = near * _rod(across / radius)
    rings = 1 + 0.16 * torch.sin(along * 620)
    images = _paint(images, SHEATH, light, body * is_snare)
    images = _paint(images, COIL, light * rings, body * ~is_snare)
    images = _loop(images, (along - tip, across), scale, reach * is_snare)
    return _jaws(images, (along - tip, across), scale, reach * ~is_snare)


def _loop(images: Tensor, place: tuple[Tensor, Tensor], scale: Tensor, reach: Tensor) -> Tensor:
    """The wire of a snare; it opens as it comes out."""
    ahead, across = place
    open_ = (1.4 * reach).clamp(0.15, 1)
    edge = _ellipse(ahead - LOOP[0] * open_, across, LOOP, open_)
    cover = _cover(edge.abs() - WIRE_RADIUS, scale) * (reach > 0)
    side = (edge / WIRE_RADIUS).clamp(-1, 1)
    return _paint(images, WIRE, 0.85 * _rod(side), cover)


def _jaws(images: Tensor, place: tuple[Tensor, Tensor], scale: Tensor, reach: Tensor) -> Tensor:
    """The two cups of open forceps; their insides are dark."""
    ahead, across = place
    c, s = math.cos(JAW_TURN), math.sin(JAW_TURN)
    whole = torch.ones_like(reach)
    for turn in (1.0, -1.0):
        x = c * (ahead - 0.008) + turn * s * across - JAW[0]
        y = c * across - turn * s * (ahead - 0.008)
        edge = _ellipse(x, y, JAW, whole)
        light = 0.35 + 0.75 * (-edge / JAW[1]).clamp(0, 1) - 0.25 * turn * y / JAW[1]
        hollow = ((turn * y / JAW[1] - 0.2) * -3).clamp(0, 1) * (-edge / (0.4 * JAW[1])).clamp(0, 1)
        cover = _cover(edge, scale) * (reach > 0)
        images = _paint(images, STEEL, light * (1 - 0.65 * hollow), cover)
    return images
