"""Grids of settings, and clustering of one procedure under every setting of a grid.

Source: Parolari et al., temporally-aware polyp counting, section 3 (the paper's grids; those of
its code differ).
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, is_dataclass, replace
from functools import lru_cache
from itertools import product, starmap
from typing import Any, Self, get_args

import numpy as np
import numpy.typing as npt

from polyplink.associate.clusterers import (
    Agglomerative,
    Clustering,
    Dbscan,
    Hdbscan,
    LearnedLinks,
    Selection,
    Setting,
    TemporalAP,
    Threshold,
    average_linkage,
    threshold_components,
)
from polyplink.associate.partition import PRICES, Labels, partition
from polyplink.associate.similarity import Reals
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.parts import CLUSTERERS

SELECTIONS = get_args(Selection)


_PARAMETERS = {
    "threshold": "thresholds",
    "dbscan": "dbscans",
    "hdbscan": "hdbscans",
    "agglomerative": "linkages",
    "links": "prices",
}  # by clusterer, the field of a grid that holds its settings


@lru_cache(maxsize=4)  # the paper's grid has 29,274 settings, needed again for every procedure
def _temporal_aps(*values: tuple[float, ...]) -> tuple[TemporalAP, ...]:
    return tuple(starmap(TemporalAP, product(*values)))


@dataclass(frozen=True)
class Grid:
    """The parameters to search.

    Attributes:
        alphas: Weights of the visual similarity, for temporal affinity propagation.
        gammas: Penalties on distance in time, for temporal affinity propagation.
        preferences: Preferences of affinity propagation.
        thresholds: Similarities, for the threshold clusterer.
        dbscans: Settings of DBSCAN.
        hdbscans: Settings of HDBSCAN.
        linkages: Settings of average linkage.
        prices: Prices of a polyp, for learned links.
        others: Settings of all other clusterers, by name.
    """

    alphas: tuple[float, ...] = ()
    gammas: tuple[float, ...] = ()
    preferences: tuple[float, ...] = ()
    thresholds: tuple[float, ...] = ()
    dbscans: tuple[Dbscan, ...] = ()
    hdbscans: tuple[Hdbscan, ...] = ()
    linkages: tuple[Agglomerative, ...] = ()
    prices: tuple[float, ...] = ()
    others: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def temporal_ap(self) -> tuple[TemporalAP, ...]:
        """All settings of affinity propagation: preferences vary fastest, then gammas, alphas."""
        return _temporal_aps(self.alphas, self.gammas, self.preferences)

    def ap_rows(self) -> tuple[int, ...]:
        """Indices in `temporal_ap` of the settings without time: affinity propagation on V."""
        rows = enumerate(self.temporal_ap())
        return tuple(i for i, s in rows if s.alpha == 1 and s.gamma == self.gammas[0])

    def in_frames(self, span: float) -> Self:
        """Convert gammas per frame to gammas for positions normalised by a span of frames."""
        return replace(self, gammas=tuple(gamma * span for gamma in self.gammas))

    def by_clusterer(self) -> dict[str, tuple[Setting, ...]]:
        """Settings by clusterer, in the order of the registry, without empty ones."""
        all_settings = self.temporal_ap()
        built_in: dict[str, tuple[Setting, ...]] = {
            "temporal_ap": all_settings,
            "ap": tuple(all_settings[row] for row in self.ap_rows()),
            "threshold": tuple(Threshold(value) for value in self.thresholds),
            "dbscan": self.dbscans,
            "hdbscan": self.hdbscans,
            "agglomerative": self.linkages,
            "links": tuple(LearnedLinks(price) for price in self.prices),
        }
        return {
            name: settings for name, settings in {**built_in, **self.others}.items() if settings
        }

    def only(self, clusterers: Sequence[str]) -> Self:
        """The part of the grid that some clusterers need.

        Clusterers of packages and files, for which the grid has no parameters, have settings of
        their own.

        Raises:
            PolyplinkError: If a clusterer is unknown, or the grid has no setting for it.
        """
        have = self.by_clusterer()
        others = {}
        for name in clusterers:
            if name in ("temporal_ap", "ap", *_PARAMETERS):
                find_named("clusterer", name, have)
            else:
                with CLUSTERERS.running(name):
                    others[name] = self.others.get(name) or tuple(CLUSTERERS.find(name).grid())
                if not len(others[name]):
                    raise PolyplinkError(
                        f"the grid() of clusterer {name!r} has no setting",
                        "return a list of clusterers with their parameters set",
                    )
                if not all(map(is_dataclass, others[name])):
                    raise PolyplinkError(
                        f"a setting of clusterer {name!r} is no dataclass, so it cannot be "
                        "recorded",
                        "decorate its class with @dataclass(frozen=True)",
                    )
        unused: dict[str, Any] = {
            field: () for name, field in _PARAMETERS.items() if name not in clusterers
        }
        if "temporal_ap" not in clusterers:  # AP on V alone needs alpha 1 and any one gamma
            unused |= {"alphas": (), "gammas": ()}
            unused |= {"alphas": (1.0,), "gammas": self.gammas[:1]} if "ap" in clusterers else {}
        return replace(self, **unused, others=others)


def paper_grid() -> Grid:
    """The paper's grids: 21 x 34 x 41 = 29,274 affinity propagations and 101 thresholds.

    The papers have no grid for the other clusterers. This one adds 150 settings of DBSCAN, 30 of
    HDBSCAN, 101 of average linkage, and 33 prices of a polyp for learned links.
    """
    # Divided, not multiplied: 3 * 0.1 is not 0.3.
    hundredths = tuple((np.arange(101) / 100).tolist())
    eps = (np.arange(1, 51) / 50).tolist()
    return Grid(
        alphas=tuple((np.arange(21) / 20).tolist()),
        gammas=(*(np.arange(1, 10) / 10).tolist(), *(1 + 0.375 * np.arange(25)).tolist()),
        preferences=tuple((-5 + np.arange(41) / 4).tolist()),
        thresholds=hundredths,
        dbscans=tuple(Dbscan(e, count) for count, e in product((2, 3, 5), eps)),
        hdbscans=tuple(starmap(Hdbscan, product((2, 3, 4, 5, 8), (1, 2, 3), SELECTIONS))),
        linkages=tuple(map(Agglomerative, hundredths)),
        prices=PRICES,
    )


def demo_grid() -> Grid:
    """A coarse grid for a first look: 5 x 5 x 13 = 325 affinity propagations, 51 thresholds.

    It also has 20 settings of DBSCAN, 8 of HDBSCAN, 51 of average linkage and 33 of learned links.
    All preferences but one lie between -5 and 1: above 1, the largest similarity, every tracklet is
    its own cluster.
    """
    fiftieths = tuple((np.arange(51) / 50).tolist())
    eps = (np.arange(1, 11) / 10).tolist()
    return Grid(
        alphas=tuple((np.arange(5) / 4).tolist()),
        gammas=(0.3, 0.9, 2.5, 5.5, 10.0),
        preferences=(-5.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 0.85, 0.9, 0.95, 1.25),
        thresholds=fiftieths,
        dbscans=tuple(Dbscan(e, count) for count, e in product((2, 3), eps)),
        hdbscans=tuple(starmap(Hdbscan, product((2, 3), (1, 2), SELECTIONS))),
        linkages=tuple(map(Agglomerative, fiftieths)),
        prices=PRICES,
    )


@dataclass(frozen=True)
class Clusterings:
    """The clusterings of one procedure by one clusterer, one row per setting.

    Attributes:
        labels: Cluster of every tracklet under every setting (settings, n), int32.
        converged: Whether each clustering converged (settings,).
    """

    labels: Labels
    converged: npt.NDArray[np.bool_]


def search(
    V: Reals,
    positions: npt.ArrayLike,
    grid: Grid,
    *,
    P: Reals | None = None,
    threads: int = 1,
) -> dict[str, Clusterings]:
    """Cluster one procedure with every clusterer of a grid.

    Affinity propagation on V alone is taken from the temporal one (alpha = 1) at no cost.

    Args:
        V: Visual similarities (n, n) in [0, 1], see `visual`.
        positions: Positions (n,) in [0, 1].
        grid: The settings.
        P: Probability that two tracklets show the same polyp (n, n), for learned links; without
            it, learned links are left out.
        threads: Thread pool for affinity propagation; the result does not depend on it.

    Returns:
        By clusterer, in the order of `CLUSTERERS`: labels (settings, n) and converged
        (settings,), in the order of `grid.by_clusterer()`.

    Raises:
        PolyplinkError: If the grid has no setting, or V and positions differ in length.

    Example:
        >>> V = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
        >>> search(V, [0.0, 0.1, 1.0], Grid(thresholds=(0.05, 0.5)))["threshold"].labels
        array([[0, 0, 0],
               [0, 0, 1]], dtype=int32)
    """
    kinds = (grid if P is not None else replace(grid, prices=())).by_clusterer()
    if not kinds:
        raise PolyplinkError("the grid has no setting", "give it parameters, or use paper_grid()")
    clusterings: dict[str, Clusterings] = {}
    if "temporal_ap" in kinds:
        # It imports numba.
        from polyplink.associate.affinity.propagate import propagate, tie_noise  # noqa: PLC0415

        # A task of the thread pool is one (alpha, gamma) with all preferences. With alpha = 1 time
        # does not matter, so all gammas share one clustering.
        noise = tie_noise(len(V))
        pairs = [(a, grid.gammas[0] if a == 1 else g) for a, g in product(grid.alphas, grid.gammas)]
        distinct = list(dict.fromkeys(pairs))

        def propagate_all(pair: tuple[float, float]) -> tuple[Labels, npt.NDArray[np.bool_]]:
            S = TemporalAP(*pair, preference=0.0).similarity(V, positions)
            return propagate(S, grid.preferences, noise)

        with ThreadPoolExecutor(threads) as pool:
            by_pair = dict(zip(distinct, pool.map(propagate_all, distinct), strict=True))
        labels, converged = (np.concatenate([by_pair[pair][k] for pair in pairs]) for k in (0, 1))
        rows = np.asarray(grid.ap_rows(), dtype=np.int64)
        clusterings["temporal_ap"] = Clusterings(labels, converged)
        clusterings["ap"] = Clusterings(labels[rows], converged[rows])
    for name, settings in kinds.items():
        if name in clusterings:
            continue
        converged = np.ones(len(settings), dtype=np.bool_)
        if name == "threshold":
            labels = threshold_components(V, grid.thresholds)
        elif name == "agglomerative":
            labels = average_linkage(V, [setting.distance for setting in grid.linkages])
        elif name == "links" and P is not None:
            labels = partition(P, grid.prices)
        else:
            with CLUSTERERS.running(name):
                clustered = [checked_clustering(s, V, positions, name) for s in settings]
            labels = np.array([clustering.labels for clustering in clustered])
            converged = np.array([clustering.converged for clustering in clustered])
        clusterings[name] = Clusterings(labels, converged)
    return {name: clusterings[name] for name in kinds}


def checked_clustering(
    setting: Any, V: Reals, positions: npt.ArrayLike, clusterer: str
) -> Clustering:
    """Cluster with one setting of a clusterer, on copies, because code of others may write to them.

    Args:
        setting: The clusterer with its parameters set.
        V: Visual similarities (n, n).
        positions: Positions (n,).
        clusterer: The name of the clusterer, for messages.

    Raises:
        PolyplinkError: If the result does not label the n tracklets.
    """
    clustering = setting.cluster(np.array(V), np.array(positions))
    if not isinstance(clustering, Clustering):
        raise PolyplinkError(
            f"clusterer {clusterer!r} returns {type(clustering).__name__}, not a Clustering",
            "return polyplink.associate.clusterers.Clustering(labels, converged)",
        )
    labels = np.asarray(clustering.labels)
    if labels.shape != (len(V),) or labels.dtype.kind not in "iu":
        raise PolyplinkError(
            f"clusterer {clusterer!r} gives labels of shape {labels.shape} and type "
            f"{labels.dtype}, not ({len(V)},) whole numbers",
            "give every tracklet a label",
        )
    return clustering


def find_grid(name: str) -> Grid:
    """A grid of settings by name: "paper" or "demo".

    Raises:
        PolyplinkError: If no grid has the name.
    """
    return find_named("grid", name, {"paper": paper_grid, "demo": demo_grid})()
