"""Folders of files: names and their order, each folder listed once; reading many small files."""

import gc
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import NoReturn, TypeVar

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.results import StageProgress, silent_stage
from polyplink.core.workers import worker_pool

Source = TypeVar("Source")
Read = TypeVar("Read")

VIDEO_ENDINGS = (
    *(".mp4", ".mkv", ".avi", ".ts", ".m4v", ".mov", ".mpg", ".mpeg", ".webm", ".m2ts"),
    *(".mts", ".vob", ".wmv", ".asf", ".mxf", ".dv"),
    ".m3u",  # a playlist: several files of one recording
)
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff")
BOX_FORMATS = {".json": "coco", ".csv": "csv", ".xml": "cvat"}  # of boxes, by ending of a file
_NEXT = {  # hints for a file that was given instead of a folder, by its ending
    **dict.fromkeys(VIDEO_ENDINGS, "count the polyps of a video with `polyplink run {path}`"),
    ".json": "boxes in COCO format become a data folder with `polyplink import coco {path} DATA`",
    ".csv": "boxes in a table become a data folder with `polyplink import csv {path} DATA`",
    ".safetensors": "weights come before the data folder: polyplink COMMAND WEIGHTS DATA",
}
_NUMBER = re.compile(r"(\d{1,10})\.[A-Za-z]+$")
_AT_ONCE = 1 << 16  # bytes: an annotation file has about 1 KiB


def check_is_folder(path: Path, hint: str = "check the path") -> None:
    """Check that a path is a folder; for a file, the error says how to use it.

    Args:
        path: The path.
        hint: How to fix a path that does not exist.
    """
    if path.is_file():
        raise PolyplinkError(
            f"{path} is a file, but a folder is expected",
            _NEXT.get(path.suffix.lower(), "give the folder that contains it").format(
                path=shlex.quote(str(path))
            ),
        )
    if not path.is_dir():
        raise PolyplinkError(f"no folder {path}", hint)


def check_is_file(path: Path, hint: str = "check the path") -> None:
    """Check that a path is a file; the error has the hint how to fix it."""
    if not path.is_file():
        raise PolyplinkError(f"no file {path}", hint)


def check_is_there(path: Path, hint: str = "check the path") -> None:
    """Check that a path is a file or a folder; the error has the hint how to fix it."""
    if not (path.is_file() or path.is_dir()):
        raise PolyplinkError(f"no file or folder {path}", hint)


def other_format(file: Path, data_format: str) -> str | None:
    """The format of boxes that the ending of a file names, if it is not the given one."""
    named = BOX_FORMATS.get(file.suffix.lower())
    is_other = named != data_format and data_format in BOX_FORMATS.values()
    return named if is_other and file.is_file() else None


def raise_unreadable(error: OSError) -> NoReturn:
    """Turn a system error about a folder into a user error; can be passed to `os.walk`."""
    raise PolyplinkError(f"{error.filename}: {error.strerror}", "check its permissions") from None


def read_small(path: str, limit: int | None = None) -> bytes:
    """Read a small file through a file descriptor, in half the time of a file object.

    Args:
        path: The file.
        limit: Number of bytes from its beginning; None for the whole file.

    Raises:
        PolyplinkError: If the file cannot be read.
    """
    try:
        # O_BINARY: no conversion of line endings on Windows.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            data = os.read(descriptor, limit or _AT_ONCE)
            if limit is None and len(data) == _AT_ONCE:
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    data += file.read()
        finally:
            os.close(descriptor)
    except OSError as error:
        raise PolyplinkError(
            f"{path}: {error.strerror}", "restore the file, or check its permissions"
        ) from None
    return data


def check_utf8(name: str, folder: object) -> str:
    """Return a file's name if it is UTF-8; a table cannot hold any other."""
    if not name.isascii() and re.search(r"[\ud800-\udfff]", name):
        raise PolyplinkError(f"the name of {name} in {folder} is not UTF-8", "rename it")
    return name


def natural_order(name: str) -> list[tuple[int, str]]:
    """A sorting key by the numbers in names: frame2 comes before frame10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def files_in(folder: Path, ending: str = "") -> list[Path]:
    """The entries of a folder with an ending, sorted by name, without hidden ones.

    Raises:
        PolyplinkError: If the folder may not be read, or a name is not UTF-8.
    """
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names alone
    except OSError as error:
        raise_unreadable(error)
    return [
        folder / check_utf8(name, folder)
        for name in names
        if name.endswith(ending) and name[0] != "."
    ]


def images_in(folder: Path) -> tuple[str, ...]:
    """The names of a folder's images, without hidden files, in natural order.

    Raises:
        PolyplinkError: If the folder may not be read, or a name is not UTF-8.
    """
    names = (p.name for p in files_in(folder) if p.suffix.lower() in IMAGE_ENDINGS)
    return tuple(sorted(names, key=natural_order))


def is_video(name: str) -> bool:
    """Whether a file name has the ending of a video."""
    return name.lower().endswith(VIDEO_ENDINGS)


def is_playlist(name: str) -> bool:
    """Whether a file name has the ending of a playlist.

    FFmpeg reads a recorded stream (.m3u8) as one video, even if its files are none by themselves.
    """
    return name.lower().endswith(".m3u")


def read_playlist(path: Path) -> list[Path]:
    """The files of a playlist (.m3u), the parts of one recording.

    Args:
        path: A text file in UTF-8. Each line is the name of a file, relative to the folder of the
            playlist. Empty lines are skipped, and those that begin with # and name no file.

    Raises:
        PolyplinkError: If it cannot be read, or names no file, a playlist or a file twice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PolyplinkError(f"{path} cannot be read ({first_line(error)})", "restore it") from None
    except UnicodeDecodeError:
        text = None
    if text is None or "\0" in text:  # UTF-16 of plain letters is also UTF-8, with zeros
        raise PolyplinkError(f"{path} is not a text in UTF-8", "save it as UTF-8")
    names = [line.strip() for line in text.splitlines() if line.strip()]
    # os.path: of a name that is too long, Path.is_file would raise an error.
    files = [
        path.parent / name
        for name in names
        if name[0] != "#" or os.path.isfile(path.parent / name)  # noqa: PTH113
    ]
    if not files:
        raise PolyplinkError(f"{path} names no video", "write the name of a file on each line")
    seen: set[Path] = set()
    for file in files:
        if is_playlist(file.name) or file.resolve() in seen:
            fault = "a playlist" if is_playlist(file.name) else "twice"
            raise PolyplinkError(f"{path} names {file.name}, {fault}", "name each video once")
        seen.add(file.resolve())
    return files


def parts_of(videos: Iterable[Path]) -> set[Path]:
    """The resolved paths of all files that the playlists among some videos name.

    Raises:
        PolyplinkError: If a playlist cannot be read.
    """
    playlists = [path for path in videos if is_playlist(path.name)]
    return {part.resolve() for path in playlists for part in read_playlist(path)}


def videos_in(folder: Path) -> list[Path]:
    """The videos of a folder, without hidden files, in natural order of their names.

    Files that a playlist in the folder names are parts of its recording, not videos of their own. A
    folder that is missing or cannot be read has no videos.

    Raises:
        PolyplinkError: If a name is not UTF-8, or a playlist cannot be read.
    """
    if not (folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)):
        return []
    # Names alone: folders hold many thousands of images.
    videos = [n for n in os.listdir(folder) if is_video(n) and n[0] != "."]  # noqa: PTH208
    names = sorted((check_utf8(name, folder) for name in videos), key=natural_order)
    files = [path for name in names if (path := folder / name).is_file()]
    parts = parts_of(files)
    return [path for path in files if path.resolve() not in parts]


def names_in(folder: str) -> list[str]:
    """The entries of a folder; none if it does not exist or may not be read."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names alone: folders hold many thousands
    except (OSError, ValueError):  # ValueError: a null character in the name
        return []
    return [check_utf8(name, folder) for name in names]


def files_by_number(folder: Path, endings: tuple[str, ...]) -> dict[int, str]:
    """Files of a folder by the number at the end of their name.

    Args:
        folder: The folder; one that does not exist has no files.
        endings: Endings of the files, in lower case; hidden files are skipped.

    Returns:
        Number -> file name; of several files with the same number, the first by name.
    """
    files: dict[int, str] = {}
    for name in sorted(names_in(str(folder))):
        number = _NUMBER.search(name)
        if name[0] != "." and number is not None and name.lower().endswith(endings):
            files.setdefault(int(number.group(1)), name)
    return files


def image_files(source: Path, images: Mapping[int, str], n_frames: int) -> dict[int, str]:
    """Image files of a procedure by frame: those of boxes, and those beside them.

    Files of a folder are numbered by their order if there are as many as frames, else by the last
    number in their names; in either case as the images of boxes are.

    Args:
        source: The folder of the procedure.
        images: Frame -> its image file, relative to `source`, of some frames.
        n_frames: Number of frames of the procedure.
    """
    existing = {frame: image for frame, image in images.items() if (source / image).is_file()}
    folders = {PurePosixPath(image).parent for image in existing.values()}
    if len(folders) != 1:
        return existing
    folder = folders.pop()
    names = {frame: PurePosixPath(image).name for frame, image in existing.items()}
    in_order = dict(enumerate(images_in(source / folder)))
    number = {name: k for k, name in files_by_number(source / folder, IMAGE_ENDINGS).items()}
    offset = min(frame - number.get(name, 0) for frame, name in names.items())
    numberings = [{k + offset: name for name, k in number.items()}]
    if len(in_order) == n_frames:
        numberings.insert(0, in_order)
    for numbering in numberings:
        if all(numbering.get(frame) == name for frame, name in names.items()):
            frames = (frame for frame in numbering if 0 <= frame < n_frames)
            return {frame: str(folder / numbering[frame]) for frame in frames}
    return existing


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Do not search for unused objects meanwhile: while millions are made, this halves the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def read_each(
    read: Callable[[Source], Read],
    sources: Sequence[Source],
    *,
    workers: int = 1,
    progress: StageProgress = silent_stage,
) -> list[Read]:
    """Read every source, in order.

    Args:
        read: Reads one source; with several workers, a function of a module or a partial of one.
        sources: The sources.
        workers: Number of processes. More than one require an importable main module.
        progress: Called after every source with the number read and the total.

    Returns:
        The results, in the order of the sources.
    """
    several = workers > 1 and len(sources) > 1
    collected = []
    with worker_pool(min(workers, len(sources))) if several else nullcontext() as pool:
        for result in pool.map(read, sources) if pool else map(read, sources):
            collected.append(result)
            progress(len(collected), len(sources))
    return collected
