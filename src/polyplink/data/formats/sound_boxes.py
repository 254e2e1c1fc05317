"""Which boxes of a source can be used; the others are faults, named and counted."""

import polars as pl

from polyplink.data.faults import Faults
from polyplink.data.files.folders import LARGEST
from polyplink.data.formats.text_table import count_faults, leave_out

_SIDES = ("x", "y", "w", "h")


def sound_boxes(boxes: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Keep the boxes that have a procedure, a frame and an area.

    Args:
        boxes: Columns at (where in the source), procedure_id, frame, x, y, w, h (pixels), score;
            null where the source has text instead of a number, or nothing.
        faults: Gets what is left out.

    Returns:
        The boxes kept; frame Int32, sides Float32, score Float32 or null.

    Raises:
        PolyplinkError: If strict, at the first box that cannot be used.
    """
    frame, sides = pl.col("frame"), [pl.col(side) for side in _SIDES]
    boxes = leave_out(
        boxes,
        pl.col("procedure_id").is_null(),
        "box without a procedure",
        "name the file <procedure>_<frame> or <procedure>/<frame>",
        faults,
    )
    boxes = leave_out(
        boxes,
        frame.is_null() | ~frame.cast(pl.Float64).is_between(0, LARGEST) | (frame.floor() != frame),
        "box without a frame number from 0",
        "number the frames with whole numbers (say the number of the first one)",
        faults,
    )
    boxes = leave_out(
        boxes,
        pl.any_horizontal(side.is_null() for side in sides),
        "box with a side that is no number",
        "write four numbers, in pixels",
        faults,
    )
    boxes = boxes.with_columns(side.cast(pl.Float32) for side in sides)
    boxes = leave_out(
        boxes,
        ~pl.all_horizontal(side.is_finite() for side in sides),
        "box with a side that is not finite",
        "correct the box or take it out",
        faults,
    )
    boxes = leave_out(
        boxes,
        (pl.col("w") <= 0) | (pl.col("h") <= 0),
        "box of no area",
        "correct the box or take it out",
        faults,
    )
    return _sound_scores(boxes.with_columns(frame.cast(pl.Int32)), faults)


def _sound_scores(boxes: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """A score outside [0, 1] is left out, its box is kept."""
    wild = ~pl.col("score").is_between(0, 1).fill_null(True)
    rows = boxes.filter(wild)
    if rows.height:
        count_faults(rows["at"], "score outside [0, 1]", "scale the scores to [0, 1]", faults)
    return boxes.with_columns(pl.when(~wild).then(pl.col("score")).cast(pl.Float32))


def boxes_inside(boxes: pl.DataFrame, procedures: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Keep the boxes that lie in a frame their procedure has.

    A box partly outside is kept as it is; `polyplink doctor` tells of it.

    Args:
        boxes: As from `sound_boxes`.
        procedures: procedure_id, n_frames, width, height.
        faults: Gets what is left out.

    Returns:
        The boxes kept.

    Raises:
        PolyplinkError: If strict, at the first box beyond the last frame or wholly outside.
    """
    size = procedures.select("procedure_id", "n_frames", "width", "height")
    boxes = boxes.join(size, on="procedure_id", how="left", maintain_order="left")
    boxes = leave_out(
        boxes,
        pl.col("frame") >= pl.col("n_frames"),
        "box beyond the last frame of its procedure",
        "correct the number of frames, or number the frames from 0",
        faults,
    )
    x, y = pl.col("x"), pl.col("y")
    outside = (x >= pl.col("width")) | (y >= pl.col("height"))
    outside |= (x + pl.col("w") <= 0) | (y + pl.col("h") <= 0)
    boxes = leave_out(
        boxes,
        outside,
        "box wholly outside the image",
        "correct the box, or the width and height",
        faults,
    )
    return boxes.drop("n_frames", "width", "height")
