"""Frames that are annotated to be without a polyp: `empty.parquet` beside the tables.

The tables name the images of boxes alone. That there is no polyp is said by an image that COCO
lists without an annotation, by a label file of YOLO without a line, and by a mask without a bright
pixel. A detector learns from such frames what is no polyp.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from polyplink.data.files.archives import INSIDE
from polyplink.data.files.folders import IMAGE_ENDINGS
from polyplink.data.tables import (
    DETECTIONS,
    EMPTY_FILE,
    DataSet,
    Schema,
    check,
    read_table,
    write_table,
)

EMPTY: Schema = {
    name: replace(DETECTIONS[name], nullable=False) for name in ("procedure_id", "frame", "image")
}


def write_empty(folder: Path, frames: pl.DataFrame) -> None:
    """Write the frames without a polyp, see `EMPTY`; no file where there is none."""
    if frames.height:
        write_table(folder / EMPTY_FILE, check(frames, EMPTY, "empty"))


def read_empty(folder: Path, procedures: Sequence[str]) -> pl.DataFrame:
    """The frames of procedures that are annotated to be without a polyp, see `EMPTY`.

    Raises:
        PolyplinkError: If the file is broken.
    """
    path = folder / EMPTY_FILE
    if not path.is_file():
        return pl.DataFrame(schema={name: column.dtype for name, column in EMPTY.items()})
    frames = check(read_table(path, "import again"), EMPTY, "empty")
    return frames.filter(pl.col("procedure_id").is_in(list(procedures)))


def empty_files(folder: Path, data: DataSet, procedures: Sequence[str]) -> list[Path]:
    """The image files of `read_empty`; not those in archives and videos.

    Raises:
        PolyplinkError: As `read_empty`.
    """
    sources = data.procedures.select("procedure_id", "source")
    frames = read_empty(folder, procedures).join(sources, on="procedure_id", maintain_order="left")
    return [
        folder / source / image
        for source, image in frames.select("source", "image").iter_rows()
        if image.lower().endswith(IMAGE_ENDINGS) and INSIDE not in image
    ]
