import numpy as np
import pytest

from polyplink.associate.affinity import with_noise
from polyplink.associate.affinity_few import MAX_ITER, Few, few
from polyplink.associate.affinity_round import settle_few
from polyplink.associate.lanes import LANES
from tests.associate.plain_affinity import Plain, settle

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


def four(m: Few, diagonals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exemplars (4, n) and convergence (4,) under four diagonals (4, n)."""
    marks, settled = np.zeros(diagonals.shape, np.bool_), np.zeros(LANES, np.bool_)
    assert settle_few(m, np.ascontiguousarray(diagonals.T).ravel(), marks, settled)
    return marks, settled


def plain(S: np.ndarray, diagonal: np.ndarray) -> Plain:
    full = S.copy()
    np.fill_diagonal(full, diagonal)
    return settle(full)


def assert_messages_equal(m: Few, run: int, expected: Plain) -> None:
    """Every message that is followed is the plain one to the bit; the others do not matter."""
    A, R, n = expected.A, expected.R, len(expected.A)
    np.testing.assert_array_equal(m.own_r.reshape(n, LANES)[:, run], R.diagonal())
    near_r, near_a = (each.reshape(n, -1, LANES)[:, :, run] for each in (m.near_r, m.near_a))
    followed = m.r.reshape(n, n, LANES)[:, :, run]
    common = m.common.reshape(-1, LANES)[:n, run]
    for i in range(n):
        count, risen = int(m.contenders[i]), int(m.risen[i])
        near = m.near_column[i, :count]
        np.testing.assert_array_equal(near_r[i, :count], R[i, near])
        # Availabilities are those with which the round began.
        order = np.argsort(m.place[i])
        mine = m.column[i, :risen] < n
        np.testing.assert_array_equal(followed[i, :risen][mine], R[i, order[:risen][mine]])
        rest = np.ones(n, dtype=bool)
        rest[near] = rest[order[:risen]] = rest[i] = False
        assert (R[i, rest] <= 0).all()
        others = np.ones(n, dtype=bool)
        others[near] = others[i] = False
        assert (common[others] >= previous(A, R, i)[others] - 1e-9).all()
    assert near_a.shape == near_r.shape


def previous(A: np.ndarray, R: np.ndarray, i: int) -> np.ndarray:
    """A bound from below of row i's availabilities a round ago: those of now move by a tenth."""
    return np.asarray(A[i] - np.abs(A[i]))


@pytest.mark.parametrize("kind", ["clustered", "tied", "asymmetric"])
@pytest.mark.parametrize("n", [2, 3, 7, 31, 32, 33, 90])
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-7])
def test_exemplars_are_those_of_all_messages(n: int, kind: str, scale: float) -> None:
    S, diagonals = with_noise(similarities(n, kind) * scale, PREFERENCES * scale)
    m = few(S, np.argsort(-S, axis=1), n)  # one for all runs: each must start afresh
    for start in range(0, len(PREFERENCES), LANES):
        marks, settled = four(m, diagonals[start : start + LANES])
        for run in range(LANES):
            expected = plain(S, diagonals[start + run])
            assert settled[run] == expected.settled
            np.testing.assert_array_equal(marks[run], expected.is_exemplar)


@pytest.mark.parametrize("kind", ["clustered", "tied", "asymmetric"])
@pytest.mark.parametrize("n", [2, 9, 40, 100])
@pytest.mark.parametrize("preference", [-20.0, -1.0, 0.3, 0.9])
def test_messages_are_those_of_all_messages_to_the_bit(
    n: int, kind: str, preference: float
) -> None:
    S, diagonals = with_noise(similarities(n, kind), np.full(LANES, preference))
    m = few(S, np.argsort(-S, axis=1), n)
    four(m, diagonals)  # equal runs end in the same round
    expected = plain(S, diagonals[0])
    for run in range(LANES):
        assert_messages_equal(m, run, expected)


def test_runs_do_not_disturb_each_other() -> None:
    S, diagonals = with_noise(similarities(60, "clustered"), PREFERENCES)
    m = few(S, np.argsort(-S, axis=1), 60)
    together, settled = four(m, diagonals[:LANES])
    for run in range(LANES):
        alone, one = four(m, np.repeat(diagonals[run : run + 1], LANES, axis=0))
        np.testing.assert_array_equal(alone[0], together[run])
        assert one[0] == settled[run]


def test_want_of_room_is_told() -> None:
    S, diagonals = with_noise(similarities(60, "clustered"), PREFERENCES[:LANES])
    m = few(S, np.argsort(-S, axis=1), 2)
    marks, settled = np.zeros((LANES, 60), np.bool_), np.zeros(LANES, np.bool_)
    assert not settle_few(m, np.ascontiguousarray(diagonals.T).ravel(), marks, settled)


def test_few_entries_are_followed_of_many() -> None:
    S, diagonals = with_noise(similarities(120, "clustered"), np.full(LANES, 0.5))
    m = few(S, np.argsort(-S, axis=1), 120)
    four(m, diagonals)
    assert 2 <= m.contenders.mean() < 15
    assert m.risen.mean() < 40


def test_runs_that_never_settle_end_with_the_five_hundredth_round() -> None:
    rng, endless = np.random.default_rng(1), 0
    for _ in range(200):
        n = int(rng.integers(3, 9))
        S = rng.integers(0, 4, (n, n)).astype(float)
        S = (S + S.T) / 2
        diagonals = np.repeat(rng.integers(-3, 3, (LANES, 1)), n, axis=1).astype(float)
        marks, settled = four(few(S, np.argsort(-S, axis=1), n), diagonals)
        for run in range(LANES):
            expected = plain(S, diagonals[run])
            assert settled[run] == expected.settled
            np.testing.assert_array_equal(marks[run], expected.is_exemplar)
            endless += expected.rounds == MAX_ITER
    assert endless > 0
