"""Retrieval: which other views look most like this one? mAP, HR@1 and HR@5, exact.

Every tracklet of the test procedures queries all others; similarity is the cosine. Average
precision is the mean over a query's matches of the precision at their ranks. Figures come from
ranks, found by counting larger scores, a block of similarities at a time.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import unit_rows
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.overtaking import BLOCK, precision_and_best
from polyplink.evaluate.samples import Samples

Reals = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def match_ranks(scores: Reals, match: Mask) -> npt.NDArray[np.int64]:
    """Ranks of a query's matches in its gallery, from 1, rising.

    Ties count against the query: a match ranks behind every non-match of the same score.

    Args:
        scores: Similarity of every gallery item to the query (g,).
        match: Whether the item is a match (g,).

    Returns:
        Ranks (m,) of the m matches.
    """
    matches = np.sort(scores[match])[::-1]  # (m,) falling
    others = np.sort(scores[~match])  # (g - m,) rising
    ahead = others.size - np.searchsorted(others, matches, side="left")  # others with s >= match
    return np.arange(1, matches.size + 1) + ahead


def average_precision(ranks: npt.NDArray[np.int64]) -> float:
    """Mean of the precision at the ranks (m,) of all m matches, m > 0."""
    return float((np.arange(1, ranks.size + 1) / ranks).mean())


@dataclass(frozen=True)
class Retrieval:
    """Retrieval figures per query; the rows are those of the samples.

    Attributes:
        ap: Average precision (n,), NaN where not valid.
        hit1: Whether the best-ranked item is a match (n,).
        hit5: Whether a match is among the best five (n,).
        valid: Whether the tracklet is a query: its polyp is known and has another tracklet (n,).
        unmatched: Tracklets of known polyp left out because nothing matches them.
        unlabelled: Tracklets left out, as query and gallery, because their polyp is unknown.
    """

    ap: Reals
    hit1: Mask
    hit5: Mask
    valid: Mask
    unmatched: int
    unlabelled: int

    @property
    def mean_ap(self) -> float | None:
        """MAP over the valid queries, or None if there is none."""
        return float(self.ap[self.valid].mean()) if self.valid.any() else None

    @property
    def hr1(self) -> float | None:
        """HR@1 over the valid queries, or None if there is none."""
        return float(self.hit1[self.valid].mean()) if self.valid.any() else None

    @property
    def hr5(self) -> float | None:
        """HR@5 over the valid queries, or None if there is none."""
        return float(self.hit5[self.valid].mean()) if self.valid.any() else None


def retrieve(
    vectors: npt.ArrayLike, samples: Samples, *, block: int = BLOCK, threads: int | None = None
) -> Retrieval:
    """Let every tracklet query all others of all procedures.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: Whose they are.
        block: Rows and columns of the similarities that a thread holds in memory at a time.
        threads: How many; None for one a core. The result is the same.

    Raises:
        PolyplinkError: If there is not one vector per sample, or a vector is zero or not finite.
    """
    unit = unit_rows(vectors)  # (n, d)
    n = len(samples.tracklet_ids)
    if len(unit) != n:
        raise PolyplinkError(f"{len(unit)} vectors for {n} tracklets", "give one per tracklet")
    ap = np.full(n, np.nan)
    best = np.zeros(n, dtype=np.int64)
    gallery = np.flatnonzero(samples.known)
    ap[gallery], best[gallery] = precision_and_best(
        unit[gallery], samples.polyp[gallery], block=block, threads=threads
    )
    valid = best > 0
    hit1, hit5 = valid & (best <= 1), valid & (best <= 5)
    unmatched = int((samples.known & ~valid).sum())
    return Retrieval(ap, hit1, hit5, valid, unmatched, samples.unlabelled)
