from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

import polyplink.evaluate.reid as module
from polyplink.associate.similarity import unit_rows
from polyplink.core._torchvision import heal_torchvision
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.reid import (
    published_reid,
    reid_measures,
    reid_rows,
    reidentify,
    resample_reid,
    roc_and_pr,
    squashed,
)
from polyplink.evaluate.samples import Samples
from tests.evaluate.made import ends, random_samples


def naive_pairs(vectors: np.ndarray, names: list[str | None]) -> tuple[list[bool], list[float]]:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    known = [i for i, name in enumerate(names) if name is not None]
    pairs = list(combinations(known, 2))
    return [names[i] == names[j] for i, j in pairs], [float(unit[i] @ unit[j]) for i, j in pairs]


def naive_reid(
    vectors: np.ndarray, names: list[str | None], procedure: np.ndarray, w: np.ndarray
) -> tuple[float, float]:
    """Copy the tracklets of each drawn procedure; pair all but two copies of one procedure."""
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
    """Vectors (30, 6): apart, six among all so that most scores tie, or nearly all alike."""
    rng = np.random.default_rng(3)
    few = rng.normal(size=(6, 6))
    if kind == "tied":
        return np.asarray(few[np.arange(30) % 6])
    if kind == "crowded":  # within a millionth, and one opposite: one cell has nearly all levels
        signs = np.where(np.arange(30) == 7, -1.0, 1.0)[:, None]
        return np.asarray(few[0] * signs + rng.normal(0, 1e-3, (30, 6)))
    return random_samples(noise=2.0)[0]


@pytest.mark.parametrize("kind", ["apart", "tied", "crowded"])
@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"ROWS": 1, "COLUMNS": 1, "PICKED": 1},
        {"ROWS": 3, "COLUMNS": 4, "PICKED": 2, "SAMPLED": 100},
        {"NARROW": 0},  # wide counts
        {"ROOM": 40, "CHUNK": 2},  # a few pairs of procedures, and resamples, at a time
        {"BLOCK": 1},  # resamples are summed over one procedure's pairs at a time
        {"EXACT": 4000},  # or over so many as whole numbers allow
        {"EXACT": 0},  # or in double precision
    ],
)
def test_reid_equals_scikit_learn_on_all_pairs(
    kind: str, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(module, name, value)
    _, samples, names = random_samples(unknown=4)
    vectors = directions(kind)
    truth, scores = naive_pairs(vectors, names)
    tied = np.round(scores, 12)
    found = reidentify(vectors, samples)
    assert found.auroc == pytest.approx(roc_auc_score(truth, tied), abs=1e-9)
    assert found.aupr == pytest.approx(average_precision_score(truth, tied), abs=1e-9)
    assert (found.positives, found.negatives) == (sum(truth), len(truth) - sum(truth))
    assert found.unlabelled == 4
    assert found.counts is not None
    same = np.array(truth)
    naive = [
        (above[~same].mean(), above[same].mean(), same[above].mean())
        for above in (tied >= edge for edge in [*found.counts.edges[::-1], -2.0])
    ]
    np.testing.assert_allclose(np.transpose(roc_and_pr(found.counts)), naive)
    if "SAMPLED" not in limits:  # each score has a bin of its own
        weights = draw_weights(4, resamples=9, seed=5)
        weights[0] = 0  # nothing was drawn
        auroc, aupr = resample_reid(found.counts, weights)
        assert np.isnan([auroc[0], aupr[0]]).all()
        for r, w in enumerate(weights[1:], start=1):
            expected = naive_reid(vectors, names, samples.procedure, w)
            np.testing.assert_allclose([auroc[r], aupr[r]], expected, rtol=1e-9)


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
    for name, off in (("AUROC", 0.001), ("AUPR", 0.005)):  # about the exact figure, not below it
        few, many = (
            reid_measures(each, None, samples, weights)[name].resampled for each in (coarse, fine)
        )
        assert abs((few - many).mean()) < off


def test_threads_change_no_bit() -> None:
    vectors, samples, _ = random_samples(unknown=4, noise=2.0)
    one, four = (reidentify(vectors, samples, threads=threads) for threads in (1, 4))
    assert (one.auroc, one.aupr) == (four.auroc, four.aupr)
    assert one.counts is not None
    assert four.counts is not None
    np.testing.assert_array_equal(one.counts.edges, four.counts.edges)
    np.testing.assert_array_equal(one.counts.negatives, four.counts.negatives)


@pytest.mark.parametrize("polyps", [["p", "p", "p"], ["p", "q", "r"]])
def test_one_kind_of_pair_gives_no_figure(polyps: list[str | None]) -> None:
    samples = Samples.of(["a", "b", "c"], ["v"] * 3, polyps, [0, 0, 0])
    found = reidentify(np.eye(3), samples)
    assert (found.auroc, found.aupr, found.counts) == (None, None, None)
    assert published_reid(np.eye(3), samples) is None
    assert found.positives + found.negatives == 3


@settings(max_examples=15)
@given(st.integers(0, 1000), st.integers(0, 4))
def test_reid_as_published_is_that_of_torchmetrics(seed: int, unknown: int) -> None:
    heal_torchvision()
    theirs = pytest.importorskip("torchmetrics.functional.classification")
    vectors, samples, _ = random_samples(seed, unknown, 3.0)
    known = np.flatnonzero(samples.known)
    i, j = np.tril_indices(known.size, -1)
    i, j = known[i], known[j]
    unit = unit_rows(vectors)
    scores = torch.from_numpy((unit[i] * unit[j]).sum(axis=1)).float().sigmoid()
    same = torch.from_numpy(samples.polyp[i] == samples.polyp[j]).int()
    found = published_reid(vectors, samples)
    assert found is not None
    tied = squashed(np.round((unit[i] * unit[j]).sum(axis=1), 12))
    truth = same.numpy()
    assert found[0] == pytest.approx(roc_auc_score(truth, tied), abs=1e-9)
    assert found[1] == pytest.approx(average_precision_score(truth, tied), abs=1e-9)
    # In single precision two scores may be equal in one sum and not in another: a pair or two of
    # some 30,000 change sides.
    assert found[0] == pytest.approx(float(theirs.binary_auroc(scores, same)), abs=1e-4)
    assert found[1] == pytest.approx(float(theirs.binary_average_precision(scores, same)), abs=1e-4)


def test_reid_rows_are_over_each_procedures_own_pairs() -> None:
    vectors, samples, _ = random_samples(unknown=2, noise=2.0)
    unit = unit_rows(vectors)
    rows = reid_rows(unit, samples)
    assert [row["procedure"] for row in rows] == list(samples.procedures)
    for place, row in enumerate(rows):
        own = np.flatnonzero((samples.procedure == place) & samples.known)
        pairs = [(i, j) for k, i in enumerate(own) for j in own[k + 1 :]]
        same = [bool(samples.polyp[i] == samples.polyp[j]) for i, j in pairs]
        assert (row["positives"], row["negatives"]) == (sum(same), len(same) - sum(same))
        if row["positives"] and row["negatives"]:
            scores = [float(unit[i] @ unit[j]) for i, j in pairs]
            assert row["auroc"] == pytest.approx(roc_auc_score(same, scores))
            assert row["aupr"] == pytest.approx(average_precision_score(same, scores))
        else:
            assert row["auroc"] is None


def test_reid_is_exact_with_an_interval_around_it() -> None:
    vectors, samples, _ = random_samples(noise=2.0)
    found = reidentify(vectors, samples)
    measures = reid_measures(found, None, samples, draw_weights(4, resamples=200))
    assert (measures["AUROC"].value, measures["AUPR"].value) == (found.auroc, found.aupr)
    assert measures["AUPR (as published)"].value is None
    for name in ("AUROC", "AUPR"):
        interval = measures[name].figure()
        low, high = ends(interval)
        assert interval.value is not None
        assert low <= interval.value <= high
        assert interval.n == 4
