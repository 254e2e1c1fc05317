"""Clusterers of scikit-learn and scipy on the distance 1 - V: DBSCAN, HDBSCAN, average linkage.

The thesis on foundation models (tables 5.17, 5.18) counts with DBSCAN and HDBSCAN; Parolari et
al. (2024) with hierarchical clustering. A point that a density method calls noise is a tracklet
like no other: here it stands alone. Kept as one cluster -1, all noise would count as one polyp.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from polyplink.associate.similarity import Reals, checked_square
from polyplink.core.errors import PolyplinkError

Labels = npt.NDArray[np.int32]
Selection = Literal["eom", "leaf"]


def distances(V: npt.ArrayLike) -> Reals:
    """1 - V (n, n): not negative, symmetric, 0 on the diagonal.

    Raises:
        PolyplinkError: If V is not a square of at least one tracklet, or a value is not finite.
    """
    square = checked_square(V)
    D = np.clip(1.0 - (square + square.T) / 2, 0.0, None)
    np.fill_diagonal(D, 0.0)
    return np.asarray(D)


def noise_alone(labels: npt.ArrayLike) -> Labels:
    """Give every -1 a cluster of its own; all are numbered by first appearance.

    Args:
        labels: Clusters (n,), -1 for noise.
    """
    given = np.asarray(labels, dtype=np.int64)  # (n,)
    own = np.where(given < 0, given.size + np.arange(given.size), given)
    _, first, inverse = np.unique(own, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int32)
    rank[np.argsort(first)] = np.arange(first.size)
    return np.asarray(rank[inverse])


def dbscan(V: npt.ArrayLike, eps: float, min_samples: int) -> Labels:
    """DBSCAN on 1 - V.

    Args:
        V: Similarities (n, n).
        eps: Distance up to which two tracklets are neighbours, above 0.
        min_samples: Neighbours, itself included, that make a tracklet a core.

    Returns:
        Labels (n,), noise standing alone.

    Raises:
        PolyplinkError: If eps or min_samples is out of range.
    """
    PolyplinkError.unless(eps > 0, f"eps is {eps}", "give a distance above 0")
    PolyplinkError.unless(min_samples >= 1, f"min_samples is {min_samples}", "give 1 or more")
    # Imported when used, as below: it takes a second.
    from sklearn.cluster import DBSCAN  # noqa: PLC0415

    model = DBSCAN(eps=eps, min_samples=min_samples, metric="precomputed")
    return noise_alone(model.fit_predict(distances(V)))


def hdbscan(
    V: npt.ArrayLike, min_cluster_size: int, min_samples: int, selection: Selection = "eom"
) -> Labels:
    """HDBSCAN on 1 - V; a procedure may be one cluster.

    scikit-learn's `cluster_selection_epsilon` is not offered: in version 1.9.1 it fails beside
    numpy 2.4 (a one-element array is taken for a number).

    Args:
        V: Similarities (n, n).
        min_cluster_size: Tracklets of the smallest cluster, 2 or more.
        min_samples: Neighbours, itself included, that distances are smoothed over.
        selection: Which clusters of the tree: the most stable ("eom") or the finest ("leaf").

    Returns:
        Labels (n,), noise standing alone; all alone where there are fewer tracklets than
        min_cluster_size or min_samples.

    Raises:
        PolyplinkError: If a parameter is out of range.
    """
    PolyplinkError.unless(
        min_cluster_size >= 2 and min_samples >= 1 and selection in ("eom", "leaf"),
        f"min_cluster_size {min_cluster_size}, min_samples {min_samples}, selection {selection!r}",
        "give 2 or more, 1 or more, and eom or leaf",
    )
    D = distances(V)
    if len(D) < max(min_cluster_size, min_samples):
        return np.arange(len(D), dtype=np.int32)
    from sklearn.cluster import HDBSCAN  # noqa: PLC0415

    model = HDBSCAN(
        min_cluster_size=min_cluster_size,
        min_samples=min_samples,
        cluster_selection_method=selection,
        metric="precomputed",
        allow_single_cluster=True,
        copy=True,
    )
    return noise_alone(model.fit_predict(D))


def average_linkage(V: npt.ArrayLike, thresholds: npt.ArrayLike) -> Labels:
    """Average-linkage clustering on 1 - V; one dendrogram answers all thresholds.

    Clusters are joined while their mean distance is below the threshold: the labels of
    `sklearn.cluster.AgglomerativeClustering(distance_threshold=..., linkage="average")`, which
    builds the same dendrogram once per threshold.

    Args:
        V: Similarities (n, n).
        thresholds: Mean distances (m,).

    Returns:
        Labels (m, n), int32.

    Raises:
        PolyplinkError: If a threshold is not finite.
    """
    D = distances(V)
    wanted = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    if not np.isfinite(wanted).all():
        raise PolyplinkError("a threshold is not finite", "give finite thresholds")
    if len(D) == 1:
        return np.zeros((wanted.size, 1), dtype=np.int32)
    tree = linkage(squareform(D, checks=False), method="average")
    below = np.nextafter(wanted, -np.inf)  # fcluster joins up to and including its threshold
    return np.stack([noise_alone(fcluster(tree, t, criterion="distance")) for t in below])
