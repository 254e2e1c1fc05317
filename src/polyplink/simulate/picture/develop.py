"""From light to a picture: automatic exposure, white balance, tone curve, softness of the lens."""

import torch
from torch import Tensor
from torch.nn import functional

TARGET = 0.42  # mean of the square roots of brightness that the exposure aims for
GLARE = 50.0  # brighter light counts as this bright
SOFTNESS = 0.5  # of the lens: share of a 3 x 3 mean
CONTRAST = 2.2


def automatic_gains(linear: Tensor) -> Tensor:
    """Factors (s,) that bring frames to the brightness that is aimed for.

    Args:
        linear: (3, s, n) linear RGB of points spread evenly over the frame.
    """
    root = linear.amax(0).clamp_max(GLARE).sqrt().mean(dim=1)  # (s,)
    return (TARGET / root.clamp_min(1e-6)) ** 2


def develop(linear: Tensor, gains: Tensor, whites: Tensor) -> Tensor:
    """A picture (3, s, h, w) in 0 to 1.

    Args:
        linear: (3, s, h, w) linear RGB; overwritten.
        gains: (s,) factors of the exposure.
        whites: (s, 3) white balance.
    """
    scaled = linear.mul_((-CONTRAST * gains[:, None] * whites).T[:, :, None, None])
    toned = scaled.exp_().neg_().add_(1).sqrt_()
    blurred = functional.avg_pool2d(toned, 3, stride=1, padding=1, count_include_pad=False)
    return torch.lerp(toned, blurred, SOFTNESS)
