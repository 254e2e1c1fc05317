"""The lens: what part of a frame a brand's endoscope shows, and how its light falls off.

Views are convex polygons in shares of the frame's width and height, after released frames: Olympus
cuts large corners off, Fujifilm rounds smaller ones (REAL-Colon, Scientific Data 11:539, 2024).
"""

import math
from itertools import pairwise

import torch
from torch import Tensor

from polyplink.simulate.colon.projection import RIGHT_LOWER
from polyplink.simulate.picture.window import Windows

VIGNETTE = 0.24  # of the light is missing in the middle of each edge, twice that in the corners


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
    for (x0, y0), (x1, y1) in pairwise(RIGHT_LOWER[brand]):
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
