"""Frames annotated as free of polyps: `empty.parquet` next to the tables.

The tables only list images of boxes. A frame is annotated as free of polyps if COCO lists its image
without an annotation, its YOLO label file has no line, or its mask has no bright pixel. A detector
is trained on such frames as negative examples.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from polyplink.data.files.folders import IMAGE_ENDINGS
from polyplink.data.files.image_names import image_place
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
    """Write the frames without a polyp, see `EMPTY`; no file if there are none."""
    if frames.height:
        write_table(folder / EMPTY_FILE, check(frames, EMPTY, "empty"))


def read_empty(folder: Path, procedures: Sequence[str]) -> pl.DataFrame:
    """Read the frames of procedures that are annotated as free of polyps, see `EMPTY`.

    Raises:
        PolyplinkError: If the file is broken.
    """
    path = folder / EMPTY_FILE
    if not path.is_file():
        return pl.DataFrame(schema={name: column.dtype for name, column in EMPTY.items()})
    frames = check(read_table(path, "import again"), EMPTY, "empty")
    return frames.filter(pl.col("procedure_id").is_in(list(procedures)))


def empty_files(folder: Path, data: DataSet, procedures: Sequence[str]) -> list[Path]:
    """The image files of the frames of `read_empty`, without those in archives and videos."""
    sources = data.procedures.select("procedure_id", "source")
    frames = read_empty(folder, procedures).join(sources, on="procedure_id", maintain_order="left")
    return [
        folder / source / image
        for source, image in frames.select("source", "image").iter_rows()
        if image.lower().endswith(IMAGE_ENDINGS) and image_place(image).member is None
    ]
