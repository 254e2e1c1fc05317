"""The probe of NTSSL: predict a polyp's size and histology from a frozen encoder's vectors.

This file has the labels, the network and its training, and the figures of given vectors;
`probe_tasks` divides the polyps of a data folder and probes encoders.

Source: NTSSL (arXiv 2605.12320), 3 "Datasets and Downstream Setup", "Size estimation", "Histology
classification" and "Implementation Details"; the initial LayerNorm, the schedule and the weight
decay are those of the released code.

The fragments of a polyp are not independent: in the F1 score every polyp has weight 1, divided
equally among its fragments, and the bootstrap draws polyps.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.arrays import Flags, Floats, Ints
from polyplink.core.errors import PolyplinkError
from polyplink.core.ranges import AT_LEAST_ONE, POSITIVE, Range, Ranged
from polyplink.data.tables import DataSet
from polyplink.data.vocabulary import size_label
from polyplink.evaluate.intervals import Figure, Resampled, Weights, ratio

if TYPE_CHECKING:
    from torch import nn


Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ProbeSettings(Ranged, prefix="probe"):
    """Architecture and training of a probe.

    Attributes:
        rate: Highest learning rate of the cycle.
        hidden: Width of the hidden layer.
        dropout: Dropout before the last layer.
        epochs: Number of passes over the training fragments.
        batch: Number of fragments in a step; the last step of an epoch may have fewer.
        weight_decay: Weight decay of AdamW.
        warm_up: Share of the steps in which the learning rate rises.
    """

    rate: Annotated[float, POSITIVE] = 1e-4
    hidden: Annotated[int, AT_LEAST_ONE] = 256
    dropout: float = 0.1
    epochs: Annotated[int, AT_LEAST_ONE] = 20
    batch: Annotated[int, AT_LEAST_ONE] = 64
    weight_decay: float = 0.0
    warm_up: Annotated[float, Range(0, 1, above=True, below=True)] = 0.1


SIZE_PROBE = ProbeSettings(rate=1e-4)
HISTOLOGY_PROBE = ProbeSettings(rate=1e-5)


def size_labels(data: DataSet) -> pl.DataFrame:
    """Label polyps of known size: larger than 5 mm, or diminutive (5 mm or less).

    Args:
        data: The data set.

    Returns:
        procedure_id, polyp_id and label (bool): larger than 5 mm.

    Raises:
        PolyplinkError: If no polyp's size is known.
    """
    return _labelled_polyps(
        data,
        size_label(data.polyps["size_mm"]),
        "column size_mm is empty, but the size task needs it",
        "import a data set with sizes",
    )


def histology_labels(data: DataSet) -> pl.DataFrame:
    """Label polyps of known histology: adenoma, or not.

    The map of each data set defines which of its terms are adenoma; unknown classes and invasive
    cancer are left out.

    Args:
        data: The data set.

    Returns:
        procedure_id, polyp_id and label (bool): adenoma.

    Raises:
        PolyplinkError: If no polyp's class is known, or a term has no label.
    """
    return _labelled_polyps(
        data,
        data.adenoma_labels(),
        "column histology_class is empty or left out of the task",
        "import a data set with histology, or with another map",
    )


def _labelled_polyps(data: DataSet, labels: pl.Series, empty: str, hint: str) -> pl.DataFrame:
    """The polyps with a non-null label; raises an error if there are none."""
    table = data.polyps.select(
        "procedure_id", "polyp_id", labels.cast(pl.Boolean).alias("label")
    ).drop_nulls("label")
    if table.is_empty():
        raise PolyplinkError(f"table polyps: {empty}", hint)
    return table


def build_probe(width: int, settings: ProbeSettings) -> "nn.Sequential":
    """LayerNorm, linear to the hidden width, GELU, dropout, linear to one logit."""
    # torch is imported when used: most users of this room do not train probes.
    from torch import nn  # noqa: PLC0415

    return nn.Sequential(
        nn.LayerNorm(width),
        nn.Linear(width, settings.hidden),
        nn.GELU(),
        nn.Dropout(settings.dropout),
        nn.Linear(settings.hidden, 1),
    )


def fit_probe(
    features: Features, labels: Flags, settings: ProbeSettings, seed: int
) -> "nn.Sequential":
    """Train a probe on precomputed features.

    Args:
        features: Vectors of n fragments (n, d), float32.
        labels: Class of each fragment (n,).
        settings: Architecture and training.
        seed: Seed of the initial weights, the order of fragments and the dropout.

    Returns:
        The probe after the last epoch, in evaluation mode.

    Raises:
        PolyplinkError: If the labels are not of both classes, or a vector is not finite.
    """
    import torch  # noqa: PLC0415

    _check_both_classes("train", labels)
    if not np.isfinite(features).all():
        raise PolyplinkError("a vector to train the probe on is not finite", "embed again")
    x = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))  # n d
    y = torch.from_numpy(np.asarray(labels, dtype=np.float32))  # n
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        probe = build_probe(x.shape[1], settings)
        optimiser = torch.optim.AdamW(
            probe.parameters(), lr=settings.rate, weight_decay=settings.weight_decay
        )
        total = settings.epochs * -(-len(x) // settings.batch)
        cycle = torch.optim.lr_scheduler.OneCycleLR(
            optimiser,
            max_lr=settings.rate,
            total_steps=total,
            # The rise must end at the second step or later.
            pct_start=max(settings.warm_up, min(0.9, 2 / total)),
        )
        for _ in range(settings.epochs):
            for rows in torch.split(torch.randperm(len(x)), settings.batch):
                logits = probe(x[rows]).squeeze(1)  # b
                loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y[rows])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                cycle.step()
    return probe.eval()


def _check_both_classes(side: str, labels: Flags) -> None:
    """Check that the labels of a side, "train" or "test", are of both classes."""
    if not labels.any() or labels.all():
        raise PolyplinkError(
            f"all polyps to {side} the probe on are of one class",
            "give a --part with polyps of both classes, or another --split-seed",
        )


def probe_scores(probe: "nn.Sequential", features: Features) -> Floats:
    """Probability of the positive class for n fragments (n,), from vectors (n, d)."""
    import torch  # noqa: PLC0415

    x = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))  # n d
    with torch.inference_mode():
        scores: Floats = probe(x).squeeze(1).sigmoid().double().numpy()
    return scores


@dataclass(frozen=True)
class PolypCounts:
    """Predictions of a probe for each of p polyps.

    Attributes:
        label: Class of the polyp (p,), bool.
        fragments: Number of its fragments (p,).
        called: Number of its fragments predicted positive (p,).
        score: Mean probability over its fragments (p,).
    """

    label: Flags
    fragments: Ints
    called: Ints
    score: Floats


def polyp_counts(scores: Floats, polyp: Ints, label: Flags) -> PolypCounts:
    """Add the predictions of fragments by polyp.

    Args:
        scores: Probability of the positive class of n fragments (n,).
        polyp: Row of each fragment's polyp (n,), 0 to p - 1, all of which occur.
        label: Class of each polyp (p,).
    """
    p = len(label)
    fragments = np.bincount(polyp, minlength=p)
    called = np.bincount(polyp, weights=scores > 0.5, minlength=p).astype(np.int64)
    return PolypCounts(
        label, fragments, called, np.bincount(polyp, weights=scores, minlength=p) / fragments
    )


def macro_f1(counts: PolypCounts, weights: Floats) -> Floats:
    """Identity-weighted macro F1: the mean of both classes' F1, with equal weights of polyps.

    Args:
        counts: Predictions for p polyps.
        weights: Draws of each polyp (r, p).

    Returns:
        (r,); NaN if a class was not drawn.
    """
    share = counts.called / counts.fragments  # p: share of the polyp's weight predicted positive
    positive, negative = weights @ counts.label, weights @ ~counts.label  # r
    tp = weights @ (share * counts.label)
    fp = weights @ (share * ~counts.label)
    f_positive = ratio(2 * tp, positive + tp + fp)
    f_negative = ratio(2 * (negative - fp), 2 * negative - fp + (positive - tp))
    both_classes = (positive > 0) & (negative > 0)
    return np.where(both_classes, (f_positive + f_negative) / 2, np.nan)


def accuracy(counts: PolypCounts, weights: Floats) -> Floats:
    """Share of fragments classified correctly (r,), with equal weights."""
    right = np.where(counts.label, counts.called, counts.fragments - counts.called)
    return ratio(weights @ right, weights @ counts.fragments)


def majority(counts: PolypCounts, weights: Floats) -> Floats:
    """Share of polyps classified correctly by majority vote (r,); a tie counts as half correct."""
    lead = np.sign(2 * counts.called - counts.fragments)  # 1: most positive, 0: tie, -1
    vote = 0.5 + 0.5 * lead
    right = np.where(counts.label, vote, 1.0 - vote)
    return ratio(weights @ right, weights.sum(axis=1))


def auroc(counts: PolypCounts, weights: Floats) -> Floats:
    """Probability that a positive polyp scores above a negative one, ties counting half (r,)."""
    order = np.argsort(counts.score, kind="stable")
    starts = np.unique(counts.score[order], return_index=True)[1]  # u: one group per score
    w, label = weights[:, order], counts.label[order]
    positives, negatives = (
        np.add.reduceat(w * side, starts, axis=1) for side in (label, ~label)
    )  # r u
    below = np.cumsum(negatives, axis=1) - negatives
    wins = (positives * (below + 0.5 * negatives)).sum(axis=1)
    return ratio(wins, positives.sum(axis=1) * negatives.sum(axis=1))


@dataclass(frozen=True)
class ProbeMetric:
    """A figure of a probe.

    Attributes:
        value: Maps the counts of p polyps and their draws (r, p) to the figure (r,).
        meaning: One-line explanation.
        ideal: The best value.
    """

    value: Callable[[PolypCounts, Floats], Floats]
    meaning: str
    ideal: float = 1.0


PROBE_METRICS: Mapping[str, ProbeMetric] = {
    "F1": ProbeMetric(macro_f1, "macro F1, with equal weights of polyps"),
    "accuracy": ProbeMetric(accuracy, "share of correctly classified fragments"),
    "majority": ProbeMetric(
        majority, "share of polyps correct by majority vote of their fragments"
    ),
    "AUROC": ProbeMetric(auroc, "of the polyps' mean probability"),
}


@dataclass(frozen=True)
class ProbeFigures:
    """Figures over several seeds.

    Attributes:
        figures: Mean over seeds by name, with its 95 % interval over polyps.
        per_seed: Values of all seeds by name.
        polyps: Numbers of test polyps: (negative, positive).
        fragments: Number of test fragments.
        measures: The figures with their resamples, for paired comparisons; not stored.
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
    _check_both_classes("test", label)
    unit_weights = np.ones((1, len(label)))
    draws = weights.astype(np.float64)
    all_polyps = np.ones(len(label), np.bool_)
    measures, per_seed = {}, {}
    for name, metric in PROBE_METRICS.items():
        values = [float(metric.value(run, unit_weights)[0]) for run in runs]
        spread = np.mean([metric.value(run, draws) for run in runs], axis=0)
        measures[name] = Resampled(float(np.mean(values)), spread, all_polyps)
        per_seed[name] = tuple(values)
    positive = int(label.sum())
    return ProbeFigures(
        {name: measure.figure() for name, measure in measures.items()},
        per_seed,
        (len(label) - positive, positive),
        int(runs[0].fragments.sum()),
        measures,
    )
