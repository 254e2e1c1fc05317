"""Windows: rectangles of frames that are drawn at a size of their own.

Whatever lies on the lens or before it (mask, badge, blur, water, instruments) is placed in shares
of the frame's width, so that a window shows the same as the frame it was cut from.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Windows:
    """One window in each of s frames.

    Attributes:
        edges: (s, 4) left, top, right, bottom in pixels of the frame; a whole frame is 0, 0,
            width, height.
        frame: Width and height of the frame, pixels.
        size: Width and height that every window is drawn at, pixels.
    """

    edges: Tensor
    frame: tuple[int, int]
    size: tuple[int, int]

    @property
    def x(self) -> Tensor:
        """Middles of columns (s, w), shares of the frame's width: 0 left to 1 right."""
        return self._middles(0, self.size[0])

    @property
    def y(self) -> Tensor:
        """Middles of rows (s, h), shares of the frame's width: 0 top to height / width below."""
        return self._middles(1, self.size[1])

    @property
    def scale(self) -> Tensor:
        """Pixels drawn per width of the frame: (s,)."""
        return self.size[0] * self.frame[0] / (self.edges[:, 2] - self.edges[:, 0])

    def _middles(self, first: int, count: int) -> Tensor:
        start, stop = self.edges[:, first, None], self.edges[:, first + 2, None]
        part = (torch.arange(count, device=self.edges.device) + 0.5) / count  # (count,)
        return (start + part * (stop - start)) / self.frame[0]

    def some(self, which: Tensor) -> "Windows":
        """The windows of some frames, by index."""
        return Windows(self.edges[which], self.frame, self.size)
