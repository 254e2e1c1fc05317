import warnings

import numpy as np
import pytest
from sklearn.cluster import AffinityPropagation
from sklearn.exceptions import ConvergenceWarning

from polyplink.associate import affinity
from polyplink.associate.affinity import propagate, tie_noise
from polyplink.core.errors import PolyplinkError

PREFERENCES = np.array([-5, -2, -1, -0.25, 0, 0.25, 0.5, 0.75, 0.9, 1, 1.25])


def rival(S: np.ndarray, preference: float) -> tuple[np.ndarray, bool]:
    """scikit-learn's labels and whether it warned that it did not converge."""
    model = AffinityPropagation(
        damping=0.9,
        max_iter=500,
        convergence_iter=50,
        preference=preference,
        affinity="precomputed",
        random_state=0,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        labels = model.fit(S).labels_
    return labels, not any(w.category is ConvergenceWarning for w in caught)


def similarities(n: int, kind: str, rng: np.random.Generator) -> np.ndarray:
    points = rng.normal(size=(n, 4))
    if kind == "clustered":
        points += 4 * rng.normal(size=(4, 4))[rng.integers(0, 4, n)]
    if kind == "tied":
        points = np.round(points)
    S = -((points[:, None] - points[None]) ** 2).sum(axis=2)
    if kind == "asymmetric":
        S = rng.random((n, n))
    spread = S.max() - S.min()
    return np.asarray((S - S.min()) / (spread if spread else 1.0))


@pytest.mark.parametrize("kind", ["even", "clustered", "tied", "asymmetric"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 16, 30])
def test_labels_equal_scikit_learn(n: int, kind: str) -> None:
    rng = np.random.default_rng(n)
    for _ in range(3):
        S = similarities(n, kind, rng)
        labels, converged = propagate(S, PREFERENCES)
        for row, preference in enumerate(PREFERENCES):
            expected, settled = rival(S, preference)
            assert converged[row] == settled
            if expected[0] != -1:
                np.testing.assert_array_equal(labels[row], expected)


@pytest.mark.parametrize("n", [33, 64, 78])
def test_large_procedures_are_labelled_as_scikit_learn_labels_them(n: int) -> None:
    S = similarities(n, "clustered", np.random.default_rng(5))
    labels, converged = propagate(S, PREFERENCES)
    for row, preference in enumerate(PREFERENCES):
        expected, settled = rival(S, preference)
        assert converged[row] == settled
        np.testing.assert_array_equal(labels[row], expected)


def test_more_contenders_than_there_was_room_for_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    S = similarities(50, "clustered", np.random.default_rng(6))
    labels, converged = propagate(S, PREFERENCES)
    monkeypatch.setattr(affinity, "CONTENDERS", 2)
    again, settled = propagate(S, PREFERENCES)
    np.testing.assert_array_equal(again, labels)
    np.testing.assert_array_equal(settled, converged)


@pytest.mark.parametrize("count", [1, 3, 4, 5])
def test_any_number_of_preferences_may_be_asked_for(count: int) -> None:
    S = similarities(20, "clustered", np.random.default_rng(7))
    every, _ = propagate(S, PREFERENCES)
    np.testing.assert_array_equal(propagate(S, PREFERENCES[:count])[0], every[:count])


def test_noise_at_hand_is_the_same_noise() -> None:
    S = similarities(20, "tied", np.random.default_rng(8))
    with_it = propagate(S, PREFERENCES, tie_noise(20))
    for ours, theirs in zip(with_it, propagate(S, PREFERENCES), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_without_convergence_a_tracklet_is_never_merged_in_silence() -> None:
    rng = np.random.default_rng(1)
    with_exemplars = without = 0
    for _ in range(1500):
        n = int(rng.integers(3, 9))
        S = rng.integers(0, 4, (n, n)).astype(float)
        S = (S + S.T) / 2
        preferences = np.linspace(-3, 3, 13)
        labels, converged = propagate(S, preferences)
        for row in np.flatnonzero(~converged):
            expected, settled = rival(S, preferences[row])
            assert not settled
            if expected[0] == -1:
                without += 1
                expected = np.arange(n)
            else:
                with_exemplars += 1
            np.testing.assert_array_equal(labels[row], expected)
    assert with_exemplars > 0
    assert without > 0


@pytest.mark.parametrize("n", [2, 5, 20])
def test_a_preference_above_every_similarity_leaves_all_alone(n: int) -> None:
    S = similarities(n, "even", np.random.default_rng(n))
    labels, converged = propagate(S, [1.25, 5.0])
    np.testing.assert_array_equal(labels, [np.arange(n)] * 2)
    assert converged.all()
    for preference in (1.25, 5.0):
        np.testing.assert_array_equal(rival(S, preference)[0], np.arange(n))


def test_equal_similarities_are_one_cluster_or_all_alone() -> None:
    labels, converged = propagate(np.full((4, 4), 0.5), [0.4, 0.5, 0.6])
    np.testing.assert_array_equal(labels, [[0] * 4, [0] * 4, [0, 1, 2, 3]])
    assert converged.all()


def test_the_input_is_not_changed_and_the_diagonal_is_not_read() -> None:
    S = similarities(9, "clustered", np.random.default_rng(3))
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
