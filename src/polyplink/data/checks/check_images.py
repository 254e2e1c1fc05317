"""The doctor's check of images: are they there, in folders, archives and videos. None is opened."""

import os
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.checks.findings import Finding, find
from polyplink.data.files.archives import INSIDE, ZipArchive
from polyplink.data.files.video import split_frame_name
from polyplink.data.tables import DataSet
from polyplink.data.vocabulary import SIMULATED


def check_images(data: DataSet, root: Path = Path()) -> list[Finding]:
    """Look for every box's image in a listing of its folder, one listing for each folder.

    Of an image in an archive the archive must be there, and in the listing of a .zip the image; of
    a frame of a video the video.

    Args:
        data: The data set.
        root: Folder that relative sources are relative to.

    Returns:
        Images that are missing (error), boxes that name no image (warning; crops of simulated
        procedures are rendered where they are needed, and ask for none).
    """
    source = data.procedures.select("procedure_id", "source", "dataset")
    boxes = data.detections.select("procedure_id", "frame", "image").join(
        source, on="procedure_id", how="left", maintain_order="left"
    )
    images = boxes.drop_nulls("image").unique(["source", "image"], maintain_order=True)
    # "p.zip!/b/c.jpg" -> "p.zip" and "b/c.jpg"; "a.mp4#3" -> "a.mp4".
    archive = pl.col("image").str.extract(r"(?i)^(.*?\.(?:zip|tar|tar\.gz|tgz))!/")
    video = pl.col("image").str.extract(r"^(.+\.[A-Za-z0-9]+)#\d+$")
    images = images.with_columns(archive=archive, video=video)
    # "a/b/c.jpg" -> "a/b" and "c.jpg"; a bare name lies in the source itself.
    images = images.with_columns(file=pl.coalesce("archive", "video", "image")).with_columns(
        folder=pl.col("file").str.extract(r"^(.*)/[^/]*$").fill_null(""),
        name=pl.col("file").str.extract(r"([^/]*)$"),
    )
    there = _listing(images.select("source", "folder").unique(maintain_order=True), root)
    absent = images.join(there, on=["source", "folder", "name"], how="anti", maintain_order="left")
    return [
        *find(
            pl.concat([absent, _not_in_zip(images, absent, root)]),
            "error",
            "missing image",
            "procedure {procedure_id}, frame {frame}: no file {image} in {source}",
            "restore the file, or import without images",
        ),
        *find(
            boxes.filter(pl.col("image").is_null() & ~pl.col("dataset").str.starts_with(SIMULATED)),
            "warning",
            "box without image",
            "procedure {procedure_id}, frame {frame}: a box that names no image",
            "import with the frames in place; crops cannot be made without",
        ),
    ]


def is_plain(image: str) -> bool:
    """Whether an image is a file of its own: in no archive, and no frame of a video."""
    return INSIDE not in image and split_frame_name(image) is None


def _not_in_zip(images: pl.DataFrame, absent: pl.DataFrame, root: Path) -> pl.DataFrame:
    """Images that the listing of their .zip archive lacks; archives that cannot be listed too."""
    zipped = images.filter(pl.col("archive").str.to_lowercase().str.ends_with(".zip"))
    zipped = zipped.join(absent, on=["source", "image"], how="anti", maintain_order="left")
    parts = [images.clear()]
    for (source, name), part in zipped.group_by("source", "archive", maintain_order=True):
        try:
            members = set(ZipArchive(root / str(source) / str(name)).names())
        except PolyplinkError:
            members = set()
        last = {member.rpartition("/")[2] for member in members}
        inner = part["image"].str.slice(len(str(name)) + len(INSIDE))
        parts.append(part.filter(~inner.is_in(list(members | last))))
    return pl.concat(parts)


def _listing(folders: pl.DataFrame, root: Path) -> pl.DataFrame:
    """Names of all files in folders (columns source, folder); an absent folder has none."""
    tables = []
    for source, folder in folders.iter_rows():
        path = root / source / folder
        names = os.listdir(path) if path.is_dir() else []  # noqa: PTH208 - names are enough
        tables.append(
            pl.DataFrame({"name": names}, schema={"name": pl.String}).with_columns(
                source=pl.lit(source), folder=pl.lit(folder)
            )
        )
    empty = pl.DataFrame(schema={"name": pl.String, "source": pl.String, "folder": pl.String})
    return pl.concat([empty, *tables])
