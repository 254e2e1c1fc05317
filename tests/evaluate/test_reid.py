from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

import polyplink.evaluate.reid as module
from polyplink.associate.similarity import unit_rows
from polyplink.core.lazy_torch import heal_torchvision
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.reid import (
    published_reid,
    reid_measures,
    reid_rows,
    reidentify,
    resample_reid,
    roc_and_pr,
    sigmoids,
)
from polyplink.evaluate.samples import Samples
from tests.evaluate.random_tracklets import random_samples

WEIGHTS = draw_weights(4, resamples=9, seed=5)
WEIGHTS[0] = 0  # an empty resample


def naive_pairs(vectors: np.ndarray, names: list[str | None]) -> tuple[list[bool], list[float]]:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    labelled = [i for i, name in enumerate(names) if name is not None]
    pairs = list(combinations(labelled, 2))
    return [names[i] == names[j] for i, j in pairs], [float(unit[i] @ unit[j]) for i, j in pairs]


def naive_reid(
    vectors: np.ndarray, names: list[str | None], procedure: np.ndarray, w: np.ndarray
) -> tuple[float, float]:
    """AUROC and AUPR over copies of the tracklets of drawn procedures.

    Tracklets of different copies of the same procedure are no pairs.
    """
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    copies = [
        (i, copy)
        for i in range(len(names))
        if names[i] is not None
        for copy in range(w[procedure[i]])
    ]
    truth, scores = [], []
    for place, (i, copy) in enumerate(copies):
        for j, other_copy in copies[place + 1 :]:
            if procedure[i] == procedure[j] and copy != other_copy:
                continue
            truth.append(names[i] == names[j])
            scores.append(round(float(unit[i] @ unit[j]), 12))
    return roc_auc_score(truth, scores), average_precision_score(truth, scores)


def directions(kind: str) -> np.ndarray:
    """Vectors (30, 6): random, six distinct ones so that most scores tie, or nearly equal."""
    rng = np.random.default_rng(3)
    six_directions = rng.normal(size=(6, 6))
    if kind == "tied":
        return np.asarray(six_directions[np.arange(30) % 6])
    if kind == "crowded":  # within 1e-6 and one opposite: one cell has nearly all levels
        signs = np.where(np.arange(30) == 7, -1.0, 1.0)[:, None]
        return np.asarray(six_directions[0] * signs + rng.normal(0, 1e-3, (30, 6)))
    return random_samples(noise=2.0)[0]


@cache
def naive_figures(kind: str) -> tuple[np.ndarray, np.ndarray, list[tuple[float, float]]]:
    """Same polyp or not and cosine of all pairs, and AUROC and AUPR of each resample."""
    _, samples, names = random_samples(unknown=4)
    vectors = directions(kind)
    truth, scores = naive_pairs(vectors, names)
    resampled = [naive_reid(vectors, names, samples.procedure, w) for w in WEIGHTS[1:]]
    return np.array(truth), np.round(scores, 12), resampled


@pytest.mark.parametrize("kind", ["apart", "tied", "crowded"])
@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"ROWS": 1, "COLUMNS": 1, "PICKED": 1},
        {"ROWS": 3, "COLUMNS": 4, "PICKED": 2, "SAMPLED": 100},
        {"NARROW": 0},  # wide counts
        {"ROOM": 40, "CHUNK": 2},  # a few pairs of procedures, and few resamples, at a time
        {"BLOCK": 1},  # resamples summed over the pairs of one procedure at a time
        {"EXACT": 4000},  # or over as many as integers allow
        {"EXACT": 0},  # or in double precision
    ],
)
def test_reid_equals_scikit_learn_on_all_pairs(
    kind: str, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)  # threads
    for name, value in limits.items():
        monkeypatch.setattr(module, name, value)
    same, tied, resampled = naive_figures(kind)
    actual = reidentify(directions(kind), random_samples(unknown=4)[1])
    assert actual.auroc == pytest.approx(roc_auc_score(same, tied), abs=1e-9)
    assert actual.aupr == pytest.approx(average_precision_score(same, tied), abs=1e-9)
    assert (actual.positives, actual.negatives) == (same.sum(), (~same).sum())
    assert actual.unlabelled == 4
    assert actual.counts is not None
    naive = [
        (above[~same].mean(), above[same].mean(), same[above].mean())
        for above in (tied >= edge for edge in [*actual.counts.edges[::-1], -2.0])
    ]
    np.testing.assert_allclose(np.transpose(roc_and_pr(actual.counts)), naive)
    if "SAMPLED" not in limits:  # each score has a separate bin
        auroc, aupr = resample_reid(actual.counts, WEIGHTS)
        assert np.isnan([auroc[0], aupr[0]]).all()
        np.testing.assert_allclose(np.transpose([auroc, aupr])[1:], resampled, rtol=1e-9)


def test_many_procedures_have_fewer_bins_and_the_same_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vectors, samples, _ = random_samples(noise=2.0)
    weights = draw_weights(4, resamples=50)
    fine = reidentify(vectors, samples)
    monkeypatch.setattr(module, "MOST_COUNTS", 0)
    coarse = reidentify(vectors, samples)
    assert (coarse.auroc, coarse.aupr) == (fine.auroc, fine.aupr)
    assert fine.counts is not None
    assert coarse.counts is not None
    assert coarse.counts.edges.size <= 2 * module.LEAST_BINS < fine.counts.edges.size
    for name, tolerance in (("AUROC", 0.001), ("AUPR", 0.005)):  # unbiased around the exact figure
        with_coarse_bins, with_fine_bins = (
            reid_measures(reid, None, samples, weights)[name].resampled for reid in (coarse, fine)
        )
        assert abs((with_coarse_bins - with_fine_bins).mean()) < tolerance


@pytest.mark.parametrize("polyps", [["p", "p", "p"], ["p", "q", "r"]])
def test_pairs_of_one_class_give_no_figures(polyps: list[str | None]) -> None:
    samples = Samples.of(["a", "b", "c"], ["v"] * 3, polyps, [0, 0, 0])
    reid = reidentify(np.eye(3), samples)
    assert (reid.auroc, reid.aupr, reid.counts) == (None, None, None)
    assert published_reid(np.eye(3), samples) is None
    assert reid.positives + reid.negatives == 3


def cosines_of_pairs(vectors: np.ndarray, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of all pairs of known polyps (p,), and whether they show the same one (p,)."""
    labelled = np.flatnonzero(samples.labelled)
    i, j = (labelled[side] for side in np.tril_indices(labelled.size, -1))
    unit = unit_rows(vectors)
    return (unit[i] * unit[j]).sum(axis=1), samples.polyp[i] == samples.polyp[j]


@given(st.integers(0, 1000), st.integers(0, 4))
def test_reid_as_published_equals_scikit_learn(seed: int, unknown: int) -> None:
    vectors, samples, _ = random_samples(seed, unknown, 3.0)
    published = published_reid(vectors, samples)
    assert published is not None
    cosines, same = cosines_of_pairs(vectors, samples)
    tied = sigmoids(np.round(cosines, 12))
    assert published[0] == pytest.approx(roc_auc_score(same, tied), abs=1e-9)
    assert published[1] == pytest.approx(average_precision_score(same, tied), abs=1e-9)


@pytest.mark.slow  # importing torchmetrics takes seconds
@given(st.integers(0, 1000), st.integers(0, 4))
def test_reid_as_published_equals_torchmetrics(seed: int, unknown: int) -> None:
    heal_torchvision()
    torchmetrics = pytest.importorskip("torchmetrics.functional.classification")
    vectors, samples, _ = random_samples(seed, unknown, 3.0)
    published = published_reid(vectors, samples)
    assert published is not None
    cosines, truth = cosines_of_pairs(vectors, samples)
    scores, same = torch.from_numpy(cosines).float().sigmoid(), torch.from_numpy(truth).int()
    # In single precision, equal scores can differ by the order of summation: of about 30,000
    # comparisons one or two change.
    assert published[0] == pytest.approx(float(torchmetrics.binary_auroc(scores, same)), abs=1e-4)
    assert published[1] == pytest.approx(
        float(torchmetrics.binary_average_precision(scores, same)), abs=1e-4
    )


def test_reid_rows_are_over_the_pairs_within_each_procedure() -> None:
    vectors, samples, _ = random_samples(unknown=2, noise=2.0)
    unit = unit_rows(vectors)
    rows = reid_rows(unit, samples)
    assert [row["procedure"] for row in rows] == list(samples.procedures)
    for place, row in enumerate(rows):
        members = np.flatnonzero((samples.procedure == place) & samples.labelled)
        pairs = [(i, j) for k, i in enumerate(members) for j in members[k + 1 :]]
        same = [bool(samples.polyp[i] == samples.polyp[j]) for i, j in pairs]
        assert (row["positives"], row["negatives"]) == (sum(same), len(same) - sum(same))
        if row["positives"] and row["negatives"]:
            scores = [float(unit[i] @ unit[j]) for i, j in pairs]
            assert row["auroc"] == pytest.approx(roc_auc_score(same, scores))
            assert row["aupr"] == pytest.approx(average_precision_score(same, scores))
        else:
            assert row["auroc"] is None
