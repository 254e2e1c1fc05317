"""95 % intervals by a bootstrap over procedures, the independent units of a data set.

Procedures are drawn with replacement, and every figure is recomputed from counts stored per
procedure (Efron's percentile interval). Two methods are compared on the same draws.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from polyplink.core.arrays import Flags, Floats
from polyplink.core.errors import PolyplinkError

Weights = npt.NDArray[np.int64]

RESAMPLES = 10_000
PERCENTILES = (2.5, 97.5)
FEWEST = 6  # units to distinguish two methods: five agree by chance in more than 5 % of cases


@dataclass(frozen=True)
class Figure:
    """One number with its uncertainty: the type of every reported figure.

    Attributes:
        value: The number; None if it is undefined or was not measured.
        low: 2.5th percentile over the resamples in which it is defined; None without an interval,
            for example with fewer than two units.
        high: 97.5th percentile; None as for `low`.
        n: Number of independent units (procedures, polyps).
        sd: Standard deviation over the units (divided by n), if papers print mean ± sd, or over
            runs with different seeds (divided by their number - 1).
        why: Why there is no value; "" if it is simply undefined.

    Example:
        >>> Figure(0.82, 0.74, 0.88, n=19).is_defined
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

    @property
    def differs(self) -> bool:
        """Whether a paired difference has an interval without 0, over `FEWEST` units or more."""
        low, high = self.low, self.high
        return self.n >= FEWEST and low is not None and high is not None and low * high > 0

    @classmethod
    def mean_of(cls, values: Iterable[float | None]) -> Self:
        """Mean and standard deviation of the defined values; undefined if there are none."""
        defined = [value for value in values if value is not None]
        if not defined:
            return cls(None)
        return cls(float(np.mean(defined)), n=len(defined), sd=float(np.std(defined)))

    @property
    def is_defined(self) -> bool:
        """Whether there is a finite value."""
        return self.value is not None and math.isfinite(self.value)


def draw_weights(units: int, *, resamples: int = RESAMPLES, seed: int = 0) -> Weights:
    """Draw the number of times that each unit occurs in each resample.

    Args:
        units: Number of units, such as procedures, more than 0.
        resamples: Number of resamples with replacement.
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


def ratio(part: npt.ArrayLike, total: npt.ArrayLike) -> Floats:
    """Part / total, NaN if the total is 0."""
    result = np.full(np.broadcast_shapes(np.shape(part), np.shape(total)), np.nan)
    return np.asarray(np.divide(part, total, out=result, where=np.asarray(total) != 0))


def unless_nan(value: float | Floats) -> float | None:
    """A single value as a number; None if it is NaN."""
    return None if np.isnan(value) else float(value)


@dataclass(frozen=True)
class Resampled:
    """A figure with its value in every resample, for paired comparisons of methods.

    Attributes:
        value: The figure; None if undefined.
        resampled: Its value in each resample (r,), NaN if undefined.
        taking_part: Whether each procedure contributes to it (units,), bool.
        why: Why there is no value, see `Figure`.
    """

    value: float | None
    resampled: Floats
    taking_part: Flags
    why: str = ""

    @property
    def n(self) -> int:
        """Number of contributing procedures."""
        return int(self.taking_part.sum())

    def figure(self) -> Figure:
        """The figure with its 95 % interval, unless fewer than `FEWEST` procedures contribute.

        Resamples of so few are so alike that the interval is too narrow, of one a single number.
        Resamples in which the figure is undefined are left out.
        """
        defined = self.resampled[~np.isnan(self.resampled)]
        if self.value is None or self.n < FEWEST or not defined.size:
            return Figure(self.value, None, None, self.n, why=self.why)
        low, high = np.percentile(defined, PERCENTILES)
        return Figure(self.value, float(low), float(high), self.n)

    @classmethod
    def mean(cls, runs: Sequence[Self]) -> Self:
        """Mean over runs with different seeds, on the same draws; undefined if a run is."""
        values = [run.value for run in runs if run.value is not None]
        return cls(
            float(np.mean(values)) if len(values) == len(runs) else None,
            np.mean([run.resampled for run in runs], axis=0),
            np.any([run.taking_part for run in runs], axis=0),
        )

    def minus(self, other: Self) -> Figure:
        """The paired difference to another figure on the same draws.

        If different procedures contribute to the two (for example to precision, if one method
        linked nothing), they are not paired and the difference has no interval.
        """
        measured = self.value is not None and other.value is not None
        value = self.value - other.value if measured else None  # type: ignore[operator]
        difference = self.resampled - other.resampled
        common = self.taking_part & other.taking_part
        if (self.taking_part != other.taking_part).any():
            return Figure(value, None, None, int(common.sum()))
        return Resampled(value, difference, common).figure()


def resampled_mean(sums: npt.ArrayLike, counts: npt.ArrayLike, weights: Weights) -> Resampled:
    """Mean of values grouped by procedure, as a ratio of sums.

    For queries, pass the sum of a procedure's values and its number of queries.

    Args:
        sums: Sum of each procedure's values (units,).
        counts: Number of each procedure's values (units,).
        weights: Draws (r, units), see `draw_weights`.
    """
    s, c = np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    value = float(s.sum() / c.sum()) if c.sum() > 0 else None
    return Resampled(value, ratio(weights @ s, weights @ c), c > 0)


def mean_of_procedures(values: Floats, weights: Weights) -> Resampled:
    """Mean of one value per procedure (units,), NaN if undefined; see `resampled_mean`."""
    defined = ~np.isnan(values)
    return resampled_mean(np.where(defined, values, 0.0), defined, weights)


def no_different(measures: Mapping[str, Resampled], ideal: float | None = None) -> tuple[str, ...]:
    """The methods to mark in a table: the best one first, then those that do not differ from it.

    The papers print the best result in bold, and those with p > 0.05 against it, without naming the
    test. Here the test is the paired bootstrap: a method is marked if the 95 % interval of its
    difference to the best includes 0. Differences over fewer than `FEWEST` units show nothing.

    Args:
        measures: A figure with its resamples by method, all on the same draws.
        ideal: The best value; None if larger is better.

    Returns:
        Names of methods. Empty if fewer than two methods have the figure, or no difference to the
        best has an interval over `FEWEST` units.
    """
    distances = {
        method: -measure.value if ideal is None else abs(measure.value - ideal)
        for method, measure in measures.items()
        if measure.value is not None
    }
    if len(distances) < 2:
        return ()
    best = min(distances, key=lambda method: distances[method])
    alike, compared = [], False
    for method in distances:
        if method == best:
            continue
        gap = measures[method].minus(measures[best])
        compared |= gap.low is not None and gap.n >= FEWEST
        if gap.low is not None and not gap.differs:
            alike.append(method)
    return (best, *alike) if compared else ()
