"""From light to a picture: automatic exposure, white balance, tone curve, softness of the lens."""

from torch import Tensor

TARGET = 0.42  # mean of the square roots of brightness that the exposure aims for
GLARE = 50.0  # brighter light counts as this bright
SOFTNESS = 0.127  # of the lens: what a pixel gives to each side
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
    return soften(scaled.exp_().neg_().add_(1).sqrt_())


def soften(images: Tensor) -> Tensor:
    """Images (..., h, w) with a little of every pixel given to its neighbours, edges repeated."""
    for axis in (-1, -2):
        last = images.shape[axis] - 1
        soft = images * (1 - 2 * SOFTNESS)
        for here, there in (((0, last), (1, last)), ((1, last), (0, last))):
            part = soft.narrow(axis, here[0], here[1])
            part.add_(images.narrow(axis, there[0], there[1]), alpha=SOFTNESS)
        for edge in (0, last):
            soft.select(axis, edge).add_(images.select(axis, edge), alpha=SOFTNESS)
        images = soft
    return images
