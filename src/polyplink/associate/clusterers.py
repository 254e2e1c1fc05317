"""The clustering methods: from the similarities of one procedure's tracklets to identities.

A clusterer with its parameters chosen is a small frozen dataclass with the method `cluster(V,
positions)`. Its class gives the settings to search: `grid`, and `coarse_grid` for a first look.
Where many settings cost less together, it has `cluster_many`. `search` runs whole grids, and
`estimators` wraps the clusterers for scikit-learn.

Sources: temporal affinity propagation and thresholds, with their grids, Parolari et al.,
temporally-aware polyp counting, section 3 (the grids of its code differ); DBSCAN and HDBSCAN, the
thesis on foundation models, tables 5.17 and 5.18; average linkage, Parolari et al. 2024; learned
links were developed here, see `partition`. The papers have no grid for the last four.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby, product, starmap
from typing import Annotated, ClassVar, Literal, Protocol, Self, get_args

import numpy as np
import numpy.typing as npt

from polyplink.associate.partition import PRICES, TOLERANCE, Labels, partition
from polyplink.associate.similarity import checked_square, temporal
from polyplink.core.arrays import Flags, Floats
from polyplink.core.artefacts import ADDED_LATER
from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import CLUSTERERS
from polyplink.core.ranges import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, SHARE, Range, Ranged

Selection = Literal["eom", "leaf"]
HUNDREDTHS = tuple((np.arange(101) / 100).tolist())  # divided, because 3 * 0.1 is not 0.3
FIFTIETHS = tuple((np.arange(51) / 50).tolist())
PREFERENCES = tuple((-5 + np.arange(41) / 4).tolist())  # the paper's
# All but one lie between -5 and 1: above 1, the largest similarity, each tracklet is a cluster.
COARSE_PREFERENCES = (-5.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 0.85, 0.9, 0.95, 1.25)


@dataclass(frozen=True)
class Clustering:
    """The clusters of one procedure.

    Attributes:
        labels: Cluster of every tracklet (n,), int32, from 0 without gaps.
        converged: Whether the algorithm converged before its iteration limit.
    """

    labels: Labels
    converged: bool


@dataclass(frozen=True)
class Clusterings:
    """The clusterings of one procedure by one clusterer, one row per setting.

    Attributes:
        labels: Cluster of every tracklet under every setting (settings, n), int32.
        converged: Whether each clustering converged (settings,).
    """

    labels: Labels
    converged: Flags


class Setting(Protocol):
    """A clusterer with its parameters chosen, a frozen dataclass."""

    def cluster(self, V: Floats, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n) and positions (n,) in [0, 1]."""


@dataclass(frozen=True)
class TemporalAP:
    """Affinity propagation on S = alpha V + (1 - alpha) T; alpha = 1 is AP on V alone.

    Attributes:
        alpha: Weight of the visual similarity, in [0, 1].
        gamma: Penalty on distance in time.
        preference: Preference of affinity propagation; a larger one gives more clusters.

    Example:
        >>> V = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
        >>> TemporalAP(alpha=0.5, gamma=1.0, preference=0.4).cluster(V, [0.0, 0.1, 1.0]).labels
        array([0, 0, 1], dtype=int32)
    """

    title: ClassVar = "temporal affinity propagation"

    alpha: float
    gamma: float
    preference: float

    def similarity(self, V: Floats, positions: npt.ArrayLike) -> Floats:
        """S (n, n) from V (n, n) and positions (n,).

        Raises:
            PolyplinkError: If the lengths differ, or a parameter or position is out of its range.
        """
        T, alpha = temporal(positions, self.gamma), self.alpha
        if V.shape != T.shape:
            raise PolyplinkError(
                f"visual similarity is {V.shape} but temporal similarity is {T.shape}",
                "give both for the same tracklets",
            )
        if not (0.0 <= alpha <= 1.0):
            raise PolyplinkError(f"alpha {alpha} is outside [0, 1]", "give a share of V in [0, 1]")
        return alpha * V + (1.0 - alpha) * T

    def cluster(self, V: Floats, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n) and positions (n,) in [0, 1]."""
        from polyplink.associate.affinity_propagation import propagate  # noqa: PLC0415 - it imports numba

        labels, converged = propagate(self.similarity(V, positions), [self.preference])
        return Clustering(labels[0], bool(converged[0]))

    def in_frames(self, span: float) -> Self:
        """With gamma per frame converted to gamma for positions in a span of frames."""
        return replace(self, gamma=self.gamma * span)

    @staticmethod
    def grid() -> list["TemporalAP"]:
        """The paper's 21 x 34 x 41 = 29,274 settings; preferences vary fastest, alphas slowest."""
        alphas = (np.arange(21) / 20).tolist()
        gammas = (np.arange(1, 10) / 10).tolist() + (1 + 0.375 * np.arange(25)).tolist()
        return list(starmap(TemporalAP, product(alphas, gammas, PREFERENCES)))

    @staticmethod
    def coarse_grid() -> list["TemporalAP"]:
        """5 x 5 x 13 = 325 settings."""
        alphas, gammas = (np.arange(5) / 4).tolist(), (0.3, 0.9, 2.5, 5.5, 10.0)
        return list(starmap(TemporalAP, product(alphas, gammas, COARSE_PREFERENCES)))

    @staticmethod
    def cluster_many(
        settings: Sequence["TemporalAP"], V: Floats, positions: npt.ArrayLike, threads: int
    ) -> Clusterings:
        """Cluster one procedure; all preferences of one (alpha, gamma) are one task of a thread.

        With alpha 1 time does not matter, so all gammas share one clustering.
        """
        from polyplink.associate.affinity_propagation import propagate  # noqa: PLC0415

        keys = [(s.alpha, 0.0 if s.alpha == 1 else s.gamma, s.preference) for s in settings]
        distinct = dict.fromkeys(keys)
        groups = [list(group) for _, group in groupby(distinct, key=lambda key: key[:2])]

        def propagate_all(
            group: list[tuple[float, float, float]],
        ) -> tuple[Labels, Flags]:
            S = TemporalAP(*group[0]).similarity(V, positions)
            return propagate(S, [preference for *_, preference in group])

        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(propagate_all, groups))
        labels, converged = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        row_of = {key: row for row, key in enumerate(distinct)}
        rows = [row_of[key] for key in keys]
        return Clusterings(labels[rows], converged[rows])


@dataclass(frozen=True)
class AffinityPropagation:
    """Affinity propagation on V alone; time is not used.

    Attributes:
        preference: Preference of affinity propagation; a larger one gives more clusters.
    """

    title: ClassVar = "affinity propagation"

    preference: float

    def cluster(self, V: Floats, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n); positions are not read."""
        many = self.cluster_many([self], V, positions, threads=1)
        return Clustering(many.labels[0], bool(many.converged[0]))

    @staticmethod
    def grid() -> list["AffinityPropagation"]:
        """The paper's 41 preferences."""
        return list(map(AffinityPropagation, PREFERENCES))

    @staticmethod
    def coarse_grid() -> list["AffinityPropagation"]:
        """13 preferences."""
        return list(map(AffinityPropagation, COARSE_PREFERENCES))

    @staticmethod
    def cluster_many(
        settings: Sequence["AffinityPropagation"],
        V: Floats,
        positions: npt.ArrayLike,
        threads: int,
    ) -> Clusterings:
        """Cluster one procedure with all preferences at once."""
        from polyplink.associate.affinity_propagation import propagate  # noqa: PLC0415

        return Clusterings(*propagate(V, [setting.preference for setting in settings]))


@dataclass(frozen=True)
class Threshold:
    """Connected components of V >= value; time is not used.

    Attributes:
        value: The similarity from which two tracklets are linked.
    """

    title: ClassVar = "threshold"

    value: float

    def cluster(self, V: Floats, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n); positions are not read."""
        return Clustering(threshold_components(V, [self.value])[0], True)

    @staticmethod
    def grid() -> list["Threshold"]:
        """The paper's 101 thresholds."""
        return list(map(Threshold, HUNDREDTHS))

    @staticmethod
    def coarse_grid() -> list["Threshold"]:
        """51 thresholds."""
        return list(map(Threshold, FIFTIETHS))

    @staticmethod
    def cluster_many(
        settings: Sequence["Threshold"], V: Floats, positions: npt.ArrayLike, threads: int
    ) -> Clusterings:
        """Cluster one procedure with all thresholds at once."""
        return _all_converged(threshold_components(V, [setting.value for setting in settings]))


@dataclass(frozen=True)
class Dbscan(Ranged):
    """DBSCAN on 1 - V; time is not used. Each noise point becomes its own cluster.

    Attributes:
        eps: Distance up to which two tracklets are neighbours, above 0.
        min_samples: Neighbours, itself included, that make a tracklet a core point.
    """

    title: ClassVar = "DBSCAN"

    eps: Annotated[float, POSITIVE]
    min_samples: Annotated[int, AT_LEAST_ONE]

    def cluster(self, V: Floats, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n); positions are not read."""
        # Imported when used, as below: scikit-learn takes a second to import.
        from sklearn.cluster import DBSCAN  # noqa: PLC0415

        model = DBSCAN(eps=self.eps, min_samples=self.min_samples, metric="precomputed")
        return Clustering(_noise_as_singletons(model.fit_predict(_distances(V))), True)

    @staticmethod
    def grid() -> list["Dbscan"]:
        """150 settings: 3 numbers of neighbours x 50 distances."""
        eps = (np.arange(1, 51) / 50).tolist()
        return [Dbscan(e, count) for count, e in product((2, 3, 5), eps)]

    @staticmethod
    def coarse_grid() -> list["Dbscan"]:
        """20 settings: 2 numbers of neighbours x 10 distances."""
        eps = (np.arange(1, 11) / 10).tolist()
        return [Dbscan(e, count) for count, e in product((2, 3), eps)]


@dataclass(frozen=True)
class Hdbscan(Ranged):
    """HDBSCAN on 1 - V; time is not used. Each noise point becomes its own cluster.

    All tracklets of a procedure may form one cluster. scikit-learn's `cluster_selection_epsilon`
    is not offered: version 1.9.1 fails with NumPy 2.4.

    Attributes:
        min_cluster_size: Tracklets of the smallest cluster, 2 or more.
        min_samples: Neighbours, itself included, that distances are smoothed over.
        selection: Clusters to take from the tree: the most stable ("eom") or the finest ("leaf").
    """

    title: ClassVar = "HDBSCAN"

    min_cluster_size: Annotated[int, Range(2)]
    min_samples: Annotated[int, AT_LEAST_ONE]
    selection: Selection = "eom"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.selection not in get_args(Selection):
            raise PolyplinkError(f"selection is {self.selection!r}", "give eom or leaf")

    def cluster(self, V: Floats, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n); positions are not read.

        With fewer tracklets than min_cluster_size or min_samples, each is its own cluster.
        """
        D = _distances(V)
        if len(D) < max(self.min_cluster_size, self.min_samples):
            return Clustering(np.arange(len(D), dtype=np.int32), True)
        from sklearn.cluster import HDBSCAN  # noqa: PLC0415

        model = HDBSCAN(
            min_cluster_size=self.min_cluster_size,
            min_samples=self.min_samples,
            cluster_selection_method=self.selection,
            metric="precomputed",
            allow_single_cluster=True,
            copy=True,
        )
        return Clustering(_noise_as_singletons(model.fit_predict(D)), True)

    @staticmethod
    def grid() -> list["Hdbscan"]:
        """30 settings: 5 sizes of clusters x 3 numbers of neighbours x 2 selections."""
        sizes, neighbours = (2, 3, 4, 5, 8), (1, 2, 3)
        return list(starmap(Hdbscan, product(sizes, neighbours, get_args(Selection))))

    @staticmethod
    def coarse_grid() -> list["Hdbscan"]:
        """8 settings: 2 sizes of clusters x 2 numbers of neighbours x 2 selections."""
        return list(starmap(Hdbscan, product((2, 3), (1, 2), get_args(Selection))))


@dataclass(frozen=True)
class Agglomerative:
    """Average linkage on 1 - V; time is not used.

    Attributes:
        distance: Mean distance below which two clusters are joined.
    """

    title: ClassVar = "average linkage"

    distance: float

    def cluster(self, V: Floats, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n); positions are not read."""
        return Clustering(average_linkage(V, [self.distance])[0], True)

    @staticmethod
    def grid() -> list["Agglomerative"]:
        """101 distances."""
        return list(map(Agglomerative, HUNDREDTHS))

    @staticmethod
    def coarse_grid() -> list["Agglomerative"]:
        """51 distances."""
        return list(map(Agglomerative, FIFTIETHS))

    @staticmethod
    def cluster_many(
        settings: Sequence["Agglomerative"], V: Floats, positions: npt.ArrayLike, threads: int
    ) -> Clusterings:
        """Cluster one procedure with all distances, from one dendrogram."""
        return _all_converged(average_linkage(V, [setting.distance for setting in settings]))


@dataclass(frozen=True)
class LearnedLinks(Ranged):
    """A partition of low cost under link probabilities, see `partition`.

    Attributes:
        price: Price of a polyp, in expected wrong pairs; a higher one gives fewer clusters.
        tolerance: Probability from which a link lowers the cost, see `partition`.
    """

    title: ClassVar = "learned links"

    price: Annotated[float, NOT_NEGATIVE]
    tolerance: Annotated[float, SHARE] = field(default=TOLERANCE, metadata=ADDED_LATER)

    def cluster(self, V: Floats, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure; V holds link probabilities (n, n), and positions are not read."""
        return Clustering(partition(V, [self.price], tolerance=self.tolerance)[0], True)

    @staticmethod
    def grid() -> list["LearnedLinks"]:
        """33 prices of a polyp."""
        return list(map(LearnedLinks, PRICES))

    @staticmethod
    def cluster_many(
        settings: Sequence["LearnedLinks"], V: Floats, positions: npt.ArrayLike, threads: int
    ) -> Clusterings:
        """Cluster one procedure with all prices at once, from one sequence of merges."""
        by_tolerance = groupby(settings, key=lambda setting: setting.tolerance)
        labels = [
            partition(V, [setting.price for setting in group], tolerance=tolerance)
            for tolerance, group in by_tolerance
        ]
        return _all_converged(np.concatenate(labels))


def clusterer_title(name: str) -> str:
    """The title of a clusterer in tables and figures; its name if it is a plugin without one."""
    return str(getattr(CLUSTERERS.find(name), "title", name))


def threshold_components(V: npt.ArrayLike, thresholds: npt.ArrayLike) -> Labels:
    """Connected components of the graph V >= t, for every threshold t.

    One maximum spanning tree serves all thresholds: two tracklets are connected at threshold t
    exactly when the weakest edge between them on the tree is at least t.
    Source: Intrator et al. 2023, as in the grid of Parolari et al.

    Args:
        V: Similarities (n, n), symmetric; the diagonal is not read.
        thresholds: Thresholds (m,).

    Returns:
        Labels (m, n), int32, numbered from 0 by each component's first tracklet.

    Raises:
        PolyplinkError: If V is not a square of at least one tracklet, or a value is not finite.
    """
    from scipy.sparse import coo_array  # noqa: PLC0415 - slow to import
    from scipy.sparse.csgraph import (  # noqa: PLC0415
        connected_components,
        minimum_spanning_tree,
    )

    S = checked_square(V)
    cuts = _finite("threshold", thresholds)
    # Only the order of the costs matters; shifted above 0, because scipy reads 0 as no edge.
    tree = minimum_spanning_tree(np.triu(S.max() - S + 1.0, k=1)).tocoo()
    start, end, strength = tree.row, tree.col, S[tree.row, tree.col]  # each (n - 1,)
    labels = np.empty((cuts.size, len(S)), dtype=np.int32)
    for row, threshold in enumerate(cuts):
        linked = strength >= threshold
        graph = coo_array((np.ones(linked.sum()), (start[linked], end[linked])), shape=S.shape)
        labels[row] = connected_components(graph, directed=False)[1]
    return labels


def average_linkage(V: npt.ArrayLike, thresholds: npt.ArrayLike) -> Labels:
    """Average-linkage clustering on 1 - V, from one dendrogram for all thresholds.

    Clusters are joined while their mean distance is below the threshold. The labels equal those of
    `sklearn.cluster.AgglomerativeClustering(distance_threshold=..., linkage="average")`, which
    builds the dendrogram anew for every threshold.

    Args:
        V: Similarities (n, n).
        thresholds: Mean distances (m,).

    Returns:
        Labels (m, n), int32.

    Raises:
        PolyplinkError: If a threshold is not finite.
    """
    D = _distances(V)
    cuts = _finite("threshold", thresholds)
    if len(D) == 1:
        return np.zeros((cuts.size, 1), dtype=np.int32)
    # Imported when used: they take a third of a second.
    from scipy.cluster.hierarchy import fcluster, linkage  # noqa: PLC0415
    from scipy.spatial.distance import squareform  # noqa: PLC0415

    tree = linkage(squareform(D, checks=False), method="average")
    below = np.nextafter(cuts, -np.inf)  # fcluster joins up to and including its threshold
    return np.stack([_noise_as_singletons(fcluster(tree, t, criterion="distance")) for t in below])


def _all_converged(labels: Labels) -> Clusterings:
    """Clusterings (settings, n) of a method without iterations."""
    return Clusterings(labels, np.ones(len(labels), dtype=np.bool_))


def _finite(name: str, values: npt.ArrayLike) -> Floats:
    """Values (m,), float64; a value that is not finite is an error."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if not np.isfinite(array).all():
        raise PolyplinkError(f"a {name} is not finite", f"give finite {name}s")
    return array


def _distances(V: npt.ArrayLike) -> Floats:
    """1 - V (n, n): not negative, symmetric, 0 on the diagonal."""
    S = checked_square(V)
    D = np.clip(1.0 - (S + S.T) / 2, 0.0, None)
    np.fill_diagonal(D, 0.0)
    return np.asarray(D)


def _noise_as_singletons(labels: npt.ArrayLike) -> Labels:
    """Make every -1 its own cluster; clusters are numbered by first appearance.

    A noise point of a density method is still a tracklet: if all noise stayed in one cluster -1,
    it would count as one polyp.
    """
    codes = np.asarray(labels, dtype=np.int64)  # (n,)
    numbered = np.where(codes < 0, codes.size + np.arange(codes.size), codes)
    _, first, inverse = np.unique(numbered, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int32)
    rank[np.argsort(first)] = np.arange(first.size)
    return np.asarray(rank[inverse])
