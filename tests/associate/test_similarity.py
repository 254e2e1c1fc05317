from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from polyplink.associate.affinity_propagation import propagate
from polyplink.associate.clusterers import TemporalAP
from polyplink.associate.similarity import VisualForm, cosine, temporal, unit_rows, visual
from polyplink.core.errors import PolyplinkError

POSITIONS = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=8).map(np.array)


def rescale_to_unit_range(values: np.ndarray) -> np.ndarray:
    return np.asarray((values - values.min()) / (values.max() - values.min()))


def naive_l2(vectors: np.ndarray, scaled: bool) -> np.ndarray:
    n = len(vectors)
    distance = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            a, b = vectors[i], vectors[j]
            if scaled:
                a, b = a / np.sqrt(sum(v * v for v in a)), b / np.sqrt(sum(v * v for v in b))
            distance[i, j] = np.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    return 1 - rescale_to_unit_range(distance)


def naive_cosine(vectors: np.ndarray) -> np.ndarray:
    n = len(vectors)
    result = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            lengths = np.sqrt((vectors[i] ** 2).sum() * (vectors[j] ** 2).sum())
            result[i, j] = (vectors[i] * vectors[j]).sum() / lengths
    return result


def test_visual_forms_equal_naive_loops() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(7, 5)) * rng.uniform(0.5, 2.0, (7, 1))
    np.testing.assert_allclose(visual(vectors, "raw_l2"), naive_l2(vectors, False), atol=1e-12)
    np.testing.assert_allclose(visual(vectors), naive_l2(vectors, True), atol=1e-12)
    np.testing.assert_allclose(cosine(vectors), naive_cosine(vectors), atol=1e-12)
    sigmoid = 1 / (1 + np.exp(-naive_cosine(vectors)))
    np.testing.assert_allclose(visual(vectors, "sigmoid"), sigmoid, atol=1e-12)


def test_equal_pairs_of_rows_have_exactly_equal_cosines() -> None:
    rows = np.random.default_rng(0).normal(size=(61, 250))
    C = cosine(np.concatenate([rows, rows[::-1]]))
    np.testing.assert_array_equal(C[:61, :61], C[61:, 61:][::-1, ::-1])


def test_sigmoid_form_gives_one_cluster_or_singletons_for_similar_cosines() -> None:
    """EndoViT's cosines are 0.90 to 0.99; table A.3 of the thesis has one cluster per procedure."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(1, 64)) + 0.2 * rng.normal(size=(20, 64))
    off = cosine(vectors)[~np.eye(20, dtype=bool)]
    assert 0.88 < off.min() < off.max() < 0.995
    preferences = -5 + np.arange(41) / 4
    counts = {
        form: {int(row.max()) + 1 for row in propagate(visual(vectors, form), preferences)[0]}
        for form in ("sigmoid", "l2")
    }
    assert counts["sigmoid"] <= {1, 20}
    assert len(counts["l2"]) > 2


@given(POSITIONS, st.floats(0, 10))
def test_temporal_equals_a_naive_loop(positions: np.ndarray, gamma: float) -> None:
    n = len(positions)
    raw = np.array(
        [[np.exp(-gamma * abs(positions[i] - positions[j])) for j in range(n)] for i in range(n)]
    )
    expected = rescale_to_unit_range(raw) if raw.max() - raw.min() > 1e-12 else np.ones((n, n))
    np.testing.assert_allclose(temporal(positions, gamma), expected, atol=1e-9)


@given(arrays(np.float64, (5, 3), elements=st.floats(0.1, 9)), st.sampled_from(["l2", "raw_l2"]))
def test_visual_is_symmetric_and_in_the_unit_range(vectors: np.ndarray, form: VisualForm) -> None:
    V = visual(vectors, form)
    assert V.min() >= 0
    assert V.max() <= 1
    np.testing.assert_array_equal(V, V.T)
    np.testing.assert_array_equal(np.diag(V), 1.0)


@pytest.mark.parametrize("n", [1, 3])
def test_identical_rows_give_ones(n: int) -> None:
    # The rows have the same direction; dividing by their lengths leaves rounding errors.
    same = np.outer([0.1, 0.3, 0.7][:n], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(visual(same), np.ones((n, n)))
    np.testing.assert_array_equal(temporal(np.full(n, 0.5), 2.0), np.ones((n, n)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: unit_rows([[1.0, 0.0], [0.0, 0.0]]), "embedding row 1 is zero"),
        (lambda: unit_rows([[1.0, 0.0], [np.nan, 1.0]]), "embedding row 1 is not finite"),
        (lambda: unit_rows([1.0, 2.0]), "not a matrix"),
        (lambda: temporal([0.0, 1.5], 1.0), r"position 1.5 of row 1 is outside \[0, 1\]"),
        (lambda: temporal([np.nan], 1.0), "position nan of row 0"),
        (lambda: temporal([[0.1]], 1.0), "not a row"),
        (lambda: temporal([0.0], -1.0), r"gamma -1\.0 is not a penalty"),
        (lambda: TemporalAP(1.5, 1, 0).similarity(np.eye(1), [0.0]), "alpha 1.5 is outside"),
        (lambda: TemporalAP(0.5, 1, 0).similarity(np.eye(1), [0, 1]), "for the same tracklets"),
    ],
)
def test_invalid_vectors_positions_and_weights_are_refused(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(PolyplinkError, match=message):
        call()
