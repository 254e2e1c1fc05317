"""Annotated still images."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from polyplink.core.arrays import Floats
from polyplink.core.errors import PolyplinkError
from polyplink.data.files.folders import IMAGE_ENDINGS
from polyplink.data.origin import annotated_boxes
from polyplink.data.tables import DataSet


@dataclass(frozen=True)
class Still:
    """An image with its polyps.

    Attributes:
        path: The image file.
        group: The patient (see `DataSet.patients`): stills of one group may show the same polyp.
        boxes: (k, 4) x, y, w, h in pixels; k is 0 for an image without a polyp.
    """

    path: Path
    group: str
    boxes: Floats


def read_stills(folder: Path, data: DataSet, procedures: Sequence[str]) -> list[Still]:
    """The annotated images of a data folder, in the order of its table.

    Args:
        folder: The data folder.
        data: The tables of the folder.
        procedures: The procedures to read.

    Raises:
        PolyplinkError: If there is no annotated box with an image file.
    """
    sources = data.procedures.select("procedure_id", "source")
    annotated = annotated_boxes(folder, data).drop_nulls("image")
    annotated = annotated.filter(pl.col("procedure_id").is_in(procedures)).join(
        sources, on="procedure_id"
    )
    patients = data.patients
    stills = []
    for (source, image, procedure), rows in annotated.group_by(
        "source", "image", "procedure_id", maintain_order=True
    ):
        path = folder / str(source) / str(image)
        if path.suffix.lower() in IMAGE_ENDINGS:
            boxes = rows.select("x", "y", "w", "h").to_numpy().astype(float)
            stills.append(Still(path, patients[str(procedure)], boxes))
    if not stills:
        raise PolyplinkError(
            f"{folder} has no annotated image files",
            "import still images with their boxes or masks: `polyplink import coco|yolo|masks|csv`",
        )
    return stills
