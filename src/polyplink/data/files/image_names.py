"""Names of images, the values of the column `image`: the place of a frame's picture on the disk.

A name is relative to the source folder of its procedure and has one of three forms:

- `rel/path.jpg`, `.png`, `.tif`: an image file;
- `ARCHIVE.zip!/member`, `.tar`, `.tar.gz`, `.tgz`: a member of an archive;
- `video.mp4#17`: frame 17 of a video, counted from 0 in presentation order.
"""

import re
from typing import NamedTuple

import polars as pl

from polyplink.data.files.archives import ENDINGS
from polyplink.data.files.folders import names_in

INSIDE = "!/"  # separates an archive and a member


# For re and for the regular expressions of polars; the file is the first group.
_MEMBER = rf"(?is)^(.*?(?:{'|'.join(map(re.escape, ENDINGS))})){INSIDE}(.*)$"
_FRAME = r"(?s)^(.+)#([0-9]+)$"  # images end with the ending of their format
_MEMBER_PATTERN, _FRAME_PATTERN = re.compile(_MEMBER), re.compile(_FRAME)


class ImagePlace(NamedTuple):
    """What the name of an image says.

    Attributes:
        file: The image file, the archive or the video.
        member: Name in the archive; None for an image file and a video.
        frame: Number of the frame in the video, from 0; None for an image file and an archive.
    """

    file: str
    member: str | None = None
    frame: int | None = None


def image_place(name: str) -> ImagePlace:
    """The place that the name of an image stands for.

    Example:
        >>> image_place("a.zip!/b/c.jpg").member, image_place("d/a.mp4#17").frame
        ('b/c.jpg', 17)
        >>> image_place("d/a.jpg")
        ImagePlace(file='d/a.jpg', member=None, frame=None)
    """
    if "#" in name and (match := _FRAME_PATTERN.fullmatch(name)):
        return ImagePlace(match[1], frame=int(match[2]))
    if INSIDE in name and (match := _MEMBER_PATTERN.fullmatch(name)):
        return ImagePlace(match[1], member=match[2])
    return ImagePlace(name)


def file_of(name: pl.Expr) -> pl.Expr:
    """The file of each name, see `ImagePlace`."""
    return pl.coalesce(name.str.extract(_FRAME), name.str.replace(_MEMBER, "${1}"))


def member_name(archive: str, member: str) -> str:
    """Name of a member of an archive: `ARCHIVE.zip!/member`."""
    return f"{archive}{INSIDE}{member}"


def frame_name(video: str, frame: int) -> str:
    """Name of a video's frame: `video.mp4#17`."""
    return f"{video}#{frame}"


def present(images: pl.Series, folders: pl.Series) -> pl.Series:
    """Whether each of n images exists.

    Args:
        images: Text, n names relative to their folder; null for none. Of a frame of a video and a
            member of an archive, the video or the archive must exist.
        folders: Text, n folders.

    Returns:
        Boolean, n; null where the image is null.
    """
    table = pl.DataFrame({"image": images.cast(pl.String), "folder": folders}).select(
        path=pl.col("folder") + "/" + file_of(pl.col("image"))
    )
    parents = table["path"].drop_nulls().str.extract(r"^(.*)/[^/]*$").unique()
    existing = [f"{parent}/{name}" for parent in parents for name in names_in(parent)]
    return table["path"].is_in(pl.Series(existing, dtype=pl.String).implode())
