import numpy as np

from polyplink.associate.affinity_few import WIDE, few, start_runs
from polyplink.associate.lanes import LANES


def test_similarities_are_laid_out_by_row_and_by_size() -> None:
    n = 4 * WIDE + 3
    S = np.random.default_rng(0).random((n, n))
    m = few(S, np.argsort(-S, axis=1), 5)
    off = ~np.eye(n, dtype=bool)
    np.testing.assert_array_equal(m.idle[:, :n][off], S[off])
    assert (m.idle[:, :n][~off] == -np.inf).all()
    assert m.idle.shape == (n, 5 * WIDE)
    assert (m.idle[:, n:] == -np.inf).all()
    assert (np.diff(m.sorted, axis=1) <= 0).all()
    for i in range(n):
        np.testing.assert_array_equal(m.sorted[i, :-1], S[i, m.column[i, :-1]])
        np.testing.assert_array_equal(m.place[i, m.column[i]], np.arange(n))
        assert m.column[i, -1] == i


def test_runs_start_afresh_with_the_two_most_similar_of_each_row() -> None:
    n = 12
    S = np.random.default_rng(1).random((n, n))
    m = few(S, np.argsort(-S, axis=1), 5)
    before = [m.idle.copy(), m.column.copy()]
    for _ in range(2):
        start_runs(m, np.zeros(n * LANES))
        assert (m.contenders == 2).all()
        np.testing.assert_array_equal(m.near_s[:, :2], m.sorted[:, :2])
        left = np.sort(m.idle[:, :n], axis=1)[:, ::-1]
        np.testing.assert_array_equal(left[:, : n - 3], m.sorted[:, 2:-1])
    for i in range(n):  # what a run takes away comes back
        for j in range(2):
            k = m.near_column[i, j]
            m.idle[i, k] = m.near_s[i, j]
            m.column[i, m.place[i, k]] = k
    np.testing.assert_array_equal(m.idle, before[0])
    np.testing.assert_array_equal(m.column, before[1])
