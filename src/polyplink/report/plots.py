"""The style of all plots, and the plots of the report's page, drawn by matplotlib.

`inline_svg` turns a figure into an element of the page; `write_figure` writes it as SVG and PNG.
"""

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from polyplink.core.artefacts import atomic_file
from polyplink.report.contents import Values
from polyplink.report.formats import MINUS, number
from polyplink.report.polyps import HUES, Look

if TYPE_CHECKING:
    from polyplink.evaluate.intervals import Figure as Measured
    from polyplink.report.comparison import Comparison

INK, GREY, GRID = "#1c1f23", "#6b6b6b", "#e4e4e4"
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # not everyone can distinguish colours
DASHES = {"stripes": (1.0, 1.0), "dots": (0.4, 0.6)}  # texture -> dashes of a bar's white line
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
    "text.parse_math": False,  # names of polyps and encoders may have dollar signs
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.fonttype": "path",
    "svg.hashsalt": "polyplink",  # the same figure has the same bytes
}

COLOUR_MAP = "cividis"  # perceptually uniform, and safe for colour-blind readers
MOST_PLOTTED = 10  # figures in one plot of methods
DIGIT_WIDTH = 6.0  # width of a character next to a matrix, in points


@contextmanager
def plot_style(**changed: Any) -> Iterator[None]:
    """Draw in the style of this project, independent of the user's matplotlib settings."""
    with rc_context(STYLE | changed):
        yield


def new_figure(
    width: float, height: float, *, rows: int = 1, columns: int = 1, subtitle: str = ""
) -> tuple[Figure, list[Axes]]:
    """An empty figure (size in inches) with axes row by row; opens no window."""
    figure = Figure(figsize=(width, height), layout="constrained")
    if subtitle:
        figure.suptitle(subtitle, fontsize=8, color=GREY, x=0.01, ha="left")
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def colour(index: int) -> str:
    """The colour of series `index` (from 0); colours repeat."""
    return HUES[index % len(HUES)]


def marker(index: int) -> str:
    """The marker of series `index` (from 0), which changes whenever the colours repeat."""
    return MARKERS[(index // len(HUES)) % len(MARKERS)]


@plot_style(**{"axes.grid": False})
def plot_similarity(
    S: np.ndarray,
    sizes: Sequence[int],
    labels: Sequence[str],
    looks: Sequence[Look],
    title: str = "similarity",
) -> Axes:
    """Plot the similarity matrix of a procedure for the page; bars along the sides show polyps.

    The colours span the finite values off the diagonal. Ticks, colour bar and layout engine, which
    take most of matplotlib's time, are not used, because a report has such a plot per procedure.

    Args:
        S: Similarities (n, n), ordered by counted polyp.
        sizes: Tracklets of each polyp.
        labels: Number of each polyp, as text.
        looks: Colour and texture of each polyp.
        title: Title of the colour scale.
    """
    n = len(S)
    off_diagonal = S[~np.eye(n, dtype=bool) & np.isfinite(S)]
    low, high = (
        (float(off_diagonal.min()), float(off_diagonal.max())) if off_diagonal.size else (0.0, 1.0)
    )
    if low == high:
        low, high = low - 0.5, high + 0.5
    side = min(max(n * 0.18, 1.6), 3.5)  # inches
    cell = side / n
    width, height = side + 0.35, side + 0.75
    figure = Figure(figsize=(width, height))
    axis = figure.add_axes((0.3 / width, 0.4 / height, side / width, side / height))
    draw_matrix(axis, S, sizes, labels, (low, high), side)
    ends = np.cumsum([0, *sizes]) - 0.5
    middle = -0.5 - 0.07 / cell  # middle of the bars
    for lines in (axis.hlines, axis.vlines):
        colours = [HUES[look.hue] for look in looks]
        lines([middle] * len(sizes), ends[:-1], ends[1:], colours, lw=5, clip_on=False)
        for texture, dashes in DASHES.items():
            rows = [i for i, look in enumerate(looks) if look.texture == texture]
            style = (0, dashes)
            lines([middle] * len(rows), ends[rows], ends[1:][rows], "w", style, lw=3, clip_on=False)
    # The colour scale, below the matrix in the same axes.
    left, right, top, bottom = -0.5, -0.5 + 0.9 / cell, n - 0.5 + 0.1 / cell, n - 0.5 + 0.2 / cell
    scale = np.linspace(low, high, 64)[None]  # 1 64
    extent = (left, right, bottom, top)
    axis.imshow(scale, cmap=COLOUR_MAP, aspect="auto", extent=extent, clip_on=False)
    style_below: Any = {"y": bottom + 0.03 / cell, "va": "top", "color": GREY, "fontsize": 8}
    axis.text(left, s=number(low, 2), ha="center", **style_below)
    axis.text(right, s=number(high, 2), ha="center", **style_below)
    axis.text(right + 0.08 / cell, bottom, title, color=GREY, fontsize=8)
    axis.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    return axis


def draw_matrix(  # noqa: PLR0917
    axis: Axes,
    S: np.ndarray,
    sizes: Sequence[int],
    labels: Sequence[str],
    limits: tuple[float, float],
    side: float,
) -> AxesImage:
    """Draw a matrix (n, n) with rows in groups, each with a box and a label.

    Args:
        axis: The axes to draw on.
        S: Values; NaN is grey.
        sizes: Number of rows of each group.
        labels: Text of each group; left out if the group is narrower than its label.
        limits: Values of the darkest and the lightest colour.
        side: Width and height of the drawn matrix, inches.
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
    x_label: str = "epoch",
) -> Axes:
    """Plot curves over the epochs of a training; the gid of a line is its name, see `inline_svg`.

    The layout engine, which takes more than half of matplotlib's time, is not used, because every
    report has three such plots.

    Args:
        series: Name -> one value per epoch; None or NaN leaves a gap.
        y_label: Name and unit of the vertical axis.
        best_epoch: Epoch to mark with a dashed line, or None.
        limits: Limits of the vertical axis; None to fit the values.
        x_label: Label of the horizontal axis.

    Example:
        >>> plot_epochs({"train": (3.0, 2.0), "validation": (3.1, 2.6)}, "loss").get_ylabel()
        'loss'
    """
    axis = Figure(figsize=(3.6, 2.3)).add_axes((0.18, 0.19, 0.79, 0.72))
    for i, (name, values) in enumerate(series.items()):
        y = [math.nan if value is None else value for value in values]
        size = 3 if len(y) <= 60 else 1.5
        dashes = "-" if i == 0 else "--"
        axis.plot(y, color=colour(5 * i), ls=dashes, marker="o", ms=size, label=name, gid=name)
    if best_epoch is not None and best_epoch < max(map(len, series.values())):
        axis.axvline(best_epoch, color=GREY, lw=1, ls=":")
    axis.set(xlabel=x_label, ylabel=y_label, ylim=limits)
    axis.grid(visible=False, axis="x")
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axis.ticklabel_format(axis="y", scilimits=(-2, 4))  # short labels
    if len(series) > 1:
        axis.legend()
    return axis


@plot_style()
def plot_methods(
    comparison: "Comparison",
    runs: "Mapping[str, Sequence[Mapping[str, Measured]]] | None" = None,
) -> list[Axes]:
    """Plot the headline figures of all methods: dots, and lines for intervals.

    Args:
        comparison: Methods by figures.
        runs: Method -> the figures of each run, drawn as one dot per run; None for a single dot per
            figure.
    """
    metrics = comparison.first_metrics[:MOST_PLOTTED]
    n_columns = max(min(len(metrics), 5), 1)
    rows = max(math.ceil(len(metrics) / n_columns), 1)
    height = rows * (1.0 + 0.25 * len(comparison.methods))
    names = [method.name for method in comparison.methods]
    name_width = 0.4 + 0.07 * max(map(len, names), default=0)  # inches for the names
    _, axes = new_figure(name_width + 1.9 * n_columns, height, rows=rows, columns=n_columns)
    for axis in axes[len(metrics) :]:
        axis.set_axis_off()
    for place, (axis, metric) in enumerate(zip(axes, metrics, strict=False)):
        for row, method in enumerate(comparison.methods):
            figure = method.figure(metric)
            if figure.low is not None and figure.high is not None:
                axis.plot([figure.low, figure.high], [row, row], color=GREY, lw=1)
            values = [figure.value]
            if runs is not None:
                values = [run[metric.key].value for run in runs[method.name] if metric.key in run]
            dots = [value for value in values if value is not None]
            axis.plot(dots, [row] * len(dots), ls="", marker="o", ms=4, color=colour(5 * row))
        axis.set_title(f"{metric.name} (ideal {metric.ideal:g})\n{metric.group}", fontsize=8)
        axis.set(yticks=range(len(names)), ylim=(len(names) - 0.5, -0.5))
        axis.set_yticklabels(names if place % n_columns == 0 else [])
    return axes


def write_figure(folder: Path, name: str, figure: Figure) -> list[Path]:
    """Write NAME.svg and NAME.png atomically; the same figure always has the same bytes."""
    paths = []
    with plot_style():
        for kind in ("svg", "png"):
            path = folder / f"{name}.{kind}"
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            with atomic_file(path) as temporary:
                figure.savefig(temporary, format=kind, metadata=metadata)
            paths.append(path)
    return paths


_NUMBER = re.compile(rf"^({MINUS}?\d+)\.(\d+)$")
_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_THEME = {INK: "var(--ink)", GREY: "var(--soft)", GRID: "var(--line)"}


def inline_svg(
    figure: Figure | SubFigure,
    label: str,
    titles: Mapping[str, Sequence[str]] | None = None,
    decimal: str = ".",
) -> str:
    """A figure as an `<svg class="plot">` element of the page, in its fonts and theme colours.

    Args:
        figure: The figure.
        label: Description for screen readers; unique on the page.
        titles: gid of a line -> hover text of each of its markers, in order.
        decimal: Decimal sign of the numbers at axes and scales.

    Returns:
        The element; ids in it are unique on the page.
    """
    buffer = io.StringIO()
    with plot_style(**{"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.get_figure(root=True).savefig(
            buffer, format="svg", metadata=_METADATA, transparent=True
        )
    used = set(re.findall(r"#(\w+)", buffer.getvalue()))
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314  matplotlib wrote it
    for element in root.iter():
        # HTML needs no namespaces: {http://www.w3.org/2000/svg}use is "use".
        element.tag = element.tag.partition("}")[2]
        element.attrib = {key.rpartition("}")[2]: v for key, v in element.attrib.items()}
    for gid, texts in (titles or {}).items():
        for mark, text in zip(root.iterfind(f".//*[@id='{gid}']//use"), texts, strict=True):
            ElementTree.SubElement(mark, "title").text = text
    for element in root.iter("text"):
        element.text = _NUMBER.sub(rf"\1{decimal}\2", element.text or "")
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
