"""Boxes: overlap of two, and the part of the image that is cut out around one."""

import numpy as np
import numpy.typing as npt

from polyplink.core.compiled import njit
from polyplink.core.errors import PolyplinkError

Floats = npt.NDArray[np.floating]
Box = tuple[float, float, float, float]


@njit(error_model="numpy")
def overlap(one: Box, other: Box) -> float:
    """Intersection over union of two boxes x, y, w, h, as `iou`, for compiled loops."""
    x, y, w, h = one
    p, q, r, s = other
    across = min(x + w, p + r) - max(x, p)
    down = min(y + h, q + s) - max(y, q)
    shared = max(across, 0.0) * max(down, 0.0)
    return float(min(shared / (w * h + r * s - shared), 1.0))


def iou(boxes: Floats, others: Floats) -> npt.NDArray[np.float64]:
    """Intersection over union of paired boxes.

    Args:
        boxes: (n, 4), x, y, w, h in pixels, origin top left; areas above 0.
        others: (n, 4), the partner of each.

    Returns:
        (n,) in [0, 1].

    Raises:
        PolyplinkError: If the two are not (n, 4) each.
    """
    if boxes.shape != others.shape or boxes.ndim != 2 or boxes.shape[1] != 4:
        raise PolyplinkError(
            f"boxes of shape {boxes.shape} and {others.shape} cannot be paired",
            "give two arrays of shape (n, 4)",
        )
    # Column by column: rows of four are too short to be computed fast.
    x, y, w, h = (np.ascontiguousarray(boxes[:, k], dtype=np.float64) for k in range(4))  # n
    p, q, r, s = (np.ascontiguousarray(others[:, k], dtype=np.float64) for k in range(4))  # n
    across = np.minimum(x + w, p + r) - np.maximum(x, p)  # n
    down = np.minimum(y + h, q + s) - np.maximum(y, q)  # n
    shared = np.maximum(across, 0.0) * np.maximum(down, 0.0)  # n
    union = w * h + r * s - shared  # n
    overlap: npt.NDArray[np.float64] = np.clip(shared / union, 0.0, 1.0)
    return overlap


def enlarge(boxes: Floats, factor: float | None, width: int, height: int) -> npt.NDArray[np.int64]:
    """The part of the image to cut out around each box.

    Width and height grow `factor` times about the box's centre; the corners are clamped to the
    frame, then truncated to integers (methods of the NTSSL paper; the order is its authors'
    program's). A crop is at least 1 pixel wide and high, even for a box outside the frame.

    Args:
        boxes: (n, 4), x, y, w, h in pixels.
        factor: psi in the papers, above 0; None for the full frame.
        width: Width of the frame, pixels.
        height: Height of the frame, pixels.

    Returns:
        (n, 4) left, top, right, bottom in pixels; right and bottom are exclusive.

    Raises:
        PolyplinkError: If the factor or the frame's size is not above 0.
    """
    if width < 1 or height < 1:
        raise PolyplinkError(
            f"a frame of {width} x {height} pixels", "mend width and height in procedures"
        )
    if factor is None:
        return np.tile(np.array([0, 0, width, height]), (len(boxes), 1))  # n 4
    if not factor > 0:
        raise PolyplinkError(f"crop factor {factor}", "give one above 0, or None")
    size = np.array([width, height])  # 2
    centre = boxes[:, :2].astype(np.float64) + boxes[:, 2:] / 2.0  # n 2
    half = boxes[:, 2:].astype(np.float64) * factor / 2.0  # n 2
    low = np.clip(centre - half, 0, size).astype(np.int64)  # n 2
    high = np.clip(centre + half, 0, size).astype(np.int64)  # n 2
    low = np.minimum(low, size - 1)
    return np.concatenate([low, np.maximum(high, low + 1)], axis=1)  # n 4
