"""The doctor's checks of boxes: inside the frame, one for each polyp, frame after frame."""

import polars as pl

from polyplink.data.boxes import NO_SUCH_FRAME, OUTSIDE, OVER_THE_EDGE
from polyplink.data.checks.findings import Finding, find
from polyplink.data.tables import DataSet

TINY_PIXELS = 8.0  # below this a crop holds no picture of a polyp

_BOX = "procedure {procedure_id}, frame {frame}: box ({x:g}, {y:g}, {w:g}, {h:g})"


def check_boxes(data: DataSet) -> list[Finding]:
    """Boxes against the frame they lie in, and tiny ones.

    Args:
        data: The data set.

    Returns:
        Frames before 0 or beyond n_frames and boxes wholly outside the image (errors), boxes
        partly outside and boxes with a side below 8 pixels (warnings).
    """
    size = data.procedures.select("procedure_id", "n_frames", "width", "height")
    boxes = data.detections.join(size, on="procedure_id", how="left", maintain_order="left")
    boxes = boxes.with_columns(right=pl.col("x") + pl.col("w"), bottom=pl.col("y") + pl.col("h"))
    return [
        *find(
            boxes.filter(NO_SUCH_FRAME),
            "error",
            "frame number",
            "procedure {procedure_id}: a box in frame {frame} of {n_frames}",
            "correct n_frames, or number the frames from 0",
        ),
        *find(
            boxes.filter(OUTSIDE),
            "error",
            "box outside",
            f"{_BOX} is wholly outside the image of {{width}} x {{height}}",
            "correct the box, or the procedure's width and height",
        ),
        *find(
            boxes.filter(OVER_THE_EDGE),
            "warning",
            "box over the edge",
            f"{_BOX} reaches beyond the image of {{width}} x {{height}}",
            "clip the box; check the procedure's width and height",
        ),
        *find(
            boxes.filter(pl.min_horizontal("w", "h") < TINY_PIXELS),
            "warning",
            "tiny box",
            f"{_BOX} has a side below {TINY_PIXELS:g} pixels",
            "leave it out, unless the images are very small",
        ),
    ]


def check_identities(data: DataSet) -> list[Finding]:
    """The polyp ids of boxes.

    Args:
        data: The data set.

    Returns:
        Boxes of a polyp without a row, or of another procedure's polyp (errors), further boxes of
        one polyp in a frame (warning), boxes without a polyp id (note).
    """
    owner = data.polyps.select("polyp_id", owner="procedure_id")
    named = data.detections.filter(pl.col("polyp_id").is_not_null())
    boxes = named.join(owner, on="polyp_id", how="left", maintain_order="left")
    in_frame = "procedure {procedure_id}, frame {frame}"
    return [
        *find(
            boxes.filter(pl.col("owner").is_null()),
            "error",
            "unknown polyp",
            f"{in_frame}: a box of {{polyp_id}}, which is in no row of polyps",
            "add the polyp to the table, or leave its polyp_id empty",
        ),
        *find(
            boxes.filter(pl.col("owner") != pl.col("procedure_id")),
            "error",
            "polyp of another procedure",
            f"{in_frame}: a box of {{polyp_id}}, which belongs to {{owner}}",
            "give every procedure its own polyp ids",
        ),
        *find(
            named.filter(~pl.struct("procedure_id", "frame", "polyp_id").is_first_distinct()),
            "warning",
            "polyp twice in a frame",
            f"{in_frame}: more than one box of {{polyp_id}}",
            "leave one box, or give the second polyp its own id",
        ),
        *find(
            data.detections.filter(pl.col("polyp_id").is_null()),
            "note",
            "box without polyp",
            f"{in_frame}: a box without a polyp id",
            "none needed for counting; evaluation and supervised training need the ids",
        ),
    ]


def check_gaps(data: DataSet) -> list[Finding]:
    """How often the boxes of one polyp skip frames: tracklets are cut there.

    Args:
        data: The data set.

    Returns:
        Procedures where most boxes do not follow on the frame before, as when only every n-th
        frame is annotated (warning), and the number of gaps (note).
    """
    seen = data.detections.filter(pl.col("polyp_id").is_not_null())
    frames = seen.unique(["procedure_id", "polyp_id", "frame"]).sort(
        "procedure_id", "polyp_id", "frame"
    )
    steps = frames.with_columns(
        step=pl.col("frame").diff().over("procedure_id", "polyp_id")
    ).filter(pl.col("step").is_not_null())
    usual = steps.group_by("procedure_id", maintain_order=True).agg(pl.col("step").median())
    return [
        *find(
            usual.filter(pl.col("step") > 1),
            "warning",
            "frames skipped",
            "procedure {procedure_id}: boxes of a polyp are usually {step:g} frames apart",
            "number the annotated frames without gaps, or every box becomes its own tracklet",
        ),
        *find(
            steps.filter(pl.col("step") > 1).sort("step", descending=True, maintain_order=True),
            "note",
            "gap",
            "procedure {procedure_id}: {polyp_id} is away for {step} frames before frame {frame}",
            "none needed: a tracklet ends at a gap",
        ),
    ]
