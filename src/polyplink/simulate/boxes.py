"""The boxes of a planned procedure, computed without drawing it.

A box is the tight box of a polyp's mask: of the pixels that show a surface more than half of
which is the polyp and whose middles the lens shows. Instruments, smoke, water and overlays do not
cut it; a blink and a removed polyp have none.
"""

import numpy as np
import polars as pl

from polyplink.simulate.colon.projection import project
from polyplink.simulate.course.camera import Array, Index
from polyplink.simulate.course.sight import MIN_AREA, in_reach, shots_of
from polyplink.simulate.plan import Plan, gone_from, lens_of

COLUMNS = ("frame", "polyp", "x", "y", "w", "h")


def pixel_boxes(boxes: Array, width: int, height: int) -> Index:
    """Edges in shares of the frame to first and last pixels whose middles lie within.

    Args:
        boxes: (n, 4) left, top, right, bottom; NaN for none.
        width: Of the frame, pixels.
        height: Likewise.

    Returns:
        (n, 4) x, y, w, h, where x + w and y + h are the last pixels; w and h are -1 for none.
    """
    scale = np.array([width, height])
    none = np.asarray(np.isnan(boxes).any(axis=1), np.bool_)
    known = np.where(none[:, None], 0.0, boxes)
    first = np.ceil(known[:, :2] * scale - 0.5).clip(0)
    last = np.minimum(np.floor(known[:, 2:] * scale - 0.5), scale - 1)
    out = np.concatenate([first, last - first], axis=1).astype(np.int64)
    out[none, 2:] = -1
    return out


def boxes_of(plan: Plan) -> pl.DataFrame:
    """The boxes of all frames.

    Args:
        plan: The procedure.

    Returns:
        frame, polyp (index), x, y, w, h in pixels, by frame, then polyp: x and y are the first
        visible pixel, x + w and y + h the last. A box whose w * h is below `MIN_AREA` of the
        frame is left out.
    """
    spec = plan.spec
    frames = np.flatnonzero(~plan.conditions.blink)
    path = plan.path.some(frames)
    rows, polyps = in_reach(plan.bodies, gone_from(plan.timeline), path, frames)
    cameras = shots_of(plan.colon, path, plan.conditions.phase[frames].astype(np.float64))
    boxes = pixel_boxes(
        project(plan.bodies, cameras, lens_of(spec), rows, polyps), spec.width, spec.height
    )
    w, h = boxes[:, 2], boxes[:, 3]
    kept = (w > 0) & (h > 0) & (w * h >= MIN_AREA * spec.width * spec.height)
    columns = [frames[rows[kept]], polyps[kept], *boxes[kept].T]
    return pl.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
