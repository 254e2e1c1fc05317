"""Re-identification: do two views show the same polyp? Exact AUROC and AUPR over all pairs.

The pairs are all unordered pairs of tracklets of known polyp, over all procedures; similarity is
the cosine. Rows are sorted by procedure and polyp, so that a row's partners of other polyps follow
the last row of its polyp: every pair occurs once, and no N x N matrix is stored.

Scores are located among rising levels (the scores of all positives, and edges of bins). The range
of the levels is divided into cells of equal width, so that locating a score takes one table look-up
and about one comparison, for any number of levels. Scores are compared as whole multiples of the
last digit that `cosines` keeps: a product is rounded as it is counted, without a division. Counts
by bin and pair of procedures are stored too, so that a bootstrap over procedures does not compute
similarities again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import cosines
from polyplink.core.arrays import Floats, Ints
from polyplink.core.compiled import njit
from polyplink.evaluate.intervals import Resampled, Weights
from polyplink.evaluate.metric import Metric
from polyplink.evaluate.ranking import SCALE, Grouped, cosines_in_groups, parallel
from polyplink.evaluate.samples import Samples

Places = npt.NDArray[np.int32]
Wide = npt.NDArray[np.int32 | np.int64]

CHUNK = 64  # resamples with binned pairs in memory at a time
ROOM = 8_000_000  # numbers of a block of the bootstrap
MOST_BINS = 1000  # quantiles each of positive and negative scores that bound the bins
MOST_COUNTS = 32_000_000  # of pairs of procedures and bins; with more pairs there are fewer bins
LEAST_BINS = 32
SAMPLED = 1_000_000  # approximate number of negatives that determine the edges of bins
ROWS = 256  # of a block of similarities
COLUMNS = 480
NARROW = 2**31  # pairs that fit into counts of 32 bits
EXACT = 1 << 24  # single precision represents every whole number up to here
BLOCK = 4000  # approximate number of pairs of procedures that are summed at a time
PICKED = 64  # rows of a block of sampled rows
CELLS_A_LEVEL = 4  # more are slower to look up, fewer often contain several levels
MOST_CELLS = 1 << 20

# Columns of the records of levels, see `tabulate`.
_LEVEL, _AROUND, _TIED, _BIN = range(4)


class Table(NamedTuple):
    """A look-up table of levels; scores are in units of the last digit.

    Attributes:
        first: Number of levels before each cell (cells + 1,).
        low: Beginning of the first cell.
        cells_per_unit: Number of cells per unit.
    """

    first: Places
    low: float
    cells_per_unit: float


def tabulate(values: Floats, edges: Floats) -> tuple[Table, Floats]:
    """Build the look-up table and the empty records for `tally`.

    Args:
        values: Levels (u,), u > 0, strictly rising, rounded like cosines.
        edges: The levels that begin a bin (e,), rising.

    Returns:
        The table, and a record for each level and one above all (u + 1, 4), with columns `_LEVEL`:
        the level; `_AROUND`: the number of scores at it or between it and the level below; `_TIED`:
        the number of scores at it; `_BIN`: the bin of scores below it.
    """
    scaled = np.rint(values * SCALE)
    cells = int(min(MOST_CELLS, max(16, CELLS_A_LEVEL * values.size)))
    low, high = float(scaled[0]), float(scaled[-1])
    cells_per_unit = cells / (high - low) if high > low else 1.0
    cell = np.empty(values.size, dtype=np.int32)
    _cells(values.copy(), low, cells_per_unit, cells, cell)
    first = np.append(0, np.cumsum(np.bincount(cell, minlength=cells))).astype(np.int32)
    records = np.zeros((values.size + 1, 4))
    records[:, _LEVEL] = np.append(scaled, np.inf)
    records[:, _BIN] = np.append(np.searchsorted(edges, values, side="left"), edges.size)
    return Table(first, low, cells_per_unit), records


@njit(error_model="numpy")
def _cells(scores: Floats, low: float, cells_per_unit: float, cells: int, places: Places) -> None:
    """Round scores (n,) to whole numbers, and find their cells, clipped to the first and last."""
    last = float(cells - 1)
    for j in range(scores.size):
        scaled = np.rint(scores[j] * SCALE)
        scores[j] = scaled
        places[j] = np.int32(min(max((scaled - low) * cells_per_unit, 0.0), last))


@njit(error_model="numpy")
def tally(scores: Floats, table: Table, records: Floats, bins: Places) -> None:
    """Count scores (n,), which are overwritten, in the records of levels; write their bins (n,)."""
    first = table.first
    _cells(scores, table.low, table.cells_per_unit, first.size - 1, bins)
    for j in range(scores.size):
        score = scores[j]
        # Cells rise with scores: no level of an earlier cell can be above this score.
        level = first[bins[j]]
        # No branch, because the result of this comparison cannot be predicted.
        level += np.int32(records[level, _LEVEL] < score)
        while records[level, _LEVEL] < score:
            level += 1
        records[level, _AROUND] += 1.0
        if records[level, _LEVEL] == score:
            records[level, _TIED] += 1.0
            level += 1  # a score at a level is in the same bin as scores above it
        bins[j] = np.int32(records[level, _BIN])


@dataclass(frozen=True)
class PairCounts:
    """Number of pairs in each bin of similarity; bin b is [edges[b - 1], edges[b]).

    Attributes:
        edges: Bin edges, rising (e,).
        positives: Pairs of the same polyp, per procedure and bin (procedures, e + 1).
        negatives: Pairs of different polyps, per pair of procedures and bin (pairs, e + 1), in the
            order of `np.triu_indices`: each procedure with itself and those after it; 32 bits if
            sufficient.
    """

    edges: Floats
    positives: Ints
    negatives: Wide


def sample_negatives(grouped: Grouped, every_nth: int) -> Floats:
    """Scores of pairs of different polyps with every `every_nth`-th row as the first one."""

    def work(starts: Iterator[int]) -> Floats:
        """Scores with the sampled rows of some blocks."""
        sampled = [np.zeros(0)]
        for start in starts:
            picked = np.arange(start, min(start + step, n), every_nth)
            scores = cosines(grouped.rows[picked], grouped.rows[start:])  # (picked, n - start)
            sampled.append(scores[columns[start:] >= grouped.stop[picked, None]])
        return np.concatenate(sampled)

    n, step = len(grouped.rows), PICKED * every_nth
    columns = np.arange(n)
    return np.concatenate(parallel(work, range(0, n, step)))


def count_negatives(grouped: Grouped, values: Floats, edges: Floats) -> tuple[Ints, Ints, Wide]:
    """Count the pairs of different polyps by level, and by bin.

    Args:
        grouped: The tracklets.
        values: The levels (u,), see `tabulate`.
        edges: The levels that begin a bin (e,).

    Returns:
        Number of pairs at each level or between it and the one below, and above all (u + 1,); of
        pairs at each level (u + 1,); of pairs per pair of procedures and bin (pairs, e + 1).
    """
    table, none_counted = tabulate(values, edges)
    pairs = grouped.procedures * (grouped.procedures + 1) // 2
    # 32-bit counts if they suffice: more of them fit into caches.
    count: type = np.int32 if len(grouped.rows) ** 2 // 2 < NARROW else np.int64
    bins: Wide = np.zeros((pairs, edges.size + 1), dtype=count)
    # For a procedure a, the row of the counts of a and b, minus b, for all procedures b from a on.
    a = np.arange(grouped.procedures)
    row_of_pair = a * grouped.procedures - a * (a + 1) // 2
    rows, groups = grouped.rows, (grouped.procedure, grouped.stop, row_of_pair)

    def work(jobs: Iterator[tuple[int, int]]) -> Floats:
        """Columns `_AROUND` and `_TIED` (u + 1, 2) of the pairs with rows of some procedures."""
        records = none_counted.copy()
        buffer = np.empty(ROWS * COLUMNS)
        for start, end in jobs:
            for i in range(start, end, ROWS):
                left = rows[i : min(i + ROWS, end)]  # (a, d)
                for j in range(i, len(rows), COLUMNS):
                    right = rows[j : j + COLUMNS]  # (b, d)
                    scores = buffer[: len(left) * len(right)].reshape(len(left), len(right))
                    np.matmul(left, right.T, out=scores)
                    _count(scores, (i, j), *groups, table, records, bins)
        return records[:, [_AROUND, _TIED]]

    # Counts are written by procedure, so every job consists of whole procedures.
    jobs, begin = [], 0
    for end in (np.flatnonzero(np.diff(grouped.procedure, append=-1)) + 1).tolist():
        if end - begin >= ROWS or end == len(rows):
            jobs.append((begin, end))
            begin = end
    counted = np.sum(parallel(work, jobs), axis=0).astype(np.int64)
    return counted[:, 0], counted[:, 1], bins


@njit(error_model="numpy")
def _count(  # noqa: PLR0917
    scores: Floats,
    corner: tuple[int, int],
    procedure: Ints,
    polyp_stop: Ints,
    row_of_pair: Ints,
    table: Table,
    records: Floats,
    bins: Wide,
) -> None:
    """Count a block of scores row by row.

    Args:
        scores: The block (a, b); overwritten.
        corner: The block's first row and its first partner.
        procedure: Procedure of each row (n,).
        polyp_stop: One past the last row of each row's polyp (n,).
        row_of_pair: Row of `bins` of a procedure a and itself, minus a (procedures,).
        table: The look-up table of levels.
        records: Counts by level, see `tabulate`; added to.
        bins: Counts by pair of procedures and bin (pairs, e + 1); added to.
    """
    width = scores.shape[1]
    cells_of_row = np.empty(width, np.int32)
    for i in range(scores.shape[0]):
        row = corner[0] + i
        begin = max(polyp_stop[row] - corner[1], 0)
        if begin >= width:
            continue
        tally(scores[i, begin:], table, records, cells_of_row[begin:])
        while begin < width:  # procedure by procedure
            partner = procedure[corner[1] + begin]
            bins_of_pair = bins[row_of_pair[procedure[row]] + partner]
            while begin < width and procedure[corner[1] + begin] == partner:
                bins_of_pair[cells_of_row[begin]] += 1
                begin += 1


@dataclass(frozen=True)
class Reid:
    """Figures over all pairs.

    Attributes:
        auroc: Area under the ROC curve; None without a positive or without a negative pair.
        aupr: Average precision; None as for `auroc`.
        positives: Number of pairs of the same polyp.
        negatives: Number of pairs of different polyps.
        unlabelled: Number of tracklets left out because their polyp is unknown.
        counts: The pairs by similarity; None as for `auroc`.
    """

    auroc: float | None
    aupr: float | None
    positives: int
    negatives: int
    unlabelled: int
    counts: PairCounts | None


def _areas(times: Ints, below: Ints, up_to: Ints, total: int) -> tuple[float, float]:
    """AUROC and average precision from counts at rising levels (u,).

    times is the number of positives at each level, below the number of negatives below it, up_to
    that of negatives below or at it, and total the number of all negatives.
    """
    positives = times.sum()
    auroc = (times * (below + up_to) / 2).sum() / (positives * total)
    hits = positives - np.cumsum(times) + times  # positives >= level
    aupr = (times * hits / np.maximum(hits + total - below, 1)).sum() / positives
    return float(auroc), float(aupr)


def reidentify(vectors: npt.ArrayLike, samples: Samples) -> Reid:
    """AUROC and AUPR over all pairs of tracklets of known polyp, exact whatever the bins.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: The tracklets of these vectors.

    Raises:
        PolyplinkError: If there is not one vector per sample, or a vector is zero or not finite.
    """
    n = len(samples.tracklet_ids)
    grouped = Grouped.of(samples.unit_rows(vectors), samples)
    positive, rows = cosines_in_groups(grouped.rows, grouped.stop), len(grouped.rows)  # (p,)
    negatives = rows * (rows - 1) // 2 - positive.size
    if not positive.size or not negatives:
        return Reid(None, None, positive.size, negatives, samples.n_unlabelled, None)

    # The edges of bins. Quantiles are scores (inverted distribution), so that a few positives get
    # a bin each; numpy's quantiles take five times as long as a sort.
    pairs = grouped.procedures * (grouped.procedures + 1) // 2
    bins = min(MOST_BINS, max(MOST_COUNTS // (2 * pairs), LEAST_BINS))
    sample = sample_negatives(grouped, 1 + n * n // (2 * SAMPLED))
    shares, quantiles = np.arange(bins) / bins, []
    for scores in (positive, sample):
        at = np.ceil(shares * scores.size).astype(np.int64) - 1
        quantiles.append(np.sort(scores)[np.maximum(at, 0)])
    edges = np.unique(np.concatenate(quantiles))

    # The negatives among the scores of positives, which give both areas exactly.
    levels = np.union1d(positive, edges)  # (u,)
    around, tied, binned_negatives = count_negatives(grouped, levels, edges)
    times = np.diff(np.searchsorted(np.sort(positive), levels, side="right"), prepend=0)
    up_to = np.cumsum(around)
    auroc, aupr = _areas(times, up_to[:-1] - tied[:-1], up_to[:-1], int(up_to[-1]))

    # All pairs by bin, for the bootstrap.
    bins = edges.size + 1
    procedure = np.repeat(grouped.procedure, grouped.stop - np.arange(rows) - 1)
    place = procedure * bins + np.searchsorted(edges, positive, side="right")  # (p,)
    binned = np.bincount(place, minlength=grouped.procedures * bins).reshape(-1, bins)
    counts = PairCounts(edges, binned, binned_negatives)
    return Reid(auroc, aupr, positive.size, negatives, samples.n_unlabelled, counts)


def roc_and_pr(counts: PairCounts) -> tuple[Floats, Floats, Floats]:
    """Points of the ROC and the precision-recall curve, exact at the edges of bins.

    Args:
        counts: Binned pairs, see `reidentify`.

    Returns:
        False positive rate, true positive rate (recall) and precision of the pairs with similarity
        at or above each edge, from the highest edge to the lowest, then of all pairs (e + 1,).
    """
    hits, alarms = (
        np.cumsum(pairs.sum(axis=0)[::-1]) for pairs in (counts.positives, counts.negatives)
    )
    precision = hits / np.maximum(hits + alarms, 1)
    return alarms / alarms[-1], hits / hits[-1], precision


def published_reid(vectors: npt.ArrayLike, samples: Samples) -> tuple[float, float] | None:
    """AUROC and AUPR of similarities after the sigmoid, or None without pairs of both kinds.

    The thesis on foundation models first applies a sigmoid in single precision to similarities. It
    preserves their order except for ties by rounding: scores are counted between the smallest
    cosines of each rounded value, and no score is stored.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: The tracklets of these vectors.
    """
    grouped = Grouped.of(samples.unit_rows(vectors), samples)
    positive, n_known = cosines_in_groups(grouped.rows, grouped.stop), len(grouped.rows)  # (p,)
    negatives = n_known * (n_known - 1) // 2 - positive.size
    if not positive.size or not negatives:
        return None
    level, times = np.unique(sigmoids(positive), return_counts=True)  # (u,)
    # The sigmoid of a score is at or above a level if the score is at or above the level's minimum.
    min_scores = [lowest_score(levels) for levels in (level, np.nextafter(level, np.float32(2)))]
    limits = np.unique(min_scores)
    around, tied, _ = count_negatives(grouped, limits / SCALE, limits[:1] / SCALE)
    below_limit = (np.cumsum(around) - tied)[:-1]
    below, up_to = (below_limit[np.searchsorted(limits, limit)] for limit in min_scores)
    return _areas(times, below, up_to, negatives)


def sigmoids(scores: Floats) -> npt.NDArray[np.float32]:
    """The sigmoid of scores (n,), in single precision."""
    return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-scores.astype(np.float32))))


def lowest_score(levels: npt.NDArray[np.float32]) -> Ints:
    """Smallest cosine with a sigmoid at or above each level (u,), in units of the last digit."""
    end = int(SCALE) + 1
    low, high = np.full(levels.size, -end), np.full(levels.size, end)
    while (low < high).any():
        middle = (low + high) // 2
        reached = sigmoids(middle / SCALE) >= levels
        low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
    return low


def resample_reid(counts: PairCounts, weights: Weights) -> tuple[Floats, Floats]:
    """AUROC and AUPR in every resample, from binned pairs.

    A procedure drawn w times contributes the pairs within it w times, and two procedures drawn v
    and w times contribute the pairs between them v w times. Copies of one procedure are not paired
    with each other: their tracklets are the same, so such pairs would match tracklets with
    themselves.

    Only bins with a positive pair and the bins after them are used: the negative pairs of a bin are
    the difference of the two.

    Args:
        counts: Binned pairs, see `reidentify`.
        weights: Draws (r, procedures).

    Returns:
        AUROC (r,) and AUPR (r,); NaN if no positive or no negative pair was drawn.
    """
    auroc, aupr = np.empty((2, len(weights)))
    positives = counts.positives.astype(np.float64)  # (procedures, bins)
    filled = np.flatnonzero(positives.any(axis=0))
    columns = np.unique(np.concatenate([[0], filled, filled + 1]))  # (k,); the first has all pairs
    at, above = np.searchsorted(columns, (filled, filled + 1))
    negatives = _NegativePairs.of(counts, columns, int(weights.max(initial=0)))
    hits, positives = _sum_from_bins(positives, filled), positives[:, filled]
    for start in range(0, len(weights), CHUNK):
        w = weights[start : start + CHUNK].astype(np.float64)  # (chunk, procedures)
        part = slice(start, start + len(w))
        drawn_true, drawn_false = w @ positives, negatives.drawn(w)  # (chunk, filled), (chunk, k)
        n_true, n_false, false_at = drawn_true.sum(axis=1), drawn_false[:, 0], drawn_false[:, at]
        # Twice the number of misordered pairs, of which those in the same bin count half.
        misordered = _dot(drawn_true, false_at) + _dot(drawn_true, drawn_false[:, above])
        with np.errstate(invalid="ignore", divide="ignore"):
            auroc[part] = 1.0 - misordered / (2.0 * n_true * n_false)
            true_at = w @ hits  # (chunk, filled)
            precision = true_at / np.maximum(true_at + false_at, 1.0)
            aupr[part] = np.where(n_false > 0, _dot(drawn_true, precision) / n_true, np.nan)
    return auroc, aupr


def _dot(left: Floats, right: Floats) -> Floats:
    return np.asarray(np.einsum("rb,rb->r", left, right))


@dataclass(frozen=True)
class _NegativePairs:
    """Number of pairs of different polyps in each of some bins or in a higher one.

    Attributes:
        rows: Numbers per pair of procedures and bin (pairs, k), in the order of `PairCounts`; in
            single precision if every sum of a block is exact in it.
        blocks: First and last + 1 of the procedures with rows that are summed at a time.
    """

    rows: npt.NDArray[np.float32] | Floats
    blocks: list[tuple[int, int]]

    @classmethod
    def of(cls, counts: PairCounts, bins: Ints, drawn: int) -> Self:
        """The pairs for some bins (k,); no procedure is drawn more than `drawn` times."""
        procedures, negatives = len(counts.positives), counts.negatives
        a = np.arange(procedures)
        first = a * procedures - a * (a - 1) // 2  # row of a procedure with itself
        largest_sums = (
            np.add.reduceat(negatives.sum(axis=1, dtype=np.int64), first) * max(drawn, 1) ** 2
        )
        single = largest_sums.max() < EXACT
        rows: Any = np.empty((len(negatives), bins.size), np.float32 if single else np.float64)
        step = max(1, ROOM // negatives.shape[1])
        for start in range(0, len(negatives), step):
            rows[start : start + step] = _sum_from_bins(negatives[start : start + step], bins)
        blocks, begin = [], 0
        for end in range(1, procedures + 1):
            over = end == procedures or procedures * (end + 1 - begin) > BLOCK
            if over or (single and largest_sums[begin : end + 1].sum() >= EXACT):
                blocks.append((begin, end))
                begin = end
        return cls(rows, blocks)

    def drawn(self, weights: Floats) -> Floats:
        """Sums over the pairs of procedures, weighted by their draws (r, k)."""
        draws: Any = weights.astype(self.rows.dtype)
        first = 0
        sums = np.zeros((len(weights), self.rows.shape[1]))
        for begin, end in self.blocks:
            pairs = []
            for a in range(begin, end):
                pairs += [draws[:, a, None], draws[:, a, None] * draws[:, a + 1 :]]
            times = np.concatenate(pairs, axis=1)  # (r, pairs of the block)
            sums += times @ self.rows[first : first + times.shape[1]]
            first += times.shape[1]
        return sums


def _sum_from_bins(counts: npt.NDArray[Any], bins: Ints) -> npt.NDArray[Any]:
    """Cumulative counts of some bins and all higher ones (rows, k); 0 after the last bin."""
    sums = np.zeros((len(counts), counts.shape[1] + 1), dtype=counts.dtype)
    np.cumsum(counts[:, ::-1], axis=1, out=sums[:, -2::-1])
    return sums[:, bins]


AUROC = Metric(
    task="reid",
    title="area under the ROC curve",
    meaning="pairs of views of one polyp against pairs of two; 0.5 is chance",
    key="auroc",
)
AUPR = Metric(
    task="reid",
    title="area under the precision-recall curve",
    meaning="average precision over the same pairs",
    key="aupr",
)
PUBLISHED_AUROC = replace(
    AUROC, meaning="after a sigmoid in single precision", style="published", key=""
)
PUBLISHED_AUPR = replace(
    AUPR, meaning="after a sigmoid in single precision", style="published", key=""
)


def reid_measures(
    reid: Reid,
    published: tuple[float, float] | None,
    samples: Samples,
    weights: Weights,
) -> dict[str, Resampled]:
    """AUROC and AUPR over all pairs, exact and as published.

    The published ones have no interval: they differ from the exact ones only by rounding.

    Args:
        reid: The result of `reidentify`.
        published: The result of `published_reid`.
        samples: The tracklets.
        weights: Draws (r, procedures).
    """
    nothing = np.full(len(weights), np.nan)
    auroc, aupr = nothing, nothing
    if reid.counts:
        # Correct the resamples by the error of binning in the figures.
        assert reid.auroc is not None
        assert reid.aupr is not None
        unit_weights = np.ones((1, weights.shape[1]), weights.dtype)
        binned = resample_reid(reid.counts, np.concatenate([unit_weights, weights]))
        auroc = binned[0][1:] + (reid.auroc - binned[0][0])
        aupr = binned[1][1:] + (reid.aupr - binned[1][0])
    values = {
        "AUROC": (reid.auroc, auroc),
        "AUPR": (reid.aupr, aupr),
        "AUROC (as published)": (published[0] if published else None, nothing),
        "AUPR (as published)": (published[1] if published else None, nothing),
    }
    return {
        name: Resampled(*values_of, samples.labelled_procedures)
        for name, values_of in values.items()
    }


def reid_rows(unit: Floats, samples: Samples) -> tuple[dict[str, Any], ...]:
    """Re-identification within each procedure, on which counting is based.

    Args:
        unit: Embeddings (n, d) of length 1.
        samples: The tracklets of these vectors.

    Returns:
        One row per procedure: procedure; positives and negatives (numbers of pairs of the same and
        of different polyps); auroc and aupr over these, None without pairs of both kinds.
    """
    rows = []
    for place, name in enumerate(samples.procedures):
        part, rows_there = samples.of_procedure(place)
        pairs = reidentify(unit[rows_there], part)
        counts = {"positives": pairs.positives, "negatives": pairs.negatives}
        rows.append({"procedure": name, **counts, "auroc": pairs.auroc, "aupr": pairs.aupr})
    return tuple(rows)
