from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from polyplink.associate.similarity import cosines, unit_rows
from polyplink.core._torchvision import heal_torchvision
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
from tests.evaluate.made import ends, random_samples


def naive_ranks(scores: np.ndarray, match: np.ndarray) -> list[int]:
    """Ranks of the matches after a sort, non-matches first among equals."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], match[i]))
    return [rank for rank, i in enumerate(order, start=1) if match[i]]


def naive_precision(ranks: list[int]) -> float:
    return float(np.mean([place / rank for place, rank in enumerate(ranks, start=1)]))


def assert_naive(found: Retrieval, unit: np.ndarray, samples: Samples) -> None:
    """Every field against one query at a time, all its scores in double precision."""
    scores = cosines(unit, unit)
    known = np.flatnonzero(samples.known)
    for row in range(len(unit)):
        others = known[known != row]
        match = samples.polyp[others] == samples.polyp[row]
        if not samples.known[row] or not others.size:
            assert (found.nearest[row], found.best_rank[row]) == (-1, 0)
            assert np.isnan(found.nearest_similarity[row])
            continue
        assert found.nearest[row] == others[scores[row, others].argmax()]
        assert found.nearest_similarity[row] == pytest.approx(scores[row, others].max(), abs=2e-12)
        assert found.matches[row] == match.sum()
        if not match.any():
            assert (found.best_rank[row], found.best_rank_without_own[row]) == (0, 0)
            assert np.isnan([found.ap[row], found.published_ap[row]]).all()
            continue
        ranks = naive_ranks(scores[row, others], match)
        assert found.best_rank[row] == ranks[0]
        assert found.ap[row] == pytest.approx(naive_precision(ranks), abs=1e-12)
        kept = ranks[: int((scores[row, others[match]] > 0).sum())]
        published = naive_precision(kept) if kept else 0.0
        assert found.published_ap[row] == pytest.approx(published, abs=1e-12)
        elsewhere = match | (samples.procedure[others] != samples.procedure[row])
        ranks = naive_ranks(scores[row, others[elsewhere]], match[elsewhere])
        assert found.best_rank_without_own[row] == ranks[0]
        assert found.ap_without_own[row] == pytest.approx(naive_precision(ranks), abs=1e-12)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(0, 5), st.integers(1, 40), st.integers(1, 3))
def test_retrieval_equals_one_query_at_a_time(
    seed: int, unknown: int, block: int, threads: int
) -> None:
    vectors, samples, _ = random_samples(seed, unknown, 3.0)
    found = retrieve(vectors, samples, block=block, threads=threads)
    assert_naive(found, unit_rows(vectors), samples)
    assert found.unlabelled == unknown
    known = samples.known & ~found.valid
    assert found.unmatched == known.sum()
    assert found.mean_ap == pytest.approx(found.ap[found.valid].mean())


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 50))
def test_repeated_vectors_tie_whatever_their_block(seed: int, few: int, block: int) -> None:
    """Products of equal rows differ in their last bits from block to block."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(few, 33))[rng.integers(0, few, 40)]
    polyp = rng.integers(0, 9, 40)
    samples = Samples.of(
        [f"t{i}" for i in range(40)],
        [f"v{p % 3}" for p in polyp],
        [str(p) for p in polyp],
        np.linspace(0, 1, 40),
    )
    assert_naive(retrieve(vectors, samples, block=block, threads=2), unit_rows(vectors), samples)


def test_scores_nearer_than_float32_can_tell_are_told_apart() -> None:
    """Directions that differ by 1e-9: in float32 all cosines are one."""
    rng = np.random.default_rng(1)
    unit = unit_rows(rng.normal(size=64) + 1e-4 * rng.normal(size=(30, 64)))
    narrow = unit.astype(np.float32)
    assert len(np.unique((narrow @ narrow.T).round(6))) == 1
    _, samples, _ = random_samples()
    found = retrieve(unit, samples)
    assert_naive(found, unit, samples)
    assert len(np.unique(found.best_rank)) > 3


@pytest.mark.parametrize("width", [3, 256, 2048])
def test_float32_errs_less_than_the_tolerance(width: int) -> None:
    unit = unit_rows(np.random.default_rng(2).normal(size=(200, width)))
    narrow = unit.astype(np.float32)
    assert np.abs(narrow @ narrow.T - unit @ unit.T).max() < tolerance(width)
    found = [[exact_cosine(a, b) for b in unit[:20]] for a in unit[:20]]
    np.testing.assert_allclose(found, cosines(unit[:20], unit[:20]), rtol=0, atol=1.1e-12)


def test_nothing_has_no_match() -> None:
    unknown = replace(random_samples()[1], known=np.zeros(30, dtype=np.bool_))
    assert not retrieve(random_samples()[0], unknown).valid.any()
    samples = Samples.of(["a", "b"], ["v"] * 2, ["p", "q"], [0, 0])
    found = retrieve(np.eye(2), samples)
    assert (found.mean_ap, found.unmatched) == (None, 2)
    assert query_table(found, samples).height == 0
    alone = retrieve(np.ones((1, 2)), samples.take(np.array([0])))
    assert (alone.nearest.tolist(), alone.best_rank.tolist()) == ([-1], [0])


@settings(max_examples=15)
@given(st.integers(0, 1000), st.integers(0, 4), st.floats(0.5, 6))
def test_figures_as_published_are_those_of_torchmetrics(
    seed: int, unknown: int, noise: float
) -> None:
    heal_torchvision()
    torchmetrics = pytest.importorskip("torchmetrics.retrieval")
    vectors, samples, _ = random_samples(seed, unknown, noise)
    unit = torch.from_numpy(unit_rows(vectors))
    known = np.flatnonzero(samples.known)
    same = torch.from_numpy(samples.polyp[:, None] == samples.polyp[None, :])
    parts = []
    for row in known:
        others = torch.from_numpy(known[known != row])
        if same[row, others].any():
            scores = unit[others] @ unit[row]
            parts.append((scores, same[row, others], torch.full((len(others),), int(row))))
    preds, target, index = (torch.cat(part) for part in zip(*parts, strict=True))
    theirs: dict[str, torch.nn.Module] = {"mAP (as published)": torchmetrics.RetrievalMAP()}
    theirs |= {f"HR@{k}": torchmetrics.RetrievalHitRate(top_k=k) for k in (1, 5)}
    weights = draw_weights(len(samples.procedures), resamples=5)
    ours = retrieval_measures(retrieve(vectors, samples), samples, weights)
    for name, metric in theirs.items():
        expected = float(metric(preds, target, indexes=index))
        assert ours[name].value == pytest.approx(expected, abs=1e-6)


def test_measures_are_means_over_queries_and_procedures_are_drawn() -> None:
    vectors, samples, _ = random_samples(2, 3, noise=3.0)
    found, weights = retrieve(vectors, samples), draw_weights(4, resamples=50)
    metrics = {name: METRICS[name] for name in ("mAP", "HR@1", "HR@5")}
    measures = retrieval_measures(found, samples, weights, metrics, without_own=True)
    assert list(measures) == [*metrics, *(f"{name} (without own)" for name in metrics)]
    drawn = weights[7][samples.procedure][found.valid]  # times that each query is drawn
    for name, values in (
        ("mAP", found.ap),
        ("HR@1", found.best_rank <= 1),
        ("HR@5", found.best_rank <= 5),
        ("mAP (without own)", found.ap_without_own),
        ("HR@1 (without own)", found.best_rank_without_own <= 1),
        ("HR@5 (without own)", found.best_rank_without_own <= 5),
    ):
        mine = values[found.valid]
        assert measures[name].value == pytest.approx(mine.mean())
        assert measures[name].resampled[7] == pytest.approx(np.average(mine, weights=drawn))
        low, high = ends(measures[name].figure())
        assert low <= mine.mean() <= high
    rows = retrieval_figures(found, samples)
    assert rows["queries"] == found.valid.sum()
    own = found.valid & (samples.procedure == 2)
    row = rows["procedures"][2]
    assert row["queries"] == own.sum()
    assert row["mean_ap"] == pytest.approx(found.ap[own].mean())
    assert row["hr1"] == pytest.approx((found.best_rank[own] <= 1).mean())


def test_a_procedure_without_a_query_is_no_unit() -> None:
    samples = Samples.of(["a", "b", "c"], ["v", "v", "w"], ["p", "p", "q"], [0, 1, 0])
    found = retrieve(np.eye(3), samples)
    figure = retrieval_measures(found, samples, draw_weights(2, resamples=10))["mAP"].figure()
    assert (figure.n, figure.low) == (1, None)
    rows = retrieval_figures(found, samples)
    row = rows["procedures"][1]
    assert (row["queries"], row["mean_ap"], rows["unmatched"]) == (0, None, 1)


def test_a_row_of_the_table_is_a_query() -> None:
    vectors, samples, _ = random_samples(unknown=3, noise=2.0)
    found = retrieve(vectors, samples)
    table = query_table(found, samples)
    assert table.height == found.valid.sum()
    assert table["average_precision"].mean() == pytest.approx(found.mean_ap)
    assert (
        table["average_precision_as_published"].to_list()
        == found.published_ap[found.valid].tolist()
    )
    assert (table["hit_1"] == (table["best_match_rank"] <= 1)).all()
    assert (table["hit_5"] == (table["best_match_rank"] <= 5)).all()
    assert (table["nearest_is_match"] == table["hit_1"]).all()
    assert set(table["nearest"]) <= set(samples.tracklet_ids)
    assert set(table["procedure_id"]) <= set(samples.procedures)
