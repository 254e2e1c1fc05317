"""Figures as the papers' tool chain computes them, where that differs from the exact ones.

- mAP: torchmetrics (1.9) drops matches whose similarity is 0 or below, so that on raw cosines,
  as the programs of NTSSL give them, a query's hardest matches do not count. Ranks are the same.
- AUROC and AUPR: the thesis on foundation models sends similarities through a sigmoid in single
  precision first. That keeps their order but for rounding, which makes ties.
Both stand beside the exact figures, named "(as published)", never in their place.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import cosines, unit_rows
from polyplink.evaluate.reid import auroc_aupr
from polyplink.evaluate.retrieval import Retrieval, match_ranks
from polyplink.evaluate.samples import Samples

Reals = npt.NDArray[np.float64]

ROWS = 1024  # rows of a block of similarities


def published_precision(vectors: npt.ArrayLike, samples: Samples, exact: Retrieval) -> Reals:
    """Average precision without the matches of similarity 0 or below (n,), NaN where not valid.

    Only queries that have such a match are ranked again. One that has no other gets 0.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: Whose they are.
        exact: What `retrieve` found.
    """
    unit = unit_rows(vectors)
    ap = exact.ap.copy()
    gallery = np.flatnonzero(samples.known)
    for row in np.flatnonzero(exact.valid):
        mates = gallery[(samples.polyp[gallery] == samples.polyp[row]) & (gallery != row)]
        if (cosines(unit[row : row + 1], unit[mates]) > 0).all():
            continue
        others = gallery[gallery != row]
        scores = cosines(unit[row : row + 1], unit[others])[0]
        ranks = match_ranks(scores, np.isin(others, mates))
        above = int((np.sort(scores[np.isin(others, mates)]) > 0).sum())
        kept = np.arange(1, above + 1) / ranks[:above]  # the best ones are those above 0
        ap[row] = kept.mean() if above else 0.0
    return ap


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
