"""Views of a data folder as rows of an index, and their pictures."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data import common_histology
from polyplink.scale.index import ROWS, SIDES
from polyplink.tracklets import Prepared
from polyplink.tracklets.build import BOX, USUAL_FPS
from polyplink.tracklets.crops import Pixels, read_crops
from polyplink.tracklets.prepare import enlarge


def view_rows(prepared: Prepared, index: Path) -> pl.DataFrame:
    """What an index says of the tracklets of a part; the middle crop stands for each.

    Args:
        prepared: The part, with or without its crops.
        index: Folder of the index, to which the paths of crops are relative.

    Returns:
        The columns of `ROWS`, rows as in the part's tracklets.
    """
    settings, data = prepared.settings, prepared.data
    polyps = data.polyps.select(
        "procedure_id",
        "polyp_id",
        "size_mm",
        histology=common_histology(data.polyps["histology_class"]),
    )
    procedures = data.procedures.select(
        "procedure_id", "dataset", "patient", "date", "width", "height",
        fps=pl.col("fps").fill_null(USUAL_FPS),
    )  # fmt: skip
    middle = pl.col("n_crops") // 2
    table = (
        prepared.tracklets.join(procedures, on="procedure_id", how="left", maintain_order="left")
        .join(polyps, on=["procedure_id", "polyp_id"], how="left", maintain_order="left")
        .with_columns(
            key=pl.col("procedure_id").replace_strict(prepared.keys, return_dtype=pl.String),
            crop=pl.col("crop_first") + middle,
            box=pl.col("offset") + middle * settings.stride,
            start_s=pl.col("first_frame") / pl.col("fps"),
            end_s=(pl.col("last_frame") + 1) / pl.col("fps"),
        )
    )
    boxes = prepared.detections.select(BOX)[table["box"]].to_numpy()
    cut = np.zeros((table.height, 4), np.int64)
    for (width, height), own in table.with_row_index("at").group_by("width", "height"):
        at = own["at"].to_numpy()
        cut[at] = enlarge(boxes[at], settings.crop_factor, int(str(width)), int(str(height)))
    home = index.resolve()
    paths = {
        name: os.path.relpath(prepared.crops_path(name).resolve(), home)
        for name in table["procedure_id"].unique()
    }
    sides = {side: cut[:, i] for i, side in enumerate(SIDES)}
    crops = pl.col("procedure_id").replace_strict(paths, return_dtype=pl.String)
    table = table.with_columns(crops=crops, **{k: pl.Series(v) for k, v in sides.items()})
    return table.select(pl.col(name).cast(kind) for name, kind in ROWS.items())


def picture_of(index: Path, row: dict[str, Any]) -> Pixels | None:
    """The crop (size, size, 3) that stands for a view; None where crops were not kept or moved.

    Args:
        index: Folder of the index.
        row: Its row.
    """
    try:
        return np.array(read_crops(index.resolve() / row["crops"], "")[row["crop"]])
    except (OSError, PolyplinkError, IndexError):
        return None
