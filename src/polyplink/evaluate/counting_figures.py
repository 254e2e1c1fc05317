"""The figures of counting: each procedure under a setting chosen on others, and their metrics."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from polyplink.associate.clusterers import Setting
from polyplink.associate.identities import Purpose
from polyplink.core.arrays import Flags, Floats
from polyplink.core.errors import PolyplinkError
from polyplink.core.text import short_repr
from polyplink.evaluate.choosing import Choice, choose
from polyplink.evaluate.counting import ProcedureCounts
from polyplink.evaluate.intervals import (
    Figure,
    Resampled,
    Weights,
    mean_of_procedures,
    unless_nan,
)
from polyplink.evaluate.metric import Metric, metrics_of, values_of

Fold = dict[str, Any]  # a row of the table of procedures, see `apply_choice`


def apply_choice(counts: ProcedureCounts, choice: Choice) -> Fold:
    """The figures of one procedure under a chosen setting.

    Returns:
        procedure, choice, numbers of tracklets of known polyp, polyps and clusters, and rates with
        the names of `ProcedureCounts.rates`, None if undefined.
    """
    rates = {name: unless_nan(values[choice.row]) for name, values in counts.rates.items()}
    return {
        "procedure": counts.procedure,
        "choice": choice,
        "tracklets": counts.tracklets,
        "polyps": counts.polyps,
        "clusters": int(counts.clusters[choice.row]),
        **rates,
    }


def summarise(folds: Sequence[Fold]) -> dict[str, Any]:
    """Average the figures of procedures.

    Returns:
        Means with standard deviations (`Figure`, ddof 0): fr and the published rates over all
        procedures; the other `rates` over procedures with two polyps or more for which they are
        defined; bias, the mean of clusters minus polyps, over all. exact (float): the share of all
        procedures with as many clusters as polyps.

    Raises:
        PolyplinkError: If there is no procedure.
    """
    if not folds:
        raise PolyplinkError("no procedure to average over", "count at least one procedure")
    errors = [fold["clusters"] - fold["polyps"] for fold in folds]
    with_several_polyps = [fold for fold in folds if fold["polyps"] > 1]
    summary: dict[str, Any] = {}
    for rate in rates().values():
        averaged = folds if rate.over_all else with_several_polyps
        summary[rate.key] = Figure.mean_of([fold[rate.key] for fold in averaged])
    summary["bias"] = Figure.mean_of([float(error) for error in errors])
    summary["exact"] = errors.count(0) / len(folds)
    return summary


@dataclass(frozen=True)
class CountingFigures:
    """Counting with one clusterer.

    Attributes:
        folds: One per procedure, with a setting chosen on the others, or on the procedures for
            choosing; empty with one procedure.
        settings: The setting of each fold.
        summary: Means over the folds, see `summarise`, and alpha, the mean of the chosen weights of
            the visual similarity, if settings have one; None with one procedure.
        chosen: The choice on all procedures: the operating point to use on other data.
        setting: The setting of the operating point.
        as_chosen: Means under the operating point on the procedures of the choice: optimistic.
    """

    __repr__ = short_repr

    folds: tuple[Fold, ...]
    settings: tuple[Setting, ...]
    summary: dict[str, Any] | None
    chosen: Choice
    setting: Setting
    as_chosen: dict[str, Any]


def counting_figures(
    counts: Sequence[ProcedureCounts],
    settings: Sequence[Setting],
    chosen_on: Sequence[str] = (),
    purpose: Purpose = "published",
) -> CountingFigures:
    """Apply to each procedure a setting chosen without it, and choose the operating point.

    Args:
        counts: One per procedure, under the settings; nothing is clustered again.
        settings: The settings, in the order of the counts.
        chosen_on: Names of procedures, such as those of a validation part, on which one setting is
            chosen for all others. If empty, each procedure's setting is chosen on the rest.
        purpose: Purpose of the choice, see `choose`.

    Raises:
        PolyplinkError: If there is no procedure or no setting, no procedure to choose on, or no
            other procedure.
    """
    basis = [c for c in counts if not chosen_on or c.procedure in chosen_on]
    counted = [c for c in counts if c.procedure not in chosen_on]
    if chosen_on and not (basis and counted):
        raise PolyplinkError(
            f"{len(basis)} labelled procedures to choose a setting on and {len(counted)} to count",
            "give --part and --choose-on parts that do not overlap, with labels in both",
        )
    chosen = choose(basis, purpose=purpose)
    if chosen_on:
        folds = [apply_choice(held_out, chosen) for held_out in counted]
    else:
        folds = []
        for held_out in counts:
            others = [c for c in counts if c is not held_out]
            if others:
                folds.append(apply_choice(held_out, choose(others, purpose=purpose)))
    summary = summarise(folds) if folds else None
    alphas = [getattr(settings[fold["choice"].row], "alpha", None) for fold in folds]
    if summary and None not in alphas:
        summary["alpha"] = Figure.mean_of(alphas)
    return CountingFigures(
        folds=tuple(folds),
        settings=tuple(settings[fold["choice"].row] for fold in folds),
        summary=summary,
        chosen=chosen,
        setting=settings[chosen.row],
        as_chosen=summarise([apply_choice(c, chosen) for c in basis]),
    )


@dataclass(frozen=True)
class CountedProcedure:
    """One procedure under the setting chosen for it: the argument of metrics of counting.

    Attributes:
        fold: Its rates, see `apply_choice`.
        clusters: Cluster of every tracklet of known polyp (n,).
        polyps: Polyp of every such tracklet (n,).
        clinic: True and counted polyps and adenomas, see `clinic_row`.
    """

    fold: Fold
    clusters: npt.NDArray[np.integer]
    polyps: npt.NDArray[np.integer]
    clinic: Mapping[str, Any]


def _rate(key: str, **described: Any) -> Metric:
    """A metric with the value of one of `ProcedureCounts.rates`."""
    over_all = described.get("over_all", False)

    def value(counted: CountedProcedure) -> float | None:
        rate: float | None = counted.fold[key]
        return rate if over_all or counted.fold["polyps"] > 1 else None

    return Metric(task="counting", key=key, value=value, **described)


def _called_adenoma(counted: CountedProcedure) -> bool | None:
    adenomas = counted.clinic["adenomas_counted"]
    return None if adenomas is None else adenomas > 0


# Published rates are averaged over all procedures; the others over those with two polyps or more.
FR = _rate("fr", title="fragmentation rate", meaning="clusters over polyps", over_all=True)
FPR = _rate(
    "fpr",
    title="false positive rate",
    meaning="pairs of two polyps in one cluster",
    ideal=0.0,
    needs="two polyps",
)
PRECISION = _rate(
    "precision", meaning="of linked pairs", needs="two polyps and two tracklets in one cluster"
)
RECALL = _rate(
    "recall", meaning="of pairs of one polyp", needs="two polyps and two tracklets of one polyp"
)
COUNT_ERROR = Metric(
    task="counting",
    meaning="mean absolute difference between the counted and the true number of polyps",
    value=lambda counted: abs(counted.fold["clusters"] - counted.fold["polyps"]),
    ideal=0.0,
)
EXACT = Metric(
    task="counting",
    meaning="share of procedures with the right number of polyps",
    value=lambda counted: counted.fold["clusters"] == counted.fold["polyps"],
)
PPC = Metric(
    task="counting",
    title="polyps per colonoscopy",
    meaning="polyps per colonoscopy as counted; the ideal is the true value",
    value=lambda counted: counted.fold["clusters"],
    ideal=0.0,
)
ADR = Metric(
    task="counting",
    title="adenoma detection rate",
    meaning="share of colonoscopies with a cluster called adenoma; the ideal is the true value",
    value=_called_adenoma,
    needs="a polyp of known histology",
)
PUBLISHED_FPR = _rate(
    "fpr_published",
    title="false positive rate",
    heading="FPR (as published)",
    meaning="mean over all procedures, 0 where there is one polyp",
    style="published",
    ideal=0.0,
    over_all=True,
)
_WITH_SELF = "as published: pairs counted twice, every tracklet with itself as a true positive"
PRECISION_WITH_SELF = _rate(
    "precision_with_self",
    heading="precision",
    meaning=_WITH_SELF,
    style="reference",
    over_all=True,
)
RECALL_WITH_SELF = _rate(
    "recall_with_self", heading="recall", meaning=_WITH_SELF, style="reference", over_all=True
)


def rates() -> dict[str, Metric]:
    """The built-in metrics of counting that are rates, by name; `key` is the key of the rate."""
    return {name: metric for name, metric in metrics_of("counting").items() if metric.key}


def counting_measures(
    name: str,
    counted: Sequence[CountedProcedure],
    weights: Weights,
    metrics: Mapping[str, Metric],
) -> dict[str, Resampled]:
    """Figures of a clusterer over procedures, each under the setting chosen for it.

    Args:
        name: The clusterer; the figures are called "NAME/FR" and so on.
        counted: The procedures; if empty, figures are undefined, not zero.
        weights: Draws (r, procedures).
        metrics: Metrics of counting by name.
    """
    measures = {}
    for key, metric in metrics.items():
        values = np.full(weights.shape[1], np.nan)
        why = "no other procedure on which a setting could be chosen"
        if counted:
            values[:] = [values_of(key, metric, procedure, ()) for procedure in counted]
            why = f"no procedure with {metric.needs}" if np.isnan(values).all() else ""
        measures[f"{name}/{key}"] = replace(mean_of_procedures(values, weights), why=why)
    return measures


def operating_curve(
    counts: Sequence[ProcedureCounts], converged: Sequence[Flags]
) -> dict[str, Floats]:
    """Means over procedures under every setting.

    Args:
        counts: One per procedure, under the same s settings.
        converged: Whether each clustering converged, one (s,) per procedure.

    Returns:
        fr, fpr, precision, recall, precision_with_self and recall_with_self; converged and exact,
        the shares of procedures with a converged clustering and with an exact count; each (s,),
        NaN if undefined. As in `choose`, FR is averaged over all procedures, and the other rates
        over those with two polyps or more.

    Raises:
        PolyplinkError: If there is no procedure.
    """
    if not counts:
        raise PolyplinkError("no procedure to average over", "count at least one procedure")
    with_several_polyps = [c for c in counts if c.polyps > 1]
    means, nothing = {}, np.full(counts[0].clusters.size, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an empty mean is NaN, as intended
        for rate in rates().values():
            rows = [c.rates[rate.key] for c in (counts if rate.over_all else with_several_polyps)]
            means[rate.key] = np.nanmean(rows, axis=0) if rows else nothing
    exact = np.mean([c.clusters == c.polyps for c in counts], axis=0)
    return means | {"converged": np.mean(converged, axis=0), "exact": exact}
