"""Fragmentation against false positives over a whole grid, and recall at k."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from polyplink.report.drawn import GREY, hue, look, marker, sheet

CHOSEN = 0.05  # the FPR at which settings are chosen
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


def nearest_setting(fr: np.ndarray, fpr: np.ndarray) -> np.ndarray:
    """Place of the setting whose FPR is nearest to 0.05, of those above 0; none if none is.

    Args:
        fr: Fragmentation rates of s settings (s,); the lowest decides among equals.
        fpr: Their false positive rates (s,).

    Returns:
        One place or none (1,) or (0,).
    """
    some = np.flatnonzero(fpr > 0)
    return some[np.lexsort((fr[some], np.abs(fpr[some] - CHOSEN)))[:1]]


def draw_rates(rates: Mapping[str, tuple[np.ndarray, np.ndarray]], subtitle: str) -> Figure:
    """Every setting as a dot, each clusterer's frontier, and its setting nearest to FPR 0.05.

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
            place = nearest_setting(fr, fpr)
            axis.scatter(fpr[place], fr[place], s=30, marker=marker(index), color=hue(index))
        axis.axvline(CHOSEN, color=GREY, lw=1, ls="--")
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
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.legend(loc="lower right")
        figure.suptitle(subtitle, fontsize=8, color=GREY, x=0.01, ha="left")
    return figure
