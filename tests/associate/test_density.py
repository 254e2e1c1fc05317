import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import cluster

from polyplink.associate.density import average_linkage, dbscan, distances, hdbscan, noise_alone
from polyplink.associate.settings import Hdbscan, paper_grid
from polyplink.core.errors import PolyplinkError

rng = np.random.default_rng(0)


def similarities(seed: int, n: int) -> np.ndarray:
    own = np.random.default_rng(seed)
    points = own.normal(size=(max(n // 4, 1), 3))[own.integers(0, max(n // 4, 1), n)]
    points = points + 0.3 * own.normal(size=(n, 3))
    D = np.linalg.norm(points[:, None] - points[None], axis=2)
    return np.asarray(1 - D / max(D.max(), 1e-9))


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a[:, None] == a[None]) == (b[:, None] == b[None])).all())


@settings(deadline=None, max_examples=30)
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
        assert same_partition(labels[0], model.fit_predict(distances(V)))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 999), st.integers(1, 25), st.floats(0.02, 1.2), st.integers(1, 4))
def test_dbscan_is_scikit_learns_with_noise_alone(seed: int, n: int, eps: float, few: int) -> None:
    V = similarities(seed, n)
    labels = dbscan(V, eps, few)
    theirs = cluster.DBSCAN(eps=eps, min_samples=few, metric="precomputed").fit_predict(
        distances(V)
    )
    core = theirs >= 0
    assert same_partition(labels[core], theirs[core])
    for row in np.flatnonzero(~core):
        assert (labels == labels[row]).sum() == 1


def test_hdbscan_finds_what_is_apart_and_leaves_noise_alone() -> None:
    D = np.full((7, 7), 1.0)
    D[:3, :3], D[3:6, 3:6] = 0.1, 0.1
    np.fill_diagonal(D, 0.0)
    labels = hdbscan(1 - D, 2, 1)
    assert labels.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert hdbscan(1 - D[:2, :2], 3, 1).tolist() == [0, 1]  # fewer than a cluster
    assert hdbscan(np.ones((1, 1)), 2, 1).tolist() == [0]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 999), st.integers(1, 20), st.sampled_from(paper_grid().hdbscans))
def test_hdbscan_answers_every_procedure(seed: int, n: int, setting: Hdbscan) -> None:
    labels = setting.cluster(similarities(seed, n), np.zeros(n)).labels
    assert sorted(set(labels.tolist())) == list(range(labels.max() + 1))
    assert labels.shape == (n,)


def test_noise_is_numbered_by_first_appearance() -> None:
    assert noise_alone([-1, 4, -1, 0, 4]).tolist() == [0, 1, 2, 3, 1]


def test_what_is_out_of_range_is_refused() -> None:
    V = np.eye(3)
    with pytest.raises(PolyplinkError, match="eps is 0"):
        dbscan(V, 0, 2)
    with pytest.raises(PolyplinkError, match="min_samples is 0"):
        dbscan(V, 0.5, 0)
    with pytest.raises(PolyplinkError, match="min_cluster_size 1"):
        hdbscan(V, 1, 1)
    with pytest.raises(PolyplinkError, match="selection 'x'"):
        hdbscan(V, 2, 1, "x")  # type: ignore[arg-type]
    with pytest.raises(PolyplinkError, match="a threshold is not finite"):
        average_linkage(V, [np.nan])
    with pytest.raises(PolyplinkError, match="not finite"):
        distances(np.full((2, 2), np.nan))
    assert (distances(V + 5) == 0).all()  # more alike than 1 is no distance below 0
