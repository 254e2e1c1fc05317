"""The lens: what part of a frame a brand's endoscope shows, and how its light falls off.

Views are convex polygons in shares of the frame's width and height, after released frames: Olympus
cuts large corners off, Fujifilm rounds smaller ones (REAL-Colon, Scientific Data 11:539, 2024).
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from polyplink.simulate.picture.window import Windows

Corner = tuple[float, float]

VIGNETTE = 0.24  # of the light is missing in the middle of each edge, twice that in the corners
ASPECT = 1.28  # about what released frames have; makes the rounded corners round


def _cut(legs: float) -> list[Corner]:
    """The right lower corner cut off straight; legs in shares of the width."""
    return [(1.0, 1 - legs * ASPECT), (1 - legs, 1.0)]


def _rounded(radius: float, steps: int) -> list[Corner]:
    """The right lower corner rounded; radius in shares of the width."""
    turns = [0.5 * math.pi * step / steps for step in range(steps + 1)]
    return [
        (1 - radius * (1 - math.cos(t)), 1 - radius * ASPECT * (1 - math.sin(t))) for t in turns
    ]


def _all_four(corner: Sequence[Corner]) -> tuple[Corner, ...]:
    """The polygon whose corners all look like the right lower one."""
    right = [*((x, 1 - y) for x, y in reversed(corner)), *corner]  # downwards
    return (*right, *((1 - x, y) for x, y in reversed(right)))


_RIGHT_LOWER: Mapping[str, list[Corner]] = {
    "Olympus": _cut(0.165),
    "Fujifilm": _rounded(0.21, 3),
}
LENS_CORNERS: Mapping[str, tuple[Corner, ...]] = {
    brand: _all_four(corner) for brand, corner in _RIGHT_LOWER.items()
}


def inside_distance(brand: str, windows: Windows) -> Tensor:
    """How far pixels lie inside the view: (s, h, w), below 0 outside, in drawn pixels.

    The view is the same left and right, above and below, so that one corner is enough.

    Args:
        brand: A key of `LENS_CORNERS`.
        windows: s windows.
    """
    tall = windows.frame[1] / windows.frame[0]
    scale = windows.scale[:, None]
    x = 0.5 + (windows.x - 0.5).abs()  # (s, w) folded to the right
    y = 0.5 * tall + (windows.y - 0.5 * tall).abs()  # (s, h) folded down
    inside: Tensor | None = None
    for (x0, y0), (x1, y1) in pairwise(_RIGHT_LOWER[brand]):
        across, down = (y1 - y0) * tall, x0 - x1  # the outward normal
        norm = math.hypot(across, down)
        part_x = scale * (across / norm) * (x0 - x)  # (s, w)
        part_y = scale * (down / norm) * (y0 * tall - y)  # (s, h)
        edge = part_y[:, :, None] + part_x[:, None, :]
        inside = edge if inside is None else torch.minimum(inside, edge)
    assert inside is not None
    border_x, border_y = scale * (1 - x), scale * (tall - y)
    inside = torch.minimum(inside, border_x[:, None, :])
    return torch.minimum(inside, border_y[:, :, None])


def lens_mask(brand: str, windows: Windows) -> tuple[Tensor, Tensor]:
    """What the lens lets through.

    Args:
        brand: A key of `LENS_CORNERS`.
        windows: s windows.

    Returns:
        Light (s, h, w) from 1 in the middle, with its vignette, to 0 outside the view; and
        whether a pixel's middle is inside the view (s, h, w), which is what polyps are masked by.
    """
    inside = inside_distance(brand, windows)
    tall = windows.frame[1] / windows.frame[0]
    x, y = 2 * windows.x - 1, 2 * windows.y / tall - 1
    fall = (1 - VIGNETTE * y * y)[:, :, None] - (VIGNETTE * x * x)[:, None, :]
    return fall * (inside + 0.5).clamp(0, 1), inside >= 0
