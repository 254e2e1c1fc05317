"""Crops cut from where a procedure's frames are: image files, archives, videos.

The column `image` of the detections names a frame in one of three ways, relative to the folder
that is the procedure's source:

- `rel/path.jpg`, `.png`, `.tif`: an image file;
- `ARCHIVE.zip!/member`, `.tar`, `.tar.gz`, `.tgz`: a member of an archive;
- `video.mp4#17`: frame 17 of a video, counted from 0 in presentation order.

Every archive and video is read once, forward, and nothing is unpacked. Threads decode and cut.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.archives import INSIDE, is_archive, read_archived
from polyplink.data.files.video import open_video, split_frame_name
from polyplink.tracklets.crops import (
    Broken,
    FrameCrops,
    Pixels,
    Unreadable,
    crops_file,
    cut_frame,
    decode,
    refuse_broken,
    write_broken,
)

Item = TypeVar("Item")
Result = TypeVar("Result")
Load = Callable[[], Pixels | Unreadable]  # decodes a frame, in the calling thread

AHEAD = 32  # results in flight per thread: bounds memory, and what Ctrl-C waits for
VIDEO_AHEAD = 4  # a decoded frame takes megabytes


class Prefetch:
    """A thread pool whose results come in order, with a bounded number of them in flight."""

    def __init__(self, pool: ThreadPoolExecutor, workers: int) -> None:
        self._pool = pool
        self._workers = workers

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], ahead: int = AHEAD
    ) -> Iterator[Result]:
        """Apply a function to items; an item is taken when there is room for its result.

        Args:
            function: Called in the threads.
            items: May be generated, and be large.
            ahead: Items in flight per thread.

        Yields:
            The results, in the order of the items.
        """
        running: deque[Future[Result]] = deque()
        for item in items:
            running.append(self._pool.submit(function, item))
            if len(running) >= ahead * self._workers:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


@contextmanager
def prefetch(workers: int) -> Iterator[Prefetch]:
    """Open a `Prefetch` pool; on an error or Ctrl-C waiting items are dropped."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="crops")
    try:
        yield Prefetch(pool, workers)
    finally:
        pool.shutdown(cancel_futures=True)


def cut_crops(
    source: Path, frames: Sequence[FrameCrops], size: int, pool: Prefetch
) -> Iterator[tuple[FrameCrops, Pixels | Unreadable]]:
    """Cut the crops of frames, each file read once.

    Args:
        source: The procedure's source.
        frames: The frames, each with an image.
        size: Width and height of a crop, pixels.
        pool: Threads that decode and cut.

    Yields:
        Each frame once, those of videos first, then of archives, then of files, with its crops
        (k, size, size, 3) or why it cannot be decoded.

    Raises:
        PolyplinkError: If a file is missing, or frames are not of the procedure's size.
    """
    videos: dict[str, dict[int, list[FrameCrops]]] = {}
    archives: dict[str, dict[str, FrameCrops]] = {}
    files: list[FrameCrops] = []
    for frame in frames:
        image = str(frame.image)
        archive, mark, member = image.partition(INSIDE)
        if place := split_frame_name(image):
            videos.setdefault(place[0], {}).setdefault(place[1], []).append(frame)
        elif mark and is_archive(archive):
            archives.setdefault(archive, {})[member] = frame
        else:
            files.append(frame)

    def work(item: tuple[FrameCrops, Load]) -> tuple[FrameCrops, Pixels | Unreadable]:
        frame, load = item
        return frame, cut_frame(load(), frame, str(source / str(frame.image)), size)

    for name, wanted in videos.items():
        yield from pool.map(work, _of_video(source / name, wanted), VIDEO_AHEAD)
    for name, members in archives.items():
        yield from pool.map(work, _of_archive(source / name, members))
    yield from pool.map(work, ((f, partial(read_image, source / str(f.image))) for f in files))


def _of_video(path: Path, wanted: dict[int, list[FrameCrops]]) -> Iterator[tuple[FrameCrops, Load]]:
    """Frames of a video, decoded here and converted to RGB by the threads."""
    with open_video(path) as video:
        for index, shown in video.frames(sorted(wanted)):
            for frame in wanted[index]:
                yield frame, shown.rgb if shown else partial(Unreadable, "does not decode")


def _of_archive(path: Path, members: dict[str, FrameCrops]) -> Iterator[tuple[FrameCrops, Load]]:
    """Members of an archive, read here and decoded by the threads."""
    for name, data in read_archived(path, members):
        load: Load = partial(Unreadable if isinstance(data, str) else decode, data)  # type: ignore[arg-type]
        yield members[name], load


def read_image(path: Path) -> Pixels | Unreadable:
    """Decode an image file: (height, width, 3) RGB, or why it cannot be decoded.

    Raises:
        PolyplinkError: If the file is missing or may not be read.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise PolyplinkError(
            f"image {path} is missing", "mend `source` in procedures, or import again"
        ) from None
    except OSError as error:
        raise PolyplinkError(
            f"image {path}: {error.strerror or error}", "check its permissions"
        ) from None
    return decode(data)


def write_crops(
    path: Path,
    frames: Sequence[FrameCrops],
    source: Path,
    size: int,
    *,
    pool: Prefetch,
    tick: Callable[[int], None],
    strict: bool = False,
) -> list[Broken]:
    """Write one procedure's crops as a .npy file, whole or not at all.

    The crops of a broken frame stay black, and the frame is listed beside the file (see
    `crops.broken_path`) before the file is renamed into place.

    Args:
        path: The file; its array is (crops, size, size, 3) uint8.
        frames: The frames, each with an image; their rows are 0 .. crops - 1, each once.
        source: Folder of the images, archives and videos.
        size: Width and height of a crop, pixels.
        pool: Threads that decode and cut.
        tick: Callback with the number of crops that have just been written.
        strict: Raise the first broken frame.

    Returns:
        The broken frames, in order.

    Raises:
        PolyplinkError: If a file is missing, an image is not of the procedure's size, all frames
            are broken, or, if strict, one is.
        OSError: If the disk is full.
    """
    count = sum(len(frame.rows) for frame in frames)
    broken: list[Broken] = []
    with crops_file(path, count, size) as file:
        start = file.tell()
        file.truncate(start + count * size * size * 3)
        for frame, pixels in cut_crops(source, frames, size, pool):
            if isinstance(pixels, Unreadable):
                broken.append(Broken(frame.frame, str(frame.image), pixels.why))
                if strict:
                    refuse_broken(broken[0])
            else:
                for row, crop in zip(frame.rows, pixels, strict=True):
                    file.seek(start + int(row) * crop.nbytes)
                    file.write(crop.data)
            tick(len(frame.rows))
        broken.sort(key=lambda frame: frame.frame)
        if frames and len(broken) == len(frames):
            first = broken[0]
            raise PolyplinkError(
                f"image {first.image} cannot be decoded ({first.why}), nor any other of its "
                "procedure",
                "restore the images, or leave the procedure out",
            )
        write_broken(path, broken)
    return broken
