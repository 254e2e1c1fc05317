"""The clusterers as scikit-learn estimators: fit, fit_predict, get_params, clone, grid search.

Each wraps a setting (see `clusterers`) and the visual similarity. X holds the embeddings of one
procedure's tracklets or, with `affinity="precomputed"`, their visual similarities V in [0, 1].
Importing scikit-learn takes a second, so no other module imports this one:

    from polyplink.associate.estimators import TemporalAPClustering
"""

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import validate_data

from polyplink.associate.clusterers import (
    AffinityPropagation,
    Agglomerative,
    Clustering,
    Dbscan,
    Hdbscan,
    LearnedLinks,
    Selection,
    TemporalAP,
    Threshold,
)
from polyplink.associate.partition import TOLERANCE
from polyplink.associate.similarity import visual

Affinity = Literal["raw_l2", "l2", "sigmoid", "precomputed"]


@dataclass(repr=False, eq=False)
class _Clustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: parameters are the fields of a dataclass.

    Attributes:
        affinity: Form of the visual similarity of embeddings X, see `visual`; or "precomputed" if
            X is V.
        labels_: Cluster of every tracklet (n,), int32, from 0 without gaps.
        converged_: Whether the algorithm converged before its limit of rounds.
        n_clusters_: Number of clusters: the count.
    """

    affinity: Affinity = field(default="l2", kw_only=True)
    labels_: npt.NDArray[np.int32] = field(init=False)
    converged_: bool = field(init=False)
    n_clusters_: int = field(init=False)
    _kind: ClassVar[type[Any]]  # the setting, made of the parameters of the same names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags

    def fit(
        self, X: npt.ArrayLike, y: object = None, positions: npt.ArrayLike | None = None
    ) -> Self:
        """Cluster one procedure.

        Args:
            X: Embeddings (n, d), or V (n, n) if `affinity` is "precomputed".
            y: Not read.
            positions: Positions (n,) in [0, 1], for estimators that use time.

        Raises:
            ValueError: If X is not a matrix of finite numbers, or the affinity is unknown.
            PolyplinkError: If a row is zero, or a position is not in [0, 1].
        """
        if self.affinity not in get_args(Affinity):
            raise ValueError(f"affinity {self.affinity!r}; choose one of {get_args(Affinity)}")
        V = validate_data(self, X, dtype=np.float64)  # (n, d)
        if self.affinity != "precomputed":
            V = visual(V, self.affinity)
        elif V.shape[0] != V.shape[1]:
            raise ValueError(f"Precomputed similarities must be square: shape {V.shape}")
        parameters = {item.name: getattr(self, item.name) for item in fields(self._kind)}
        if positions is None and parameters.get("alpha", 1) != 1:
            raise ValueError("time matters (alpha < 1): give fit(X, positions=...)")
        times = np.zeros(len(V)) if positions is None else positions
        clustering: Clustering = self._kind(**parameters).cluster(V, times)
        self.labels_, self.converged_ = clustering.labels, clustering.converged
        self.n_clusters_ = int(clustering.labels.max()) + 1
        return self

    def fit_predict(
        self, X: npt.ArrayLike, y: object = None, positions: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.int32]:
        """Cluster one procedure, see `fit`, and return the labels (n,)."""
        return self.fit(X, y, positions).labels_


@dataclass(repr=False, eq=False)
class ThresholdClustering(_Clustering):
    """Connected components of V >= value, see `Threshold`."""

    value: float = 0.5
    _kind = Threshold


@dataclass(repr=False, eq=False)
class APClustering(_Clustering):
    """Affinity propagation on V alone, see `AffinityPropagation`."""

    preference: float = 0.0
    _kind = AffinityPropagation


@dataclass(repr=False, eq=False)
class TemporalAPClustering(_Clustering):
    """Affinity propagation on S = alpha V + (1 - alpha) T, see `TemporalAP`."""

    alpha: float = 0.5
    gamma: float = 1.0
    preference: float = 0.0
    _kind = TemporalAP


@dataclass(repr=False, eq=False)
class DBSCANClustering(_Clustering):
    """DBSCAN on 1 - V, each noise point its own cluster, see `Dbscan`."""

    eps: float = 0.5
    min_samples: int = 2
    _kind = Dbscan


@dataclass(repr=False, eq=False)
class HDBSCANClustering(_Clustering):
    """HDBSCAN on 1 - V, each noise point its own cluster, see `Hdbscan`."""

    min_cluster_size: int = 2
    min_samples: int = 1
    selection: Selection = "eom"
    _kind = Hdbscan


@dataclass(repr=False, eq=False)
class AgglomerativeClustering(_Clustering):
    """Average linkage on 1 - V, see `Agglomerative`."""

    distance: float = 0.5
    _kind = Agglomerative


@dataclass(repr=False, eq=False)
class LinksClustering(_Clustering):
    """A partition of low cost, see `partition`; X holds link probabilities (n, n)."""

    affinity: Affinity = field(default="precomputed", kw_only=True)
    price: float = 3.0
    tolerance: float = TOLERANCE
    _kind = LearnedLinks
