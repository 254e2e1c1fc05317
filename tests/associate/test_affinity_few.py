import numpy as np
import pytest

from polyplink.associate.affinity import settle, with_noise
from polyplink.associate.affinity_few import few, settle_few

PREFERENCES = np.array([-20.0, -3.0, -1.0, -0.1, 0.3, 0.6, 0.9, 1.0])


def similarities(n: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(n)
    if kind == "asymmetric":
        return rng.random((n, n))
    points = rng.normal(size=(n, 4)) + 3 * rng.normal(size=(n // 8 + 1, 4))[np.arange(n) // 8]
    if kind == "tied":
        points = np.round(points)
    S = -np.linalg.norm(points[:, None] - points[None], axis=2)
    return np.asarray((S - S.min()) / (S.max() - S.min()))


@pytest.mark.parametrize("kind", ["clustered", "tied", "asymmetric"])
@pytest.mark.parametrize("n", [2, 7, 8, 9, 33, 90])
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-7])
def test_messages_and_exemplars_are_those_of_the_plain_kernel(
    n: int, kind: str, scale: float
) -> None:
    S, diagonals = with_noise(similarities(n, kind) * scale, PREFERENCES * scale)
    messages = few(S)  # one for all runs: each must start afresh
    A, R = np.empty_like(S), np.empty_like(S)
    found, expected = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for diagonal in diagonals:
        np.fill_diagonal(S, diagonal)
        settled = settle_few(messages, diagonal, found)
        assert settled == settle(S, A, R, expected)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(messages.own_r, np.diag(R))
        followed = np.eye(n, dtype=bool)
        for i in range(n):
            count = int(messages.followed[i])
            columns = messages.column[i, :count]
            followed[i, columns] = True
            np.testing.assert_array_equal(messages.r[i, :count], R[i, columns])
            np.testing.assert_array_equal(messages.a[i, :count], A[i, columns])
        # What is not followed: no responsibility above 0, and the availability of its column.
        assert (R[~followed] <= 0).all()
        rows, others = np.nonzero(~followed)
        np.testing.assert_array_equal(A[rows, others], messages.common[others])


def test_few_entries_are_followed_of_many() -> None:
    S, diagonals = with_noise(similarities(120, "clustered"), np.array([0.5]))
    messages = few(S)
    settle_few(messages, diagonals[0], np.zeros(120, np.bool_))
    assert 0 < messages.followed.mean() < 30
