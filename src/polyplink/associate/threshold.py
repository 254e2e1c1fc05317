"""Thresholding: tracklets at least as similar as a threshold are linked; chains are one polyp.

Source: Intrator et al. 2023 (threshold-based association), as in the grid of Parolari et al. All
thresholds are answered from one maximum spanning tree: two tracklets are connected at threshold t
exactly when the weakest edge between them on that tree is at least t.
"""

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from polyplink.associate.similarity import Reals, checked_square
from polyplink.core.errors import PolyplinkError

Labels = npt.NDArray[np.int32]


def _strongest_tree(V: Reals) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Reals]:
    """Ends (n - 1,), (n - 1,) and similarities (n - 1,) of the maximum spanning tree."""
    # The order of the costs is all that counts; shifted above 0 because scipy reads 0 as no edge.
    cost = np.triu(V.max() - V + 1.0, k=1)  # (n, n)
    tree = minimum_spanning_tree(cost).tocoo()
    return tree.row, tree.col, V[tree.row, tree.col]


def threshold_components(V: npt.ArrayLike, thresholds: npt.ArrayLike) -> Labels:
    """Connected components of the graph V >= t for every threshold t.

    Args:
        V: Similarities (n, n), symmetric; the diagonal is not read.
        thresholds: Thresholds (m,).

    Returns:
        Labels (m, n), int32, numbered from 0 by each component's first tracklet.

    Raises:
        PolyplinkError: If V is not a square of at least one tracklet, or a value is not finite.
    """
    similarity = checked_square(V)
    wanted = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    if not np.isfinite(wanted).all():
        raise PolyplinkError("a threshold is not finite", "give finite thresholds")
    n = similarity.shape[0]
    start, end, strength = _strongest_tree(similarity)
    labels = np.empty((wanted.size, n), dtype=np.int32)
    for row, threshold in enumerate(wanted):
        kept = strength >= threshold
        graph = coo_array((np.ones(kept.sum()), (start[kept], end[kept])), shape=(n, n))
        labels[row] = connected_components(graph, directed=False)[1]
    return labels
