"""One procedure clustered under every setting of every clusterer of a grid."""

import numpy as np
import numpy.typing as npt

from polyplink.associate.density import average_linkage
from polyplink.associate.settings import Grid, Setting
from polyplink.associate.similarity import Reals
from polyplink.associate.sweep import Sweep, sweep
from polyplink.core.errors import PolyplinkError


def search(V: Reals, positions: npt.ArrayLike, grid: Grid, *, threads: int = 1) -> dict[str, Sweep]:
    """Cluster one procedure with every clusterer of a grid.

    Affinity propagation on V alone is a part of the temporal one (alpha = 1), and costs nothing.

    Args:
        V: Visual similarities (n, n) in [0, 1], see `visual`.
        positions: Positions (n,) in [0, 1].
        grid: The settings.
        threads: Blocks of affinity propagation to run side by side; the result is the same.

    Returns:
        By clusterer, in the order of `CLUSTERERS`: labels (settings, n) and converged
        (settings,), in the order of `grid.by_clusterer()`.

    Raises:
        PolyplinkError: If the grid has no setting, or V and positions are not of one procedure.
    """
    kinds = grid.by_clusterer()
    if not kinds:
        raise PolyplinkError("the grid has no setting", "give it parameters, or use paper_grid()")
    found: dict[str, Sweep] = {}
    timed = len(kinds.get("temporal_ap", ()))
    if timed or "threshold" in kinds:
        both = sweep(V, positions, grid, threads=threads)
        parts = {
            "temporal_ap": np.arange(timed),
            "ap": np.asarray(grid.visual_rows(), dtype=np.int64),
            "threshold": np.arange(timed, len(both.labels)),
        }
        for name, rows in parts.items():
            # A slice is no copy, and the first part is nearly all there is.
            part = slice(timed) if name == "temporal_ap" else rows
            found[name] = Sweep(both.labels[part], both.converged[part])
    for name in ("dbscan", "hdbscan"):
        found[name] = _one_by_one(V, positions, kinds.get(name, ()))
    if grid.linkages:
        labels = average_linkage(V, [setting.distance for setting in grid.linkages])
        found["agglomerative"] = Sweep(labels, np.ones(len(labels), dtype=np.bool_))
    return {name: found[name] for name in kinds}


def _one_by_one(V: Reals, positions: npt.ArrayLike, settings: tuple[Setting, ...]) -> Sweep:
    done = [setting.cluster(V, positions) for setting in settings]
    labels = np.array([one.labels for one in done], dtype=np.int32).reshape(len(done), len(V))
    return Sweep(labels, np.array([one.converged for one in done], dtype=np.bool_))
