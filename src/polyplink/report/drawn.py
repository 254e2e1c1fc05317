"""The look that all drawn figures share, and how they are written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from polyplink.core.artefacts import whole_file
from polyplink.report.palette import HUES

GREY = "#6b6b6b"
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # beside the hue, which not everyone sees
LOOK: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.fonttype": "path",
    "svg.hashsalt": "polyplink",  # the same figure is the same file
}


@contextmanager
def look() -> Iterator[None]:
    """Draw in the shared look, whatever the user's own settings are."""
    with rc_context(LOOK):
        yield


def sheet(width: float = 6.0, height: float = 3.6, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure (inches) with panels side by side; no window, no global state."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)
    return figure, list(axes[0])


def hue(index: int) -> str:
    """The hue of number `index`, from 0; repeats."""
    return HUES[index % len(HUES)]


def marker(index: int) -> str:
    """The marker of number `index`, which changes when the hues start again."""
    return MARKERS[(index // len(HUES)) % len(MARKERS)]


def write_figure(folder: Path, name: str, figure: Figure) -> list[Path]:
    """Write NAME.svg and NAME.png, each whole or not at all; a figure has always the same bytes."""
    written = []
    with look():
        for kind in ("svg", "png"):
            path = folder / f"{name}.{kind}"
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            with whole_file(path) as temporary:
                figure.savefig(temporary, format=kind, metadata=metadata)
            written.append(path)
    return written
