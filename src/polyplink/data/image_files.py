"""Which images of a data set exist, and whether they decode; for the doctor."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.core.results import StageProgress, silent_stage
from polyplink.data.files.archives import Archive, read_archived
from polyplink.data.files.folders import read_playlist
from polyplink.data.files.image_names import INSIDE, file_of, image_place, present
from polyplink.data.files.images import decode_image, has_rotation_tag
from polyplink.data.files.video import open_video
from polyplink.data.tables import DataSet

SAMPLE = 64  # images to open if not all are opened
_AT_A_TIME = 256  # images in flight: bounds memory


class DecodedImage(NamedTuple):
    """Width and height of an image as stored, pixels, and whether a tag says to turn it."""

    width: int
    height: int
    is_turned: bool = False


Opened = DecodedImage | str  # the image, or why it does not decode
_Key = tuple[str, str]  # source and image


def missing_images(data: DataSet, root: Path) -> pl.DataFrame:
    """The images of boxes that do not exist, with the first box of each; folders are listed once.

    For an image in an archive, the archive must exist and, if it is a .zip, list the image; for a
    frame of a video, the video must exist, and of a playlist, each of its files.

    Args:
        data: The data set.
        root: Folder that relative sources are relative to.

    Returns:
        Columns procedure_id, frame, image, source.
    """
    source = data.procedures.select("procedure_id", "source")
    boxes = data.detections.select("procedure_id", "frame", "image").drop_nulls("image")
    images = boxes.join(source, on="procedure_id", how="left", maintain_order="left")
    images = images.unique(["source", "image"], keep="first", maintain_order=True)
    images = images.with_columns(file=file_of(pl.col("image")))

    # Images whose file, archive or video does not exist.
    places = {place: str(root / place) for place in images["source"].unique()}
    exists = present(images["image"], images["source"].replace_strict(places, default=None))
    parts = [images.filter(~exists)]

    # Images that an existing .zip does not list, by full name or its last part.
    is_inside = images["file"] != images["image"]
    zipped = is_inside & images["file"].str.to_lowercase().str.ends_with(".zip")
    in_zips = images.filter(exists & zipped)
    for (place, archive), part in in_zips.group_by("source", "file", maintain_order=True):
        try:
            members = Archive(root / str(place) / str(archive)).names
        except PolyplinkError:
            members = []  # an archive that cannot be listed has none
        member_names = {*members, *(member.rpartition("/")[2] for member in members)}
        member_paths = part["image"].str.slice(len(str(archive)) + len(INSIDE))
        parts.append(part.filter(~member_paths.is_in(list(member_names))))

    # Frames of existing playlists that name a missing file.
    playlists = images.filter(exists & images["file"].str.to_lowercase().str.ends_with(".m3u"))
    for (place, playlist), part in playlists.group_by("source", "file", maintain_order=True):
        try:
            files = read_playlist(root / str(place) / str(playlist))
            is_whole = all(file.is_file() for file in files)
        except PolyplinkError:
            is_whole = False
        if not is_whole:
            parts.append(part)
    return pl.concat(parts).select("procedure_id", "frame", "image", "source")


def open_images(
    data: DataSet, root: Path, *, deep: bool, progress: StageProgress = silent_stage
) -> pl.DataFrame:
    """Decode images: a sample of the plain image files, or all images that exist.

    Args:
        data: The data set.
        root: Folder that relative sources are relative to.
        deep: Decode all images, including those in archives and frames of videos.
        progress: Callback with the number of images opened and to open.

    Returns:
        Columns procedure_id, frame, image, width and height (of the procedure), is_width and
        is_height (of the image), is_turned (by a tag), and why (the reason if it does not decode;
        null otherwise). One row for each image; the last four are null for a missing file.
    """
    places = data.procedures.select("procedure_id", "source", "width", "height")
    images = (
        data.detections.drop_nulls("image")
        .unique(["procedure_id", "image"], keep="first", maintain_order=True)
        .select("procedure_id", "frame", "image")
        .join(places, on="procedure_id", how="left", maintain_order="left")
    )
    if not deep:
        are_files = [image_place(image).file == image for image in images["image"]]
        images = images.filter(pl.Series(are_files, dtype=pl.Boolean))
        rows = np.unique(np.linspace(0, max(images.height - 1, 0), SAMPLE).astype(int))
        images = images[rows] if images.height else images
    keys = list(zip(images["source"], images["image"], strict=True))
    opened: dict[_Key, Opened] = {}
    for key, size in open_each(dict.fromkeys(keys), root):
        opened[key] = size
        progress(len(opened), images.height)
    outcomes = [opened.get(key) for key in keys]
    decoded = [outcome if isinstance(outcome, DecodedImage) else None for outcome in outcomes]
    reasons = [outcome if isinstance(outcome, str) else None for outcome in outcomes]
    return images.with_columns(
        why=pl.Series(reasons, dtype=pl.String),
        is_width=pl.Series([image and image.width for image in decoded], dtype=pl.Int32),
        is_height=pl.Series([image and image.height for image in decoded], dtype=pl.Int32),
        is_turned=pl.Series([image and image.is_turned for image in decoded], dtype=pl.Boolean),
    )


def decode_size(data: bytes) -> Opened:
    """Decode an image: its size and rotation tag, or why it does not decode."""
    image = decode_image(data)
    if isinstance(image, str):
        return image
    return DecodedImage(image.shape[1], image.shape[0], has_rotation_tag(data))


def open_each(keys: dict[_Key, None], root: Path) -> Iterator[tuple[_Key, Opened]]:
    """Open every image that exists, each archive and video only once.

    Args:
        keys: Source and image, as in the tables procedures and detections.
        root: Folder that relative sources are relative to.

    Yields:
        The key, and the image or the reason why it does not decode.
    """
    # The images by the file that contains them.
    plain: list[_Key] = []
    packed: dict[_Key, dict[str, str]] = {}  # archive -> member -> image
    videos: dict[_Key, dict[int, str]] = {}  # video -> frame -> image
    for source, image in keys:
        file, member, number = image_place(image)
        if number is not None:
            videos.setdefault((source, file), {})[number] = image
        elif member is not None:
            packed.setdefault((source, file), {})[member] = image
        else:
            plain.append((source, image))

    def exists(key: _Key) -> bool:
        """Whether an archive or a video exists."""
        return (root / key[0] / key[1]).is_file()

    def open_file(key: _Key) -> Opened | None:
        """Decode an image file; None if it does not exist."""
        try:
            return decode_size((root / key[0] / key[1]).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            return error.strerror or str(error)

    # Plain files in several threads, then each archive and each video in one pass.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(plain), _AT_A_TIME):
            part = plain[start : start + _AT_A_TIME]
            for key, size in zip(part, pool.map(open_file, part), strict=True):
                if size is not None:
                    yield key, size
    for source, name in filter(exists, packed):
        pending = dict(packed[source, name])
        try:
            for member, read in read_archived(root / source / name, packed[source, name]):
                size = read if isinstance(read, str) else decode_size(read)
                yield (source, pending.pop(member)), size
        except PolyplinkError as error:  # the archive breaks off: report the remaining members
            yield from (((source, image), error.what) for image in pending.values())
    for source, name in filter(exists, videos):
        for image, size in _open_frames(root / source / name, videos[source, name]):
            yield (source, image), size


def _open_frames(path: Path, frames: dict[int, str]) -> Iterator[tuple[str, Opened]]:
    """Decode some frames of a video: the name of each in `frames`, and its size or the reason."""
    try:
        with open_video(path) as video:
            for number, picture in video.frames(sorted(frames)):
                size = DecodedImage(video.width, video.height)
                yield frames[number], video.why if picture is None else size
    except PolyplinkError as error:
        yield from ((image, error.what) for image in frames.values())
