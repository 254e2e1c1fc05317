"""The curriculum: how far in time a bag may reach, over the epochs."""

import math


def cosine_tau(progress: float, tau_min: float, tau_max: float) -> float:
    """Temperature of the rank sampling at a point of the training (NTSSL 2.1, "Curriculum").

    Args:
        progress: c in [0, 1]: epoch / number of epochs, as in the reference, so that the last
            epoch stays below 1.
        tau_min: Temperature at c = 0, in ranks.
        tau_max: Temperature at c = 1, in ranks.

    Returns:
        tau_min + (1 - cos(pi c)) / 2 (tau_max - tau_min).

    Example:
        >>> cosine_tau(0.0, 0.3, 12.0), cosine_tau(0.5, 0.3, 12.0), cosine_tau(1.0, 0.3, 12.0)
        (0.3, 6.15, 12.0)
    """
    return tau_min + (1.0 - math.cos(math.pi * progress)) / 2.0 * (tau_max - tau_min)
