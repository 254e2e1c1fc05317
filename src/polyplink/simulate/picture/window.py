"""Windows: rectangles of frames that are drawn at a size of their own.

Whatever lies on the lens or before it (mask, badge, blur, water, instruments) is placed in shares
of the frame's width, so that a window shows the same as the frame it was cut from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

HOST = torch.device("cpu")


def onto(values: NDArray[Any], device: torch.device) -> Tensor:
    """Values of the host on a device, without waiting for it: a plain copy waits for a GPU."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device, non_blocking=True)


def colour_like(images: Tensor, colour: Sequence[float]) -> Tensor:
    """A colour (3,) as a type and where images are, without waiting for a GPU."""
    return torch.tensor(colour, dtype=images.dtype).to(images.device, non_blocking=True)


@dataclass(frozen=True)
class Windows:
    """One window in each of s frames.

    Attributes:
        edges: (s, 4) left, top, right, bottom in pixels of the frame; a whole frame is 0, 0,
            width, height. Always in the host's memory, so that what is to be done can be decided
            without waiting for a device.
        frame: Width and height of the frame, pixels.
        size: Width and height that every window is drawn at, pixels.
        device: Where places are wanted.
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
