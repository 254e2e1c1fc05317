"""Fragmentation against false positives over a whole grid, and recall at k."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from polyplink.report.drawn import GREY, hue, look, marker, sheet

NAMES = {
    "temporal_ap": "temporal affinity propagation",
    "ap": "affinity propagation",
    "threshold": "threshold",
    "dbscan": "DBSCAN",
    "hdbscan": "HDBSCAN",
    "agglomerative": "average linkage",
}


def frontier(fr: np.ndarray, fpr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Settings that no other one beats in both: rates (m,) rising in FPR, falling in FR.

    Args:
        fr: Fragmentation rates of s settings (s,).
        fpr: Their false positive rates (s,).

    Returns:
        FPR (m,) and FR (m,).
    """
    order = np.lexsort((fr, fpr))
    best = np.minimum.accumulate(fr[order])
    kept = np.concatenate([[True], best[1:] < best[:-1]])
    return fpr[order][kept], fr[order][kept]


def draw_rates(rates: Mapping[str, tuple[np.ndarray, np.ndarray]], subtitle: str) -> Figure:
    """Every setting as a dot, and each clusterer's frontier as a line.

    Args:
        rates: Clusterer -> FR (s,) and FPR (s,), means over procedures.
        subtitle: Encoder, and what it was measured on.
    """
    with look():
        figure, (axis,) = sheet(6.4, 4.0)
        for index, (name, (fr, fpr)) in enumerate(rates.items()):
            x, y = frontier(fr, fpr)
            axis.scatter(fpr, fr, s=5, color=hue(index), alpha=0.12, lw=0, rasterized=True)
            axis.step(x, y, where="post", color=hue(index), lw=1.8, label=NAMES.get(name, name))
            axis.scatter(x[:1], y[:1], s=22, marker=marker(index), color=hue(index))
        axis.axvline(0.05, color=GREY, lw=1, ls="--")
        axis.axhline(1.0, color=GREY, lw=0.8, ls=":")
        axis.set_yscale("log")
        low, high = axis.get_ylim()
        marks = [v for v in (0.25, 0.5, 1, 2, 3, 5, 10, 20, 50) if low <= v <= high]
        axis.set_yticks(marks, [f"{v:g}" for v in marks], minor=False)
        axis.minorticks_off()
        axis.text(0.053, high, "FPR 0.05", color=GREY, fontsize=8, va="top")
        axis.set(
            title="Fragmentation against false positives",
            xlabel="FPR (mean over procedures with two polyps or more)",
            ylabel="FR (clusters / polyps)",
            xlim=(-0.01, 1.01),
        )
        axis.legend(loc="upper right")
        figure.suptitle(subtitle, fontsize=8, color=GREY, x=0.01, ha="left")
    return figure


def draw_recall(hits: Mapping[str, np.ndarray], subtitle: str) -> Figure:
    """Share of queries with a match among the k nearest, for each encoder.

    Args:
        hits: Encoder -> share (k,), from k = 1.
        subtitle: What it was measured on.
    """
    with look():
        figure, (axis,) = sheet(6.0, 3.6)
        for index, (name, share) in enumerate(hits.items()):
            k = np.arange(1, len(share) + 1)
            axis.plot(
                k, share, color=hue(index), lw=1.8, marker="os^Dv"[index % 5], ms=4, label=name
            )
        longest = max(len(share) for share in hits.values())
        axis.set(
            title="Recall at k",
            xlabel="k nearest tracklets",
            ylabel="share of queries with a match",
            xlim=(0.5, longest + 0.5),
            ylim=(0, 1.03),
        )
        axis.legend(loc="lower right")
        figure.suptitle(subtitle, fontsize=8, color=GREY, x=0.01, ha="left")
    return figure
