"""Read boxes from plain CSV with our own column names.

`detections.csv`: procedure_id, frame (from 0), x, y, w, h (pixels) and, where known, score,
polyp_id, image (relative to the folder; a video's frame is `video.mp4#12`). Beside it, where
there are any, `procedures.csv` and `polyps.csv` (see `polyplink.data.formats.side_tables`).
"""

from collections.abc import Callable
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.boxes import box_table
from polyplink.data.faults import Faults, leave_out
from polyplink.data.formats.assemble import Found, Options, assemble
from polyplink.data.formats.procedure_rows import Size, source_folder
from polyplink.data.formats.text_table import number, read_text_table, written
from polyplink.data.imported import Imported

NAMES = ("detections.csv", "boxes.csv")

_NEEDED = ("procedure_id", "frame", "x", "y", "w", "h")


def import_csv(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    dataset: str | None = None,
    size: Size | None = None,
    first_frame: int = 0,
) -> Imported:
    """Read `detections.csv` and its side tables.

    Args:
        source: The file, or a folder with `detections.csv` or `boxes.csv`.
        images: Name each box's image, where it is there.
        strict: Raise at the first row that cannot be used, instead of leaving it out.
        progress: Called once the file is read.
        workers: Not needed: one file is read by the threads of polars.
        dataset: Name of the data set, where `procedures.csv` has none; None: the source's name.
        size: Width and height of every frame, where `procedures.csv` has none.
        first_frame: The number the file gives to a video's first frame.

    Returns:
        The data set and its warnings. Without a number of frames a procedure ends at its last
        box, which is told.

    Raises:
        PolyplinkError: If there is no such file, a column is missing, or the size of a
            procedure's frames is not known; if strict, at the first fault.
    """
    path = _table_path(source)
    table = read_text_table(path)
    missing = [name for name in _NEEDED if name not in table.columns]
    if missing:
        raise PolyplinkError(
            f"{path} has no column {missing[0]!r}", f"write the columns {', '.join(_NEEDED)}"
        )
    faults = Faults(strict)
    options = Options(images=images, dataset=dataset, size=size, first_frame=first_frame)
    boxes = _boxes(table, path.name, faults)
    if progress is not None:
        progress(1, 1)
    return assemble(Found(boxes), source_folder(source), source.stem, options, faults)


def _table_path(source: Path) -> Path:
    if not source.is_dir():
        return source
    for name in NAMES:
        if (source / name).is_file():
            return source / name
    raise PolyplinkError(f"{source} has no {NAMES[0]}", "check the path, or name the file")


def _boxes(table: pl.DataFrame, name: str, faults: Faults) -> pl.DataFrame:
    optional = {"score", "polyp_id", "image"} - set(table.columns)
    table = table.with_row_index("line", 2).with_columns(
        pl.lit(None, dtype=pl.String).alias(column) for column in optional
    )
    table = table.with_columns(at=pl.format("{}, line {}", pl.lit(name), "line"))
    table = leave_out(
        table,
        written("score") & number("score").is_null(),
        "box with a score that is no number",
        "write a number, or nothing",
        faults,
    )
    return box_table(
        table.with_columns(number(column) for column in (*_NEEDED[1:], "score")).with_columns(
            pl.when(pl.col("procedure_id") != "").then("procedure_id")
        )
    )
