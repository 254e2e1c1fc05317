"""Every plot with axes: curves, scatter plots and similarity matrices, drawn by matplotlib.

A `plot_*` function returns a matplotlib `Figure`. `write_figure` writes it as SVG and PNG
(`polyplink figures`); `inline_svg` turns it into an element of the report's page.
"""

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from polyplink.core.artefacts import whole_file
from polyplink.core.errors import PolyplinkError
from polyplink.report.formats import CLUSTERERS, number
from polyplink.report.model import Values
from polyplink.report.polyps import HUES, Look

INK, GREY, GRID = "#1c1f23", "#6b6b6b", "#e4e4e4"
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # not everyone can distinguish colours
DASHES = {"stripes": (1.0, 1.0), "dots": (0.4, 0.6)}  # of the white line on a bar, by texture
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "text.color": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.fonttype": "path",
    "svg.hashsalt": "polyplink",  # the same figure has the same bytes
}

TARGET_FPR = 0.05  # at which settings are chosen
COLOUR_MAP = "cividis"  # of even lightness, and safe for colour-blind readers
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
FEWEST_FOR_TSNE = 10  # points; t-SNE of fewer has no structure
MOST_IN_LEGEND = 40  # polyps; a longer legend would hide the points
DIGIT_WIDTH = 6.0  # width of a character next to a matrix, in points

Projection = Literal["tsne", "pca"]


@contextmanager
def plot_style(**changed: Any) -> Iterator[None]:
    """Draw in the style of this project, independent of the user's matplotlib settings."""
    with rc_context(STYLE | changed):
        yield


def new_figure(
    width: float, height: float, *, columns: int = 1, subtitle: str = ""
) -> tuple[Figure, list[Axes]]:
    """An empty figure (size in inches) with axes side by side; opens no window."""
    figure = Figure(figsize=(width, height), layout="constrained")
    if subtitle:
        figure.suptitle(subtitle, fontsize=8, color=GREY, x=0.01, ha="left")
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def colour(index: int) -> str:
    """The colour of series `index` (from 0); repeats."""
    return HUES[index % len(HUES)]


def marker(index: int) -> str:
    """The marker of series `index`, which changes when the colours start again."""
    return MARKERS[(index // len(HUES)) % len(MARKERS)]


@plot_style()
def plot_curriculum(
    ranks: Mapping[float, np.ndarray], purity: Mapping[float, float], subtitle: str = ""
) -> Figure:
    """Quantiles of the sampled ranks and share of pure bags over the curriculum.

    NTSSL, arXiv 2605.12320, figure 2.

    Args:
        ranks: Point of the curriculum c in [0, 1] -> sampled ranks, any number.
        purity: c -> share of bags whose members all show the anchor's polyp; empty where polyps
            are unknown.
        subtitle: What the bags were drawn from.
    """
    figure, (left, right) = new_figure(7.2, 3.1, columns=2, subtitle=subtitle)
    c = np.array(sorted(ranks))
    q = np.array([np.quantile(ranks[at], QUANTILES) for at in c]).T  # 5 n
    left.fill_between(c, q[0], q[4], color=colour(0), alpha=0.15, lw=0, label="5 to 95 %")
    left.fill_between(c, q[1], q[3], color=colour(0), alpha=0.3, lw=0, label="25 to 75 %")
    left.plot(c, q[2], color=colour(0), lw=2, label="median")
    left.set(title="Sampled ranks", xlabel="curriculum c", ylabel="rank in time", xlim=(0, 1))
    left.set_ylim(bottom=0)
    left.legend(loc="upper left")
    right.set(title="Pure bags", xlabel="curriculum c", ylabel="share", xlim=(0, 1), ylim=(0, 1.02))
    if purity:
        right.plot(*zip(*sorted(purity.items()), strict=True), color=colour(2), lw=2)
    else:
        right.text(0.5, 0.5, "polyps unknown", ha="center", color=GREY)
    return figure


def pareto_front(fr: np.ndarray, fpr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Settings for which no other one is better in both rates: FPR (m,) rising, FR (m,) falling.

    Args:
        fr: Fragmentation rates of s settings (s,).
        fpr: Their false positive rates (s,).
    """
    order = np.lexsort((fr, fpr))
    best = np.minimum.accumulate(fr[order])
    kept = np.concatenate([[True], best[1:] < best[:-1]])
    return fpr[order][kept], fr[order][kept]


def nearest_to_target(fr: np.ndarray, fpr: np.ndarray) -> np.ndarray:
    """Index of the setting whose FPR is above 0 and nearest to 0.05: (1,), or (0,) if none is.

    Args:
        fr: Fragmentation rates of s settings (s,); the lowest wins a tie.
        fpr: Their false positive rates (s,).
    """
    above = np.flatnonzero(fpr > 0)
    return above[np.lexsort((fr[above], np.abs(fpr[above] - TARGET_FPR)))[:1]]


@plot_style()
def plot_rates(rates: Mapping[str, tuple[np.ndarray, np.ndarray]], subtitle: str) -> Figure:
    """Fragmentation against false positives: all settings, Pareto fronts, the target FPR.

    Args:
        rates: Clusterer -> FR (s,) and FPR (s,) of its settings, means over procedures.
        subtitle: Encoder, and what it was measured on.
    """
    figure, (axis,) = new_figure(6.4, 4.0, subtitle=subtitle)
    for i, (name, (fr, fpr)) in enumerate(rates.items()):
        label = CLUSTERERS.get(name, name)
        axis.scatter(fpr, fr, s=5, color=colour(i), alpha=0.12, lw=0, rasterized=True)
        axis.step(*pareto_front(fr, fpr), where="post", color=colour(i), lw=1.8, label=label)
        chosen = nearest_to_target(fr, fpr)
        axis.scatter(fpr[chosen], fr[chosen], s=30, marker=marker(i), color=colour(i))
    axis.axvline(TARGET_FPR, color=GREY, lw=1, ls="--")
    axis.axhline(1.0, color=GREY, lw=0.8, ls=":")
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    ticks = [v for v in (0.25, 0.5, 1, 2, 3, 5, 10, 20, 50) if low <= v <= high]
    axis.set_yticks(ticks, [f"{v:g}" for v in ticks], minor=False)
    axis.minorticks_off()
    axis.text(0.053, high, f"FPR {TARGET_FPR}", color=GREY, fontsize=8, va="top")
    axis.set(
        title="Fragmentation against false positives",
        xlabel="FPR (mean over procedures with two polyps or more)",
        ylabel="FR (clusters / polyps)",
        xlim=(-0.01, 1.01),
    )
    axis.legend(loc="upper right")
    return figure


@plot_style()
def plot_recall(hits: Mapping[str, np.ndarray], subtitle: str) -> Figure:
    """Share of queries with a match among the k nearest, for each encoder.

    Args:
        hits: Encoder -> share (k,), from k = 1.
        subtitle: What it was measured on.
    """
    figure, (axis,) = new_figure(6.0, 3.6, subtitle=subtitle)
    for i, (name, share) in enumerate(hits.items()):
        k = np.arange(1, len(share) + 1)
        axis.plot(k, share, color=colour(i), lw=1.8, marker=MARKERS[i % 5], ms=4, label=name)
    axis.set(
        title="Recall at k",
        xlabel="k nearest tracklets",
        ylabel="share of queries with a match",
        xlim=(0.5, max(len(share) for share in hits.values()) + 0.5),
        ylim=(0, 1.03),
    )
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(loc="lower right")
    return figure


def project(vectors: np.ndarray, method: Projection = "tsne", seed: int = 0) -> np.ndarray:
    """Vectors, normalised to length 1, projected to the plane.

    Args:
        vectors: (n, d), n at least 2.
        method: "tsne" (on cosines) or "pca"; fewer than ten points are always "pca".
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
    if method == "pca" or len(unit) < FEWEST_FOR_TSNE:
        flat = PCA(2).fit_transform(unit) if unit.shape[1] > 1 else np.c_[unit, 0 * unit]
        return np.asarray(flat)
    perplexity = min(30.0, (len(unit) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, metric="cosine", init="random", random_state=seed)
    return np.asarray(tsne.fit_transform(unit))


@plot_style()
def plot_projection(
    points: np.ndarray, polyps: Sequence[str], title: str, subtitle: str = ""
) -> Figure:
    """Every tracklet as a point; colour and marker show its polyp.

    Args:
        points: (n, 2), from `project`.
        polyps: Name of each tracklet's polyp (n,).
        title: How the points were computed.
        subtitle: Encoder and data.
    """
    names = list(dict.fromkeys(polyps))
    own = np.array([names.index(polyp) for polyp in polyps])
    with_legend = len(names) <= MOST_IN_LEGEND
    figure, (axis,) = new_figure(6.6, 4.4, subtitle=subtitle)
    for i, name in enumerate(names):
        x, y = points[own == i].T
        axis.scatter(
            x,
            y,
            s=26,
            color=colour(i),
            marker=marker(i),
            edgecolor="white",
            linewidth=0.5,
            alpha=0.9,
            label=name if with_legend else None,
        )
    axis.set(title=title, xticks=[], yticks=[])
    axis.grid(visible=False)
    axis.spines[:].set_visible(True)
    axis.spines[:].set_color("#d0d0d0")
    if with_legend:
        axis.legend(
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            fontsize=7,
            ncols=1 + (len(names) - 1) // 20,
            title="polyp",
        )
    return figure


def polyp_order(polyps: Sequence[int], positions: np.ndarray) -> np.ndarray:
    """Rows (n,) sorted by polyp (in order of first sight), and by time within a polyp."""
    codes = np.asarray(polyps)
    first = {code: positions[codes == code].min() for code in np.unique(codes)}
    start = np.array([first[code] for code in codes])
    return np.lexsort((positions, codes, start))


@plot_style(**{"axes.grid": False})
def plot_similarities(
    vectors: Mapping[str, np.ndarray], polyps: Sequence[int], positions: np.ndarray, title: str
) -> Figure:
    """Cosine similarities of all tracklets, one matrix for each encoder, ordered by polyp.

    Args:
        vectors: Encoder -> vectors (n, d) of the same tracklets, at least one encoder.
        polyps: Code of each tracklet's polyp (n,).
        positions: Its position in time (n,).
        title: What the tracklets are of.
    """
    order = polyp_order(polyps, positions)
    _, starts = np.unique(np.asarray(polyps)[order], return_index=True)
    sizes = np.diff([*sorted(starts), len(order)]).tolist()
    matrices = []
    for rows in vectors.values():
        unit = rows[order] / np.linalg.norm(rows[order], axis=1, keepdims=True)  # n d
        matrices.append(unit @ unit.T)  # n n
    limits = min(float(S.min()) for S in matrices), 1.0
    width = 3.1 * len(vectors) + 0.9
    figure, axes = new_figure(width, 3.4, columns=len(vectors), subtitle=title)
    for axis, name, S in zip(axes, vectors, matrices, strict=True):
        image = _matrix(axis, S, sizes, [str(i + 1) for i in range(len(sizes))], limits, 2.7)
        axis.set_title(name, pad=26)
    figure.colorbar(image, ax=axes, shrink=0.8, label="cosine similarity")
    return figure


@plot_style(**{"axes.grid": False})
def plot_similarity(
    S: np.ndarray, sizes: Sequence[int], labels: Sequence[str], looks: Sequence[Look]
) -> Figure:
    """The similarity matrix of one procedure, for the page; bars along the sides show polyps.

    The colours span the finite values off the diagonal. A report has one such plot for each
    procedure, so it does without ticks, colour bar and layout engine, which take most of
    matplotlib's time.

    Args:
        S: Similarities (n, n), ordered by counted polyp.
        sizes: Tracklets of each polyp.
        labels: Number of each polyp.
        looks: Colour and texture of each polyp.
    """
    n = len(S)
    others = S[~np.eye(n, dtype=bool) & np.isfinite(S)]
    low, high = (float(others.min()), float(others.max())) if others.size else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    side = min(max(n * 0.18, 1.6), 3.5)  # inches
    cell = side / n
    width, height = side + 0.35, side + 0.75
    figure = Figure(figsize=(width, height))
    axis = figure.add_axes((0.3 / width, 0.4 / height, side / width, side / height))
    _matrix(axis, S, sizes, labels, (low, high), side)
    ends = np.cumsum([0, *sizes]) - 0.5
    at = -0.5 - 0.07 / cell  # middle of the bars
    for lines in (axis.hlines, axis.vlines):
        colours = [HUES[look.hue] for look in looks]
        lines([at] * len(sizes), ends[:-1], ends[1:], colours, lw=5, clip_on=False)
        for texture, dashes in DASHES.items():
            rows = [i for i, look in enumerate(looks) if look.texture == texture]
            style = (0, dashes)
            lines([at] * len(rows), ends[rows], ends[1:][rows], "w", style, lw=3, clip_on=False)
    # The colour scale, below the matrix in the same axes.
    left, right, top, bottom = -0.5, -0.5 + 0.9 / cell, n - 0.5 + 0.1 / cell, n - 0.5 + 0.2 / cell
    scale = np.linspace(low, high, 64)[None]  # 1 64
    extent = (left, right, bottom, top)
    axis.imshow(scale, cmap=COLOUR_MAP, aspect="auto", extent=extent, clip_on=False)
    below: Any = {"y": bottom + 0.03 / cell, "va": "top", "color": GREY, "fontsize": 8}
    axis.text(left, s=number(low, 2), ha="center", **below)
    axis.text(right, s=number(high, 2), ha="center", **below)
    axis.text(right + 0.08 / cell, bottom, "similarity", color=GREY, fontsize=8)
    axis.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    return figure


def _matrix(  # noqa: PLR0917
    axis: Axes,
    S: np.ndarray,
    sizes: Sequence[int],
    labels: Sequence[str],
    limits: tuple[float, float],
    side: float,
) -> AxesImage:
    """Draw a matrix (n, n) whose rows come in groups, each with a box and a label.

    Args:
        axis: Where to draw.
        S: Values; NaN is grey.
        sizes: Rows of each group.
        labels: Text of each group; left out where the group is narrower than its label.
        limits: Values of the darkest and the lightest colour.
        side: Of the drawn matrix, inches.
    """
    axis.set_axis_off()
    colours = colormaps[COLOUR_MAP].with_extremes(bad="#888888")
    image = axis.imshow(S, vmin=limits[0], vmax=limits[1], cmap=colours, interpolation="none")
    edges = np.cumsum([0, *sizes]) - 0.5
    boxes = [
        corner
        for a, b in pairwise(edges)
        for corner in ((a, a), (a, b), (b, b), (b, a), (a, a), (math.nan, math.nan))
    ]
    outline = [withStroke(linewidth=2.4, foreground="black")]
    axis.plot(*zip(*boxes, strict=True), color="white", lw=1.1, path_effects=outline)
    cell = 72 * side / len(S)  # points
    pad = 10 / cell
    for (a, b), text in zip(pairwise(edges), labels, strict=True):
        if (b - a) * cell > DIGIT_WIDTH * len(text):
            axis.text((a + b) / 2, -0.5 - pad, text, ha="center", va="bottom")
            axis.text(-0.5 - pad, (a + b) / 2, text, ha="right", va="center")
    return image


@plot_style()
def plot_epochs(
    series: Mapping[str, Values],
    y_label: str,
    *,
    best_epoch: int | None = None,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Curves over the epochs of a training; each line has its name as gid, see `inline_svg`.

    Args:
        series: Name -> one value per epoch; None or NaN leaves a gap.
        y_label: Name and unit of the vertical axis.
        best_epoch: Epoch to mark with a dashed line, or None.
        limits: Of the vertical axis; None to fit the values.
    """
    figure, (axis,) = new_figure(3.6, 2.3)
    for i, (name, values) in enumerate(series.items()):
        y = [math.nan if value is None else value for value in values]
        size = 3 if len(y) <= 60 else 1.5
        dashes = "-" if i == 0 else "--"
        axis.plot(y, color=colour(5 * i), ls=dashes, marker="o", ms=size, label=name, gid=name)
    if best_epoch is not None and best_epoch < max(map(len, series.values())):
        axis.axvline(best_epoch, color=GREY, lw=1, ls=":")
    axis.set(xlabel="epoch", ylabel=y_label, ylim=limits)
    axis.grid(visible=False, axis="x")
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if len(series) > 1:
        axis.legend()
    return figure


def write_figure(folder: Path, name: str, figure: Figure) -> list[Path]:
    """Write NAME.svg and NAME.png atomically; the same figure always has the same bytes."""
    written = []
    with plot_style():
        for kind in ("svg", "png"):
            path = folder / f"{name}.{kind}"
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            with whole_file(path) as temporary:
                figure.savefig(temporary, format=kind, metadata=metadata)
            written.append(path)
    return written


_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_THEME = {INK: "var(--ink)", GREY: "var(--soft)", GRID: "var(--line)"}


def inline_svg(
    figure: Figure, label: str, titles: Mapping[str, Sequence[str]] | None = None
) -> str:
    """A figure as an `<svg class="plot">` element of the page, in its fonts and theme colours.

    Args:
        figure: The figure.
        label: What it shows, for screen readers; unique on the page.
        titles: gid of a line -> hover text of each of its markers, in order.

    Returns:
        The element; ids in it are unique on the page.
    """
    buffer = io.StringIO()
    with plot_style(**{"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(buffer, format="svg", metadata=_METADATA, transparent=True)
    used = set(re.findall(r"#(\w+)", buffer.getvalue()))
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314  matplotlib wrote it
    for element in root.iter():
        # HTML needs no namespaces: {http://www.w3.org/2000/svg}use is "use".
        element.tag = element.tag.partition("}")[2]
        element.attrib = {key.rpartition("}")[2]: v for key, v in element.attrib.items()}
    for gid, texts in (titles or {}).items():
        for mark, text in zip(root.iterfind(f".//*[@id='{gid}']//use"), texts, strict=True):
            ElementTree.SubElement(mark, "title").text = text
    for element in root.iter():
        # matplotlib numbers its groups from 1 in every figure; its <style> would apply to the page.
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        for style in element.findall("style"):
            element.remove(style)
    root.attrib |= {"class": "plot", "role": "img", "aria-label": label}
    text = ElementTree.tostring(root, encoding="unicode")
    for fixed, themed in _THEME.items():
        text = text.replace(fixed, themed)
    return text
