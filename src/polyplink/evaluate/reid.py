"""Re-identification: do two views show one polyp? AUROC and AUPR over all pairs, exact.

All unordered pairs of tracklets of known polyp, of all procedures together; similarity is the
cosine. Positive scores are sorted once and negative ones streamed past them in blocks, so that
no N x N matrix is ever held. Binned counts per procedure and pair of procedures are kept beside
the figures, so that a bootstrap over procedures needs no similarity again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polyplink.evaluate.intervals import Resampled, Weights
from polyplink.evaluate.pair_counts import PairCounts, count_others, some_other_scores
from polyplink.evaluate.ranking import Grouped, own_cosines
from polyplink.evaluate.samples import Samples

Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

CHUNK = 256  # resamples whose binned pairs are held at a time
SAMPLED = 1_000_000  # negatives, about: enough to place the edges of bins


@dataclass(frozen=True)
class Reid:
    """Figures over all pairs.

    Attributes:
        auroc: Area under the ROC curve; None without a positive or without a negative pair.
        aupr: Average precision; None likewise.
        positives: Pairs of one polyp.
        negatives: Pairs of two polyps.
        unlabelled: Tracklets left out because their polyp is unknown.
        counts: The pairs by similarity; None where the figures are.
    """

    auroc: float | None
    aupr: float | None
    positives: int
    negatives: int
    unlabelled: int
    counts: PairCounts | None


def auroc_aupr(positive: Reals, negative: Reals) -> tuple[float, float]:
    """AUROC and average precision of pooled scores, ties included.

    A tie of a positive with a negative counts one half in AUROC; in average precision, as in
    scikit-learn, scores that are equal enter together.

    Args:
        positive: Scores of the positives (p,), p > 0.
        negative: Scores of the negatives (q,), q > 0.
    """
    level, times = np.unique(positive, return_counts=True)  # (u,)
    scores = np.sort(negative)
    below, up_to = (np.searchsorted(scores, level, side=side) for side in ("left", "right"))
    return _pooled(times, below, up_to, scores.size)


def _pooled(times: Counts, below: Counts, up_to: Counts, total: int) -> tuple[float, float]:
    """AUROC and average precision from counts at rising levels (u,).

    times are the positives at each level, below the negatives below it, up_to those below it or at
    it, total those in all.
    """
    positives = times.sum()
    auroc = (times * (below + up_to) / 2).sum() / (positives * total)
    hits = positives - np.cumsum(times) + times  # positives >= level
    aupr = (times * hits / np.maximum(hits + total - below, 1)).sum() / positives
    return float(auroc), float(aupr)


def reidentify(
    vectors: npt.ArrayLike, samples: Samples, *, bins: int = 1000, threads: int | None = None
) -> Reid:
    """AUROC and AUPR over all pairs of tracklets of known polyp.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: The tracklets of these vectors.
        bins: Quantiles of the positive and of the negative scores that bound the bins of
            `PairCounts`; the figures themselves are exact.
        threads: How many; None for one a core. The result is the same.

    Raises:
        PolyplinkError: If there is not one vector per sample, or a vector is zero or not finite.
    """
    n = len(samples.tracklet_ids)
    grouped = Grouped.of(samples.unit_rows(vectors), samples)
    positive, known = own_cosines(grouped.rows, grouped.stop), len(grouped.rows)  # (p,)
    negatives = known * (known - 1) // 2 - positive.size
    if not positive.size or not negatives:
        return Reid(None, None, positive.size, negatives, samples.unlabelled, None)
    sample = some_other_scores(grouped, 1 + n * n // (2 * SAMPLED), threads=threads)
    shares = np.arange(bins) / bins
    quantiles = [np.quantile(s, shares, method="inverted_cdf") for s in (positive, sample)]
    edges = np.unique(np.concatenate(quantiles))  # scores that occur: few positives get a bin each
    levels = np.union1d(positive, edges)  # (u,)
    around, tied, others = count_others(grouped, levels, edges, threads=threads)
    times = np.diff(np.searchsorted(np.sort(positive), levels, side="right"), prepend=0)
    up_to = np.cumsum(around)
    auroc, aupr = _pooled(times, up_to[:-1] - tied[:-1], up_to[:-1], int(up_to[-1]))
    bins = edges.size + 1
    procedure = np.repeat(grouped.procedure, grouped.stop - np.arange(known) - 1)
    place = procedure * bins + np.searchsorted(edges, positive, side="right")  # (p,)
    own = np.bincount(place, minlength=grouped.procedures * bins).reshape(-1, bins)
    counts = PairCounts(edges, own, others)
    return Reid(auroc, aupr, positive.size, negatives, samples.unlabelled, counts)


def published_reid(vectors: npt.ArrayLike, samples: Samples) -> tuple[float, float] | None:
    """AUROC and AUPR of similarities after the sigmoid, or None without pairs of both kinds.

    The thesis on foundation models sends similarities through a sigmoid in single precision first.
    That keeps their order but for rounding, which makes ties.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: The tracklets of these vectors.
    """
    grouped = Grouped.of(samples.unit_rows(vectors), samples)
    positive, negative = own_cosines(grouped.rows, grouped.stop), some_other_scores(grouped, 1)
    if not positive.size or not negative.size:
        return None

    def squashed(scores: Reals) -> Reals:
        narrow = scores.astype(np.float32)
        return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-narrow)), dtype=np.float64)

    return auroc_aupr(squashed(positive), squashed(negative))


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
    a, b = np.triu_indices(len(positives))  # (pairs,)
    kept = positives.any(axis=0)
    hits, alarms = _or_above(positives)[:, kept], _or_above(negatives)
    below = alarms[:, :1] - alarms + negatives / 2  # negatives under a positive of the bin
    wins = below @ positives.T  # (pairs, procedures)
    own, alarms = positives[:, kept], alarms[:, kept]
    many = positives.sum(axis=1), negatives.sum(axis=1)
    for start in range(0, len(weights), CHUNK):
        w = weights[start : start + CHUNK].astype(np.float64)  # (chunk, procedures)
        pair = w[:, a] * np.where(a == b, 1.0, w[:, b])  # (chunk, pairs)
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


def reid_measures(
    reid: Reid,
    published: tuple[float, float] | None,
    samples: Samples,
    weights: Weights,
) -> dict[str, Resampled]:
    """AUROC and AUPR over all pairs, exact and as published.

    Those as published have no interval of their own: they differ from the exact ones by rounding
    alone.

    Args:
        reid: What `reidentify` found.
        published: What `published_reid` found.
        samples: The tracklets.
        weights: Draws (r, procedures).
    """
    nothing = np.full(len(weights), np.nan)
    auroc, aupr = resample_reid(reid.counts, weights) if reid.counts else (nothing, nothing)
    values = {
        "AUROC": (reid.auroc, auroc),
        "AUPR": (reid.aupr, aupr),
        "AUROC (as published)": (published[0] if published else None, nothing),
        "AUPR (as published)": (published[1] if published else None, nothing),
    }
    return {name: Resampled(*found, samples.labelled) for name, found in values.items()}


def reid_rows(unit: Reals, samples: Samples) -> tuple[dict[str, Any], ...]:
    """Re-identification within each procedure, which is what counting rests on.

    Args:
        unit: Embeddings (n, d) of length 1.
        samples: The tracklets of these vectors.

    Returns:
        One per procedure: procedure; positives and negatives, its pairs of one polyp and of two;
        auroc and aupr over those, None without pairs of both kinds.
    """
    rows = []
    for place, name in enumerate(samples.procedures):
        part, own = samples.of_procedure(place)
        found = reidentify(unit[own], part)
        counts = {"positives": found.positives, "negatives": found.negatives}
        rows.append({"procedure": name, **counts, "auroc": found.auroc, "aupr": found.aupr})
    return tuple(rows)
