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
from polyplink.evaluate.placing import Tally
from polyplink.evaluate.samples import Samples

Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

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


Block = tuple[int, int, Reals, Mask, Mask]
"""Procedures a <= b, scores between them, which are positive pairs and which negative ones."""


def _blocks(unit: Reals, samples: Samples, every: int = 1) -> Iterator[Block]:
    """All pairs in blocks; with `every` above 1 those of each `every`-th tracklet as the first."""
    members = [
        np.flatnonzero(samples.known & (samples.procedure == p))
        for p in range(len(samples.procedures))
    ]
    for a, rows_a in enumerate(members):
        for b in range(a, len(members)):
            rows_b = members[b]
            for start in range(0, rows_a.size, ROWS * every):
                rows = rows_a[start : start + ROWS * every : every]
                scores = cosines(unit[rows], unit[rows_b])  # (rows, rows_b)
                if a != b:  # every pair occurs once, and a polyp is in one procedure
                    nothing = np.zeros(scores.shape, dtype=np.bool_)
                    yield a, b, scores, nothing, ~nothing
                    continue
                same = samples.polyp[rows][:, None] == samples.polyp[rows_b][None, :]
                later = rows[:, None] < rows_b[None, :]  # i < j
                yield a, b, scores, same & later, ~same & later


def _positives(unit: Reals, samples: Samples) -> list[Reals]:
    """Scores of the pairs of one polyp, procedure by procedure; of no other block."""
    found = []
    for p in range(len(samples.procedures)):
        rows = np.flatnonzero(samples.known & (samples.procedure == p))
        for start in range(0, rows.size, ROWS):
            part = rows[start : start + ROWS]
            same = samples.polyp[part][:, None] == samples.polyp[rows][None, :]
            found.append(cosines(unit[part], unit[rows])[same & (part[:, None] < rows[None, :])])
    return found


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


def binned_auroc_aupr(positives: Reals, negatives: Reals) -> tuple[Reals, Reals]:
    """AUROC and average precision from counts per bin, all scores of a bin taken as equal.

    The plain form of what `intervals.resample_reid` computes for all resamples at once.

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


def bin_edges(positive: Reals, negative: Reals, bins: int) -> Reals:
    """The quantiles of both kinds of scores, `bins` of each, without doubles (e,)."""
    shares = np.arange(bins) / bins
    # inverted_cdf gives scores that occur, so that few positives each get a bin of their own.
    quantiles = [np.quantile(s, shares, method="inverted_cdf") for s in (positive, negative)]
    return np.unique(np.concatenate(quantiles))


def _figures(positive: Reals, tally: Tally) -> tuple[float, float]:
    """AUROC and average precision from the places of all negatives among the positives' levels."""
    values = tally.levels.values
    times = np.diff(np.searchsorted(np.sort(positive), values, side="right"), prepend=0)
    below = np.cumsum(tally.places)[:-1]  # negatives < level
    return _pooled(times, below, below + tally.ties, int(tally.places.sum()))


def _tallied(unit: Reals, samples: Samples, tally: Tally, edges: Reals) -> PairCounts:
    """One pass over all pairs: fills the tally with the negatives, and counts pairs by bin."""
    procedures = len(samples.procedures)
    first, second = np.triu_indices(procedures)
    place = np.zeros((procedures, procedures), dtype=np.int64)
    place[first, second] = np.arange(first.size)
    bins = int(tally.bin_of[-1]) + 1
    positives = np.zeros((procedures, bins), dtype=np.int64)
    negatives = np.zeros((first.size, bins), dtype=np.int64)
    ours = Tally.of(edges, edges)  # positives are counted by bin alone
    for a, b, scores, is_positive, is_negative in _blocks(unit, samples):
        negatives[place[a, b]] += tally.add(scores, is_negative)
        if a == b:
            positives[a] += ours.add(scores, is_positive)
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
    positive = np.concatenate([np.zeros(0), *_positives(unit, samples)])
    known = int(samples.known.sum())
    negatives = known * (known - 1) // 2 - positive.size
    if not positive.size or not negatives:
        return Reid(None, None, positive.size, negatives, samples.unlabelled, None)
    step = 1 + n * n // 2_000_000  # about a million negatives place the edges well enough
    sample = [scores[negative] for _, _, scores, _, negative in _blocks(unit, samples, step)]
    edges = bin_edges(positive, np.concatenate(sample), bins)
    tally = Tally.of(np.union1d(positive, edges), edges)
    counts = _tallied(unit, samples, tally, edges)
    auroc, aupr = _figures(positive, tally)
    return Reid(auroc, aupr, positive.size, negatives, samples.unlabelled, counts)
