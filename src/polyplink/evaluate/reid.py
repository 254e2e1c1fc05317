"""Re-identification: do two views show one polyp? AUROC and AUPR over all pairs, exact.

All unordered pairs of tracklets i < j of known polyp, of all procedures together; similarity is
the cosine. Positive scores are sorted once and negative ones streamed past them in blocks, so that
no N x N matrix is ever held. Binned counts per procedure and pair of procedures are kept beside
the figures, so that a bootstrap over procedures needs no similarity again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import cosines, unit_rows
from polyplink.errors import PolyplinkError
from polyplink.evaluate.samples import Samples

Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

ROWS = 1024  # rows of a block of similarities


@dataclass(frozen=True)
class PairCounts:
    """How many pairs fall into each bin of similarity; bin b is [edges[b - 1], edges[b]).

    Attributes:
        edges: Bin edges, rising (e,).
        positives: Pairs of one polyp, per procedure and bin (procedures, e + 1).
        negatives: Pairs of two polyps, per pair of procedures and bin (pairs, e + 1).
        first: First procedure of every pair of procedures (pairs,).
        second: Second procedure (pairs,); the same one for pairs within a procedure.
    """

    edges: Reals
    positives: Counts
    negatives: Counts
    first: Counts
    second: Counts


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


@dataclass(frozen=True)
class _Block:
    """Scores of the pairs between two procedures a <= b (or of a slice of them)."""

    a: int
    b: int
    positive: Reals
    negative: Reals


def _blocks(unit: Reals, samples: Samples) -> Iterator[_Block]:
    members = [
        np.flatnonzero(samples.known & (samples.procedure == p))
        for p in range(len(samples.procedures))
    ]
    for a, rows_a in enumerate(members):
        for b in range(a, len(members)):
            rows_b = members[b]
            for start in range(0, rows_a.size, ROWS):
                rows = rows_a[start : start + ROWS]
                scores = cosines(unit[rows], unit[rows_b])  # (rows, rows_b)
                same = samples.polyp[rows][:, None] == samples.polyp[rows_b][None, :]
                # i < j within a procedure; between two, every pair occurs once anyway.
                pair = np.ones_like(same) if a != b else np.triu(np.ones_like(same), k=start + 1)
                yield _Block(a, b, scores[same & pair], scores[~same & pair])


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
    auroc = (times * (below + up_to) / 2).sum() / (positive.size * total)
    hits = positive.size - np.cumsum(times) + times  # positives >= level
    aupr = (times * hits / (hits + total - below)).sum() / positive.size
    return float(auroc), float(aupr)


def binned_auroc_aupr(positives: Reals, negatives: Reals) -> tuple[Reals, Reals]:
    """AUROC and average precision from counts per bin, all scores of a bin taken as equal.

    Args:
        positives: Positives per bin, bins rising (r, bins), one row per resample.
        negatives: Negatives per bin (r, bins).

    Returns:
        AUROC (r,) and average precision (r,); NaN in a row without positives or negatives.
    """
    hits = positives[:, ::-1].cumsum(axis=1)[:, ::-1]  # positives in this bin or above
    alarms = negatives[:, ::-1].cumsum(axis=1)[:, ::-1]
    p, n = hits[:, 0], alarms[:, 0]
    below = n[:, None] - alarms + negatives / 2  # negatives under a positive of this bin
    with np.errstate(invalid="ignore", divide="ignore"):
        auroc = (positives * below).sum(axis=1) / (p * n)
        precision = np.where(hits > 0, hits / (hits + alarms), 0.0)
        aupr = np.where(n > 0, (positives * precision).sum(axis=1) / p, np.nan)
    return auroc, aupr


def _gathered(blocks: Iterable[_Block], at_least: int = 1 << 22) -> Iterator[Reals]:
    """Negative scores in few long arrays: many short ones would each pay for every positive."""
    waiting: list[Reals] = []
    size = 0
    for block in blocks:
        waiting.append(block.negative)
        size += block.negative.size
        if size >= at_least:
            yield np.concatenate(waiting)
            waiting, size = [], 0
    if size:
        yield np.concatenate(waiting)


def bin_edges(positive: Reals, negative: Reals, bins: int) -> Reals:
    """The quantiles of both kinds of scores, `bins` of each, without doubles (e,)."""
    shares = np.arange(bins) / bins
    # inverted_cdf gives scores that occur, so that few positives each get a bin of their own.
    quantiles = [np.quantile(s, shares, method="inverted_cdf") for s in (positive, negative)]
    return np.unique(np.concatenate(quantiles))


def _count(blocks: Iterable[_Block], procedures: int, edges: Reals) -> PairCounts:
    first, second = np.triu_indices(procedures)
    place = {
        pair: row for row, pair in enumerate(zip(first.tolist(), second.tolist(), strict=True))
    }
    bins = edges.size + 1
    positives = np.zeros((procedures, bins), dtype=np.int64)
    negatives = np.zeros((first.size, bins), dtype=np.int64)
    for block in blocks:
        bin_of = np.searchsorted(edges, block.positive, side="right")
        positives[block.a] += np.bincount(bin_of, minlength=bins)
        bin_of = np.searchsorted(edges, block.negative, side="right")
        negatives[place[block.a, block.b]] += np.bincount(bin_of, minlength=bins)
    return PairCounts(edges, positives, negatives, first, second)


def reidentify(vectors: npt.ArrayLike, samples: Samples, *, bins: int = 1000) -> Reid:
    """AUROC and AUPR over all pairs of tracklets of known polyp.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: Whose they are.
        bins: Quantiles of the positive and of the negative scores that bound the bins of
            `PairCounts`; the figures themselves are exact.

    Raises:
        PolyplinkError: If there is not one vector per sample, or a vector is zero or not finite.
    """
    unit = unit_rows(vectors)
    n = len(samples.tracklet_ids)
    if len(unit) != n:
        raise PolyplinkError(f"{len(unit)} vectors for {n} tracklets", "give one per tracklet")
    positives: list[Reals] = []
    sample: list[Reals] = []
    negatives = 0
    step = 1 + n * n // 2_000_000  # about a million negatives place the edges well enough
    for block in _blocks(unit, samples):
        positives.append(block.positive)
        sample.append(block.negative[::step])
        negatives += block.negative.size
    positive = np.concatenate([np.zeros(0), *positives])
    if not positive.size or not negatives:
        return Reid(None, None, positive.size, negatives, samples.unlabelled, None)
    auroc, aupr = auroc_aupr(positive, _gathered(_blocks(unit, samples)))
    edges = bin_edges(positive, np.concatenate(sample), bins)
    counts = _count(_blocks(unit, samples), len(samples.procedures), edges)
    return Reid(auroc, aupr, positive.size, negatives, samples.unlabelled, counts)
