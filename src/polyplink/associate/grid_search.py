"""Grids of settings, and clustering of one procedure under every setting of a grid."""

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from polyplink.associate.clusterers import Clustering, Clusterings, Setting
from polyplink.core.arrays import Floats
from polyplink.core.errors import PolyplinkError, find_named
from polyplink.core.parts import CLUSTERERS

Grid = Mapping[str, Sequence[Setting]]
"""The settings to search, by clusterer."""


def find_grid(name: str, clusterers: Sequence[str] = ()) -> Grid:
    """The settings of a grid by name.

    Args:
        name: "paper", what `grid` of each clusterer gives; or "demo" for a first look, what
            `coarse_grid` gives where a clusterer has it.
        clusterers: Names of clusterers; by default, all that are built in.

    Raises:
        PolyplinkError: If no grid or clusterer has the name, or a clusterer gives no setting, or
            one that cannot be recorded.
    """
    method = find_named("grid", name, {"paper": "grid", "demo": "coarse_grid"})
    grid = {}
    for clusterer in clusterers or CLUSTERERS:
        part = CLUSTERERS.find(clusterer)
        with CLUSTERERS.running(clusterer):
            settings = tuple(getattr(part, method, part.grid)())
        if not settings:
            raise PolyplinkError(
                f"the grid() of clusterer {clusterer!r} has no setting",
                "return a list of clusterers with their parameters set",
            )
        if not all(map(is_dataclass, settings)):
            raise PolyplinkError(
                f"a setting of clusterer {clusterer!r} is no dataclass, so it cannot be recorded",
                "decorate its class with @dataclass(frozen=True)",
            )
        grid[clusterer] = settings
    return grid


def without_links(grid: Grid) -> Grid:
    """A grid without learned links."""
    return {name: settings for name, settings in grid.items() if name != "links"}


def search(
    V: Floats,
    positions: npt.ArrayLike,
    grid: Grid,
    *,
    P: Floats | None = None,
    threads: int = 1,
) -> dict[str, Clusterings]:
    """Cluster one procedure with every clusterer of a grid.

    Args:
        V: Visual similarities (n, n) in [0, 1], see `visual`.
        positions: Positions (n,) in [0, 1].
        grid: The settings.
        P: Probability that two tracklets show the same polyp (n, n), for learned links; without
            it, learned links are left out.
        threads: Number of threads; the result does not depend on it.

    Returns:
        By clusterer, in the order of the grid: labels (settings, n) and converged (settings,).

    Raises:
        PolyplinkError: If the grid has no setting, or V and positions differ in length.

    Example:
        >>> from polyplink.associate.clusterers import Threshold
        >>> V = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
        >>> grid = {"threshold": [Threshold(0.05), Threshold(0.5)]}
        >>> search(V, [0.0, 0.1, 1.0], grid)["threshold"].labels
        array([[0, 0, 0],
               [0, 0, 1]], dtype=int32)
    """
    searched = grid if P is not None else without_links(grid)
    if not searched or not all(searched.values()):
        raise PolyplinkError("the grid has no setting", "take one of find_grid, or add settings")
    clusterings = {}
    for name, settings in searched.items():
        similarity = P if name == "links" and P is not None else V
        with CLUSTERERS.running(name):
            clusterings[name] = cluster_all(settings, similarity, positions, name, threads)
    return clusterings


def cluster_all(
    settings: Sequence[Setting], V: Floats, positions: npt.ArrayLike, clusterer: str, threads: int
) -> Clusterings:
    """Cluster with many settings of one clusterer, at once if its class can.

    Args:
        settings: The clusterer with its parameters set, one or more.
        V: Visual similarities (n, n).
        positions: Positions (n,).
        clusterer: The name of the clusterer, for messages.
        threads: Number of threads.

    Raises:
        PolyplinkError: If the result does not label the n tracklets.
    """
    cluster_many = getattr(type(settings[0]), "cluster_many", None)
    if cluster_many is None:
        results = [checked_clustering(setting, V, positions, clusterer) for setting in settings]
        labels = np.array([result.labels for result in results])
        return Clusterings(labels, np.array([result.converged for result in results]))
    returned = cluster_many(settings, np.array(V), np.array(positions), threads)
    clusterings = CLUSTERERS.check_returned(clusterer, returned, Clusterings)
    _check_labels(clusterings.labels, (len(settings), len(V)), clusterer)
    return clusterings


def checked_clustering(
    setting: Any, V: Floats, positions: npt.ArrayLike, clusterer: str
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
    _check_labels(clustering.labels, (len(V),), clusterer)
    return clustering


def _check_labels(returned: npt.ArrayLike, shape: tuple[int, ...], clusterer: str) -> None:
    labels = np.asarray(returned)
    if labels.shape != shape or labels.dtype.kind not in "iu":
        raise PolyplinkError(
            f"clusterer {clusterer!r} gives labels of shape {labels.shape} and type "
            f"{labels.dtype}, not {shape} whole numbers",
            "give every tracklet a label",
        )
    n = shape[-1]
    if labels.size and (labels.min() < 0 or labels.max() >= n):
        outside = next(label for label in (labels.min(), labels.max()) if not 0 <= label < n)
        raise PolyplinkError(
            f"clusterer {clusterer!r} gives the label {outside} to one of {n} tracklets",
            "number the clusters from 0 without gaps",
        )
