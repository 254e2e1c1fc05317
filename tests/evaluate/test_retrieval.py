from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from polyplink.associate.similarity import cosines, unit_rows
from polyplink.core.lazy_torch import heal_torchvision
from polyplink.core.parts import METRICS
from polyplink.evaluate.intervals import draw_weights
from polyplink.evaluate.ranking import exact_cosine, tolerance
from polyplink.evaluate.retrieval import (
    Retrieval,
    query_table,
    retrieval_figures,
    retrieval_measures,
    retrieve,
)
from polyplink.evaluate.samples import Samples
from tests.evaluate.random_tracklets import ends, random_samples


def naive_ranks(scores: np.ndarray, match: np.ndarray) -> list[int]:
    """Ranks of the matches in a sort by score, with ties ordered non-matches first."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], match[i]))
    return [rank for rank, i in enumerate(order, start=1) if match[i]]


def naive_precision(ranks: list[int]) -> float:
    return float(np.mean([place / rank for place, rank in enumerate(ranks, start=1)]))


def assert_naive(retrieval: Retrieval, unit: np.ndarray, samples: Samples) -> None:
    """Assert that all fields equal a loop over queries in double precision."""
    scores = cosines(unit, unit)
    labelled = np.flatnonzero(samples.labelled)
    for row in range(len(unit)):
        others = labelled[labelled != row]
        match = samples.polyp[others] == samples.polyp[row]
        if not samples.labelled[row] or not others.size:
            assert (retrieval.nearest[row], retrieval.best_rank[row]) == (-1, 0)
            assert np.isnan(retrieval.nearest_similarity[row])
            continue
        assert retrieval.nearest[row] == others[scores[row, others].argmax()]
        assert retrieval.nearest_similarity[row] == pytest.approx(
            scores[row, others].max(), abs=2e-12
        )
        assert retrieval.matches[row] == match.sum()
        if not match.any():
            assert (retrieval.best_rank[row], retrieval.without_own.best_rank[row]) == (0, 0)
            assert np.isnan([retrieval.ap[row], retrieval.published_ap[row]]).all()
            continue
        ranks = naive_ranks(scores[row, others], match)
        assert retrieval.rank[retrieval.query == row].tolist() == ranks
        assert retrieval.best_rank[row] == ranks[0]
        assert retrieval.ap[row] == pytest.approx(naive_precision(ranks), abs=1e-12)
        positive_ranks = ranks[: int((scores[row, others[match]] > 0).sum())]
        published = naive_precision(positive_ranks) if positive_ranks else 0.0
        assert retrieval.published_ap[row] == pytest.approx(published, abs=1e-12)
        elsewhere = match | (samples.procedure[others] != samples.procedure[row])
        ranks = naive_ranks(scores[row, others[elsewhere]], match[elsewhere])
        assert retrieval.without_own.best_rank[row] == ranks[0]
        assert retrieval.without_own.ap[row] == pytest.approx(naive_precision(ranks), abs=1e-12)


@given(st.integers(0, 1000), st.integers(0, 5), st.integers(1, 40), st.integers(1, 3))
def test_retrieval_equals_a_naive_loop_over_queries(
    seed: int, unknown: int, block: int, threads: int
) -> None:
    vectors, samples, _ = random_samples(seed, unknown, 3.0)
    with patch("polyplink.evaluate.ranking.BLOCK", block), patch("os.cpu_count", lambda: threads):
        retrieval = retrieve(vectors, samples)
    assert_naive(retrieval, unit_rows(vectors), samples)
    assert retrieval.unlabelled == unknown
    without_match = samples.labelled & ~retrieval.valid
    assert retrieval.unmatched == without_match.sum()
    assert retrieval.mean_ap == pytest.approx(retrieval.ap[retrieval.valid].mean())


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 30))
def test_equal_vectors_tie_in_every_block(seed: int, distinct: int, block: int) -> None:
    """Products of equal rows differ in their last bits between blocks."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(distinct, 33))[rng.integers(0, distinct, 24)]
    polyp = rng.integers(0, 6, 24)
    samples = Samples.of(
        [f"t{i}" for i in range(24)],
        [f"v{p % 3}" for p in polyp],
        [str(p) for p in polyp],
        np.linspace(0, 1, 24),
    )
    with patch("polyplink.evaluate.ranking.BLOCK", block), patch("os.cpu_count", lambda: 2):
        retrieval = retrieve(vectors, samples)
    assert_naive(retrieval, unit_rows(vectors), samples)


def test_scores_equal_in_float32_are_ranked_in_double_precision() -> None:
    """Directions differ by 1e-9, so that all cosines are 1 in float32."""
    rng = np.random.default_rng(1)
    unit = unit_rows(rng.normal(size=64) + 1e-4 * rng.normal(size=(30, 64)))
    float32_unit = unit.astype(np.float32)
    assert len(np.unique((float32_unit @ float32_unit.T).round(6))) == 1
    _, samples, _ = random_samples()
    retrieval = retrieve(unit, samples)
    assert_naive(retrieval, unit, samples)
    assert len(np.unique(retrieval.best_rank)) > 3


@pytest.mark.parametrize("width", [3, 256, 2048])
def test_errors_of_float32_are_below_the_tolerance(width: int) -> None:
    unit = unit_rows(np.random.default_rng(2).normal(size=(200, width)))
    float32_unit = unit.astype(np.float32)
    assert np.abs(float32_unit @ float32_unit.T - unit @ unit.T).max() < tolerance(width)
    actual = [[exact_cosine(a, b) for b in unit[:20]] for a in unit[:20]]
    np.testing.assert_allclose(actual, cosines(unit[:20], unit[:20]), rtol=0, atol=1.1e-12)


def test_queries_without_labels_or_matches_have_no_figures() -> None:
    unlabelled = replace(random_samples()[1], labelled=np.zeros(30, dtype=np.bool_))
    assert not retrieve(random_samples()[0], unlabelled).valid.any()
    samples = Samples.of(["a", "b"], ["v"] * 2, ["p", "q"], [0, 0])
    retrieval = retrieve(np.eye(2), samples)
    assert (retrieval.mean_ap, retrieval.unmatched) == (None, 2)
    assert query_table(retrieval, samples).height == 0
    one_sample = retrieve(np.ones((1, 2)), samples.take(np.array([0])))
    assert (one_sample.nearest.tolist(), one_sample.best_rank.tolist()) == ([-1], [0])


@pytest.mark.slow  # importing torchmetrics takes seconds; the naive loop has the same rules
@given(st.integers(0, 1000), st.integers(0, 4), st.floats(0.5, 6))
def test_figures_as_published_equal_torchmetrics(seed: int, unknown: int, noise: float) -> None:
    heal_torchvision()
    torchmetrics = pytest.importorskip("torchmetrics.retrieval")
    vectors, samples, _ = random_samples(seed, unknown, noise)
    unit = torch.from_numpy(unit_rows(vectors))
    labelled = np.flatnonzero(samples.labelled)
    same = torch.from_numpy(samples.polyp[:, None] == samples.polyp[None, :])
    parts = []
    for row in labelled:
        others = torch.from_numpy(labelled[labelled != row])
        if same[row, others].any():
            scores = unit[others] @ unit[row]
            parts.append((scores, same[row, others], torch.full((len(others),), int(row))))
    preds, target, index = (torch.cat(part) for part in zip(*parts, strict=True))
    metrics: dict[str, torch.nn.Module] = {"mAP (as published)": torchmetrics.RetrievalMAP()}
    metrics |= {f"HR@{k}": torchmetrics.RetrievalHitRate(top_k=k) for k in (1, 5)}
    weights = draw_weights(len(samples.procedures), resamples=5)
    measures = retrieval_measures(retrieve(vectors, samples), samples, weights)
    for name, metric in metrics.items():
        expected = float(metric(preds, target, indexes=index))
        assert measures[name].value == pytest.approx(expected, abs=1e-6)


@pytest.mark.usefixtures("intervals_of_few")
def test_measures_are_means_over_queries_and_resample_procedures() -> None:
    vectors, samples, _ = random_samples(2, 3, noise=3.0)
    retrieval, weights = retrieve(vectors, samples), draw_weights(4, resamples=50)
    metrics = {name: METRICS[name] for name in ("mAP", "HR@1", "HR@5")}
    measures = retrieval_measures(retrieval, samples, weights, metrics, without_own=True)
    assert list(measures) == [*metrics, *(f"{name} (without own)" for name in metrics)]
    drawn = weights[7][samples.procedure][retrieval.valid]  # how often each query is drawn
    for name, values in (
        ("mAP", retrieval.ap),
        ("HR@1", retrieval.best_rank <= 1),
        ("HR@5", retrieval.best_rank <= 5),
        ("mAP (without own)", retrieval.without_own.ap),
        ("HR@1 (without own)", retrieval.without_own.best_rank <= 1),
        ("HR@5 (without own)", retrieval.without_own.best_rank <= 5),
    ):
        values_of_queries = values[retrieval.valid]
        assert measures[name].value == pytest.approx(values_of_queries.mean())
        assert measures[name].resampled[7] == pytest.approx(
            np.average(values_of_queries, weights=drawn)
        )
        low, high = ends(measures[name].figure())
        assert low <= values_of_queries.mean() <= high
    published = retrieval_measures(retrieval, samples, weights)["mAP (as published)"]
    assert published.value == pytest.approx(retrieval.published_ap[retrieval.valid].mean())
    rows = retrieval_figures(retrieval, samples)
    assert rows["queries"] == retrieval.valid.sum()
    queries = retrieval.valid & (samples.procedure == 2)
    row = rows["procedures"][2]
    assert row["queries"] == queries.sum()
    assert row["mean_ap"] == pytest.approx(retrieval.ap[queries].mean())
    assert row["hr1"] == pytest.approx((retrieval.best_rank[queries] <= 1).mean())


def test_the_query_table_has_one_row_per_query() -> None:
    vectors, samples, _ = random_samples(unknown=3, noise=2.0)
    retrieval = retrieve(vectors, samples)
    table = query_table(retrieval, samples)
    assert table["average_precision"].to_list() == retrieval.ap[retrieval.valid].tolist()
    assert (
        table["average_precision_as_published"].to_list()
        == retrieval.published_ap[retrieval.valid].tolist()
    )
    assert (table["hit_1"] == (table["best_match_rank"] <= 1)).all()
    assert (table["hit_5"] == (table["best_match_rank"] <= 5)).all()
    assert (table["nearest_is_match"] == table["hit_1"]).all()
    assert set(table["nearest"]) <= set(samples.tracklet_ids)
    assert set(table["procedure_id"]) <= set(samples.procedures)
