"""A side file of boxes for Polyp-Size: CSV with our column names."""

from pathlib import Path
from typing import NamedTuple

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults, leave_out
from polyplink.data.files.folders import LARGEST
from polyplink.data.formats.text import number, read_text_table
from polyplink.data.sets.polyp_size_labels import VIDEO

_SIDES = ("x", "y", "w", "h")


class SideBox(NamedTuple):
    """One box in pixels; its frame counts from 0."""

    frame: int
    x: float
    y: float
    w: float
    h: float
    where: str


def read_side_boxes(path: Path, faults: Faults) -> dict[int, list[SideBox]]:
    """Read a CSV file of boxes.

    Args:
        path: The file; columns procedure_id or video_id (`01`, `Video01`, `01.mp4`), frame (from
            0), x, y, w, h (pixels). Others are not read: identity is the video.
        faults: Told of rows that cannot be read.

    Returns:
        Video number -> its boxes in the file's order.

    Raises:
        PolyplinkError: If the file is missing or no table, or lacks a column; if strict, at the
            first row that cannot be read.
    """
    table = read_text_table(path)
    table = table.rename({"video_id": "procedure_id"} if "video_id" in table.columns else {})
    for name in ("procedure_id", "frame", *_SIDES):
        if name not in table.columns:
            raise PolyplinkError(
                f"{path} has no column {name!r}",
                "its columns: procedure_id, frame, x, y, w, h",
            )
    table = table.with_row_index("row", offset=2).select(
        pl.col("procedure_id").fill_null(""),
        *(number(name) for name in ("frame", *_SIDES)),
        at=pl.lit(f"{path.name}, line ") + pl.col("row").cast(pl.String),
    )
    frame = pl.col("frame")
    sound = frame.is_between(0, LARGEST) & (frame == frame.floor())
    mend = "write the frame's number, from 0"
    table = leave_out(table, ~sound.fill_null(False), "box without a frame number", mend, faults)
    numbers = pl.all_horizontal(pl.col(side).is_not_null() for side in _SIDES)
    mend = "write four numbers, in pixels"
    table = leave_out(table, ~numbers, "box with a side that is no number", mend, faults)
    boxes: dict[int, list[SideBox]] = {}
    for name, frame_number, x, y, w, h, at in table.iter_rows():
        match = VIDEO.fullmatch(name.strip())
        if match is None:
            faults.fault("box of no video", f"{at} ({name})", "write the video's number")
            continue
        box = SideBox(int(frame_number), x, y, w, h, at)
        boxes.setdefault(int(match[1]), []).append(box)
    return boxes
