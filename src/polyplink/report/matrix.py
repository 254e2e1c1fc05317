"""The similarity matrix of a procedure as a picture, ordered by counted polyp."""

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyplink.report.formats import data_uri, number
from polyplink.report.matching import Matching, Polyp
from polyplink.report.model import Procedure

COLOURS = "cividis"  # even in lightness and safe for colour-blind readers
SMALLEST, LARGEST, CELL = 150.0, 330.0, 17.0  # drawing units; the cell before it is clamped
DIGIT = 7.0  # width of a character; a block narrower than its number goes without


@dataclass(frozen=True)
class Block:
    """The rows (and columns) of one counted polyp, in drawing units from the corner."""

    polyp: Polyp
    start: float
    length: float
    labelled: bool


@dataclass(frozen=True)
class Matrix:
    """A heat map ready for the template.

    Attributes:
        image: PNG data URI, one pixel per pair of tracklets.
        legend: PNG data URI of the colour scale, lowest at the left.
        low: Similarity of the darkest colour, as text.
        high: Similarity of the lightest, as text.
        size: Side of the drawing, drawing units.
        blocks: Counted polyps along both sides.
        summary: One sentence for those who cannot see it.
    """

    image: str
    legend: str
    low: str
    high: str
    size: float
    blocks: list[Block]
    summary: str


def picture(values: NDArray[np.floating], low: float, high: float) -> str:
    """A matrix as a PNG data URI, one pixel per value, clipped to [low, high]."""
    from matplotlib import colormaps  # noqa: PLC0415 - heavy, and only pages of reports need it
    from matplotlib.image import imsave  # noqa: PLC0415

    colours = colormaps[COLOURS].with_extremes(bad="#888888")  # NaN is grey
    buffer = io.BytesIO()
    imsave(buffer, values, vmin=low, vmax=high, cmap=colours, format="png", origin="upper")
    return data_uri("png", buffer.getvalue())


def spread(values: NDArray[np.floating]) -> tuple[float, float]:
    """Lowest and highest finite value, made to differ; (0, 1) where there is none."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def order_by_polyp(procedure: Procedure, matching: Matching) -> list[int]:
    """Indices of the tracklets, grouped by counted polyp (in its order), then in time."""
    place = {name: index for index, name in enumerate(matching.counted)}
    members = procedure.tracklets
    return sorted(
        range(len(members)), key=lambda i: (place[members[i].predicted], members[i].first, i)
    )


def blocks(procedure: Procedure, matching: Matching, cell: float) -> list[Block]:
    """The stretch of each counted polyp along a side, for cells of a size in drawing units."""
    found, start = [], 0.0
    for name, polyp in matching.counted.items():
        length = cell * sum(tracklet.predicted == name for tracklet in procedure.tracklets)
        found.append(Block(polyp, start, length, length >= DIGIT * len(polyp.label) + 2))
        start += length
    return found


def draw(procedure: Procedure, matching: Matching) -> Matrix | None:
    """Draw the similarities, or None where they (or tracklets) are missing.

    The scale runs over the procedure's own finite similarities; the diagonal, which says
    nothing, is left out of it.
    """
    similarity, n = procedure.similarity, len(procedure.tracklets)
    if similarity is None or n == 0:
        return None
    order = order_by_polyp(procedure, matching)
    values = np.asarray(similarity, dtype=np.float64)[np.ix_(order, order)]  # (n, n)
    low, high = spread(values[~np.eye(n, dtype=bool)])
    size = float(np.clip(n * CELL, SMALLEST, LARGEST))
    return Matrix(
        picture(values, low, high),
        picture(np.linspace(low, high, 64)[None, :], low, high),  # (1, 64)
        number(low, 2),
        number(high, 2),
        size,
        blocks(procedure, matching, size / n),
        f"Similarities of {n} tracklets, ordered by counted polyp",
    )
