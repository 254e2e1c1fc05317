import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyplink.evaluate.partitions import partitions


def alike(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a[:, None] == a) == (b[:, None] == b)).all())


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 1000))
def test_clusterings_share_a_row_if_and_only_if_they_cut_alike(n: int, s: int, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, 4, (s, n))
    found = partitions(labels)
    kept = found.labels[found.of]
    assert all(alike(kept[i], labels[i]) for i in range(s))
    for i in range(s):
        for j in range(i):
            assert (found.of[i] == found.of[j]) == alike(labels[i], labels[j])


def test_clusters_are_numbered_by_their_first_tracklets() -> None:
    found = partitions(np.array([[7, 7, 2], [0, 1, 1], [3, 3, 9], [1, 0, 0]], dtype=np.int32))
    assert found.labels.tolist() == [[0, 0, 1], [0, 1, 1]]
    assert found.of.tolist() == [0, 1, 0, 1]


def test_no_clustering_and_none_of_anything() -> None:
    assert partitions(np.empty((0, 3), dtype=np.int32)).labels.shape == (0, 3)
    nothing = partitions(np.empty((2, 0), dtype=np.int32))
    assert nothing.labels.shape == (1, 0)
    assert nothing.of.tolist() == [0, 0]
