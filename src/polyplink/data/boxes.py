"""The pipeline from the boxes of any source to checked detections.

The reader of every format and data set converts its boxes to the columns of `BOXES` with
`box_table`. Then `check_boxes` leaves out boxes that are invalid in any image (a side that is not a
number, no area) and `fit_boxes` those that do not fit the frame of their procedure. Everything that
is left out or changed is counted in `Faults`.
"""

from collections.abc import Mapping
from typing import Literal

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.faults import Faults, Rule, apply_rules, place_of
from polyplink.data.files.limits import refuse_excess
from polyplink.data.files.values import LARGEST

Border = Literal["keep", "clip", "pixels"]
MOST_BOXES = 20_000_000  # of a source, unless the limits are lifted
FAR = 1.1  # times the size of a frame: a box with an edge beyond it may state edges for sides
SEVERAL = 10  # boxes: the sides of fewer do not tell their unit

# The common columns of all sources; null where a source has no value.
BOXES: Mapping[str, pl.DataType] = {
    "at": pl.String(),  # place in the source, see `faults.place_text`
    "procedure_id": pl.String(),
    "frame": pl.Float64(),  # from 0
    "x": pl.Float64(),  # sides in pixels
    "y": pl.Float64(),
    "w": pl.Float64(),
    "h": pl.Float64(),
    "right": pl.Float64(),  # x + w, or the value of the source
    "bottom": pl.Float64(),
    "score": pl.Float64(),
    "polyp_id": pl.String(),  # a name of the source
    "track": pl.String(),  # a number that is only unique in its procedure
    "image": pl.String(),
    "width": pl.Float64(),  # size of the box's frame, if it may differ from the procedure's
    "height": pl.Float64(),
    "file": pl.Int32(),  # number of the source's file, and of the box in it, both from 0; null
    "item": pl.Int64(),  # if files of the format are not written again (see `Format.mark`)
}
_SIDES = ("x", "y", "w", "h")
_X, _Y, _W, _H, _RIGHT, _BOTTOM = (pl.col(name) for name in (*_SIDES, "right", "bottom"))
_WIDTH, _HEIGHT = pl.col("width"), pl.col("height")
_SIZES = _WIDTH, _HEIGHT, _WIDTH, _HEIGHT  # upper bounds of left, top, right, bottom
_CORRECT = "correct the box or remove it"
_NO_AREA = Rule(
    Message("import.no_area"),
    _CORRECT,
    (_W.cast(pl.Float32) <= 0) | (_H.cast(pl.Float32) <= 0),  # as the table holds them
)

# Boxes that do not fit their frame: an import leaves them out or clips them, the doctor reports
# them. Columns of a box with `right` and `bottom`, and n_frames, width and height of its procedure.
OUTSIDE = (_RIGHT <= 0) | (_BOTTOM <= 0) | (_X >= _WIDTH) | (_Y >= _HEIGHT)
OVER_THE_EDGE = ~OUTSIDE & ((_X < 0) | (_Y < 0) | (_RIGHT > _WIDTH) | (_BOTTOM > _HEIGHT))
NO_SUCH_FRAME = (pl.col("frame") < 0) | (pl.col("frame") >= pl.col("n_frames"))


def box_table(table: pl.DataFrame) -> pl.DataFrame:
    """Convert boxes to the columns of `BOXES`.

    Args:
        table: Any columns of `BOXES`, the sides as x, y, w, h or as left, top, right, bottom.
            Missing columns become null.

    Example:
        >>> table = pl.DataFrame({"left": [2.0], "top": [1.0], "right": [5.0], "bottom": [7.0]})
        >>> box_table(table).select("x", "y", "w", "h").row(0)
        (2.0, 1.0, 3.0, 6.0)
    """
    if "left" in table.columns:
        left, top = pl.col("left"), pl.col("top")
        table = table.with_columns(x=left, y=top, w=_RIGHT - left, h=_BOTTOM - top)
    else:
        table = table.with_columns(right=_X + _W, bottom=_Y + _H)
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in BOXES.items()
    )


def check_boxes(boxes: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Keep the boxes that have a procedure, a frame number and an area.

    Args:
        boxes: From `box_table`.
        faults: Counts what is left out. For a score outside [0, 1], the box is kept without it.

    Returns:
        The boxes kept, with frame as Int32 and score as Float32.

    Raises:
        PolyplinkError: If the boxes are in other units than frames, pixels and scores up to 1; if
            strict, at the first box or score that cannot be used.
    """
    if boxes.height > MOST_BOXES:
        refuse_excess(f"{boxes.height} boxes are more than {MOST_BOXES}")
    _check_units(boxes)
    frame = pl.col("frame")
    sides = pl.col(_SIDES)
    unplaced = [
        Rule(
            Message("import.no_procedure"),
            "name the file <procedure>_<frame> or <procedure>/<frame>",
            pl.col("procedure_id").is_null(),
        ),
        Rule(
            Message("import.no_frame"),
            "number the frames with whole numbers (and give the number of the first one)",
            frame.is_null() | ~frame.is_between(0, LARGEST) | (frame.floor() != frame),
        ),
        Rule(
            Message("import.side_text"),
            "write four numbers, in pixels",
            pl.any_horizontal(sides.is_null()),
        ),
    ]
    unsound = [
        Rule(
            Message("import.side_infinite"),
            _CORRECT,
            ~pl.all_horizontal(sides.cast(pl.Float32).is_finite()),
        ),
        _NO_AREA,
    ]
    boxes = apply_rules(boxes, unplaced, faults)
    boxes = apply_rules(boxes, unsound, faults, show=_SIDES).with_columns(frame.cast(pl.Int32))
    in_range = pl.col("score").is_between(0, 1)  # null where there is no score
    out_of_range = boxes.filter(~in_range)
    if out_of_range.height:
        kind, hint = Message("import.score_outside"), "scale the scores to [0, 1]"
        first, effect = place_of(out_of_range["at"][0]), "import.without_score"
        faults.fault(kind, first, hint, out_of_range.height, effect=effect)
    return boxes.with_columns(pl.when(in_range).then(pl.col("score")).cast(pl.Float32))


def _check_units(boxes: pl.DataFrame) -> None:
    """Refuse times instead of frames, scores in percent, and boxes relative to the frame.

    Such boxes would be left out, count as annotated, or lie in one pixel, and be counted wrongly.
    """

    def check(is_wrong: pl.Expr, share: float, column: str, problem: str, hint: str) -> None:
        """Refuse the boxes if more than a share of the values of a column are wrong."""
        rows = boxes.filter(is_wrong)
        if rows.height > share * boxes[column].count():
            first = rows.row(0, named=True)
            located = f"{place_of(first['at'])}: {problem}"
            raise PolyplinkError(f"{located}, the first has {column} {first[column]:g}", hint)

    frame = pl.col("frame")
    check(
        frame.is_finite() & (frame.floor() != frame),
        1 / 2,
        "frame",
        "most frames are not whole numbers",
        "give the number of the frame, not its time: seconds times frames per second",
    )
    check(
        pl.col("score").fill_nan(None) > 1,
        1 / 2,
        "score",
        "most scores are above 1",
        "divide scores in percent by 100; leave the scores out if people drew the boxes",
    )
    if boxes.height >= SEVERAL:
        check(
            (_X >= 0) & (_Y >= 0) & (_RIGHT <= 1) & (_BOTTOM <= 1),
            0.9,
            "w",
            "the boxes lie within one pixel",
            "multiply x and w by the width of the frame, and y and h by its height",
        )


def without_repeated(boxes: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Leave out boxes that repeat another of their frame, with the same score, polyp and track.

    Args:
        boxes: From `check_boxes`.
        faults: Counts what is left out.

    Raises:
        PolyplinkError: If strict, at the first repeated box.
    """
    box = pl.struct("procedure_id", "frame", *_SIDES, "score", "polyp_id", "track")
    kind = Message("import.repeated_box")
    repeated = Rule(kind, "leave one of them", ~box.is_first_distinct())
    return apply_rules(boxes, [repeated], faults, show=_SIDES)


def fit_boxes(
    boxes: pl.DataFrame, procedures: pl.DataFrame, faults: Faults, *, border: Border = "keep"
) -> pl.DataFrame:
    """Keep the boxes that lie in a frame of their procedure.

    Args:
        boxes: From `check_boxes`.
        procedures: procedure_id, n_frames, width, height.
        faults: Counts what is left out or clipped.
        border: Treatment of boxes partly outside the image. "keep": unchanged, with a
            warning; "clip": clipped to [0, width] x [0, height]; "pixels": all edges are
            rounded (half to even) and clamped to [0, width - 1] and [0, height - 1], as in
            REAL-Colon's exporter.

    Returns:
        The remaining boxes with sides as Float32; without right, bottom, width and height.

    Raises:
        PolyplinkError: If the last two sides are the right and bottom edge; if strict, at the first
            box beyond the last frame, wholly outside the image, or without area after clipping.
    """
    size = procedures.select("procedure_id", "n_frames", frame_width="width", frame_height="height")
    boxes = boxes.join(size, on="procedure_id", how="left", maintain_order="left").with_columns(
        width=pl.coalesce("width", "frame_width"), height=pl.coalesce("height", "frame_height")
    )
    if border == "keep":  # in float32 like the doctor, so that both report the same boxes
        boxes = boxes.with_columns(pl.col(_SIDES).cast(pl.Float32))
        boxes = boxes.with_columns(right=_X + _W, bottom=_Y + _H)
    # With x, y, right, bottom in place of x, y, w, h, most boxes reach beyond the image.
    as_edges = (_W > _X) & (_H > _Y) & (_W <= _WIDTH) & (_H <= _HEIGHT)
    far_beyond = (_X + _W > FAR * _WIDTH) | (_Y + _H > FAR * _HEIGHT)
    beyond_image = boxes.filter(as_edges & far_beyond)
    if boxes.height >= SEVERAL and beyond_image.height > boxes.height / 2:
        raise PolyplinkError(
            f"{place_of(beyond_image['at'][0])}: most boxes reach beyond the image, and would fit "
            "with their last two numbers as the right and bottom edge",
            "give left, top, width and height",
        )
    rules = [
        Rule(
            Message("import.late_frame"),
            "correct the number of frames, or number the frames from 0",
            NO_SUCH_FRAME,
        ),
        Rule(
            Message("import.outside_image"),
            "correct the box, or the width and height",
            OUTSIDE,
        ),
    ]
    boxes = apply_rules(boxes, rules, faults, show=_SIDES)
    edges = [_X, _Y, _RIGHT, _BOTTOM]
    kind = Message("import.over_the_edge" if border == "keep" else "import.clipped")
    faults.warn_rows(kind, boxes.filter(OVER_THE_EDGE))
    if border == "clip":
        edges = [_clamp(e, size) for e, size in zip(edges, _SIZES, strict=True)]
    elif border == "pixels":
        rounded = (edge.round(mode="half_to_even") for edge in edges)
        edges = [_clamp(e, size - 1) for e, size in zip(rounded, _SIZES, strict=True)]
    if border != "keep":
        left, top, right, bottom = edges
        fitted = boxes.select(x=left, y=top, w=right - left, h=bottom - top)
        fitted = fitted.cast(pl.Float32)
        flat = fitted.select(_NO_AREA.broken).to_series()
        # Applied to the unclipped box, so that messages show it as the source does.
        flat_after_clipping = _NO_AREA._replace(broken=pl.lit(flat))
        boxes = apply_rules(boxes, [flat_after_clipping], faults, show=_SIDES)
        boxes = boxes.with_columns(fitted.filter(~flat))
    return boxes.drop(
        "right", "bottom", "width", "height", "n_frames", "frame_width", "frame_height"
    )


def _clamp(edge: pl.Expr, largest: pl.Expr) -> pl.Expr:
    """An edge clamped to [0, largest]."""
    return pl.min_horizontal(pl.max_horizontal(edge, pl.lit(0.0)), largest) + 0.0  # no -0.0
