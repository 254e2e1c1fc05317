"""Retrieval query by query: what came first, where the first match stood.

Also retrieval with the other polyps of the query's own procedure left out of its gallery: views
of one procedure share light, camera and preparation, and look alike for that alone. The matches
stay, because a polyp is in one procedure only.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.associate.similarity import cosines, unit_rows
from polyplink.evaluate.retrieval import Retrieval, average_precision, match_ranks
from polyplink.evaluate.samples import Samples

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Nearest:
    """What every tracklet's gallery put first; the rows are those of the samples.

    Attributes:
        row: The most similar other tracklet of known polyp (n,), -1 where there is none.
        similarity: Its cosine (n,), NaN where there is none.
        matches: Other tracklets of the same polyp (n,).
        best_rank: Rank of the best match (n,), from 1, ties counting against it; 0: no match.
    """

    row: Ints
    similarity: Reals
    matches: Ints
    best_rank: Ints


def nearest(vectors: npt.ArrayLike, samples: Samples, *, block: int = 512) -> Nearest:
    """Look for the most similar tracklet and the best match of every query.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: Whose they are; those of unknown polyp are no query and in no gallery.
        block: Queries whose similarities are held in memory at a time.
    """
    unit = unit_rows(vectors)
    n = len(samples.tracklet_ids)
    found = Nearest(np.full(n, -1), np.full(n, np.nan), np.zeros(n, int), np.zeros(n, int))
    gallery = np.flatnonzero(samples.known)
    for start in range(0, gallery.size if gallery.size > 1 else 0, block):
        rows = gallery[start : start + block]
        place = np.arange(rows.size)
        scores = cosines(unit[rows], unit[gallery])  # (b, g)
        scores[place, start + place] = -np.inf
        first = scores.argmax(axis=1)
        found.row[rows], found.similarity[rows] = gallery[first], scores[place, first]
        match = samples.polyp[rows][:, None] == samples.polyp[gallery][None, :]
        found.matches[rows] = match.sum(axis=1) - 1
        best = np.where(match, scores, -np.inf).max(axis=1)  # (b,)
        rank = 1 + (~match & (scores >= best[:, None])).sum(axis=1)
        found.best_rank[rows] = np.where(found.matches[rows] > 0, rank, 0)
    return found


def retrieve_without_own(vectors: npt.ArrayLike, samples: Samples) -> Retrieval:
    """Retrieval whose galleries hold a query's matches and the tracklets of other procedures.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: Whose they are.

    Returns:
        As `retrieve` does; a query whose gallery has no other procedure is still one, and right.
    """
    unit = unit_rows(vectors)
    n = len(samples.tracklet_ids)
    ap = np.full(n, np.nan)
    hit1, hit5, valid = (np.zeros(n, dtype=np.bool_) for _ in range(3))
    gallery = np.flatnonzero(samples.known)
    for row in gallery:
        own = samples.procedure[gallery] == samples.procedure[row]
        match = (samples.polyp[gallery] == samples.polyp[row]) & (gallery != row)
        if not match.any():
            continue
        part = match | ~own
        ranks = match_ranks(cosines(unit[row : row + 1], unit[gallery[part]])[0], match[part])
        valid[row], ap[row] = True, average_precision(ranks)
        hit1[row], hit5[row] = ranks[0] <= 1, ranks[0] <= 5
    unmatched = int((samples.known & ~valid).sum())
    return Retrieval(ap, hit1, hit5, valid, unmatched, samples.unlabelled)


def query_table(
    samples: Samples, retrieval: Retrieval, first: Nearest, published: Reals
) -> pl.DataFrame:
    """One row per query: its figures, its best match's rank, and what came first.

    Args:
        samples: The tracklets.
        retrieval: What `retrieve` found.
        first: What `nearest` found.
        published: What `published_precision` found (n,).

    Returns:
        tracklet_id, procedure_id, matches, average_precision, average_precision_as_published,
        hit_1, hit_5, best_match_rank, nearest, nearest_similarity, nearest_is_match; a row for
        every tracklet with a match, in the order of the samples.
    """
    rows = np.flatnonzero(retrieval.valid)
    ids = np.array(samples.tracklet_ids, dtype=object)
    return pl.DataFrame(
        {
            "tracklet_id": ids[rows].tolist(),
            "procedure_id": [samples.procedures[p] for p in samples.procedure[rows]],
            "matches": first.matches[rows],
            "average_precision": retrieval.ap[rows],
            "average_precision_as_published": published[rows],
            "hit_1": retrieval.hit1[rows],
            "hit_5": retrieval.hit5[rows],
            "best_match_rank": first.best_rank[rows],
            "nearest": ids[first.row[rows]].tolist(),
            "nearest_similarity": first.similarity[rows],
            "nearest_is_match": samples.polyp[first.row[rows]] == samples.polyp[rows],
        },
        schema_overrides={
            "tracklet_id": pl.String,
            "procedure_id": pl.String,
            "nearest": pl.String,
        },
    )
