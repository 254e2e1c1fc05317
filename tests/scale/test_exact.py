"""The exact search against a comparison with all rows, also for ties and skewed rows."""

import numpy as np
import pytest

from polyplink.scale.exact import encode_rows, nearest

RNG = np.random.default_rng(0)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), dtype=np.float32)


def naive(
    query: np.ndarray, rows: np.ndarray, k: int, keep: np.ndarray
) -> tuple[list[int], list[float]]:
    """The k most similar rows by comparing all of them in double precision."""
    cosines = {i: round(float(rows[i].astype(float) @ query), 12) for i in np.flatnonzero(keep)}
    best = sorted(cosines, key=lambda i: (-cosines[i], i))[:k]
    return [int(i) for i in best], [cosines[i] for i in best]


@pytest.mark.parametrize(
    ("n", "d", "k"), [(1, 1, 3), (400, 3, 5), (300, 256, 10), (90, 4_096, 7), (50, 8, 50)]
)
def test_nearest_equals_a_comparison_with_all_rows(n: int, d: int, k: int) -> None:
    rows = unit_rows(RNG.normal(size=(n, d)))
    rows[n // 2 :: 7] = rows[n // 2]  # of equal rows the first is nearest
    rows[n // 3 :: 11, : d // 2 + 1] *= 1e-4  # most of the norm in few numbers
    rows = unit_rows(rows)
    stored = encode_rows(rows)
    for query in (
        rows[0],
        rows[n // 2],
        unit_rows(np.eye(d)[0]),
        *unit_rows(RNG.normal(size=(4, d))),
    ):
        vector = query.astype(float) / np.linalg.norm(query.astype(float))
        for keep in (np.ones(n, np.bool_), RNG.random(n) < 0.5):
            nearest_rows, cosines = nearest(vector, rows, stored, k, keep)
            expected, expected_cosines = naive(vector, rows, k, keep)
            assert nearest_rows.tolist() == expected
            assert np.allclose(cosines, expected_cosines, atol=1e-12)


def test_nearest_is_empty_without_rows_or_with_k_zero() -> None:
    rows = unit_rows(RNG.normal(size=(20, 4)))
    for keep, k in ((np.zeros(20, np.bool_), 3), (None, 0)):
        nearest_rows, cosines = nearest([1, 0, 0, 0], rows, encode_rows(rows), k, keep)
        assert len(nearest_rows) == len(cosines) == 0
