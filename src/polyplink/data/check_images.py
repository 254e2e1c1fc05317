"""The doctor's check of image files: are they there. None is opened."""

import os
from pathlib import Path

import polars as pl

from polyplink.data.findings import Finding, find
from polyplink.data.tables import DataSet


def check_images(data: DataSet) -> list[Finding]:
    """Look for every box's image in a listing of its folder, one listing for each folder.

    Args:
        data: The data set.

    Returns:
        Images that are missing (error), boxes that name no image (warning).
    """
    source = data.procedures.select("procedure_id", "source")
    boxes = data.detections.select("procedure_id", "frame", "image").join(
        source, on="procedure_id", how="left", maintain_order="left"
    )
    images = boxes.drop_nulls("image").unique(["source", "image"], maintain_order=True)
    # "a/b/c.jpg" -> "a/b" and "c.jpg"; a bare name lies in the source itself.
    images = images.with_columns(
        folder=pl.col("image").str.extract(r"^(.*)/[^/]*$").fill_null(""),
        name=pl.col("image").str.extract(r"([^/]*)$"),
    )
    there = _listing(images.select("source", "folder").unique(maintain_order=True))
    return [
        *find(
            images.join(there, on=["source", "folder", "name"], how="anti", maintain_order="left"),
            "error",
            "missing image",
            "procedure {procedure_id}, frame {frame}: no file {image} in {source}",
            "restore the file, or import without images",
        ),
        *find(
            boxes.filter(pl.col("image").is_null()),
            "warning",
            "box without image",
            "procedure {procedure_id}, frame {frame}: a box that names no image",
            "import with the frames in place; crops cannot be made without",
        ),
    ]


def _listing(folders: pl.DataFrame) -> pl.DataFrame:
    """Names of all files in folders (columns source, folder); an absent folder has none."""
    tables = []
    for source, folder in folders.iter_rows():
        path = Path(source) / folder
        names = os.listdir(path) if path.is_dir() else []  # noqa: PTH208 - names are enough
        tables.append(
            pl.DataFrame({"name": names}, schema={"name": pl.String}).with_columns(
                source=pl.lit(source), folder=pl.lit(folder)
            )
        )
    empty = pl.DataFrame(schema={"name": pl.String, "source": pl.String, "folder": pl.String})
    return pl.concat([empty, *tables])
