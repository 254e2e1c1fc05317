"""The clusterers against naive versions and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import cluster

from polyplink.associate.affinity_propagation import propagate
from polyplink.associate.clusterers import (
    Agglomerative,
    Dbscan,
    Hdbscan,
    TemporalAP,
    Threshold,
    average_linkage,
    threshold_components,
)
from polyplink.associate.similarity import temporal, visual
from polyplink.core.errors import PolyplinkError

THRESHOLDS = np.arange(21) / 20


def similarities(seed: int, n: int) -> np.ndarray:
    """Similarities (n, n) of points in groups of about four."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(max(n // 4, 1), 3))[rng.integers(0, max(n // 4, 1), n)]
    points = points + 0.3 * rng.normal(size=(n, 3))
    D = np.linalg.norm(points[:, None] - points[None], axis=2)
    return np.asarray(1 - D / max(D.max(), 1e-9))


def distances(V: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(1 - V, 0, None) * ~np.eye(len(V), dtype=bool))


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a[:, None] == a[None]) == (b[:, None] == b[None])).all())


def naive_components(V: np.ndarray, threshold: float) -> list[int]:
    """Labels by a search from every tracklet without a label."""
    labels, count = [-1] * len(V), 0
    for start in range(len(V)):
        if labels[start] >= 0:
            continue
        queue = [start]
        while queue:
            i = queue.pop()
            if labels[i] < 0:
                labels[i] = count
                queue += [j for j in range(len(V)) if j != i and V[i, j] >= threshold]
        count += 1
    return labels


def test_temporal_ap_clusters_the_weighted_similarity() -> None:
    rng = np.random.default_rng(0)
    V, positions = visual(rng.normal(size=(12, 4))), np.sort(rng.random(12))
    setting, T = TemporalAP(alpha=0.25, gamma=2.0, preference=0.5), temporal(positions, 2.0)
    np.testing.assert_array_equal(setting.similarity(V, positions), 0.25 * V + 0.75 * T)
    clustering = setting.cluster(V, positions)
    expected, _ = propagate(0.25 * V + 0.75 * T, [0.5])
    np.testing.assert_array_equal(clustering.labels, expected[0])
    assert clustering.converged
    assert 1 < clustering.labels.max() + 1 < 12


# Multiples of 0.05, so that similarities often equal a threshold or each other.
@given(
    st.integers(1, 7).flatmap(
        lambda n: arrays(np.float64, (n, n), elements=st.integers(0, 20).map(lambda v: v / 20))
    )
)
def test_components_equal_a_naive_search_at_every_threshold(raw: np.ndarray) -> None:
    V = np.maximum(raw, raw.T)
    expected = [naive_components(V, threshold) for threshold in THRESHOLDS]
    np.testing.assert_array_equal(threshold_components(V, THRESHOLDS), expected)
    np.testing.assert_array_equal(Threshold(0.5).cluster(V, []).labels, expected[10])


@given(st.integers(0, 999), st.integers(1, 25), st.floats(0.02, 1.2))
def test_average_linkage_equals_scikit_learn(seed: int, n: int, distance: float) -> None:
    V = similarities(seed, n)
    labels = average_linkage(V, [distance, 0.5])
    assert labels.shape == (2, n)
    assert sorted(set(labels[0].tolist())) == list(range(labels[0].max() + 1))
    if n > 1:
        model = cluster.AgglomerativeClustering(
            n_clusters=None, distance_threshold=distance, linkage="average", metric="precomputed"
        )
        assert same_partition(labels[0], model.fit_predict(distances((V + V.T) / 2)))


@given(st.integers(0, 999), st.integers(1, 25), st.floats(0.02, 1.2), st.integers(1, 4))
def test_dbscan_equals_scikit_learn_with_singletons_for_noise(
    seed: int, n: int, eps: float, min_samples: int
) -> None:
    V = similarities(seed, n)
    labels = Dbscan(eps, min_samples).cluster(V, []).labels
    model = cluster.DBSCAN(eps=eps, min_samples=min_samples, metric="precomputed")
    reference = model.fit_predict(distances((V + V.T) / 2))
    clustered = reference >= 0
    assert same_partition(labels[clustered], reference[clustered])
    for row in np.flatnonzero(~clustered):
        assert (labels == labels[row]).sum() == 1


def test_hdbscan_separates_groups_and_gives_singletons_for_noise() -> None:
    D = np.full((7, 7), 1.0)
    D[:3, :3], D[3:6, 3:6] = 0.1, 0.1
    np.fill_diagonal(D, 0.0)
    assert Hdbscan(2, 1).cluster(1 - D, []).labels.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert Hdbscan(3, 1).cluster(1 - D[:2, :2], []).labels.tolist() == [0, 1]
    assert Hdbscan(2, 1).cluster(np.ones((1, 1)), []).labels.tolist() == [0]


def test_invalid_parameters_and_similarities_are_refused() -> None:
    V = np.eye(3)
    for kind, parameters, message in (
        (Dbscan, (0, 2), "eps is 0; give one above 0"),
        (Dbscan, (0.5, 0), "min_samples is 0; give 1 or more"),
        (Hdbscan, (1, 1), "min_cluster_size is 1; give 2 or more"),
        (Hdbscan, (2, 1, "x"), "selection is 'x'; give eom or leaf"),
        (Threshold, (np.nan,), "a threshold is not finite"),
        (Agglomerative, (np.nan,), "a threshold is not finite"),
    ):
        with pytest.raises(PolyplinkError, match=message):
            kind(*parameters).cluster(V, [])
    for clusterer in (Dbscan(0.5, 2), Threshold(0.5)):
        with pytest.raises(PolyplinkError, match="a similarity is not finite"):
            clusterer.cluster(np.full((2, 2), np.nan), [])
        with pytest.raises(PolyplinkError, match="not a square"):
            clusterer.cluster(np.ones((2, 3)), [])
