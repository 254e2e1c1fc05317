"""The sensor's noise: the same for a frame whenever and in whatever window it is drawn."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.picture.window import Windows

TEXELS = 509  # of the noise's tile; a prime, so that frames begin everywhere on it
STRENGTH = 0.012  # standard deviation of a frame's pixel
STRIDES = (7919, 104_729)  # how far a frame begins from the one before, in texels


def draw_grain(rng: np.random.Generator) -> Tensor:
    """A tile (g, g) of white noise, standard deviation `STRENGTH`."""
    return torch.from_numpy(STRENGTH * rng.standard_normal((TEXELS, TEXELS)).astype(np.float32))


def read_grain(grain: Tensor, frames: NDArray[np.int64], windows: Windows) -> Tensor:
    """Noise (s, h, w) of windows; a pixel that is the mean of several of the frame's has less.

    Args:
        grain: See `draw_grain`.
        frames: (s,) which frames.
        windows: s windows.
    """
    share = torch.from_numpy(windows.host_scale / windows.frame[0])  # drawn pixels per pixel
    first = (windows.edges[:, :2] * share[:, None]).round().long()
    start = torch.from_numpy(frames[:, None] * np.array(STRIDES))
    begin = ((start + first) % TEXELS).to(grain.device, non_blocking=True)  # (s, 2)
    w, h = windows.size
    columns = (begin[:, :1] + torch.arange(w, device=grain.device)) % TEXELS
    rows = (begin[:, 1:] + torch.arange(h, device=grain.device)) % TEXELS
    return (
        grain[rows[:, :, None], columns[:, None, :]]
        * share.clamp(max=1).to(grain.device, non_blocking=True)[:, None, None]
    )
