"""AUROC and average precision from counts per bin: the plain form of `resample_reid`."""

import numpy as np


def binned_auroc_aupr(
    positives: np.ndarray, negatives: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """All scores of a bin taken as equal.

    Args:
        positives: Positives per bin, bins rising (r, bins), one row per resample.
        negatives: Negatives per bin (r, bins).

    Returns:
        AUROC (r,) and average precision (r,); NaN in a row without positives or negatives.
    """
    hits = positives[:, ::-1].cumsum(axis=1)[:, ::-1]  # positives in this bin or above
    alarms = negatives[:, ::-1].cumsum(axis=1)[:, ::-1]
    p, n = hits[:, 0], alarms[:, 0]
    below = n[:, None] - alarms + negatives / 2  # negatives under a positive of this bin
    with np.errstate(invalid="ignore", divide="ignore"):
        auroc = (positives * below).sum(axis=1) / (p * n)
        precision = np.where(hits > 0, hits / (hits + alarms), 0.0)
        aupr = np.where(n > 0, (positives * precision).sum(axis=1) / p, np.nan)
    return auroc, aupr
