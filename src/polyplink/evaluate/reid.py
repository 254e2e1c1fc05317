"""Re-identification: do two views show one polyp? AUROC and AUPR over all pairs, exact.

All unordered pairs of tracklets of known polyp, of all procedures together; similarity is the
cosine. Positive scores are sorted once and negative ones streamed past them in blocks, so that
no N x N matrix is ever held. Binned counts per procedure and pair of procedures are kept beside
the figures, so that a bootstrap over procedures needs no similarity again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import cosines, unit_rows
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.pair_counts import Grouped, PairCounts, count_others
from polyplink.evaluate.samples import Samples
from polyplink.evaluate.score_bins import Levels

Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

ROWS = 1024  # rows of a block of similarities
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


def auroc_aupr(positive: Reals, negatives: Iterable[Reals]) -> tuple[float, float]:
    """AUROC and average precision of pooled scores, ties included.

    A tie of a positive with a negative counts one half in AUROC; in average precision, as in
    scikit-learn, scores that are equal enter together.

    Args:
        positive: Scores of the positives (p,), p > 0.
        negatives: Scores of the negatives, in arrays of any length, at least one score in all.
    """
    level, times = np.unique(positive, return_counts=True)  # (u,)
    below = np.zeros(level.size, dtype=np.int64)  # negatives < level
    up_to = np.zeros(level.size, dtype=np.int64)  # negatives <= level
    total = 0
    for block in negatives:
        scores = np.sort(block)
        below += np.searchsorted(scores, level, side="left")
        up_to += np.searchsorted(scores, level, side="right")
        total += scores.size
    return _pooled(times, below, up_to, total)


def _pooled(times: Counts, below: Counts, up_to: Counts, total: int) -> tuple[float, float]:
    """AUROC and average precision from counts at rising levels (u,).

    Args:
        times: Positives at each level.
        below: Negatives below it.
        up_to: Negatives below it or at it.
        total: Negatives in all.
    """
    positives = times.sum()
    auroc = (times * (below + up_to) / 2).sum() / (positives * total)
    hits = positives - np.cumsum(times) + times  # positives >= level
    aupr = (times * hits / np.maximum(hits + total - below, 1)).sum() / positives
    return float(auroc), float(aupr)


def bin_edges(positive: Reals, negative: Reals, bins: int) -> Reals:
    """The quantiles of both kinds of scores, `bins` of each, without doubles (e,)."""
    shares = np.arange(bins) / bins
    quantiles = []
    for scores in (np.sort(positive), np.sort(negative)):
        # Scores that occur (an inverted distribution), so that few positives each get a bin.
        at = np.ceil(shares * scores.size).astype(np.int64) - 1
        quantiles.append(scores[np.maximum(at, 0)])
    return np.unique(np.concatenate(quantiles))


def _binned(positive: Reals, procedure: Counts, procedures: int, edges: Reals) -> Counts:
    """Positives (p,) per procedure and bin (procedures, e + 1)."""
    bins = edges.size + 1
    place = procedure * bins + np.searchsorted(edges, positive, side="right")  # (p,)
    return np.bincount(place, minlength=procedures * bins).reshape(procedures, bins)


def _figures(positive: Reals, levels: Reals, around: Counts, tied: Counts) -> tuple[float, float]:
    """AUROC and average precision from the counts of all negatives, see `count_others`."""
    times = np.diff(np.searchsorted(np.sort(positive), levels, side="right"), prepend=0)
    up_to = np.cumsum(around)
    return _pooled(times, up_to[:-1] - tied[:-1], up_to[:-1], int(up_to[-1]))


def reidentify(
    vectors: npt.ArrayLike, samples: Samples, *, bins: int = 1000, threads: int | None = None
) -> Reid:
    """AUROC and AUPR over all pairs of tracklets of known polyp.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: Whose they are.
        bins: Quantiles of the positive and of the negative scores that bound the bins of
            `PairCounts`; the figures themselves are exact.
        threads: How many; None for one a core. The result is the same.

    Raises:
        PolyplinkError: If there is not one vector per sample, or a vector is zero or not finite.
    """
    unit = unit_rows(vectors)
    n = len(samples.tracklet_ids)
    if len(unit) != n:
        raise PolyplinkError(f"{len(unit)} vectors for {n} tracklets", "give one per tracklet")
    grouped = Grouped.of(unit, samples)
    positive, procedure = grouped.own()  # (p,)
    known = len(grouped.rows)
    negatives = known * (known - 1) // 2 - positive.size
    if not positive.size or not negatives:
        return Reid(None, None, positive.size, negatives, samples.unlabelled, None)
    sample = grouped.some_others(1 + n * n // (2 * SAMPLED), threads=threads)
    edges = bin_edges(positive, sample, bins)
    levels = Levels.of(np.union1d(positive, edges), edges)
    around, tied, others = count_others(grouped, levels, threads=threads)
    first, second = np.triu_indices(grouped.procedures)
    own = _binned(positive, procedure, grouped.procedures, edges)
    counts = PairCounts(edges, own, others, first, second)
    auroc, aupr = _figures(positive, levels.values, around, tied)
    return Reid(auroc, aupr, positive.size, negatives, samples.unlabelled, counts)


def squashed(scores: Reals) -> Reals:
    """Sigmoid in single precision, of any shape."""
    narrow = scores.astype(np.float32)
    return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-narrow)), dtype=np.float64)


def _pairs(unit: Reals, samples: Samples) -> Iterator[tuple[Reals, Reals]]:
    """Squashed scores of the pairs i < j of one polyp and of two, block by block."""
    known = np.flatnonzero(samples.known)
    for start in range(0, known.size, ROWS):
        rows = known[start : start + ROWS]
        scores = squashed(cosines(unit[rows], unit[known]))
        same = samples.polyp[rows][:, None] == samples.polyp[known][None, :]
        later = rows[:, None] < known[None, :]
        yield scores[same & later], scores[~same & later]


def published_reid(vectors: npt.ArrayLike, samples: Samples) -> tuple[float, float] | None:
    """AUROC and AUPR of similarities after the sigmoid, or None without pairs of both kinds.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: Whose they are.
    """
    blocks = list(_pairs(unit_rows(vectors), samples))
    positive = np.concatenate([np.zeros(0), *(block[0] for block in blocks)])
    negative = np.concatenate([np.zeros(0), *(block[1] for block in blocks)])
    if not positive.size or not negative.size:
        return None
    return auroc_aupr(positive, [negative])
