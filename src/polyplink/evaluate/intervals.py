"""95 % intervals by a bootstrap over procedures, the independent units of a data set.

Procedures are drawn with replacement; every figure is recomputed from counts stored per procedure
(Efron's percentile interval). Two methods are compared on the same draws.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.pair_counts import PairCounts

Reals = npt.NDArray[np.float64]
Weights = npt.NDArray[np.int64]

RESAMPLES = 10_000
PERCENTILES = (2.5, 97.5)
CHUNK = 256  # resamples whose binned pairs are held at a time


@dataclass(frozen=True)
class Figure:
    """One number with its uncertainty: the type of every figure that is reported.

    Attributes:
        value: The number; None where it is undefined or was not measured.
        low: 2.5th percentile over the resamples in which it is defined; None without an interval,
            as with fewer than two units.
        high: 97.5th percentile, likewise.
        n: Independent units (procedures, polyps) that it rests on.
        sd: Standard deviation over the units (dividing by n), where papers print mean ± sd.
        why: Why there is no value; "" where nothing more is known than that it is undefined.

    Example:
        >>> Figure(0.82, 0.74, 0.88, n=19).known
        True
        >>> Figure(-0.03, -0.05, -0.01, n=19).excludes_zero
        True
        >>> Figure.mean_of([1.0, None, 3.0])
        Figure(value=2.0, low=None, high=None, n=2, sd=1.0, why='')
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    sd: float | None = None
    why: str = ""

    @classmethod
    def mean_of(cls, values: Iterable[float | None]) -> Self:
        """Mean and standard deviation of the defined values; undefined where there is none."""
        defined = [value for value in values if value is not None]
        if not defined:
            return cls(None)
        return cls(float(np.mean(defined)), n=len(defined), sd=float(np.std(defined)))

    @property
    def known(self) -> bool:
        """Whether there is a finite value."""
        return self.value is not None and math.isfinite(self.value)

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval and all of it is on one side of zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def draw_weights(units: int, *, resamples: int = RESAMPLES, seed: int = 0) -> Weights:
    """How often each unit is drawn in each resample.

    Args:
        units: Procedures, more than 0.
        resamples: Draws of that many procedures with replacement.
        seed: Seed of the draws.

    Returns:
        Weights (resamples, units); each row sums to `units`.

    Raises:
        PolyplinkError: If there is no unit or no resample.
    """
    if units < 1 or resamples < 1:
        raise PolyplinkError(
            f"a bootstrap of {resamples} resamples over {units} procedures",
            "give at least one of each",
        )
    rng = np.random.default_rng(seed)
    return rng.multinomial(units, np.full(units, 1 / units), size=resamples)


def percentile_interval(value: float | None, resampled: Reals, n: int) -> Figure:
    """The interval of a figure from its resampled values (r,); NaN ones are left out."""
    defined = resampled[~np.isnan(resampled)]
    if value is None or n < 2 or not defined.size:
        return Figure(value, None, None, n)
    low, high = np.percentile(defined, PERCENTILES)
    return Figure(value, float(low), float(high), n)


def _resampled_ratio(sums: Reals, counts: Reals, weights: Weights) -> Reals:
    """Ratio of weighted sums (r,), NaN where nothing was drawn that counts."""
    total, number = weights @ sums, weights @ counts
    nothing = np.full(len(weights), np.nan)
    return np.asarray(np.divide(total, number, out=nothing, where=number > 0))


@dataclass(frozen=True)
class Resampled:
    """A figure and what it was in every resample, so that methods can be compared in pairs.

    Attributes:
        value: The figure; None if undefined.
        resampled: Its value in each resample (r,), NaN where undefined.
        taking_part: Procedures that it rests on (units,), bool.
    """

    value: float | None
    resampled: Reals
    taking_part: npt.NDArray[np.bool_]

    @property
    def n(self) -> int:
        """How many procedures it rests on."""
        return int(self.taking_part.sum())

    def figure(self) -> Figure:
        """The figure with its 95 % interval."""
        return percentile_interval(self.value, self.resampled, self.n)

    def minus(self, other: Self) -> Figure:
        """This figure minus another of the same draws: both saw the same procedures in each.

        Where the two rest on other procedures (precision, where one method linked nothing), they
        are no pairs, and there is no interval.
        """
        known = self.value is not None and other.value is not None
        value = self.value - other.value if known else None  # type: ignore[operator]
        difference = self.resampled - other.resampled
        common = self.taking_part & other.taking_part
        if (self.taking_part != other.taking_part).any():
            return Figure(value, None, None, int(common.sum()))
        return percentile_interval(value, difference, self.n)


def resampled_mean(sums: npt.ArrayLike, counts: npt.ArrayLike, weights: Weights) -> Resampled:
    """Mean of values that come in procedures, as a ratio of sums.

    For queries: the sum of a procedure's figures and its number of queries. For one value per
    procedure: the value and 1; where it is undefined 0 and 0.

    Args:
        sums: Sum of each procedure's values (units,).
        counts: Number of each procedure's values (units,).
        weights: Draws (r, units), see `draw_weights`.
    """
    s, c = np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    value = float(s.sum() / c.sum()) if c.sum() > 0 else None
    return Resampled(value, _resampled_ratio(s, c, weights), c > 0)


def resample_reid(counts: PairCounts, weights: Weights) -> tuple[Reals, Reals]:
    """AUROC and AUPR in every resample, from binned pairs.

    A procedure drawn w times gives its own pairs w times, and a pair of procedures drawn v and w
    times gives theirs v w times. Copies of one procedure are not paired with each other: their
    tracklets are the same, and every such pair would be a false match with itself.

    AUROC is a form in the draws alone, so that its sum over bins is taken once. Average precision
    has a ratio in every bin, but bins without a positive pair add nothing to it.

    Args:
        counts: Binned pairs, see `reidentify`.
        weights: Draws (r, procedures).

    Returns:
        AUROC (r,) and AUPR (r,); NaN where no positive or no negative pair was drawn.
    """
    auroc, aupr = np.empty((2, len(weights)))
    positives = counts.positives.astype(np.float64)  # (procedures, bins)
    negatives = counts.negatives.astype(np.float64)  # (pairs, bins)
    within = counts.first == counts.second
    kept = positives.any(axis=0)
    hits, alarms = _or_above(positives)[:, kept], _or_above(negatives)
    below = alarms[:, :1] - alarms + negatives / 2  # negatives under a positive of the bin
    wins = below @ positives.T  # (pairs, procedures)
    own, alarms = positives[:, kept], alarms[:, kept]
    many = positives.sum(axis=1), negatives.sum(axis=1)
    for start in range(0, len(weights), CHUNK):
        w = weights[start : start + CHUNK].astype(np.float64)  # (chunk, procedures)
        pair = w[:, counts.first] * np.where(within, 1.0, w[:, counts.second])  # (chunk, pairs)
        part = slice(start, start + len(w))
        p, n = w @ many[0], pair @ many[1]  # (chunk,)
        with np.errstate(invalid="ignore", divide="ignore"):
            auroc[part] = ((pair @ wins) * w).sum(axis=1) / (p * n)
            h = w @ hits  # (chunk, bins kept)
            share = h / np.maximum(h + pair @ alarms, 1.0)
            aupr[part] = np.where(n > 0, np.einsum("rb,rb->r", w @ own, share) / p, np.nan)
    return auroc, aupr


def _or_above(counts: Reals) -> Reals:
    """How many are in each bin or in a higher one (rows, bins)."""
    return np.asarray(counts[:, ::-1].cumsum(axis=1)[:, ::-1])
