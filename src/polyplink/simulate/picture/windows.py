"""Windows: rectangles of frames that are drawn at a size of their own; what a lens lets through.

Whatever lies on the lens or before it (mask, text, blur, water, instruments) is placed in shares of
the frame's width, so that a window shows the same as the frame it was cut from.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.colon.projection import FOCAL, RIGHT_LOWER

FAR = 9.0  # units; further away nothing is lit
VIGNETTE = 0.24  # of the light is missing in the middle of each edge, twice that in the corners
HOST = torch.device("cpu")


def onto(values: NDArray[Any], device: torch.device) -> Tensor:
    """Host values on a device, without waiting for it: a plain copy waits for a GPU."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device, non_blocking=True)


def colour_like(images: Tensor, colour: Sequence[float]) -> Tensor:
    """A colour (3, 1, ...) with the type, device and number of dimensions of images (3, ...)."""
    shape = (-1, *(1 for _ in images.shape[1:]))
    return torch.tensor(colour, dtype=images.dtype).view(shape).to(images.device, non_blocking=True)


@dataclass(frozen=True)
class Windows:
    """One window in each of s frames.

    Attributes:
        edges: (s, 4) left, top, right, bottom in pixels of the frame; a whole frame is 0, 0,
            width, height. Always in the host's memory, so that what is to be done can be decided
            without waiting for a device.
        frame: Width and height of the frame, pixels.
        size: Width and height that every window is drawn at, pixels.
        device: Where coordinates are wanted.
    """

    edges: Tensor
    frame: tuple[int, int]
    size: tuple[int, int]
    device: torch.device = HOST

    @property
    def x(self) -> Tensor:
        """Middles of columns (s, w), shares of the frame's width: 0 left to 1 right."""
        return self._middles(0, self.size[0])

    @property
    def y(self) -> Tensor:
        """Middles of rows (s, h), shares of the frame's width: 0 top to height / width below."""
        return self._middles(1, self.size[1])

    @property
    def tall(self) -> float:
        """The frame's height over its width."""
        return self.frame[1] / self.frame[0]

    @property
    def host_scale(self) -> NDArray[np.float32]:
        """Pixels drawn per width of the frame: (s,)."""
        scale = self.size[0] * self.frame[0] / (self.edges[:, 2] - self.edges[:, 0])
        return np.asarray(scale.numpy(), np.float32)

    @property
    def scale(self) -> Tensor:
        """The same on the device: (s,)."""
        return onto(self.host_scale, self.device)

    def _middles(self, first: int, count: int) -> Tensor:
        start, stop = (self.edges[:, side, None] for side in (first, first + 2))
        part = (torch.arange(count) + 0.5) / count  # (count,)
        middles = (start + part * (stop - start)) / self.frame[0]
        return middles.to(self.device, non_blocking=True)

    def some(self, which: NDArray[np.int64]) -> "Windows":
        """The windows of some frames, by index."""
        return replace(self, edges=self.edges[torch.from_numpy(which)])


def in_windows(
    windows: Windows,
    positions: NDArray[np.float64],
    rotations: NDArray[np.float64],
    centres: NDArray[np.float64],
    radii: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Whether spheres may show: (s, k), False only where no ray can meet them.

    Args:
        windows: s windows.
        positions: (s, 3) of the cameras.
        rotations: (s, 3, 3) columns: right, down, forward.
        centres: (k, 3).
        radii: (k,).
    """
    away = np.einsum("sji,skj->ski", rotations, centres[None] - positions[:, None])  # (s, k, 3)
    width, height = windows.frame
    middle = np.array([width, height, width, height]) / 2
    # Tangents (s, 4) of left, top, right, bottom.
    sides = (windows.edges.double().numpy() - middle) / (width * FOCAL)
    shown = (np.linalg.norm(away, axis=2) < FAR + radii) & (away[:, :, 2] > -radii)
    for side, (axis, sign) in enumerate(((0, 1), (1, 1), (0, -1), (1, -1))):
        tangent = sides[:, side, None]  # (s, 1)
        inward = sign * (away[:, :, axis] - tangent * away[:, :, 2])
        shown &= inward / np.sqrt(1 + tangent**2) > -radii
    return np.asarray(shown)


def lens_mask(brand: str, windows: Windows) -> tuple[Tensor, Tensor]:
    """The visible area of a brand's endoscope.

    Args:
        brand: A key of `projection.LENS_CORNERS`.
        windows: s windows.

    Returns:
        Light (s, h, w) from 1 in the middle, with its vignette, to 0 outside the view; and
        whether a pixel's middle is inside the view (s, h, w), which is what polyps are masked by.
    """
    tall, scale = windows.tall, windows.scale[:, None]
    # The view is the same left and right, above and below, so that one corner is enough.
    x = 0.5 + (windows.x - 0.5).abs()  # (s, w) folded to the right
    y = 0.5 * tall + (windows.y - 0.5 * tall).abs()  # (s, h) folded down
    # How far pixels lie inside the view, in drawn pixels: first of its right and lower border.
    inside = torch.minimum((scale * (1 - x))[:, None, :], (scale * (tall - y))[:, :, None])
    for (x0, y0), (x1, y1) in pairwise(RIGHT_LOWER[brand]):
        across, down = (y1 - y0) * tall, x0 - x1  # the outward normal
        norm = math.hypot(across, down)
        part_x = scale * (across / norm) * (x0 - x)  # (s, w)
        part_y = scale * (down / norm) * (y0 * tall - y)  # (s, h)
        inside = torch.minimum(inside, part_y[:, :, None] + part_x[:, None, :])
    x, y = 2 * windows.x - 1, 2 * windows.y / tall - 1
    fall = (1 - VIGNETTE * y * y)[:, :, None] - (VIGNETTE * x * x)[:, None, :]
    return fall * (inside + 0.5).clamp(0, 1), inside >= 0
