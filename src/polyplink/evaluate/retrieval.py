"""Retrieval of other views of the same polyp: mAP, HR@1 and HR@5, exact.

Every tracklet of the test procedures queries all others; similarity is the cosine. Average
precision is the mean over a query's matches of the precision at their ranks. All figures come from
one ranking:

- exact: all matches, independent of their similarity.
- as published: torchmetrics (1.9) drops matches with a similarity of 0 or below, so that with raw
  cosines, as in NTSSL's code, a query's hardest matches do not count.
- without own: the other polyps of the query's procedure are left out of its gallery, because views
  of one procedure are already similar by light, camera and preparation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.arrays import Flags, Floats, Ints
from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.intervals import Resampled, Weights, ratio, resampled_mean
from polyplink.evaluate.metric import WITHOUT_OWN, Metric, metrics_of, values_of
from polyplink.evaluate.ranking import Grouped, rank_matches
from polyplink.evaluate.samples import Samples


@dataclass(frozen=True)
class Retrieval:
    """The ranks of all m matches of n tracklets; rows are those of the samples.

    Attributes:
        query: Row of the query of every match (m,); the matches of a query are contiguous and
            sorted by similarity.
        place: Position of every match among those of its query (m,), from 1.
        rank: Rank of every match among all other tracklets (m,), from 1, ties counting against it.
        rank_without_own: Rank without the other polyps of the query's procedure (m,).
        similarity: Cosine of query and match (m,).
        matches: Number of other tracklets of the same polyp (n,).
        nearest: The most similar other tracklet of known polyp (n,); -1 if there is none.
        nearest_similarity: Cosine of the nearest tracklet (n,), NaN if there is none.
        unmatched: Number of tracklets of known polyp left out because they have no match.
        unlabelled: Number of tracklets left out of queries and galleries because their polyp is
            unknown.
    """

    query: Ints
    place: Ints
    rank: Ints
    rank_without_own: Ints
    similarity: Floats
    matches: Ints
    nearest: Ints
    nearest_similarity: Floats
    unmatched: int
    unlabelled: int

    def mean_over_matches(self, values: Floats, chosen: Flags | slice = slice(None)) -> Floats:
        """Average over each query's matches.

        Args:
            values: A value for every match (m,).
            chosen: The matches to average over (m,); all by default.

        Returns:
            A value for every tracklet (n,): 0 for a query without chosen matches, NaN for a
            tracklet without matches.
        """
        n, query = len(self.matches), self.query[chosen]
        sums = np.bincount(query, values[chosen], minlength=n)
        mean = sums / np.maximum(np.bincount(query, minlength=n), 1)
        return np.where(self.matches > 0, mean, np.nan)

    @cached_property
    def ap(self) -> Floats:
        """Average precision (n,), NaN if the tracklet has no match."""
        return self.mean_over_matches(self.place / self.rank)

    @cached_property
    def published_ap(self) -> Floats:
        """Average precision without matches of similarity 0 or below (n,); 0 without others."""
        return self.mean_over_matches(self.place / self.rank, self.similarity > 0)

    @cached_property
    def best_rank(self) -> Ints:
        """Rank of the best match (n,); 0 if the tracklet has no match."""
        first = self.place == 1
        ranks = np.zeros(len(self.matches), dtype=np.int64)
        ranks[self.query[first]] = self.rank[first]
        return ranks

    @property
    def valid(self) -> Flags:
        """Whether the tracklet is a query: its polyp is known and has another tracklet (n,)."""
        return self.matches > 0

    @property
    def mean_ap(self) -> float | None:
        """MAP over the valid queries, or None if there is none."""
        return float(self.ap[self.valid].mean()) if self.valid.any() else None

    @cached_property
    def without_own(self) -> Self:
        """Retrieval without the other polyps of each query's procedure."""
        return replace(self, rank=self.rank_without_own)


MAP = Metric(
    task="retrieval",
    title="mean average precision",
    meaning="mean over all queries of how early the views of the same polyp are ranked",
    value=lambda retrieval: retrieval.ap,
    key="mean_ap",
)
HR_1 = Metric(
    task="retrieval",
    title="hit rate at 1",
    meaning="share of queries for which the most similar view shows the same polyp",
    value=lambda retrieval: retrieval.best_rank <= 1,
    key="hr1",
)
HR_5 = Metric(
    task="retrieval",
    title="hit rate at 5",
    meaning="share of queries with the same polyp among the five most similar views",
    value=lambda retrieval: retrieval.best_rank <= 5,
    key="hr5",
)
PUBLISHED_MAP = Metric(
    task="retrieval",
    title="mean average precision",
    meaning="matches of similarity 0 or below excluded, as in torchmetrics",
    value=lambda retrieval: retrieval.published_ap,
    style="published",
)


def retrieve(vectors: npt.ArrayLike, samples: Samples) -> Retrieval:
    """Let every tracklet query all others of all procedures.

    Args:
        vectors: Embeddings (n, d) of the samples.
        samples: The tracklets of these vectors; those of unknown polyp are neither
            queries nor in galleries.

    Raises:
        PolyplinkError: If there is not one vector per sample, or a vector is zero or not finite.

    Example:
        >>> samples = Samples.of("abc", ["v", "v", "w"], ["p", "p", "q"], [0, 0.5, 0])
        >>> retrieval = retrieve([[1, 0], [0.6, 0.8], [0.8, 0.6]], samples)
        >>> retrieval.mean_ap, retrieval.best_rank.tolist()
        (0.5, [2, 2, 0])
    """
    n = len(samples.tracklet_ids)
    grouped = Grouped.of(samples.unit_rows(vectors), samples)
    ranked = rank_matches(grouped)
    matches = np.bincount(ranked.query, minlength=n)
    nearest, cosine = np.full(n, -1), np.full(n, np.nan)
    nearest[grouped.order] = ranked.nearest
    cosine[grouped.order] = ranked.nearest_similarity
    return Retrieval(
        query=ranked.query,
        place=ranked.place,
        rank=ranked.place + ranked.before.sum(axis=1),
        rank_without_own=ranked.place + ranked.before[:, 0],
        similarity=ranked.similarity,
        matches=matches,
        nearest=nearest,
        nearest_similarity=cosine,
        unmatched=int((samples.labelled & (matches == 0)).sum()),
        unlabelled=samples.n_unlabelled,
    )


def _sums(values: npt.ArrayLike, retrieval: Retrieval, samples: Samples) -> Floats:
    """Sum of the valid queries' values in every procedure (procedures,)."""
    valid, n_procedures = retrieval.valid, len(samples.procedures)
    sums = np.bincount(samples.procedure[valid], np.asarray(values)[valid], minlength=n_procedures)
    return sums.astype(np.float64)


def _checked_values(name: str, metric: Metric, retrieval: Retrieval) -> Floats:
    """Values of a metric (n,), finite in the rows of valid queries."""
    values = values_of(name, metric, retrieval, retrieval.matches.shape)
    unusable = np.flatnonzero(retrieval.valid & ~np.isfinite(values))
    if unusable.size:
        row = unusable[0]
        raise PolyplinkError(
            f"metric {name!r} is {values[row]} for a query with {retrieval.matches[row]} "
            f"match{'es' if retrieval.matches[row] > 1 else ''} ({unusable.size} of "
            f"{retrieval.valid.sum()} queries)",
            "give every query with a match a number",
        )
    return values


def query_values(
    retrieval: Retrieval, metrics: Mapping[str, Metric], *, without_own: bool = False
) -> dict[str, Floats]:
    """Values of every figure for each query (n,); meaningless in rows without a valid query.

    Args:
        retrieval: The result of `retrieve`.
        metrics: Metrics of retrieval by name.
        without_own: Also compute metrics that are not as published without the other polyps of the
            query's procedure.

    Raises:
        PolyplinkError: If a valid query has no finite value.
    """
    values = {}
    for name, metric in metrics.items():
        values[name] = _checked_values(name, metric, retrieval)
    for name, metric in metrics.items():
        if without_own and metric.style == "honest":
            values[f"{name}{WITHOUT_OWN}"] = _checked_values(name, metric, retrieval.without_own)
    return values


def retrieval_measures(
    retrieval: Retrieval,
    samples: Samples,
    weights: Weights,
    metrics: Mapping[str, Metric] | None = None,
    *,
    without_own: bool = False,
) -> dict[str, Resampled]:
    """Figures over all queries with their resamples over procedures.

    Args:
        retrieval: The result of `retrieve`.
        samples: The tracklets.
        weights: Draws (r, procedures).
        metrics: Metrics of retrieval by name; the built-in ones by default.
        without_own: Also compute figures without the other polyps of the query's procedure.
    """
    metrics = metrics_of("retrieval") if metrics is None else metrics
    queries = _sums(retrieval.valid, retrieval, samples)
    return {
        name: resampled_mean(_sums(values, retrieval, samples), queries, weights)
        for name, values in query_values(retrieval, metrics, without_own=without_own).items()
    }


def retrieval_figures(retrieval: Retrieval, samples: Samples) -> dict[str, Any]:
    """Count queries, and average those of each procedure.

    Returns:
        queries: number of queries with a match; unmatched and unlabelled: numbers of tracklets left
        out because they have no match, or because their polyp is unknown; procedures: one row per
        procedure, with the number of queries, and the mean over queries of each metric with a key,
        None without queries.
    """
    queries = _sums(retrieval.valid, retrieval, samples)
    metrics = {name: metric for name, metric in metrics_of("retrieval").items() if metric.key}
    means = {
        metrics[name].key: ratio(_sums(values, retrieval, samples), queries)
        for name, values in query_values(retrieval, metrics).items()
    }
    rows = []
    for place, name in enumerate(samples.procedures):
        row: dict[str, Any] = {"procedure": name, "queries": int(queries[place])}
        for key, mean in means.items():
            row[key] = float(mean[place]) if queries[place] else None
        rows.append(row)
    return {
        "queries": int(queries.sum()),
        "unmatched": retrieval.unmatched,
        "unlabelled": retrieval.unlabelled,
        "procedures": tuple(rows),
    }


def query_table(retrieval: Retrieval, samples: Samples) -> pl.DataFrame:
    """One row per query: its figures, the rank of its best match, and its nearest tracklet.

    Args:
        retrieval: The result of `retrieve`.
        samples: The tracklets.

    Returns:
        tracklet_id, procedure_id, matches, average_precision, average_precision_as_published,
        hit_1, hit_5, best_match_rank, nearest, nearest_similarity, nearest_is_match; a row for
        every tracklet with a match, in the order of the samples.
    """
    rows = np.flatnonzero(retrieval.valid)
    nearest = retrieval.nearest[rows]
    ids = pl.Series(samples.tracklet_ids, dtype=pl.String)
    return pl.DataFrame(
        {
            "tracklet_id": ids.gather(rows),
            "procedure_id": pl.Series(samples.procedures, dtype=pl.String).gather(
                samples.procedure[rows]
            ),
            "matches": retrieval.matches[rows],
            "average_precision": retrieval.ap[rows],
            "average_precision_as_published": retrieval.published_ap[rows],
            "hit_1": retrieval.best_rank[rows] <= 1,
            "hit_5": retrieval.best_rank[rows] <= 5,
            "best_match_rank": retrieval.best_rank[rows],
            "nearest": ids.gather(nearest),
            "nearest_similarity": retrieval.nearest_similarity[rows],
            "nearest_is_match": samples.polyp[nearest] == samples.polyp[rows],
        }
    )
