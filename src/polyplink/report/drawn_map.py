"""Vectors as points in the plane, by polyp: t-SNE, or PCA where there are few."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.figure import Figure
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from polyplink.core.errors import PolyplinkError
from polyplink.report.drawn import GREY, hue, look, marker, sheet

Way = Literal["tsne", "pca"]
FEWEST = 10  # points below which t-SNE says nothing
MOST = 40  # polyps in the key; more would hide the points


def flatten(vectors: np.ndarray, way: Way = "tsne", seed: int = 0) -> np.ndarray:
    """Vectors of length 1 brought to the plane.

    Args:
        vectors: (n, d), n at least 2.
        way: "tsne" (on cosines) or "pca"; fewer than ten points are always "pca".
        seed: Of t-SNE.

    Returns:
        (n, 2).

    Raises:
        PolyplinkError: If there are fewer than two vectors, or one is zero or not finite.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if len(vectors) < 2 or not np.isfinite(norms).all() or (norms == 0).any():
        raise PolyplinkError(
            f"{len(vectors)} vectors to draw, or one that is zero or not finite",
            "give a part with more tracklets, or embed again",
        )
    unit = (vectors / norms).astype(np.float64)  # n d
    if way == "pca" or len(unit) < FEWEST:
        flat = PCA(2).fit_transform(unit) if unit.shape[1] > 1 else np.c_[unit, 0 * unit]
        return np.asarray(flat)
    nearest = min(30.0, (len(unit) - 1) / 3)
    found = TSNE(perplexity=nearest, metric="cosine", init="random", random_state=seed)
    return np.asarray(found.fit_transform(unit))


def draw_map(points: np.ndarray, polyps: Sequence[str], title: str, subtitle: str = "") -> Figure:
    """Every tracklet as a point; hue and marker tell its polyp.

    Args:
        points: (n, 2).
        polyps: Name of each tracklet's polyp (n,).
        title: How the points came about.
        subtitle: Encoder and data.
    """
    names = list(dict.fromkeys(polyps))
    own = np.array([names.index(polyp) for polyp in polyps])
    with look():
        figure, (axis,) = sheet(6.6, 4.4)
        for index, name in enumerate(names):
            x, y = points[own == index].T
            axis.scatter(
                x,
                y,
                s=26,
                color=hue(index),
                marker=marker(index),
                edgecolor="white",
                linewidth=0.5,
                alpha=0.9,
                label=name if len(names) <= MOST else None,
            )
        axis.set(title=title, xticks=[], yticks=[])
        axis.grid(visible=False)
        axis.spines[:].set_visible(True)
        axis.spines[:].set_color("#d0d0d0")
        if len(names) <= MOST:
            axis.legend(
                loc="center left",
                bbox_to_anchor=(1.0, 0.5),
                fontsize=7,
                ncols=1 + (len(names) - 1) // 20,
                title="polyp",
            )
        figure.suptitle(subtitle, fontsize=8, color=GREY, x=0.01, ha="left")
    return figure
