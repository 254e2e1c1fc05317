"""Which images are there, from one listing of each folder instead of a look at every file."""

import os
import re
from pathlib import Path

import polars as pl

VIDEO_ENDINGS = (".mp4", ".mkv", ".avi", ".ts", ".mov", ".mpg", ".webm")
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff")

_NUMBER = re.compile(r"(\d{1,10})\.[A-Za-z]+$")


def present(images: pl.Series, folders: pl.Series) -> pl.Series:
    """Which of n images are there.

    Args:
        images: Text, n paths relative to their folder; null for none. Of `video.mp4#12` and
            `archive.zip!/member` the file before the sign is looked for.
        folders: Text, n folders.

    Returns:
        Boolean, n; null where the image is null.
    """
    table = pl.DataFrame({"image": images.cast(pl.String), "folder": folders}).select(
        path=pl.col("folder")
        + "/"
        + pl.col("image").str.replace(r"!/.*$", "").str.replace(r"#\d+$", "")
    )
    parents = table["path"].drop_nulls().str.extract(r"^(.*)/[^/]*$").unique()
    there = [f"{parent}/{name}" for parent in parents for name in _listing(parent)]
    return table["path"].is_in(pl.Series(there, dtype=pl.String).implode())


def _listing(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone: folders hold many thousands
    except OSError:
        return []


def video_beside(folder: Path, name: str) -> str | None:
    """Name of the video `<name>.<ending>` in a folder; None where there is none.

    Args:
        folder: Where to look.
        name: The video's name, with its ending or without.
    """
    there = set(_listing(str(folder)))
    found = [n for e in ("", *VIDEO_ENDINGS) if (n := name + e).lower().endswith(VIDEO_ENDINGS)]
    return next((n for n in found if n in there), None)


def numbered(folder: Path, endings: tuple[str, ...]) -> dict[int, str]:
    """Files of a folder by the number that their name ends in.

    Args:
        folder: The folder; one that is not there has no files.
        endings: Endings to look at, in small letters; hidden files are not looked at.

    Returns:
        Number to file name; of two files of one number the first in the order of names.
    """
    files: dict[int, str] = {}
    for name in sorted(_listing(str(folder))):
        number = _NUMBER.search(name)
        if name[0] != "." and number is not None and name.lower().endswith(endings):
            files.setdefault(int(number.group(1)), name)
    return files
