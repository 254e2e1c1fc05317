import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.associate.similarity import unit_rows
from polyplink.evaluate.published import published_precision
from polyplink.evaluate.queries import nearest, query_table, retrieve_without_own
from polyplink.evaluate.retrieval import retrieve
from polyplink.evaluate.samples import Samples
from tests.evaluate.made import made


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.integers(0, 5), st.integers(1, 40))
def test_nearest_and_best_rank_equal_a_naive_loop(seed: int, unknown: int, block: int) -> None:
    vectors, samples, _ = made(seed, unknown, 3.0)
    unit = unit_rows(vectors)
    found = nearest(vectors, samples, block=block)
    for row in range(30):
        if not samples.known[row]:
            assert (found.row[row], found.best_rank[row]) == (-1, 0)
            continue
        others = [i for i in range(30) if samples.known[i] and i != row]
        scores = {i: float(unit[i] @ unit[row]) for i in others}
        top = max(others, key=lambda i: scores[i])
        assert found.similarity[row] == pytest.approx(scores[top])
        assert scores[int(found.row[row])] == pytest.approx(scores[top])
        ranked = sorted(others, key=lambda i: -scores[i])
        ranks = [k for k, i in enumerate(ranked, 1) if samples.polyp[i] == samples.polyp[row]]
        assert found.matches[row] == len(ranks)
        assert found.best_rank[row] == (ranks[0] if ranks else 0)


def test_ties_count_against_the_match() -> None:
    samples = Samples.of(["a", "b", "c"], ["v"] * 3, ["p", "p", "q"], [0, 0.5, 1])
    found = nearest(np.ones((3, 2)), samples)
    assert found.best_rank.tolist() == [2, 2, 0]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.integers(0, 5))
def test_without_own_other_polyps_of_the_procedure_are_left_out(seed: int, unknown: int) -> None:
    vectors, samples, _ = made(seed, unknown, 3.0)
    unit = unit_rows(vectors)
    found, every = retrieve_without_own(vectors, samples), retrieve(vectors, samples)
    assert (found.valid == every.valid).all()
    for row in np.flatnonzero(found.valid):
        gallery = [
            i
            for i in np.flatnonzero(samples.known)
            if i != row
            and (
                samples.polyp[i] == samples.polyp[row]
                or samples.procedure[i] != samples.procedure[row]
            )
        ]
        ranked = sorted(gallery, key=lambda i: -float(unit[i] @ unit[row]))
        hits = [k for k, i in enumerate(ranked, 1) if samples.polyp[i] == samples.polyp[row]]
        precisions = [place / rank for place, rank in enumerate(hits, 1)]
        assert found.ap[row] == pytest.approx(np.mean(precisions))
        assert found.hit1[row] == (hits[0] == 1)
        assert found.ap[row] >= every.ap[row] - 1e-12
    assert found.unmatched == every.unmatched


def test_a_row_of_the_table_is_a_query() -> None:
    vectors, samples, _ = made(unknown=3, noise=2.0)
    found, first = retrieve(vectors, samples), nearest(vectors, samples)
    table = query_table(samples, found, first, published_precision(vectors, samples, found))
    assert table.height == found.valid.sum()
    assert table["average_precision"].mean() == pytest.approx(found.mean_ap)
    assert (table["hit_1"] == (table["best_match_rank"] <= 1)).all()
    assert (table["hit_5"] == (table["best_match_rank"] <= 5)).all()
    assert (table["nearest_is_match"] == table["hit_1"]).all()
    assert set(table["nearest"]) <= set(samples.tracklet_ids)


def test_nothing_to_look_for() -> None:
    alone = Samples.of(["a"], ["v"], ["p"], [0])
    found = nearest(np.ones((1, 2)), alone)
    assert (found.row.tolist(), found.best_rank.tolist()) == ([-1], [0])
    table = query_table(alone, retrieve(np.ones((1, 2)), alone), found, np.full(1, np.nan))
    assert table.height == 0
