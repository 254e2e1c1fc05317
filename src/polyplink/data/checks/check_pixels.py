"""The doctor's look into images: do they decode, and are they of their procedure's size."""

import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import simplejpeg
from PIL import Image

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.checks.check_images import is_plain
from polyplink.data.checks.findings import Finding, find
from polyplink.data.files.archives import INSIDE, ZipArchive
from polyplink.data.files.tar_stream import tar_members
from polyplink.data.files.video import open_video, split_frame_name
from polyplink.data.tables import DataSet

SAMPLE = 64  # images opened where not all are
_AT_A_TIME = 256  # images in flight: bounds memory

Progress = Callable[[int, int], None]
Size = tuple[int, int] | str  # width and height in pixels, or why there is none


def check_pixels(
    data: DataSet, root: Path, *, deep: bool, progress: Progress | None = None
) -> list[Finding]:
    """Open images: a sample of those that are files of their own, or all there are.

    Args:
        data: The data set.
        root: Folder that relative sources are relative to.
        deep: All images, those in archives and frames of videos included.
        progress: Called with images opened and images to open.

    Returns:
        Images that do not decode, or are not of their procedure's size (errors). Files that are
        not there are left to `check_images`.
    """
    places = data.procedures.select("procedure_id", "source", "width", "height")
    images = (
        data.detections.drop_nulls("image")
        .unique(["procedure_id", "image"], keep="first", maintain_order=True)
        .select("procedure_id", "frame", "image")
        .join(places, on="procedure_id", how="left", maintain_order="left")
    )
    if not deep:
        images = images.filter(
            pl.Series([is_plain(name) for name in images["image"]], dtype=pl.Boolean)
        )
        rows = np.unique(np.linspace(0, max(images.height - 1, 0), SAMPLE).astype(int))
        images = images[rows] if images.height else images
    sizes: dict[tuple[str, str], Size] = {}
    for key, size in _sizes(images, root):
        sizes[key] = size
        if progress is not None:
            progress(len(sizes), images.height)
    keys = list(zip(images["source"], images["image"], strict=True))
    found = [sizes.get(key) for key in keys]
    return _findings(images, found)


def _findings(images: pl.DataFrame, found: list[Size | None]) -> list[Finding]:
    opened = images.with_columns(
        why=pl.Series([s if isinstance(s, str) else None for s in found], dtype=pl.String),
        is_width=pl.Series([s[0] if isinstance(s, tuple) else None for s in found], dtype=pl.Int32),
        is_height=pl.Series(
            [s[1] if isinstance(s, tuple) else None for s in found], dtype=pl.Int32
        ),
    )
    other = (pl.col("is_width") != pl.col("width")) | (pl.col("is_height") != pl.col("height"))
    of = f" (of {images.height} opened)"
    return [
        *find(
            opened.filter(pl.col("why").is_not_null()),
            "error",
            "unreadable image",
            f"procedure {{procedure_id}}, frame {{frame}}: {{image}} does not decode: {{why}}{of}",
            "restore the file; `prepare` leaves such frames out and cuts their tracklets",
        ),
        *find(
            opened.filter(other),
            "error",
            "image of another size",
            "procedure {procedure_id}, frame {frame}: {image} is {is_width} x {is_height}, the "
            f"procedure {{width}} x {{height}}{of}",
            "correct width and height of the procedure; boxes must be in pixels of the image",
        ),
    ]


def image_size(data: bytes) -> Size:
    """Decode an image: its width and height, or why it does not decode."""
    try:
        if simplejpeg.is_jpeg(data):
            height, width = simplejpeg.decode_jpeg(data).shape[:2]
            return int(width), int(height)
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            return image.size
    except (ValueError, SyntaxError, OSError, Image.DecompressionBombError) as error:
        return first_line(error)


def _sizes(images: pl.DataFrame, root: Path) -> Iterator[tuple[tuple[str, str], Size]]:
    """Every image that is there, by source and name, in whatever order is quickest."""
    plain: list[tuple[str, str]] = []
    packed: dict[tuple[str, str], dict[str, str]] = {}
    films: dict[tuple[str, str], dict[int, str]] = {}
    for source, image in images.select("source", "image").unique(maintain_order=True).iter_rows():
        film = split_frame_name(image)
        archive, mark, member = image.partition(INSIDE)
        if film is not None:
            films.setdefault((source, film[0]), {})[film[1]] = image
        elif mark:
            packed.setdefault((source, archive), {})[member] = image
        else:
            plain.append((source, image))

    def size_of(key: tuple[str, str]) -> Size | None:
        path = root / key[0] / key[1]
        try:
            return image_size(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            return error.strerror or str(error)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(plain), _AT_A_TIME):
            part = plain[start : start + _AT_A_TIME]
            for key, size in zip(part, pool.map(size_of, part), strict=True):
                if size is not None:
                    yield key, size
    for (source, name), members in packed.items():
        yield from _packed(root / source / name, source, members)
    for (source, name), frames in films.items():
        yield from _filmed(root / source / name, source, frames)


def _packed(
    path: Path, source: str, members: dict[str, str]
) -> Iterator[tuple[tuple[str, str], Size]]:
    """Images of one archive; all that an archive that breaks off has not given are told."""
    left = dict(members)

    def known(name: str) -> str | None:
        last = name.rpartition("/")[2]
        return next((n for n in (name, name.removeprefix("./"), last) if n in left), None)

    try:
        for name, data in _archive(path, lambda name: known(name) is not None):
            if (member := known(name)) is not None:
                yield (source, left.pop(member)), image_size(data)
        why = "not in the archive"
    except PolyplinkError as error:
        why = error.what
    for image in left.values():
        yield (source, image), why


def _archive(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    if not path.name.lower().endswith(".zip"):
        yield from tar_members(path, wanted)
        return
    archive = ZipArchive(path)
    yield from archive.read(list(filter(wanted, archive.names())), None)


def _filmed(
    path: Path, source: str, frames: dict[int, str]
) -> Iterator[tuple[tuple[str, str], Size]]:
    try:
        with open_video(path) as video:
            for number, shown in video.frames(sorted(frames)):
                size: Size = (video.width, video.height)
                beyond = f"the video has {video.n_frames} frames"
                if shown is None:
                    size = "damaged" if number < video.n_frames else beyond
                yield (source, frames[number]), size
    except PolyplinkError as error:
        for image in frames.values():
            yield (source, image), error.what
