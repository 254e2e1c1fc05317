import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.core.errors import PolyplinkError
from polyplink.evaluate.reid import reidentify
from polyplink.evaluate.retrieval import average_precision, match_ranks, retrieve
from polyplink.evaluate.samples import Samples
from tests.evaluate.made import made

# Few different scores, so that ties are the rule.
GALLERY = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=15)


def naive_order(scores: list[float], match: list[bool]) -> list[bool]:
    """Matches and non-matches, best first, non-matches first among equals."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], match[i]))
    return [match[i] for i in order]


def naive_ap(ordered: list[bool]) -> float:
    found, total = 0, 0.0
    for rank, is_match in enumerate(ordered, start=1):
        if is_match:
            found += 1
            total += found / rank
    return total / found


@settings(deadline=None)
@given(GALLERY)
def test_ranks_and_precision_equal_a_naive_sort(gallery: list[tuple[int, bool]]) -> None:
    scores = [float(score) for score, _ in gallery]
    match = [is_match for _, is_match in gallery]
    ordered = naive_order(scores, match)
    ranks = match_ranks(np.array(scores), np.array(match))
    assert ranks.tolist() == [rank for rank, hit in enumerate(ordered, start=1) if hit]
    if any(match):
        assert average_precision(ranks) == pytest.approx(naive_ap(ordered), abs=1e-12)


@pytest.mark.parametrize("block", [1, 7, 512])
def test_retrieval_equals_a_naive_double_loop(block: int) -> None:
    vectors, samples, names = made(unknown=5, noise=2.0)
    found = retrieve(vectors, samples, block=block)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    valid = []
    for i, name in enumerate(names):
        others = [j for j in range(len(names)) if j != i and names[j] is not None]
        match = [names[j] == name for j in others]
        valid.append(name is not None and any(match))
        if not valid[i]:
            assert np.isnan(found.ap[i])
            continue
        ordered = naive_order([float(unit[i] @ unit[j]) for j in others], match)
        assert found.ap[i] == pytest.approx(naive_ap(ordered), abs=1e-12)
        assert found.hit1[i] == ordered[0]
        assert found.hit5[i] == any(ordered[:5])
    np.testing.assert_array_equal(found.valid, valid)
    assert found.unlabelled == 5
    assert found.mean_ap == pytest.approx(found.ap[valid].mean())
    assert found.hr1 == pytest.approx(found.hit1[valid].mean())
    assert found.hr5 == pytest.approx(found.hit5[valid].mean())
    assert 0.2 < found.ap[valid].mean() < 0.95  # neither trivial nor hopeless


def test_scores_below_zero_count_too() -> None:
    samples = Samples.of(["a", "b", "c"], ["v"] * 3, ["p", "p", "q"], [0, 0, 0])
    found = retrieve([[1.0, 0.0], [-1.0, 0.1], [0.0, 1.0]], samples)
    np.testing.assert_allclose(found.ap[:2], [0.5, 0.5])
    assert found.unmatched == 1


def test_without_any_match_there_is_no_figure() -> None:
    samples = Samples.of(["a", "b"], ["v"] * 2, ["p", "q"], [0, 0])
    found = retrieve(np.eye(2), samples)
    assert (found.mean_ap, found.hr1, found.hr5, found.unmatched) == (None, None, None, 2)


def test_vectors_must_match_the_samples() -> None:
    _, samples, _ = made()
    with pytest.raises(PolyplinkError, match="2 vectors for 30 tracklets"):
        retrieve(np.eye(2), samples)


def test_equal_vectors_tie_whatever_the_block() -> None:
    """Repeated rows, whose products differ in their last bits by place, must tie exactly."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(5, 33))[rng.integers(0, 5, 40)]
    polyps = [str(p) for p in rng.integers(0, 4, 40)]
    samples = Samples.of([f"t{i}" for i in range(40)], ["v"] * 40, polyps, np.linspace(0, 1, 40))
    found = [retrieve(vectors, samples, block=size).ap for size in (1, 7, 512)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    collapsed = np.tile(rng.normal(size=33), (40, 1))
    assert reidentify(collapsed, samples).auroc == 0.5
