"""Figures of a probe, with intervals over polyps.

A polyp has many fragments, and they are no independent units: every polyp weighs 1 in the F1 score
(a fragment weighs 1 / its polyp's fragments), and polyps are what is drawn in the bootstrap.
Source: NTSSL (arXiv 2605.12320), 3: identity-weighted macro F1 for size, accuracy for histology.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.intervals import Figure, Resampled, Weights

Reals = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

FIGURES = ("F1", "accuracy", "majority", "AUROC")


@dataclass(frozen=True)
class PolypCounts:
    """What a probe said of each of p polyps.

    Attributes:
        label: Class of the polyp (p,), bool.
        fragments: Its fragments (p,).
        said: Those of them that were called positive (p,).
        score: Mean probability over them (p,).
    """

    label: npt.NDArray[np.bool_]
    fragments: Codes
    said: Codes
    score: Reals


def polyp_counts(scores: Reals, polyp: Codes, label: npt.NDArray[np.bool_]) -> PolypCounts:
    """Sum what was said of fragments over their polyps.

    Args:
        scores: Probability of the positive class of n fragments (n,).
        polyp: Row of each fragment's polyp (n,), 0 to p - 1; each occurs.
        label: Class of each polyp (p,).
    """
    p = len(label)
    fragments = np.bincount(polyp, minlength=p)
    said = np.bincount(polyp, weights=scores > 0.5, minlength=p).astype(np.int64)
    return PolypCounts(
        label, fragments, said, np.bincount(polyp, weights=scores, minlength=p) / fragments
    )


def _ratio(above: Reals, below: Reals) -> Reals:
    nothing = np.full(np.shape(below), np.nan)
    return np.asarray(np.divide(above, below, out=nothing, where=np.asarray(below) > 0))


def macro_f1(counts: PolypCounts, weights: Reals) -> Reals:
    """Identity-weighted macro F1: the mean of both classes' F1, every polyp weighing 1.

    Args:
        counts: Of p polyps.
        weights: How often each polyp was drawn (r, p).

    Returns:
        (r,); NaN where a class was not drawn.
    """
    share = counts.said / counts.fragments  # p: what of the polyp's weight was called positive
    positive, negative = weights @ counts.label, weights @ ~counts.label  # r
    tp = weights @ (share * counts.label)
    fp = weights @ (share * ~counts.label)
    f_positive = _ratio(2 * tp, positive + tp + fp)
    f_negative = _ratio(2 * (negative - fp), 2 * negative - fp + (positive - tp))
    both = (positive > 0) & (negative > 0)
    return np.where(both, (f_positive + f_negative) / 2, np.nan)


def accuracy(counts: PolypCounts, weights: Reals) -> Reals:
    """Share of fragments called rightly (r,), every fragment weighing the same."""
    right = np.where(counts.label, counts.said, counts.fragments - counts.said)
    return _ratio(weights @ right, weights @ counts.fragments)


def majority(counts: PolypCounts, weights: Reals) -> Reals:
    """Share of polyps whose fragments vote rightly (r,); a tied vote is half right."""
    twice = 2 * counts.said
    vote = np.where(twice > counts.fragments, 1.0, np.where(twice == counts.fragments, 0.5, 0.0))
    right = np.where(counts.label, vote, 1.0 - vote)
    return _ratio(weights @ right, weights.sum(axis=1))


def auroc(counts: PolypCounts, weights: Reals) -> Reals:
    """Chance that an adenoma (a large polyp) scores above another, ties half (r,)."""
    order = np.argsort(counts.score, kind="stable")
    _, group = np.unique(counts.score[order], return_inverse=True)
    w = weights[:, order]
    label = counts.label[order]
    groups = int(group.max()) + 1
    table = np.zeros((2, len(w), groups))
    for side, mine in enumerate((label, ~label)):
        np.add.at(table[side].T, group[mine], w[:, mine].T)
    positives, negatives = table
    below = np.cumsum(negatives, axis=1) - negatives
    wins = (positives * (below + 0.5 * negatives)).sum(axis=1)
    return _ratio(wins, positives.sum(axis=1) * negatives.sum(axis=1))


_CALLS = {"F1": macro_f1, "accuracy": accuracy, "majority": majority, "AUROC": auroc}


@dataclass(frozen=True)
class ProbeFigures:
    """Figures over several seeds.

    Attributes:
        figures: Name to the mean over seeds, with its 95 % interval over polyps.
        per_seed: Name to the value of every seed.
        polyps: Test polyps of each class: (negative, positive).
        fragments: Test fragments.
        measures: The figures with their resamples, to compare encoders in pairs; in no record.
    """

    figures: dict[str, Figure]
    per_seed: dict[str, tuple[float, ...]]
    polyps: tuple[int, int]
    fragments: int
    measures: dict[str, Resampled] = field(default_factory=dict, repr=False, compare=False)


def probe_figures(runs: Sequence[PolypCounts], weights: Weights) -> ProbeFigures:
    """All figures, each the mean over seeds; the seeds share the draws of polyps.

    Args:
        runs: One per seed, of the same test polyps.
        weights: Draws (r, p).

    Raises:
        PolyplinkError: If there is no run, or the test polyps are of one class.
    """
    label = runs[0].label if runs else np.zeros(0, np.bool_)
    if not label.any() or label.all():
        raise PolyplinkError(
            f"the {len(label)} polyps to test the probe on are of one class",
            "give a part with polyps of both, or another split seed",
        )
    whole = np.ones((1, len(label)))
    draws = weights.astype(np.float64)
    every = np.ones(len(label), np.bool_)
    measures, per_seed = {}, {}
    for name, call in _CALLS.items():
        values = [float(call(run, whole)[0]) for run in runs]
        spread = np.mean([call(run, draws) for run in runs], axis=0)
        measures[name] = Resampled(float(np.mean(values)), spread, every)
        per_seed[name] = tuple(values)
    positive = int(label.sum())
    return ProbeFigures(
        {name: found.figure() for name, found in measures.items()},
        per_seed,
        (len(label) - positive, positive),
        int(runs[0].fragments.sum()),
        measures,
    )
