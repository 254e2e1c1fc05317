"""Choosing a clusterer's setting for a purpose, leaving one procedure out.

The published rule asks for a false positive rate of 5 % (Parolari et al., temporally-aware polyp
counting, section 3, and its program). It says nothing about the count, which needs a rule of its
own; so do links that a user wants to rely on. Both are ours.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from polyplink.associate.clusterers import Setting
from polyplink.core.errors import PolyplinkError
from polyplink.core.text import brief
from polyplink.evaluate.counting import ProcedureCounts
from polyplink.evaluate.intervals import Figure, Resampled, Weights, resampled_mean
from polyplink.evaluate.metric import Metric, metrics_of

Reals = npt.NDArray[np.float64]

Purpose = Literal["published", "count", "link"]

TARGET_FPR = 0.05
LEAST_PRECISION = 0.95  # of linked pairs, for the purpose "link"
NEIGHBOURS = 2  # settings before and after one that its errors are averaged with
DIGITS = 12  # means are compared after rounding, so that equal means in another order are equal

Fold = dict[str, Any]  # a row of the table of procedures, see `apply_choice`

Rule = Literal["nearest", "no_false_positive", "one_polyp_each", "count", "link"]


@dataclass(frozen=True)
class Choice:
    """A setting and why it was chosen.

    Attributes:
        row: The setting's row in the sweep.
        rule: `"nearest"`: FPR nearest to the target among settings with FPR > 0, the lowest FR
            among equals, then the first. `"no_false_positive"`: every setting has FPR 0; the
            lowest FR. `"one_polyp_each"`: no procedure has two polyps, so that FPR is undefined
            and nothing speaks against merging; the lowest FR. Do not trust the last one on
            procedures with more polyps. `"count"`: the lowest mean count error plus half the
            absolute bias, both averaged over the setting and its neighbours in the order of the
            grid, because few procedures make each of them noisy. `"link"`: the lowest FR among
            settings whose linked pairs are right in 95 %, or the one nearest to that.
        fr: Mean FR over the procedures it was chosen on.
        fpr: Mean FPR over those with two polyps or more; None if there is none.
    """

    row: int
    rule: Rule
    fr: float
    fpr: float | None


def choose(
    counts: Sequence[ProcedureCounts],
    *,
    target: float = TARGET_FPR,
    purpose: Purpose = "published",
) -> Choice:
    """Choose a setting; for the published purpose the one with the FPR nearest to the target.

    FPR is averaged over the procedures with two polyps or more, FR over all. Self-pairs, which the
    published program counts as true positives, have no part in either.

    Args:
        counts: One per procedure, all under the same settings.
        target: The false positive rate to come near.
        purpose: "published"; "count", the right number of polyps; or "link", few wrong links.

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
    several = [c.rates["fpr"] for c in counts if c.polyps > 1]
    if purpose == "count":
        errors = np.stack([c.clusters - c.polyps for c in counts])  # (p, s)
        badness = _smooth(np.abs(errors).mean(axis=0)) + np.abs(_smooth(errors.mean(axis=0))) / 2
        row = int(np.argmin(badness.round(DIGITS)))
        fpr_there = float(np.mean([rates[row] for rates in several])) if several else None
        return Choice(row, "count", float(fr[row]), fpr_there)
    if not several:
        row = int(np.argmin(fr))
        return Choice(row, "one_polyp_each", float(fr[row]), None)
    fpr = np.stack(several).mean(axis=0).round(DIGITS)  # (s,)
    if purpose == "link":
        precision = np.stack([c.rates["precision"] for c in counts if c.polyps > 1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # nothing linked: never wrong
            right = np.nan_to_num(np.nanmean(precision, axis=0), nan=1.0)  # (s,)
        short = np.maximum(LEAST_PRECISION - right, 0.0).round(DIGITS)
        row = int(np.lexsort((fr, short))[0])
        return Choice(row, "link", float(fr[row]), float(fpr[row]))
    rule: Rule = "nearest" if (fpr > 0).any() else "no_false_positive"
    distance = np.round(np.where(fpr > 0, np.abs(fpr - target), np.inf), DIGITS)
    row = int(np.lexsort((fr, distance))[0])  # stable: the first among equals
    return Choice(row, rule, float(fr[row]), float(fpr[row]))


def _smooth(values: Reals) -> Reals:
    """Means (s,) of each value and its `NEIGHBOURS` on both sides, as far as there are any."""
    width = 2 * NEIGHBOURS + 1
    padded = np.pad(values, NEIGHBOURS, mode="edge")
    return np.convolve(padded, np.ones(width) / width, mode="valid")


def apply_choice(counts: ProcedureCounts, choice: Choice) -> Fold:
    """The figures of one procedure under a chosen setting.

    Returns:
        procedure, choice, its tracklets of known polyp, polyps and clusters, and its rates under
        the names of `ProcedureCounts.rates`, None where undefined.
    """
    rates = {name: float(values[choice.row]) for name, values in counts.rates.items()}
    return {
        "procedure": counts.procedure,
        "choice": choice,
        "tracklets": counts.tracklets,
        "polyps": counts.polyps,
        "clusters": int(counts.clusters[choice.row]),
        **{name: None if np.isnan(rate) else rate for name, rate in rates.items()},
    }


def summarise(folds: Sequence[Fold]) -> dict[str, Any]:
    """Average the figures of procedures.

    Returns:
        Means with standard deviations (`Figure`, ddof 0): fr and the published rates over all
        procedures; the other `rates` over those with two polyps or more, as far as they are
        defined there; bias, the mean of clusters minus polyps, over all. exact
        (float): the share of all procedures whose clusters are as many as their polyps.

    Raises:
        PolyplinkError: If there is no procedure.
    """
    if not folds:
        raise PolyplinkError("no procedure to average over", "count at least one procedure")
    errors = [fold["clusters"] - fold["polyps"] for fold in folds]
    several = [fold for fold in folds if fold["polyps"] > 1]
    return {
        **{
            rate.key: Figure.mean_of(
                fold[rate.key] for fold in (folds if rate.over_all else several)
            )
            for rate in rates().values()
        },
        "bias": Figure.mean_of(float(error) for error in errors),
        "exact": errors.count(0) / len(folds),
    }


@dataclass(frozen=True)
class CountingFigures:
    """Counting with one clusterer.

    Attributes:
        folds: One per procedure, its setting chosen on the others, or on those named for it;
            empty with one procedure.
        settings: The setting of each fold.
        summary: Means over the folds, see `summarise`, and alpha, the mean weight of the visual
            similarity that was chosen, where settings have one; None with one procedure.
        chosen: The choice on all procedures: the operating point to use elsewhere.
        setting: Its setting.
        as_chosen: Means under the operating point, on the procedures it was chosen on: optimistic.
    """

    __repr__ = brief

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
    """Apply to each procedure a setting that was chosen without it, and find the operating point.

    Args:
        counts: One per procedure, under the settings; nothing is clustered again.
        settings: The settings, in the order of the counts.
        chosen_on: Names of procedures, such as those of a validation part, to choose one setting
            on for all others. None: leave one out, each procedure's setting is chosen on the rest.
        purpose: What the setting is chosen for, see `choose`.

    Raises:
        PolyplinkError: If there is no procedure or no setting, none of those to choose on is
            there, or none is left.
    """
    basis = [c for c in counts if not chosen_on or c.procedure in chosen_on]
    counted = [c for c in counts if c.procedure not in chosen_on]
    if chosen_on and not (basis and counted):
        raise PolyplinkError(
            f"{len(basis)} labelled procedures to choose a setting on and {len(counted)} to count",
            "name parts with --part and --choose-on that do not overlap, with labels in both",
        )
    chosen = choose(basis, purpose=purpose)
    if chosen_on:
        folds = [apply_choice(held_out, chosen) for held_out in counted]
    else:
        remaining = [[c for c in counts if c is not held_out] for held_out in counts]
        pairs = zip(counts, remaining, strict=True)
        folds = [apply_choice(c, choose(r, purpose=purpose)) for c, r in pairs if r]
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
    """One procedure under the setting chosen for it: what metrics of counting are computed from.

    Attributes:
        fold: Its rates, see `apply_choice`.
        clusters: Cluster of every tracklet of known polyp (n,).
        polyps: Polyp of every one of them (n,).
        clinic: Its polyps and adenomas, true and counted, see `clinic_row`.
    """

    fold: Fold
    clusters: npt.NDArray[np.integer]
    polyps: npt.NDArray[np.integer]
    clinic: Mapping[str, Any]


def _rate(key: str, **described: Any) -> Metric:
    """A metric that is one of `ProcedureCounts.rates`."""
    over_all = described.get("over_all", False)

    def value(counted: CountedProcedure) -> float | None:
        rate: float | None = counted.fold[key]
        return rate if over_all or counted.fold["polyps"] > 1 else None

    return Metric(task="counting", key=key, value=value, **described)


def _called_adenoma(counted: CountedProcedure) -> bool | None:
    adenomas = counted.clinic["adenomas_counted"]
    return None if adenomas is None else adenomas > 0


# The published means are over all procedures; those of the other rates over those with two polyps
# or more.
FR = _rate("fr", title="fragmentation rate", meaning="clusters over polyps", over_all=True)
FPR = _rate(
    "fpr", title="false positive rate", meaning="pairs of two polyps in one cluster", ideal=0.0
)
PRECISION = _rate("precision", meaning="of linked pairs")
RECALL = _rate("recall", meaning="of pairs of one polyp")
COUNT_ERROR = Metric(
    task="counting",
    meaning="mean difference between the counted and the true number of polyps",
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
    """The built-in metrics of counting that are rates, by name; `key` is that of their rate."""
    return {name: metric for name, metric in metrics_of("counting").items() if metric.key}


def counting_measures(
    name: str,
    counted: Sequence[CountedProcedure],
    weights: Weights,
    metrics: Mapping[str, Metric] | None = None,
) -> dict[str, Resampled]:
    """Figures of a clusterer over procedures, each under the setting chosen for it.

    Args:
        name: The clusterer; the figures are called "NAME/FR" and so on.
        counted: The procedures; without any, figures are undefined, not zero.
        weights: Draws (r, procedures).
        metrics: Metrics of counting by name; the built-in ones by default.
    """
    metrics = metrics_of("counting") if metrics is None else metrics
    measures = {}
    for key, metric in metrics.items():
        per_procedure = [metric.value(procedure) for procedure in counted]  # type: ignore[misc]
        values = per_procedure or [None] * weights.shape[1]
        defined = [value is not None for value in values]
        sums = [value or 0.0 for value in values]
        measures[f"{name}/{key}"] = resampled_mean(sums, defined, weights)
    return measures


def operating_curve(
    counts: Sequence[ProcedureCounts], converged: Sequence[npt.NDArray[np.bool_]]
) -> dict[str, Reals]:
    """Means over procedures under every setting.

    Args:
        counts: One per procedure, under the same s settings.
        converged: Whether each clustering converged, one (s,) per procedure.

    Returns:
        fr, fpr, precision, recall, precision_with_self and recall_with_self; converged and exact,
        the shares of the procedures whose clustering converged and that are counted exactly; each
        (s,), NaN where undefined. As in `choose`, FR is over all procedures, and the rest of the
        rates over those with two polyps or more.

    Raises:
        PolyplinkError: If there is no procedure.
    """
    if not counts:
        raise PolyplinkError("no procedure to average over", "count at least one procedure")
    several = [c for c in counts if c.polyps > 1]
    means, nothing = {}, np.full(counts[0].clusters.size, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN: meant
        for rate in rates().values():
            rows = [c.rates[rate.key] for c in (counts if rate.over_all else several)]
            means[rate.key] = np.nanmean(rows, axis=0) if rows else nothing
    exact = np.mean([c.clusters == c.polyps for c in counts], axis=0)
    return means | {"converged": np.mean(converged, axis=0), "exact": exact}
