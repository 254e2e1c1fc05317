"""Intervals from stored counts, against recomputing the figures in every resample."""

from collections.abc import Callable

import numpy as np

from polyplink.associate import cosine
from polyplink.bench.harness import BenchResult, against, best_of, growth
from polyplink.bench.made import made_tracklets
from polyplink.evaluate import Samples, draw_weights, reidentify, resample_reid, retrieve
from polyplink.evaluate.retrieval import retrieval_measures

RESAMPLES = 10_000
TRACKLETS = 736  # of 19 procedures, as in the evaluation part of REAL-Colon
RECOMPUTED = 4  # resamples that the rival does; its time is scaled to all of them
CLOSE = 1e-3  # areas are resampled from bins

Figures = tuple[np.ndarray, np.ndarray, np.ndarray]


def recomputed(vectors: np.ndarray, samples: Samples, weights: np.ndarray) -> Figures:
    """The rival: mAP, AUROC and AUPR of every resample (r,) from scratch.

    Every pair and query of a resample is weighed by how often it was drawn; scikit-learn sorts
    all pairs anew.
    """
    # Imported when used: it takes a second.
    from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: PLC0415

    i, j = np.triu_indices(len(vectors), k=1)
    scores, same = cosine(vectors)[i, j], samples.polyp[i] == samples.polyp[j]
    a, b = samples.procedure[i], samples.procedure[j]
    found = []
    for drawn in weights:
        again = retrieve(vectors, samples)
        times = drawn[samples.procedure][again.valid]
        weight = drawn[a] * np.where(a == b, 1, drawn[b])
        found.append(
            (
                (again.ap[again.valid] * times).sum() / times.sum(),
                roc_auc_score(same, scores, sample_weight=weight),
                average_precision_score(same, scores, sample_weight=weight),
            )
        )
    columns = np.array(found).T
    return columns[0], columns[1], columns[2]


def _call(size: int) -> Callable[[], Figures]:
    vectors, samples = made_tracklets(TRACKLETS, noise=2.0)
    retrieval, reid = retrieve(vectors, samples), reidentify(vectors, samples)
    counts = reid.counts
    assert counts is not None  # made tracklets have pairs of both kinds

    def call() -> Figures:
        weights = draw_weights(len(samples.procedures), resamples=size)
        mean_ap = retrieval_measures(retrieval, samples, weights)["mAP"].resampled
        return mean_ap, *resample_reid(counts, weights)

    return call


def run(size: int = RESAMPLES) -> BenchResult:
    """Measure `resample_reid` and the resampled mAP; size is resamples over 19 procedures.

    The rival recomputes 4 resamples, and its time is scaled to all of them. `equal` compares
    these, areas to 0.001 as they come from bins.
    """
    vectors, samples = made_tracklets(TRACKLETS, noise=2.0)
    weights = draw_weights(len(samples.procedures), resamples=size)[:RECOMPUTED]
    call = _call(size)
    ours = call()
    theirs: list[Figures] = []
    once = best_of(lambda: theirs.append(recomputed(vectors, samples, weights)), 1)
    close = [
        np.allclose(mine[: len(weights)], other, rtol=0, atol=CLOSE)
        for mine, other in zip(ours, theirs[0], strict=True)
    ]
    return against(
        "bootstrap",
        f"recomputing the figures, {len(weights)} resamples scaled to all",
        size,
        ours_s=best_of(call, 3),
        rival_s=once * size / len(weights),
        exponent=growth(_call, size, 2),
        equal=all(close),
    )
