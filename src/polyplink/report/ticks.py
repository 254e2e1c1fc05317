"""Round places for the ticks of an axis."""

import math

CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 18000, 36000)


def round_step(span: float, most: int) -> float:
    """Smallest of 1, 2, 5 x 10^k that cuts `span` into at most `most` parts."""
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))


def ticks(low: float, high: float, most: int) -> list[float]:
    """Multiples of a round step from `low` to `high`, at most `most` + 1 of them.

    Args:
        low: Lower end of the axis.
        high: Upper end, above `low`.
        most: Most parts to cut the axis into.
    """
    step = round_step(high - low, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def clock_ticks(seconds: float, most: int) -> list[float]:
    """Round times (1 s to 10 h apart) from 0 to `seconds`, at most `most` + 1 of them."""
    steps = [step for step in CLOCK_STEPS if seconds / step <= most]
    step = steps[0] if steps else round_step(seconds, most)
    return [float(step * index) for index in range(math.floor(seconds / step) + 1)]
