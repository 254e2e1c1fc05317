"""Images that a writer puts beside its annotations."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import DataSet

Pixels = NDArray[np.uint8]

# A procedure's id and a frame number -> its image (height, width, 3), RGB; None: no image.
FrameSource = Callable[[str, int], Pixels | None]

QUALITY = 90


def write_image(path: Path, pixels: Pixels) -> None:
    """Write one JPEG; its folder is made if absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), quality=QUALITY))


def whole_edges(data: DataSet, layout: str) -> dict[str, dict[int, list[tuple[int, ...]]]]:
    """The boxes of a data set for a layout that knows whole pixels alone.

    Args:
        data: The data set.
        layout: Name of the layout, for the message.

    Returns:
        Procedure -> frame -> left, top, right, bottom of each box, in the order of the table.

    Raises:
        PolyplinkError: If an edge is no whole number.
    """
    edges: dict[str, dict[int, list[tuple[int, ...]]]] = {}
    columns = data.detections.select("procedure_id", "frame", "x", "y", "w", "h")
    for procedure_id, frame, x, y, w, h in columns.iter_rows():
        box = (x, y, x + w, y + h)
        if any(edge != int(edge) for edge in box):
            raise PolyplinkError(
                f"procedure {procedure_id}, frame {frame}: box ({x:g}, {y:g}, {w:g}, {h:g}) is "
                f"not of whole pixels, as {layout} needs",
                "round the boxes first",
            )
        frames = edges.setdefault(procedure_id, {})
        frames.setdefault(frame, []).append(tuple(int(edge) for edge in box))
    return edges


def short_number(value: float) -> str:
    """The shortest text that gives the same float32 back (11.74, 25)."""
    return np.format_float_positional(np.float32(value), trim="-")
