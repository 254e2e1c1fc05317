"""Settings of the clusterers and the grids they are searched on.

Source: Parolari et al., temporally-aware polyp counting, section 3 (the paper's grids; the grids
in its program differ).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from polyplink.associate.affinity import propagate
from polyplink.associate.density import Selection, average_linkage, dbscan, hdbscan
from polyplink.associate.similarity import Reals, combine, temporal
from polyplink.associate.threshold import threshold_components
from polyplink.core.errors import find_named

Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Clustering:
    """The clusters of one procedure.

    Attributes:
        labels: Cluster of every tracklet (n,), int32, from 0 without gaps.
        converged: Whether the algorithm settled before its limit of rounds.
    """

    labels: Labels
    converged: bool


class Setting(Protocol):
    """A clusterer with its parameters chosen."""

    def cluster(self, V: Reals, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n) and positions (n,) in [0, 1]."""
        ...


@dataclass(frozen=True)
class TemporalAP:
    """Affinity propagation on S = alpha V + (1 - alpha) T; alpha = 1 is AP on V alone.

    Attributes:
        alpha: Share of the visual similarity, in [0, 1].
        gamma: Penalty on distance in time.
        preference: How much a tracklet wants to be a cluster's exemplar.
    """

    alpha: float
    gamma: float
    preference: float

    def similarity(self, V: Reals, positions: npt.ArrayLike) -> Reals:
        """S (n, n) from V (n, n) and positions (n,)."""
        return combine(V, temporal(positions, self.gamma), self.alpha)

    def cluster(self, V: Reals, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n) and positions (n,) in [0, 1]."""
        labels, converged = propagate(self.similarity(V, positions), [self.preference])
        return Clustering(labels[0], bool(converged[0]))


@dataclass(frozen=True)
class Threshold:
    """Connected components of V >= value; time is not used.

    Attributes:
        value: The similarity from which two tracklets are linked.
    """

    value: float

    def cluster(self, V: Reals, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n); positions are not read."""
        return Clustering(threshold_components(V, [self.value])[0], True)


@dataclass(frozen=True)
class Dbscan:
    """DBSCAN on 1 - V; noise stands alone, time is not used.

    Attributes:
        eps: Distance up to which two tracklets are neighbours.
        min_samples: Neighbours, itself included, that make a tracklet a core.
    """

    eps: float
    min_samples: int

    def cluster(self, V: Reals, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n); positions are not read."""
        return Clustering(dbscan(V, self.eps, self.min_samples), True)


@dataclass(frozen=True)
class Hdbscan:
    """HDBSCAN on 1 - V; noise stands alone, time is not used.

    Attributes:
        min_cluster_size: Tracklets of the smallest cluster.
        min_samples: Neighbours, itself included, that distances are smoothed over.
        selection: Which clusters of the tree: the most stable ("eom") or the finest ("leaf").
    """

    min_cluster_size: int
    min_samples: int
    selection: Selection = "eom"

    def cluster(self, V: Reals, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n); positions are not read."""
        labels = hdbscan(V, self.min_cluster_size, self.min_samples, self.selection)
        return Clustering(labels, True)


@dataclass(frozen=True)
class Agglomerative:
    """Average linkage on 1 - V; time is not used.

    Attributes:
        distance: Mean distance below which two clusters are joined.
    """

    distance: float

    def cluster(self, V: Reals, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n); positions are not read."""
        return Clustering(average_linkage(V, [self.distance])[0], True)


CLUSTERERS = ("temporal_ap", "ap", "threshold", "dbscan", "hdbscan", "agglomerative")


@dataclass(frozen=True)
class Grid:
    """The parameters to search.

    Attributes:
        alphas: For temporal affinity propagation, as are the next two.
        gammas: Penalties on distance in time.
        preferences: Preferences.
        thresholds: For the threshold clusterer.
        dbscans: Settings of DBSCAN.
        hdbscans: Settings of HDBSCAN.
        linkages: Settings of average linkage.
    """

    alphas: tuple[float, ...] = ()
    gammas: tuple[float, ...] = ()
    preferences: tuple[float, ...] = ()
    thresholds: tuple[float, ...] = ()
    dbscans: tuple[Dbscan, ...] = ()
    hdbscans: tuple[Hdbscan, ...] = ()
    linkages: tuple[Agglomerative, ...] = ()

    def temporal_ap(self) -> tuple[TemporalAP, ...]:
        """Every affinity propagation, preferences changing fastest, then gammas, then alphas."""
        return tuple(
            TemporalAP(alpha, gamma, preference)
            for alpha, gamma, preference in product(self.alphas, self.gammas, self.preferences)
        )

    def threshold(self) -> tuple[Threshold, ...]:
        """Every threshold."""
        return tuple(Threshold(value) for value in self.thresholds)

    def settings(self) -> tuple[Setting, ...]:
        """Those in the rows of a `sweep`, in its order: affinity propagation, thresholds."""
        return (*self.temporal_ap(), *self.threshold())

    def visual_rows(self) -> tuple[int, ...]:
        """Rows of `temporal_ap` in which time has no say: affinity propagation on V alone."""
        rows = enumerate(self.temporal_ap())
        return tuple(i for i, s in rows if s.alpha == 1 and s.gamma == self.gammas[0])

    def by_clusterer(self) -> dict[str, tuple[Setting, ...]]:
        """Settings by the clusterer's name, as far as there are any; see `CLUSTERERS`."""
        every = self.temporal_ap()
        named: tuple[tuple[Setting, ...], ...] = (
            every,
            tuple(every[row] for row in self.visual_rows()),
            self.threshold(),
            self.dbscans,
            self.hdbscans,
            self.linkages,
        )
        return {name: found for name, found in zip(CLUSTERERS, named, strict=True) if found}

    def only(self, clusterers: Sequence[str]) -> Self:
        """The part of the grid that some clusterers need.

        Raises:
            PolyplinkError: If one is unknown, or has no setting here.
        """
        have = self.by_clusterer()
        for name in clusterers:
            find_named("clusterer", name, have)
        timed = "temporal_ap" in clusterers
        part = self
        if not timed:  # affinity propagation on V alone needs alpha 1 and any one gamma
            alone = "ap" in clusterers
            part = replace(
                self, alphas=(1.0,) if alone else (), gammas=self.gammas[:1] if alone else ()
            )
        return replace(
            part,
            thresholds=self.thresholds if "threshold" in clusterers else (),
            dbscans=self.dbscans if "dbscan" in clusterers else (),
            hdbscans=self.hdbscans if "hdbscan" in clusterers else (),
            linkages=self.linkages if "agglomerative" in clusterers else (),
        )


def _steps(numbers: npt.NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(numbers.tolist())


def paper_grid() -> Grid:
    """The paper's grids: 21 x 34 x 41 = 29,274 affinity propagations and 101 thresholds.

    For the other clusterers no paper gives a grid; these are ours: 150 settings of DBSCAN, 30 of
    HDBSCAN and 101 of average linkage.
    """
    # Divided, not multiplied: 3 * 0.1 is not 0.3.
    return Grid(
        alphas=_steps(np.arange(21) / 20),
        gammas=_steps(np.concatenate([np.arange(1, 10) / 10, 1 + 0.375 * np.arange(25)])),
        preferences=_steps(-5 + np.arange(41) / 4),
        thresholds=_steps(np.arange(101) / 100),
        dbscans=_dbscans(np.arange(1, 51) / 50, (2, 3, 5)),
        hdbscans=_hdbscans((2, 3, 4, 5, 8), (1, 2, 3)),
        linkages=tuple(Agglomerative(v) for v in _steps(np.arange(101) / 100)),
    )


def _dbscans(eps: Reals, min_samples: tuple[int, ...]) -> tuple[Dbscan, ...]:
    return tuple(Dbscan(e, m) for m, e in product(min_samples, _steps(eps)))


def _hdbscans(sizes: tuple[int, ...], min_samples: tuple[int, ...]) -> tuple[Hdbscan, ...]:
    kinds: tuple[Selection, ...] = ("eom", "leaf")
    return tuple(Hdbscan(*each) for each in product(sizes, min_samples, kinds))


def demo_grid() -> Grid:
    """A coarse grid for a first look: 5 x 5 x 13 = 325 affinity propagations, 51 thresholds.

    Of DBSCAN 20 settings, of HDBSCAN 8, of average linkage 51.
    Preferences lie between -5 and 1: above 1, the largest similarity, every tracklet is alone.
    """
    return Grid(
        alphas=_steps(np.arange(5) / 4),
        gammas=(0.3, 0.9, 2.5, 5.5, 10.0),
        preferences=(-5.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 0.85, 0.9, 0.95, 1.25),
        thresholds=_steps(np.arange(51) / 50),
        dbscans=_dbscans(np.arange(1, 11) / 10, (2, 3)),
        hdbscans=_hdbscans((2, 3), (1, 2)),
        linkages=tuple(Agglomerative(v) for v in _steps(np.arange(51) / 50)),
    )
