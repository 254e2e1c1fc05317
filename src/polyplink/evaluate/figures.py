"""The figures of each task with their intervals, ready for a table or a JSON file.

Every result is a dataclass of plain values, None where a figure is undefined, so that
`polyplink.artefacts.write_json` writes it as it is. Intervals are over procedures.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.associate.settings import TemporalAP, Threshold
from polyplink.evaluate.choosing import (
    Choice,
    Fold,
    Summary,
    apply_choice,
    choose,
    leave_one_out,
    summarise,
)
from polyplink.evaluate.counting import ProcedureCounts
from polyplink.evaluate.intervals import (
    Interval,
    Weights,
    bootstrap_mean,
    percentile_interval,
    resample_reid,
)
from polyplink.evaluate.reid import Reid
from polyplink.evaluate.retrieval import Retrieval
from polyplink.evaluate.samples import Samples

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RetrievalRow:
    """Retrieval of one procedure's queries; None where it has no query with a match.

    Attributes:
        procedure: Its name.
        queries: Its queries with a match.
        mean_ap: Mean average precision of those.
        hr1: Share with a match at rank 1.
        hr5: Share with a match in the first 5 ranks.
    """

    procedure: str
    queries: int
    mean_ap: float | None
    hr1: float | None
    hr5: float | None


@dataclass(frozen=True)
class RetrievalFigures:
    """Retrieval with intervals.

    Attributes:
        mean_ap: MAP over all queries.
        hr1: HR@1 over all queries.
        hr5: HR@5 over all queries.
        queries: Queries with a match.
        unmatched: Tracklets left out because nothing matches them.
        unlabelled: Tracklets left out because their polyp is unknown.
        procedures: One row per procedure.
    """

    mean_ap: Interval
    hr1: Interval
    hr5: Interval
    queries: int
    unmatched: int
    unlabelled: int
    procedures: tuple[RetrievalRow, ...]


@dataclass(frozen=True)
class ReidFigures:
    """Re-identification with intervals; the counts of pairs are those of `Reid`."""

    auroc: Interval
    aupr: Interval
    positives: int
    negatives: int
    unlabelled: int


@dataclass(frozen=True)
class CountingFigures:
    """Counting with one clusterer.

    Attributes:
        folds: One per procedure, its setting chosen on the others; empty with one procedure.
        settings: The setting of each fold.
        summary: Means over the folds; None with one procedure.
        fr: FR over the folds, with an interval.
        fpr: FPR over the folds whose procedure has two polyps or more, with an interval.
        chosen: The choice on all procedures: the operating point to use elsewhere.
        setting: Its setting.
        as_chosen: Means under the operating point, on the procedures it was chosen on: optimistic.
    """

    folds: tuple[Fold, ...]
    settings: tuple[TemporalAP | Threshold, ...]
    summary: Summary | None
    fr: Interval
    fpr: Interval
    chosen: Choice
    setting: TemporalAP | Threshold
    as_chosen: Summary


def _sums(values: npt.ArrayLike, retrieval: Retrieval, samples: Samples) -> Reals:
    """Sum of the valid queries' values in every procedure (procedures,)."""
    valid = retrieval.valid
    sums = np.zeros(len(samples.procedures))
    np.add.at(sums, samples.procedure[valid], np.asarray(values, dtype=np.float64)[valid])
    return sums


def retrieval_figures(retrieval: Retrieval, samples: Samples, weights: Weights) -> RetrievalFigures:
    """Retrieval with intervals, for draws (r, procedures) of the samples' procedures."""
    figures = (retrieval.ap, retrieval.hit1, retrieval.hit5)
    sums = [_sums(values, retrieval, samples) for values in figures]
    queries = _sums(np.ones(len(samples.tracklet_ids)), retrieval, samples)
    rows = []
    for place, name in enumerate(samples.procedures):
        many = int(queries[place])
        means = [float(s[place] / many) if many else None for s in sums]
        rows.append(RetrievalRow(name, many, *means))
    mean_ap, hr1, hr5 = (bootstrap_mean(s, queries, weights) for s in sums)
    return RetrievalFigures(
        mean_ap=mean_ap,
        hr1=hr1,
        hr5=hr5,
        queries=int(queries.sum()),
        unmatched=retrieval.unmatched,
        unlabelled=retrieval.unlabelled,
        procedures=tuple(rows),
    )


def reid_figures(reid: Reid, samples: Samples, weights: Weights) -> ReidFigures:
    """Re-identification with intervals, for draws (r, procedures) of the samples' procedures."""
    units = np.unique(samples.procedure[samples.known]).size
    nothing = np.zeros(0)
    auroc, aupr = resample_reid(reid.counts, weights) if reid.counts else (nothing, nothing)
    return ReidFigures(
        auroc=percentile_interval(reid.auroc, auroc, units),
        aupr=percentile_interval(reid.aupr, aupr, units),
        positives=reid.positives,
        negatives=reid.negatives,
        unlabelled=reid.unlabelled,
    )


def _fold_interval(values: Sequence[float | None], weights: Weights) -> Interval:
    defined = [0.0 if value is None else 1.0 for value in values]
    return bootstrap_mean([value or 0.0 for value in values], defined, weights)


def counting_figures(
    counts: Sequence[ProcedureCounts],
    settings: Sequence[TemporalAP | Threshold],
    weights: Weights,
) -> CountingFigures:
    """Counting by leave-one-out, with intervals over its folds, and the operating point.

    Args:
        counts: One per procedure, under the settings.
        settings: The settings, in the order of the counts.
        weights: Draws (r, procedures) of those procedures.

    Raises:
        PolyplinkError: If there is no procedure or no setting.
    """
    chosen = choose(counts)
    folds = leave_one_out(counts) if len(counts) > 1 else ()
    # With one procedure there is no fold: undefined figures, not zeros.
    nothing: list[float | None] = [None] * len(counts)
    fr = [fold.fr for fold in folds] or nothing
    fpr = [fold.fpr if fold.polyps > 1 else None for fold in folds] or nothing
    return CountingFigures(
        folds=folds,
        settings=tuple(settings[fold.choice.row] for fold in folds),
        summary=summarise(folds) if folds else None,
        fr=_fold_interval(fr, weights),
        fpr=_fold_interval(fpr, weights),
        chosen=chosen,
        setting=settings[chosen.row],
        as_chosen=summarise([apply_choice(c, chosen) for c in counts]),
    )
