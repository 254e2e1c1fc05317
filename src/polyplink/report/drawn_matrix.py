"""Similarity matrices: every tracklet against every other, polyp by polyp, encoder by encoder."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from polyplink.report.drawn import GREY, look, sheet


def polyp_order(polyps: Sequence[int], positions: np.ndarray) -> np.ndarray:
    """Rows (n,) so that each polyp's tracklets stand together, by time within it.

    Polyps come in the order in which they are first seen.
    """
    codes = np.asarray(polyps)
    first = {code: positions[codes == code].min() for code in np.unique(codes)}
    start = np.array([first[code] for code in codes])
    return np.lexsort((positions, codes, start))


def _similarity(rows: np.ndarray) -> np.ndarray:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)  # n n


def draw_matrices(
    vectors: Mapping[str, np.ndarray], polyps: Sequence[int], positions: np.ndarray, title: str
) -> Figure:
    """One panel for each encoder; lines between polyps.

    Args:
        vectors: Encoder -> vectors (n, d) of the same tracklets, at least one.
        polyps: Code of each tracklet's polyp (n,).
        positions: Its position in time (n,).
        title: What the tracklets are of.
    """
    order = polyp_order(polyps, positions)
    codes = np.asarray(polyps)[order]
    edges = np.flatnonzero(np.diff(codes)) + 1
    centres = np.diff(np.concatenate([[0], edges, [len(codes)]])) / 2
    centres += np.concatenate([[0], edges])
    with look():
        figure, axes = sheet(3.1 * len(vectors) + 0.9, 3.4, columns=len(vectors))
        found = {name: _similarity(rows[order]) for name, rows in vectors.items()}
        lowest = min(float(S.min()) for S in found.values())
        for axis, (name, S) in zip(axes, found.items(), strict=True):
            drawn = axis.imshow(S, vmin=lowest, vmax=1, cmap="viridis", interpolation="nearest")
            for edge in edges:
                axis.axhline(edge - 0.5, color="white", lw=1.2)
                axis.axvline(edge - 0.5, color="white", lw=1.2)
            axis.grid(visible=False)
            numbers = [str(i + 1) for i in range(len(centres))]
            axis.set_xticks(centres - 0.5, numbers)
            axis.set_yticks(centres - 0.5, numbers)
            axis.tick_params(length=0)
            axis.set(title=name, xlabel="polyp")
        axes[0].set_ylabel("polyp")
        figure.colorbar(drawn, ax=axes, shrink=0.8, label="cosine similarity")
        figure.suptitle(title, fontsize=8, color=GREY, x=0.01, ha="left")
    return figure
