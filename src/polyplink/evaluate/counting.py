"""Counting: one procedure's clusters under many settings against its polyps, and clinical rates.

Source: Parolari et al., temporally-aware polyp counting, section 3 (FR), and its code (FPR,
precision, recall over pairs of tracklets). A pair is positive if its tracklets show the same polyp,
and predicted positive if they share a cluster. Tracklets are added one by one to the contingency
table of clusters and polyps and paired with those before: the time per setting is linear in the
number of tracklets. Settings with the same partition, as most of a grid, are counted once.

Clinical rates are polyps per colonoscopy (PPC), adenomas per colonoscopy (APC) and the share of
colonoscopies with an adenoma (ADR). Each is computed from the polyps with a tracklet (true) and
from the clusters (counted). A cluster is an adenoma if at least half of its tracklets of known
histology show one: this uses the pathologist's diagnosis, not a classifier's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from polyplink.core.arrays import Floats, Ints
from polyplink.core.compiled import njit
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.intervals import ratio

Labels = npt.NDArray[np.integer]
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Partitions:
    """s clusterings of the same n tracklets, p of them distinct.

    Attributes:
        labels: The distinct clusterings (p, n), in order of first occurrence; clusters are numbered
            from 0 in the order of their first tracklets.
        row_of: Index of each clustering in `labels` (s,).
    """

    labels: Codes
    row_of: Ints


@njit()
def renumber(labels: Labels, codes: Codes, new: Codes) -> int:
    """Number clusters by their first tracklets: labels (n,) to codes (n,); return their number.

    new (m,) must be -1 for every label, before and after the call.
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
def _renumber_all(labels: Labels, n_labels: int, codes: Codes) -> None:
    """`renumber` each of s clusterings (s, n) with labels below `n_labels`."""
    new = np.full(n_labels, -1, np.int32)
    for s in range(labels.shape[0]):
        renumber(labels[s], codes[s], new)


def partitions(labels: Labels) -> Partitions:
    """Find the distinct clusterings among (s, n), with labels of 0 or more."""
    rows = np.ascontiguousarray(labels)
    codes = np.empty(rows.shape, dtype=np.int32)
    _renumber_all(rows, int(rows.max(initial=0)) + 1, codes)
    row_by_codes: dict[bytes, int] = {}
    row_of = [row_by_codes.setdefault(row.tobytes(), len(row_by_codes)) for row in codes]
    first = np.unique(np.array(row_of, dtype=np.int64), return_index=True)[1]
    return Partitions(codes[first], np.array(row_of, dtype=np.int64))


@dataclass(frozen=True)
class ProcedureCounts:
    """Counts of one procedure under s settings.

    Attributes:
        procedure: Name of the procedure.
        tracklets: Number of tracklets of known polyp.
        unlabelled: Number of tracklets of unknown polyp, which are clustered, then left out.
        polyps: Number of polyps of the tracklets of known polyp.
        clusters: Number of clusters with a tracklet of known polyp (s,).
        tp: Number of pairs of one polyp in one cluster (s,); pairs are unordered, i < j.
        fp: Number of pairs of two polyps in one cluster (s,).
        fn: Number of pairs of one polyp in two clusters (s,).
        tn: Number of pairs of two polyps in two clusters (s,).
        partitions: The distinct clusterings of the tracklets of known polyp.
    """

    procedure: str
    tracklets: int
    unlabelled: int
    polyps: int
    clusters: Ints
    tp: Ints
    fp: Ints
    fn: Ints
    tn: Ints
    partitions: Partitions

    @cached_property
    def rates(self) -> dict[str, Floats]:
        """Rates under every setting, by name, each (s,).

        - fr: fragmentation rate, clusters / polyps.
        - fpr: FP / (FP + TN), without self-pairs; undefined with one polyp.
        - precision: TP / (TP + FP) over pairs of two tracklets; undefined if no pair is linked.
        - recall: TP / (TP + FN) over pairs of two tracklets.
        - fpr_published: fpr, 0 with one polyp.
        - precision_with_self, recall_with_self: as published, (2 tp + n) / (2 tp + 2 fp + n) and
          (2 tp + n) / (2 tp + 2 fn + n): the published code sums the whole n x n matrix, with each
          pair twice and each tracklet paired with itself once, as a true positive.
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
        polyps: Polyp of every tracklet (n,), None if unknown.
        procedure: Name of the procedure.

    Raises:
        PolyplinkError: If the shapes do not match, a label is outside [0, n), or no polyp is
            known.
    """
    label_rows = np.asarray(labels)
    labelled = np.array([polyp is not None for polyp in polyps], dtype=np.bool_)
    if label_rows.ndim != 2 or label_rows.shape[1] != labelled.size:
        raise PolyplinkError(
            f"procedure {procedure!r}: labels {label_rows.shape} for {labelled.size} tracklets",
            "give one row per setting and one column per tracklet",
        )
    if label_rows.size and (label_rows.min() < 0 or label_rows.max() >= labelled.size):
        raise PolyplinkError(
            f"procedure {procedure!r}: a label is outside [0, {labelled.size})",
            "number the clusters from 0",
        )
    names = [polyp for polyp in polyps if polyp is not None]
    if not names:
        raise PolyplinkError(
            f"procedure {procedure!r} has no tracklet of known polyp", "leave it out of counting"
        )
    distinct = partitions(label_rows[:, labelled])
    place = {name: code for code, name in enumerate(dict.fromkeys(names))}
    polyp = np.array([place[name] for name in names], dtype=np.int64)  # (n,)
    pairs = np.zeros((3, len(distinct.labels)), dtype=np.int64)
    _count(distinct.labels, polyp, *pairs)
    clusters, together, tp = pairs[:, distinct.row_of]  # (s,) each
    sizes = np.bincount(polyp)
    one_polyp = (sizes * (sizes - 1) // 2).sum()
    fp, fn = together - tp, one_polyp - tp
    tn = len(names) * (len(names) - 1) // 2 - tp - fp - fn
    unlabelled = len(polyps) - len(names)
    return ProcedureCounts(
        procedure, len(names), unlabelled, len(place), clusters, tp, fp, fn, tn, distinct
    )


@njit()
def _count(labels: Codes, polyp: Ints, clusters: Ints, together: Ints, joint: Ints) -> None:
    """Count clusters, pairs in one cluster, and pairs in one cluster and of one polyp, (s,) each.

    labels (s, n) and polyp (n,) are clusters and polyps of tracklets of known polyp, from 0.
    """
    n_clusters = labels.max() + 1 if labels.size else 0
    sizes = np.zeros(n_clusters, np.int64)
    table = np.zeros((n_clusters, polyp.max() + 1), np.int64)
    for row in range(labels.shape[0]):
        for i in range(polyp.size):
            cluster = labels[row, i]
            clusters[row] += sizes[cluster] == 0
            together[row] += sizes[cluster]
            joint[row] += table[cluster, polyp[i]]
            sizes[cluster] += 1
            table[cluster, polyp[i]] += 1
        for i in range(polyp.size):  # emptied for the next setting
            sizes[labels[row, i]] = 0
            table[labels[row, i], polyp[i]] = 0


@dataclass(frozen=True)
class Clinic:
    """Rates over procedures; those of adenomas over procedures with known histology.

    Attributes:
        procedures: Number of counted procedures.
        ppc: Polyps per colonoscopy.
        ppc_counted: Clusters per colonoscopy.
        with_histology: Number of procedures with a polyp of known histology.
        apc: Adenomas per colonoscopy; None without histology, as are the next three.
        apc_counted: Clusters classified as adenoma per colonoscopy.
        adr: Share of colonoscopies with an adenoma.
        adr_counted: Share of colonoscopies with a cluster classified as adenoma.
        rows: One per procedure, see `clinic_row`.
    """

    procedures: int
    ppc: float
    ppc_counted: float
    with_histology: int
    apc: float | None
    apc_counted: float | None
    adr: float | None
    adr_counted: float | None
    rows: tuple[dict[str, Any], ...]


def clinic_row(
    procedure: str, labels: npt.ArrayLike, polyps: Sequence[int], adenoma: Sequence[bool | None]
) -> dict[str, Any]:
    """Count one procedure.

    Args:
        procedure: Name of the procedure.
        labels: Cluster of every tracklet of known polyp (n,).
        polyps: Polyp of every such tracklet (n,).
        adenoma: Whether the polyp is an adenoma (n,); None if unknown.

    Returns:
        procedure; polyps (with a tracklet); counted (clusters); adenomas (polyps) and
        adenomas_counted (clusters classified as adenoma), both None if no histology is known.
    """
    clusters, cluster_of = np.unique(np.asarray(labels), return_inverse=True)
    labelled = np.array([kind is not None for kind in adenoma], dtype=np.bool_)
    adenomatous = np.array([bool(kind) for kind in adenoma], dtype=np.bool_)
    votes = np.bincount(cluster_of, weights=adenomatous, minlength=clusters.size)
    against = np.bincount(cluster_of, weights=labelled & ~adenomatous, minlength=clusters.size)
    adenomas_counted = int(((votes > 0) & (votes >= against)).sum())  # a tie counts as an adenoma
    return {
        "procedure": procedure,
        "polyps": len(set(polyps)),
        "counted": int(clusters.size),
        "adenomas": np.unique(np.asarray(polyps)[adenomatous]).size if labelled.any() else None,
        "adenomas_counted": adenomas_counted if labelled.any() else None,
    }


def clinic_figures(rows: Sequence[dict[str, Any]]) -> Clinic | None:
    """The rates over procedures; None if there are no procedures."""
    with_histology = [row for row in rows if row["adenomas"] is not None]

    def mean(values: Sequence[int]) -> float | None:
        return float(np.mean(values)) if values else None

    ppc, counted = mean([row["polyps"] for row in rows]), mean([row["counted"] for row in rows])
    if ppc is None or counted is None:
        return None
    return Clinic(
        procedures=len(rows),
        ppc=ppc,
        ppc_counted=counted,
        with_histology=len(with_histology),
        apc=mean([row["adenomas"] for row in with_histology]),
        apc_counted=mean([row["adenomas_counted"] for row in with_histology]),
        adr=mean([row["adenomas"] > 0 for row in with_histology]),
        adr_counted=mean([row["adenomas_counted"] > 0 for row in with_histology]),
        rows=tuple(rows),
    )
