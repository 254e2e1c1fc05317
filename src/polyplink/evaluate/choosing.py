"""Choosing a clusterer's setting for a purpose, on procedures with known polyps.

The published rule requires a false positive rate of 5 % (Parolari et al., temporally-aware polyp
counting, section 3, and its code). It does not consider the error of the count, or the reliability
of links; the rules for these two purposes were developed here.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from polyplink.associate.identities import Purpose
from polyplink.core.arrays import Floats
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.counting import ProcedureCounts

TARGET_FPR = 0.05
LEAST_PRECISION = 0.95  # of linked pairs, for the purpose "link"
NEIGHBOURS = 2  # settings before and after one, for averages of errors
DIGITS = 12  # means are rounded before comparison, so that the order of summation does not matter

Rule = Literal["nearest", "no_false_positive", "one_polyp_each", "count", "link"]


@dataclass(frozen=True)
class Choice:
    """A chosen setting and the rule of the choice.

    Attributes:
        row: Row of the setting in the grid.
        rule: `"nearest"`: FPR nearest to the target among settings with FPR > 0, on ties the lowest
            FR, then the first. `"no_false_positive"`: every setting has FPR 0; the lowest FR.
            `"one_polyp_each"`: no procedure has two polyps, so FPR is undefined and does not
            penalise merging; the lowest FR. Do not rely on it for procedures with more polyps.
            `"count"`: the lowest mean count error plus half the absolute bias, both averaged over
            the setting and its neighbours in the grid, because they are noisy with few procedures.
            `"link"`: the lowest FR among settings with 95 % correct linked pairs, or the setting
            nearest to 95 %.
        fr: Mean FR over the procedures of the choice.
        fpr: Mean FPR over those with two polyps or more; None if there are none.
    """

    row: int
    rule: Rule
    fr: float
    fpr: float | None


def choose(
    counts: Sequence[ProcedureCounts],
    *,
    purpose: Purpose = "published",
    errors: Sequence[npt.NDArray[np.integer]] | None = None,
) -> Choice:
    """Choose a setting; for the published purpose the one with the FPR nearest to 5 %.

    FPR is averaged over the procedures with two polyps or more, FR over all. Neither includes
    self-pairs, which the published code counts as true positives.

    Args:
        counts: One per procedure, all under the same settings.
        purpose: "published"; "count", the right number of polyps; or "link", few wrong links.
        errors: For the purpose "count", the counted minus the true number of polyps under every
            setting (s,), one per procedure; by default those of the tracklets of known polyp.

    Raises:
        PolyplinkError: If there is no procedure or no setting, or their settings differ in number.
    """
    sizes = {c.clusters.size for c in counts}
    if len(sizes) != 1 or 0 in sizes:
        raise PolyplinkError(
            f"{len(counts)} procedures with {sorted(sizes)} settings",
            "count at least one procedure, all under the same settings",
        )
    fr = np.stack([c.rates["fr"] for c in counts]).mean(axis=0).round(DIGITS)  # (s,)
    fprs = [c.rates["fpr"] for c in counts if c.polyps > 1]

    # The right number of polyps.
    if purpose == "count":
        deltas = np.stack(errors or [c.clusters - c.polyps for c in counts])  # (p, s)
        badness = _smooth(np.abs(deltas).mean(axis=0)) + np.abs(_smooth(deltas.mean(axis=0))) / 2
        row = int(np.argmin(badness.round(DIGITS)))
        fpr_there = float(np.mean([rates[row] for rates in fprs])) if fprs else None
        return Choice(row, "count", float(fr[row]), fpr_there)

    # Without procedures of several polyps, nothing penalises merging.
    if not fprs:
        row = int(np.argmin(fr))
        return Choice(row, "one_polyp_each", float(fr[row]), None)
    fpr = np.stack(fprs).mean(axis=0).round(DIGITS)  # (s,)

    # Few wrong links: the lowest FR among the settings that fall least short of the precision.
    if purpose == "link":
        precision = np.stack([c.rates["precision"] for c in counts if c.polyps > 1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # no linked pair: precision 1
            mean_precision = np.nan_to_num(np.nanmean(precision, axis=0), nan=1.0)  # (s,)
        shortfall = np.maximum(LEAST_PRECISION - mean_precision, 0.0).round(DIGITS)
        row = int(np.lexsort((fr, shortfall))[0])
        return Choice(row, "link", float(fr[row]), float(fpr[row]))

    # As published.
    rule: Rule = "nearest" if (fpr > 0).any() else "no_false_positive"
    distance = np.round(np.where(fpr > 0, np.abs(fpr - TARGET_FPR), np.inf), DIGITS)
    row = int(np.lexsort((fr, distance))[0])  # stable: the first on ties
    return Choice(row, rule, float(fr[row]), float(fpr[row]))


def _smooth(values: Floats) -> Floats:
    """Means (s,) of each value and its `NEIGHBOURS` on both sides; edge values are repeated."""
    width = 2 * NEIGHBOURS + 1
    padded = np.pad(values, NEIGHBOURS, mode="edge")
    return np.convolve(padded, np.ones(width) / width, mode="valid")
