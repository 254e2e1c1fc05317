"""Counting: one procedure's clusters under many settings against its polyps.

Source: Parolari et al., temporally-aware polyp counting, section 3 (FR), and its program (FPR,
precision, recall over pairs of tracklets). A pair is positive when its tracklets show one polyp,
and called positive when they share a cluster. Tracklets enter the contingency table of clusters and
polyps one after another, each pairing with those before it: settings take time linear in tracklets,
and those that give the same partition, as most settings of a grid do, are counted once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from polyplink.core.compiled import njit
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.intervals import ratio

Reals = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Labels = npt.NDArray[np.integer]
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Partitions:
    """s clusterings of the same n tracklets, p of them distinct.

    Attributes:
        labels: The distinct ones (p, n), in the order in which they come first; clusters are
            numbered from 0 in the order of their first tracklets.
        of: Which of them each clustering is (s,).
    """

    labels: Codes
    of: Counts


@njit()
def renumber(labels: Labels, codes: Codes, new: Codes) -> int:
    """Number clusters by their first tracklets: labels (n,) to codes (n,); return how many.

    new (m,) must be -1 for every label, and is left so.
    """
    count = 0
    for i in range(labels.size):
        if new[labels[i]] < 0:
            new[labels[i]] = count
            count += 1
        codes[i] = new[labels[i]]
    for i in range(labels.size):
        new[labels[i]] = -1
    return count


@njit()
def _place(codes: Codes, table: Counts, kept: Codes) -> int:
    """Where codes (n,) belong in a hash table of rows of kept (p, n); -1 there: not kept yet."""
    key = np.uint64(1469598103934665603)
    for i in range(codes.size):
        key = (key ^ np.uint64(codes[i])) * np.uint64(1099511628211)
        key ^= key >> np.uint64(29)
    at = int(np.int64(key % np.uint64(table.size)))
    while table[at] >= 0:
        row, i = table[at], 0
        while i < codes.size and kept[row, i] == codes[i]:
            i += 1
        if i == codes.size:
            break
        at = at + 1 if at + 1 < table.size else 0
    return at


@njit()
def _sort_out(labels: Labels, most: int, kept: Codes, of: Counts) -> int:
    """Fill kept (s, n) from its start and of (s,); return how many are kept."""
    table = np.full(2 * of.size + 1, -1)
    new = np.full(most, -1, np.int32)
    count = 0
    for s in range(of.size):
        renumber(labels[s], kept[count], new)
        at = _place(kept[count], table, kept)
        if table[at] < 0:
            table[at] = count
            count += 1
        of[s] = table[at]
    return count


def partitions(labels: Labels) -> Partitions:
    """Find the distinct ones of clusterings (s, n), labels being 0 or more."""
    every = np.ascontiguousarray(labels)
    kept = np.empty(every.shape, dtype=np.int32)
    of = np.empty(len(every), dtype=np.int64)
    count = _sort_out(every, int(every.max(initial=0)) + 1, kept, of)
    return Partitions(kept[:count].copy(), of)


@dataclass(frozen=True)
class ProcedureCounts:
    """Counts of one procedure under s settings.

    Attributes:
        procedure: Its name.
        tracklets: Tracklets of known polyp.
        unlabelled: Tracklets of unknown polyp: clustered with the others, then left out.
        polyps: Polyps of those tracklets.
        clusters: Clusters that hold one of them (s,).
        tp: Pairs of one polyp in one cluster (s,); pairs are unordered, i < j.
        fp: Pairs of two polyps in one cluster (s,).
        fn: Pairs of one polyp in two clusters (s,).
        tn: Pairs of two polyps in two clusters (s,).
    """

    procedure: str
    tracklets: int
    unlabelled: int
    polyps: int
    clusters: Counts
    tp: Counts
    fp: Counts
    fn: Counts
    tn: Counts

    @cached_property
    def rates(self) -> dict[str, Reals]:
        """Rates under every setting, by name, each (s,).

        - fr: fragmentation rate, clusters / polyps.
        - fpr: FP / (FP + TN); undefined with one polyp. Self-pairs have no part in it.
        - precision: TP / (TP + FP) over pairs of two tracklets; undefined if all are alone.
        - recall: TP / (TP + FN) over pairs of two tracklets.
        - fpr_published: fpr, 0 with one polyp.
        - precision_with_self, recall_with_self: as published, (2 tp + n) / (2 tp + 2 fp + n) and
          (2 tp + n) / (2 tp + 2 fn + n): the program sums the whole n x n matrix, each pair
          twice and each tracklet with itself once, as a true positive.
        """
        tp, with_self = self.tp, 2 * self.tp + self.tracklets
        fpr = ratio(self.fp, self.fp + self.tn)
        return {
            "fr": ratio(self.clusters, self.polyps),
            "fpr": fpr,
            "precision": ratio(tp, tp + self.fp),
            "recall": ratio(tp, tp + self.fn),
            "fpr_published": np.nan_to_num(fpr),
            "precision_with_self": ratio(with_self, with_self + 2 * self.fp),
            "recall_with_self": ratio(with_self, with_self + 2 * self.fn),
        }


def count_procedure(
    labels: npt.ArrayLike, polyps: Sequence[str | int | None], procedure: str = "procedure"
) -> ProcedureCounts:
    """Compare the clusterings of one procedure with its polyps.

    Args:
        labels: Cluster of every tracklet under every setting (s, n), each in [0, n).
        polyps: Polyp of every tracklet (n,), None where unknown.
        procedure: Its name.

    Raises:
        PolyplinkError: If the shapes do not match, a label is outside [0, n), or no polyp is
            known.
    """
    every = np.asarray(labels)
    known = np.array([polyp is not None for polyp in polyps], dtype=np.bool_)
    if every.ndim != 2 or every.shape[1] != known.size:
        raise PolyplinkError(
            f"procedure {procedure!r}: labels {every.shape} for {known.size} tracklets",
            "give one row per setting and one column per tracklet",
        )
    if every.size and (every.min() < 0 or every.max() >= known.size):
        raise PolyplinkError(
            f"procedure {procedure!r}: a label is outside [0, {known.size})",
            "number the clusters from 0",
        )
    return count_partitions(partitions(every[:, known]), polyps, procedure)


def count_partitions(
    cut: Partitions, polyps: Sequence[str | int | None], procedure: str = "procedure"
) -> ProcedureCounts:
    """Compare the clusterings of one procedure, made distinct, with its polyps.

    Args:
        cut: Clusterings of its tracklets of known polyp.
        polyps: Polyp of every tracklet, None where unknown.
        procedure: Its name.

    Raises:
        PolyplinkError: If no polyp is known.
    """
    names = [polyp for polyp in polyps if polyp is not None]
    if not names:
        raise PolyplinkError(
            f"procedure {procedure!r} has no tracklet of known polyp", "leave it out of counting"
        )
    place = {name: code for code, name in enumerate(dict.fromkeys(names))}
    polyp = np.array([place[name] for name in names], dtype=np.int64)  # (n,)
    found = np.zeros((3, len(cut.labels)), dtype=np.int64)
    _count(cut.labels, polyp, *found)
    clusters, together, tp = found[:, cut.of]  # (s,) each
    sizes = np.bincount(polyp)
    one_polyp = (sizes * (sizes - 1) // 2).sum()
    fp, fn = together - tp, one_polyp - tp
    tn = len(names) * (len(names) - 1) // 2 - tp - fp - fn
    unlabelled = len(polyps) - len(names)
    return ProcedureCounts(procedure, len(names), unlabelled, len(place), clusters, tp, fp, fn, tn)


@njit()
def _count(labels: Codes, polyp: Counts, clusters: Counts, together: Counts, both: Counts) -> None:
    """Add clusters (s,), pairs in one cluster (s,) and pairs in one cluster and polyp (s,).

    Args:
        labels: Cluster of every tracklet of known polyp (s, n), from 0.
        polyp: Its polyp (n,), from 0.
        clusters: Zeros, as are the next two.
        together: Pairs in one cluster.
        both: Pairs of one polyp in one cluster.
    """
    most = labels.max() + 1 if labels.size else 0
    sizes = np.zeros(most, np.int64)
    table = np.zeros((most, polyp.max() + 1), np.int64)
    for row in range(labels.shape[0]):
        for i in range(polyp.size):
            cluster = labels[row, i]
            clusters[row] += sizes[cluster] == 0
            together[row] += sizes[cluster]
            both[row] += table[cluster, polyp[i]]
            sizes[cluster] += 1
            table[cluster, polyp[i]] += 1
        for i in range(polyp.size):  # emptied for the next setting
            sizes[labels[row, i]] = 0
            table[labels[row, i], polyp[i]] = 0
