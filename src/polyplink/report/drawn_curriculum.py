"""Ranks and purity over the curriculum (NTSSL, arXiv 2605.12320, figure 2)."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from polyplink.report.drawn import GREY, hue, look, sheet

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def draw_curriculum(
    ranks: Mapping[float, np.ndarray], purity: Mapping[float, float], subtitle: str = ""
) -> Figure:
    """Two panels: quantiles of the sampled ranks, and the share of pure bags.

    Args:
        ranks: Point of the curriculum c in [0, 1] -> ranks drawn there, any number.
        purity: c -> share of bags whose members all show the anchor's polyp; empty where polyps
            are unknown.
        subtitle: What the bags were drawn from.
    """
    with look():
        figure, (left, right) = sheet(7.2, 3.1, columns=2)
        c = np.array(sorted(ranks))
        q = np.array([np.quantile(ranks[at], QUANTILES) for at in c]).T  # 5 n
        left.fill_between(c, q[0], q[4], color=hue(0), alpha=0.15, lw=0, label="5 to 95 %")
        left.fill_between(c, q[1], q[3], color=hue(0), alpha=0.3, lw=0, label="25 to 75 %")
        left.plot(c, q[2], color=hue(0), lw=2, label="median")
        left.set(title="Sampled ranks", xlabel="curriculum c", ylabel="rank in time", xlim=(0, 1))
        left.set_ylim(bottom=0)
        left.legend(loc="upper left")
        right.set(title="Pure bags", xlabel="curriculum c", ylabel="share", xlim=(0, 1))
        right.set_ylim(0, 1.02)
        if purity:
            at = sorted(purity)
            right.plot(at, [purity[x] for x in at], color=hue(2), lw=2)
        else:
            right.text(0.5, 0.5, "polyps unknown", ha="center", color=GREY)
        if subtitle:
            figure.suptitle(subtitle, fontsize=8, color=GREY, x=0.01, ha="left")
    return figure
