"""Affinity propagation: partitions equal scikit-learn's, messages equal a plain version's."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import AffinityPropagation
from sklearn.exceptions import ConvergenceWarning

from polyplink.associate.affinity_propagation import (
    CONVERGENCE_ITER,
    DAMPING,
    MAX_ITER,
    propagate,
    settle,
    with_noise,
)
from polyplink.core.errors import PolyplinkError

PREFERENCES = np.array([-5, -1, 0, 0.5, 0.9, 1, 1.25])


def plain_rounds(S: np.ndarray, diagonal: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Best value of each row, and sum of each column before it (n,), in every round, on S (n, n).

    All messages are passed; `diagonal` are the preferences (n,).
    """
    S, n = S.copy(), len(S)
    np.fill_diagonal(S, diagonal)
    A, R, rows = np.zeros((n, n)), np.zeros((n, n)), np.arange(n)
    is_exemplar, unchanged = np.zeros(n, dtype=bool), 0
    bests, sums = [], [np.zeros(n)]
    for t in range(MAX_ITER):
        values = A + S
        chosen = values.argmax(axis=1)
        best = values[rows, chosen]
        values[rows, chosen] = -np.inf
        others_best = np.repeat(best[:, None], n, axis=1)
        others_best[rows, chosen] = values.max(axis=1)
        R = R * DAMPING + (S - others_best) * (1 - DAMPING)
        positive = np.maximum(R, 0)
        np.fill_diagonal(positive, R.diagonal())
        bests.append(best)
        sums.append(positive.sum(axis=0))
        short = positive - sums[-1]
        self_availability = short.diagonal().copy()
        short = np.maximum(short, 0)
        np.fill_diagonal(short, self_availability)
        A = A * DAMPING - short * (1 - DAMPING)
        marks = (A + R).diagonal() > 0
        unchanged = 1 if (marks != is_exemplar).any() else unchanged + 1
        is_exemplar = marks
        if t >= CONVERGENCE_ITER and unchanged >= CONVERGENCE_ITER and marks.any():
            break
    return bests, sums[:-1]


def scikit_learn(S: np.ndarray, preference: float) -> tuple[np.ndarray, bool]:
    """Labels of scikit-learn, and whether it converged without a warning."""
    model = AffinityPropagation(
        damping=0.9,
        max_iter=500,
        convergence_iter=50,
        preference=preference,
        affinity="precomputed",
        random_state=42,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        labels = model.fit(S).labels_
    return labels, not any(w.category is ConvergenceWarning for w in caught)


def similarities(n: int, kind: str, seed: int = 0) -> np.ndarray:
    """Similarities (n, n) in [0, 1] of points, clustered points or tied points, or random ones."""
    rng = np.random.default_rng(seed)
    if kind == "asymmetric":
        return rng.random((n, n))
    points = rng.normal(size=(n, 4))
    if kind != "even":
        points += 3 * rng.normal(size=(n // 8 + 1, 4))[np.arange(n) // 8]
    if kind == "tied":
        points = np.round(points)
    S = -((points[:, None] - points[None]) ** 2).sum(axis=2)
    spread = S.max() - S.min()
    return np.asarray((S - S.min()) / (spread if spread else 1.0))


@pytest.mark.parametrize(
    ("kind", "scale"), [("even", 1), ("clustered", 1e6), ("tied", 1), ("asymmetric", 1e-7)]
)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 33, 78])
def test_labels_equal_scikit_learn(n: int, kind: str, scale: float) -> None:
    S, preferences = scale * similarities(n, kind, n), scale * PREFERENCES
    labels, converged = propagate(S, preferences)
    for row, preference in enumerate(preferences):
        expected, settled = scikit_learn(S, preference)
        assert converged[row] == settled
        if expected[0] != -1:
            np.testing.assert_array_equal(labels[row], expected)


def test_runs_without_convergence_are_marked_and_give_exemplars_or_singletons() -> None:
    rng = np.random.default_rng(29)  # which soon gives both
    with_exemplars = without = 0
    for _ in range(40):
        n = int(rng.integers(3, 9))
        S = rng.integers(0, 4, (n, n)).astype(float)
        S = (S + S.T) / 2
        preferences = np.linspace(-3, 3, 13)
        labels, converged = propagate(S, preferences)
        for row in np.flatnonzero(~converged):
            expected, settled = scikit_learn(S, preferences[row])
            assert not settled
            if expected[0] == -1:
                without += 1
                expected = np.arange(n)
            else:
                with_exemplars += 1
            np.testing.assert_array_equal(labels[row], expected)
    assert with_exemplars > 0
    assert without > 0


def test_the_number_of_preferences_does_not_change_labels() -> None:
    S = similarities(50, "tied", 6)
    labels, _ = propagate(S, PREFERENCES)
    for count in (1, 3, 4, 5):
        np.testing.assert_array_equal(propagate(S, PREFERENCES[:count])[0], labels[:count])


def test_the_input_is_not_changed_and_the_diagonal_is_not_read() -> None:
    S = similarities(9, "clustered", 3)
    before = S.copy()
    labels, _ = propagate(S, PREFERENCES)
    np.testing.assert_array_equal(S, before)
    np.fill_diagonal(S, -7.0)
    np.testing.assert_array_equal(propagate(S, PREFERENCES)[0], labels)


@pytest.mark.parametrize(
    ("S", "preference", "message"),
    [
        (np.ones((2, 3)), 0.0, "not a square"),
        (np.ones((0, 0)), 0.0, "not a square"),
        (np.full((2, 2), np.nan), 0.0, "a similarity is not finite"),
        (np.ones((2, 2)), np.inf, "a preference is not finite"),
    ],
)
def test_bad_similarities_are_refused(S: np.ndarray, preference: float, message: str) -> None:
    with pytest.raises(PolyplinkError, match=message):
        propagate(S, [preference])


@pytest.mark.parametrize("kind", ["clustered", "tied", "asymmetric"])
@pytest.mark.parametrize(("n", "preference"), [(2, 0.3), (9, -20.0), (100, 0.9), (100, -1.0)])
def test_best_values_and_sums_equal_those_of_all_messages_bit_by_bit(
    n: int, kind: str, preference: float
) -> None:
    S, diagonals = with_noise(similarities(n, kind), np.array([preference]))
    np.fill_diagonal(S, -np.inf)
    column = np.argsort(-S, axis=1).astype(np.int32)
    a, r = np.full((2, n, n), np.nan)  # of an earlier run, as are the rounds
    rounds = np.full((n, n), -1, np.int32)
    supports, best = np.empty((2, n, MAX_ITER))
    in_order, marks = np.take_along_axis(S, column, axis=1), np.ones(n, np.bool_)
    settle(in_order, column, diagonals[0], marks, a, r, rounds, supports, best)
    expected_best, expected_supports = map(np.transpose, plain_rounds(S, diagonals[0]))
    passed = expected_best.shape[1]
    np.testing.assert_array_equal(best[:, :passed], expected_best)
    np.testing.assert_array_equal(supports[:, :passed], expected_supports)
