"""The learning rate over the training."""

import math

_FIRST, _LAST = 25.0, 1e4  # of the top rate: where it starts; and of that: where it ends


def one_cycle(progress: float, warm_up: float = 0.3) -> float:
    """Factor on the top rate under the one-cycle policy (Smith and Topin 2018).

    From 1/25 of the top up to it in half a cosine, then down to 1/250,000 in another: the
    defaults of torch's OneCycleLR. A function of the place in the training alone, so that a
    resumed run needs no state. (torch also turns Adam's first momentum; this does not.)

    Args:
        progress: Steps done over all steps, in [0, 1].
        warm_up: Share of the training that the rate rises in, in (0, 1).

    Returns:
        In (0, 1].

    Example:
        >>> round(one_cycle(0.0), 3), one_cycle(0.3)
        (0.04, 1.0)
    """
    if progress < warm_up:
        start, end, share = 1 / _FIRST, 1.0, progress / warm_up
    else:
        start, end = 1.0, 1 / _FIRST / _LAST
        share = (progress - warm_up) / (1 - warm_up)
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))
