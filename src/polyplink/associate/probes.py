"""Size and histology of a polyp from its vectors: linear probes, stored in weights as numbers.

A probe takes the mean of the unit vectors of a polyp's tracklets: ridge regression of the logarithm
of the size in mm, or logistic regression of being an adenoma. The error of sizes and the accuracy
of probabilities are measured by cross-fitting: on patients that were not in the fit. The papers'
probe, which measures the information in vectors, is `polyplink.evaluate.fit_probe`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.associate.links import Fit, NotFitted, cross_fit, folds_of, logistic
from polyplink.associate.similarity import expit, unit_rows
from polyplink.core.arrays import Floats
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message, text_of
from polyplink.core.text import many

FOLDS = 10
COVERED = 0.9  # share of polyps with a size in its interval
SURE = 2.0  # standard errors by which a probe must be better than one value for all
FEWEST = 9  # polyps: fewer do not determine a 90 % interval
PENALTIES = np.geomspace(1e-3, 1e2, 11)  # of squared coefficients, at a total variance of 1


@dataclass(frozen=True)
class Probe:
    """A fitted linear probe, as plain numbers.

    Attributes:
        intercept: Value if the vector is 0: logarithm of mm, or log-odds of an adenoma.
        vector: Coefficient of each component of the unit vector (d,).
        factor: A size divided and multiplied by it gives the 90 % interval; None for histology.
        simulated: Whether simulated polyps are among those that it was fitted on.
        origin: A sentence for reports on the data it was fitted on and its cross-fitted results.
    """

    intercept: float
    vector: tuple[float, ...]
    factor: float | None
    simulated: bool
    origin: str

    def values(self, units: Floats) -> Floats:
        """Logarithms of mm, or log-odds (n,), of means of unit vectors (n, d).

        Raises:
            PolyplinkError: If the vectors are longer or shorter than those of the fit.
        """
        if units.shape[1] != len(self.vector):
            raise PolyplinkError(
                f"a probe for vectors of length {len(self.vector)} does not fit vectors of length "
                f"{units.shape[1]}",
                "fit it again with `polyplink calibrate`",
            )
        return np.asarray(self.intercept + units @ np.asarray(self.vector))


@dataclass(frozen=True)
class Reading:
    """Estimates of probes for a polyp or a tracklet; None without the probe.

    Attributes:
        size_mm: Size, mm.
        size_low_mm: Lower end of the 90 % interval of the size, mm.
        size_high_mm: Upper end of the interval, mm.
        adenoma: Probability of an adenoma, 0.01 to 0.99.
    """

    size_mm: float | None = None
    size_low_mm: float | None = None
    size_high_mm: float | None = None
    adenoma: float | None = None


def mean_units(vectors: npt.ArrayLike, groups: npt.NDArray[np.integer]) -> Floats:
    """Mean unit vector of each group (g, d), from vectors (n, d) in groups 0 to g - 1 (n,)."""
    units = unit_rows(vectors)
    sums = np.zeros((int(groups.max(initial=-1)) + 1, units.shape[1]))
    np.add.at(sums, groups, units)
    return np.asarray(sums / np.bincount(groups, minlength=len(sums))[:, None])


def read_polyps(
    size: Probe | None,
    adenoma: Probe | None,
    vectors: npt.ArrayLike,
    groups: npt.NDArray[np.integer],
) -> list[Reading]:
    """Estimate size and histology of polyps, each from all of its tracklets.

    Args:
        size: The probe of sizes, or None.
        adenoma: The probe of histology, or None.
        vectors: Vectors of n tracklets (n, d).
        groups: Polyp of each tracklet (n,), 0 to g - 1, all of which occur.

    Returns:
        The estimates for each of the g polyps.

    Raises:
        PolyplinkError: If the vectors do not fit the probes.
    """
    count = int(groups.max(initial=-1)) + 1
    if size is None and adenoma is None:
        return [Reading()] * count
    units = mean_units(vectors, groups)
    mm = [None] * count if size is None else np.exp(size.values(units)).tolist()
    chances: list[float | None] = [None] * count
    if adenoma is not None:
        likely = expit(adenoma.values(units)).clip(0.01, 0.99)  # none is rounded to a certainty
        chances = [round(chance, 2) for chance in likely.tolist()]
    factor = 1.0 if size is None or size.factor is None else size.factor
    readings = []
    for millimetres, chance in zip(mm, chances, strict=True):
        middle, low, high = (
            millimetres and round(millimetres * by, 1) for by in (1.0, 1 / factor, factor)
        )
        readings.append(Reading(middle, low, high, chance))
    return readings


def fit_size(
    units: Floats, size_mm: Sequence[float], patients: Sequence[str], *, simulated: bool
) -> Probe:
    """Fit the probe of sizes, with intervals as in split conformal prediction.

    Args:
        units: Mean of the unit vectors of each of p polyps (p, d).
        size_mm: Size of each polyp (p,), mm.
        patients: Patient of each polyp (p,).
        simulated: Whether simulated polyps are among them.

    Raises:
        NotFitted: If there are too few polyps, or the estimates are not better than one size for
            all.
    """
    from sklearn.linear_model import Ridge  # noqa: PLC0415 - slow to import, and only to fit

    y = np.log(np.asarray(size_mm, np.float64))

    def ridge(X: Floats, target: Floats, penalty: float) -> tuple[Floats, float]:
        model = Ridge(alpha=penalty * len(X)).fit(X, target)
        return np.asarray(model.coef_, np.float64), float(model.intercept_)

    def loss(value: Floats) -> Floats:
        return np.square(value - y)

    weights, intercept, crossed, baseline = _with_best_penalty(units, y, patients, ridge, loss)
    errors = np.abs(np.exp(crossed) - np.exp(y)).mean(), np.abs(np.exp(baseline) - np.exp(y)).mean()
    rank = math.ceil(COVERED * (y.size + 1))
    factor = math.exp(float(np.sort(np.abs(crossed - y))[rank - 1]))
    off_by = {"error": f"{errors[0]:.1f}", "baseline": f"{errors[1]:.1f}"}
    origin = [
        Message("origin.size", {"polyps": y.size, "patients": len(set(patients))}),
        Message("origin.size_error", off_by),
    ]
    return Probe(intercept, tuple(weights.tolist()), factor, simulated, text_of(origin))


def fit_adenoma(
    units: Floats, adenoma: Sequence[bool], patients: Sequence[str], *, simulated: bool
) -> Probe:
    """Fit the probe of histology; arguments, result and errors are as for `fit_size`."""
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 - slow to import, and only to fit

    y = np.asarray(adenoma, np.float64)
    if not 0 < y.sum() < y.size:
        raise NotFitted(f"{int(y.sum())} of {y.size} labelled polyps are adenomas")

    def regression(X: Floats, target: Floats, penalty: float) -> tuple[Floats, float]:
        if not 0 < target.sum() < target.size:
            share = (target.sum() + 0.5) / (target.size + 1)
            return np.zeros(X.shape[1]), math.log(share / (1 - share))
        return logistic(X, target > 0, C=1 / (penalty * len(X)), max_iter=1000)

    def loss(value: Floats) -> Floats:
        return np.logaddexp(0, np.where(y > 0, -value, value))

    weights, intercept, crossed, baseline = _with_best_penalty(units, y, patients, regression, loss)
    polyps = {"polyps": y.size, "adenomas": int(y.sum()), "patients": len(set(patients))}
    figures = {
        "auroc": roc_auc_score(y, crossed),
        "loss": loss(crossed).mean(),
        "baseline": loss(baseline).mean(),
    }
    origin = [
        Message("origin.histology", polyps),
        Message("origin.histology_error", {name: f"{x:.2f}" for name, x in figures.items()}),
    ]
    return Probe(intercept, tuple(weights.tolist()), None, simulated, text_of(origin))


def _with_best_penalty(
    units: Floats, y: Floats, patients: Sequence[str], fit: Fit, loss: Callable[[Floats], Floats]
) -> tuple[Floats, float, Floats, Floats]:
    """Choose the penalty by cross-fitting, and fit on all polyps.

    Args:
        units: Mean unit vectors (p, d).
        y: Target values (p,).
        patients: Patient of each polyp (p,): no patient is both in a fit and predicted by it.
        fit: Returns coefficients and intercept for terms, target values and a penalty.
        loss: Loss of each of p predicted values (p,).

    Returns:
        Coefficients (d,) and intercept, cross-fitted values (p,), and those of a constant (p,).

    Raises:
        NotFitted: If there are too few polyps, or the values are not better than a constant.
    """
    n_patients = len(set(patients))
    if y.size < FEWEST or n_patients < 2:
        raise NotFitted(
            f"{many(y.size, 'labelled polyp')} of {many(n_patients, 'patient')}, and at least "
            f"{FEWEST} polyps of two patients are needed"
        )
    scale = math.sqrt(float(units.var(axis=0).sum())) or 1.0
    Z, fold = units / scale, folds_of(patients, FOLDS)
    # Under the largest penalty the model is a constant.
    penalties = [*PENALTIES.tolist(), 1e9]
    crossed = np.array([cross_fit(Z, y, fold, fit, penalty) for penalty in penalties])  # t p
    losses = np.array([loss(values) for values in crossed])  # t p
    best = int(losses.mean(axis=1).argmin())
    gain = losses[-1] - losses[best]
    if gain.mean() <= SURE * gain.std() / math.sqrt(y.size):
        reason = f"cross-fitted on {y.size} polyps, not surely better than one value for all"
        raise NotFitted(reason)
    weights, intercept = fit(Z, y, penalties[best])
    return weights / scale, intercept, crossed[best], crossed[-1]
