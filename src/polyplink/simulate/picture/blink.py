"""Frames in which nothing can be recognised: the lens on the wall, under a smear, blinded."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.picture.window import colour_like

KINDS = ("red", "smear", "white")
CHANCES = (0.5, 0.35, 0.15)
RED = (0.9, 0.5, 0.45)  # of the patient's own tissue
SLIME = (0.78, 0.62, 0.36)
GLARE = (0.99, 0.95, 0.90)


def draw_blinks(rng: np.random.Generator, blink: NDArray[np.bool_]) -> NDArray[np.int8]:
    """What kind of blink a frame is: one kind for every unbroken run.

    Args:
        rng: Where kinds come from.
        blink: (s,) whether a frame is one.

    Returns:
        (s,) indices into `KINDS`; -1 where there is none.
    """
    starts = blink & ~np.concatenate([[False], blink[:-1]])
    run = np.cumsum(starts)  # (s,) number of the run, from 1
    kinds = rng.choice(len(KINDS), int(run[-1]) + 1 if len(run) else 1, p=CHANCES)
    return np.where(blink, kinds[run], -1).astype(np.int8)


def blinded(kind: Tensor, cloud: Tensor, tissue: Tensor) -> Tensor:
    """Pictures without a scene, made of clouds alone.

    Args:
        kind: (s,) indices into `KINDS`.
        cloud: (2, s, h, w) slow and faster clouds.
        tissue: (3,) colour of the patient's wall, linear.

    Returns:
        (3, s, h, w) in 0 to 1.
    """
    slow, fast = cloud
    red = colour_like(tissue, RED) * tissue
    red = red[:, None, None, None] * (0.12 + 1.7 * slow * slow + 0.15 * fast)
    red = (1 - torch.exp(-2.2 * red)).sqrt()
    slime = colour_like(tissue, SLIME)[:, None, None, None]
    over = torch.lerp(red, slime * (0.55 + 0.5 * slow), (0.1 + 1.6 * fast * slow).clamp(0, 1))
    glare = colour_like(tissue, GLARE)[:, None, None, None] * (0.86 + 0.16 * slow)
    which = kind[:, None, None]
    return torch.where(which == 0, red, torch.where(which == 1, over, glare)).clamp(0, 1)
