"""What lies between lens and wall: clouds of smoke.

Images are (3, s, h, w) in 0 to 1, as seen. Clouds are read from one tile in places of the frame,
so that a window shows what its frame shows.
"""

import numpy as np
import torch
from torch import Tensor

from polyplink.simulate.colon.texture import periodic_noise
from polyplink.simulate.picture.mucosa import read_tile
from polyplink.simulate.picture.window import Windows, colour_like

CLOUD_TEXELS = 96
SMOKE = (0.74, 0.72, 0.71)


def draw_clouds(rng: np.random.Generator) -> Tensor:
    """A tile (2, c, c) of slow and of faster waves, 0 to 1; the last row and column repeat."""
    slow = 0.8 * periodic_noise(rng, CLOUD_TEXELS, 2.2) + 0.4 * periodic_noise(rng, CLOUD_TEXELS, 7)
    fast = 0.8 * periodic_noise(rng, CLOUD_TEXELS, 8) + 0.4 * periodic_noise(rng, CLOUD_TEXELS, 16)
    both = np.clip(0.5 + 0.25 * np.stack([slow, fast]), 0, 1)
    return torch.from_numpy(np.pad(both, ((0, 0), (0, 1), (0, 1)), mode="wrap"))


def read_clouds(clouds: Tensor, windows: Windows, drift: Tensor, zoom: float = 1.0) -> Tensor:
    """Clouds (c, s, h, w) at the pixels of windows.

    Args:
        clouds: See `draw_clouds`.
        windows: s windows.
        drift: (s, 2) how far they have moved right and down, in frame widths.
        zoom: How many times as large as the frame's width the tile is.
    """
    x = (windows.x - drift[:, :1]) / zoom  # (s, w)
    y = (windows.y - drift[:, 1:]) / zoom  # (s, h)
    shape = (len(x), y.shape[1], x.shape[1])
    across = x[:, None, :].expand(shape).reshape(-1)
    down = y[:, :, None].expand(shape).reshape(-1)
    return read_tile(clouds, across, down).view(-1, *shape)


def _colour(images: Tensor, colour: tuple[float, float, float]) -> Tensor:
    return colour_like(images, colour)[:, None, None, None]


def smoke(images: Tensor, haze: Tensor, cloud: Tensor) -> Tensor:
    """Smoke of strength (s,), 0 to 1, thicker where cloud (s, h, w) is; 0 changes nothing."""
    cover = (haze[:, None, None] * (0.45 + 0.6 * cloud)).clamp(0, 0.96)
    return torch.lerp(images, _colour(images, SMOKE), cover)
