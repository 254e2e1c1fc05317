"""Crops, the parts of frames around boxes: read frames, cut crops, and store them in one file.

Every archive and video is read once, forward, and nothing is unpacked. Threads decode and cut.
Frames of simulated procedures may not be stored at all: their crops are rendered in processes,
because rendering consists of many small steps, in which threads would compete for the
interpreter's lock.

Plugins of the kind "crops" render crops of procedures that have no stored frames.
"""

import mmap
import os
import tokenize
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from polyplink.core.arrays import Floats, Ints
from polyplink.core.artefacts import atomic_file, read_json, write_json
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.parts import CROPS
from polyplink.core.workers import VIDEO_AHEAD, prefetch
from polyplink.data.files.archives import read_archived
from polyplink.data.files.image_names import image_place
from polyplink.data.files.images import Pixels, decode_image, read_image, resize
from polyplink.data.files.video import open_video

Unreadable = str  # the reason why a frame cannot be decoded
Load = Callable[[], Pixels | Unreadable]  # decodes a frame, in the calling thread

BATCH, GPU_BATCH = 32, 512  # crops rendered at a time, and held in memory


class Rendering(Protocol):
    """A procedure with pictures that can be rendered."""

    def crops(
        self,
        frames: Ints,
        windows: Ints,
        size: int,
        *,
        threads: int,
    ) -> npt.NDArray[np.uint8]:
        """Render crops (n, size, size, 3).

        Args:
            frames: (n,) frame of each crop.
            windows: (n, 4) left, top, right and bottom of each crop in its frame.
            size: Width and height of a crop, pixels.
            threads: Number of threads.
        """


class CropSource(Protocol):
    """The interface of plugins of the kind "crops": a class or a module with two functions."""

    def holds(self, folder: Path) -> bool:
        """Whether the procedures of a folder can be rendered."""

    def open(self, folder: Path, procedure_id: str, device: str) -> Rendering:
        """Open a procedure of a folder, to render it on a torch device."""


@cache
def _sources() -> tuple[CropSource, ...]:
    return tuple(map(CROPS.find, CROPS.names()))


def crop_source(folder: Path) -> CropSource | None:
    """The plugin that renders the procedures of a folder; None if its frames are files.

    Raises:
        PolyplinkError: If a plugin cannot be imported.

    Example:
        >>> crop_source(Path("videos")) is None
        True
    """
    return next((source for source in _sources() if source.holds(folder)), None)


@dataclass(frozen=True)
class FrameCrops:
    """The crops to cut from one frame.

    Attributes:
        image: The name of the image (`data.files.image_names`); None if the boxes have none.
        frame: Number of the frame in the procedure.
        width: Width of the procedure's frames, pixels.
        height: Height of the procedure's frames, pixels.
        rows: (k,) rows of the crops in the procedure's array.
        crops: (k, 4) left, top, right, bottom (see `enlarge`).
    """

    image: str | None
    frame: int
    width: int
    height: int
    rows: Ints
    crops: Ints


def enlarge(boxes: npt.NDArray[np.floating], factor: float | None, width: int, height: int) -> Ints:
    """The area of the image to cut out around each box.

    Width and height are multiplied by `factor` about the box's centre; left, top, width and height
    are truncated to integers, then the corners are clamped to the frame (methods of the NTSSL
    paper; the order is that of its authors' program, in which boxes are integers). A crop is at
    least 1 pixel wide and high, even for a box outside the frame.

    Args:
        boxes: (n, 4), x, y, w, h in pixels.
        factor: psi in the papers, above 0; None for the full frame.
        width: Width of the frame, pixels.
        height: Height of the frame, pixels.

    Returns:
        (n, 4) left, top, right, bottom in pixels; right and bottom are exclusive.
    """
    if factor is None:
        return np.tile(np.array([0, 0, width, height]), (len(boxes), 1))  # n 4
    size = np.array([width, height])  # 2
    corner, span = np.split(boxes.astype(np.float64), 2, axis=1)  # n 2
    low = np.trunc(corner - span * (factor - 1) / 2.0)  # n 2
    high = np.clip(low + np.trunc(span * factor), 0, size).astype(np.int64)  # n 2
    low = np.clip(low, 0, size - 1).astype(np.int64)
    return np.concatenate([low, np.maximum(high, low + 1)], axis=1)  # n 4


def cut(image: Pixels, crop: Ints, size: int) -> Pixels:
    """Cut out a crop and resize it, ignoring its aspect ratio.

    Args:
        image: (height, width, 3).
        crop: (4,) left, top, right, bottom.
        size: Width and height of the result, pixels.

    Returns:
        (size, size, 3).
    """
    left, top, right, bottom = crop
    return resize(image[top:bottom, left:right], size, size)


def crop_around(picture: Pixels, box: Floats, factor: float | None, size: int) -> Pixels:
    """Cut the crop (size, size, 3) around a box (4,) x, y, w, h of a picture (height, width, 3)."""
    height, width = picture.shape[:2]
    return cut(picture, enlarge(box[None], factor, width, height)[0], size)


def cut_frame(
    image: Pixels | Unreadable, frame: FrameCrops, name: str, size: int
) -> Pixels | Unreadable:
    """Cut all crops of a decoded frame: (k, size, size, 3), or the reason of an unreadable one.

    Args:
        image: (height, width, 3), or the reason why the frame cannot be decoded.
        frame: The crops.
        name: Path of the image, for messages.
        size: Width and height of a crop, pixels.

    Raises:
        PolyplinkError: If the image is not of the procedure's size.
    """
    if isinstance(image, str):
        return image
    height, width = image.shape[:2]
    if (width, height) != (frame.width, frame.height):
        raise PolyplinkError(
            f"image {name} is {width} x {height}, its procedure says "
            f"{frame.width} x {frame.height}",
            "correct width and height where the boxes are from, or in procedures.parquet; images "
            "of several sizes need a procedure each",
        )
    return np.stack([cut(image, crop, size) for crop in frame.crops])  # k size size 3


def cut_crops(
    source: Path, frames: Sequence[FrameCrops], size: int, workers: int
) -> Generator[tuple[FrameCrops, Pixels | Unreadable], None, None]:
    """Cut the crops of frames, each file read once.

    Args:
        source: The procedure's source.
        frames: The frames, each with an image.
        size: Width and height of a crop, pixels.
        workers: Threads that decode and cut.

    Yields:
        Each frame once, those of videos first, then of archives, then of files, with its crops
        (k, size, size, 3) or the reason why it cannot be decoded.

    Raises:
        PolyplinkError: If a file is missing, or frames are not of the procedure's size.
    """
    videos: dict[str, dict[int, list[FrameCrops]]] = {}
    archives: dict[str, dict[str, FrameCrops]] = {}
    files: list[FrameCrops] = []
    for frame in frames:
        file, member, number = image_place(str(frame.image))
        if number is not None:
            videos.setdefault(file, {}).setdefault(number, []).append(frame)
        elif member is not None:
            archives.setdefault(file, {})[member] = frame
        else:
            files.append(frame)

    def work(item: tuple[FrameCrops, Load]) -> tuple[FrameCrops, Pixels | Unreadable]:
        frame, load = item
        return frame, cut_frame(load(), frame, str(source / str(frame.image)), size)

    def of_video(name: str) -> Iterator[tuple[FrameCrops, Load]]:
        with open_video(source / name) as video:  # decoded here, converted to RGB by the threads
            for index, picture in video.frames(sorted(videos[name])):
                load: Load = partial(str, video.why) if picture is None else picture.rgb
                for frame in videos[name][index]:
                    yield frame, load

    def of_archive(name: str) -> Iterator[tuple[FrameCrops, Load]]:
        for member, data in read_archived(source / name, archives[name]):
            load: Load = partial(str if isinstance(data, str) else decode_image, data)  # type: ignore[arg-type]
            yield archives[name][member], load

    for name in videos:
        yield from prefetch(work, of_video(name), workers, VIDEO_AHEAD)
    for name in archives:
        yield from prefetch(work, of_archive(name), workers)
    of_files = ((frame, partial(read_image, source / str(frame.image))) for frame in files)
    yield from prefetch(work, of_files, workers)


@contextmanager
def crops_file(path: Path, count: int, size: int) -> Iterator[IO[bytes]]:
    """Write a procedure's crops as a .npy file (count, size, size, 3) uint8, atomically.

    Yields:
        The open file, after its header. It is not memory-mapped, so that a full disk is an error
        and not a crash.
    """
    shape = (count, size, size, 3)
    header: dict[str, Any] = {"descr": "|u1", "fortran_order": False, "shape": shape}
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        yield file


@dataclass(frozen=True)
class BrokenFrame:
    """A frame that cannot be decoded: its number, its image, and the reason."""

    frame: int
    image: str
    why: str


def read_array(path: Path, hint: str) -> npt.NDArray[Any]:
    """Memory-map a .npy file, read-only.

    Raises:
        FileNotFoundError: If the file is missing.
        PolyplinkError: If the file is broken.
    """
    try:
        # Only this format: `np.load` would also open a zip archive of arrays.
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:  # of its header
        raise PolyplinkError(f"{path} cannot be read ({first_line(error)})", hint) from None


def release_pages(crops: Pixels) -> None:
    """Release the pages of a memory-mapped array; they are read again when needed.

    The system would reclaim them itself, but counts them as used until then.
    """
    mapped = getattr(crops, "_mmap", None)  # of numpy.memmap
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):  # on Linux and macOS
        mapped.madvise(mmap.MADV_DONTNEED)


def read_crops(path: Path, hint: str) -> Pixels:
    """Memory-map a file of crops, read-only: (crops, size, size, 3) uint8, RGB.

    Raises:
        FileNotFoundError: If the file is missing.
        PolyplinkError: If the file is broken or holds no crops.
    """
    crops: Pixels = read_array(path, hint)
    shape: tuple[int, ...] = crops.shape
    if len(shape) != 4 or shape[1:] != (shape[2], shape[2], 3) or crops.dtype != np.uint8:
        raise PolyplinkError(f"{path} holds no crops", hint)
    return crops


def broken_path(crops: Path) -> Path:
    """The file beside a procedure's crops that lists its broken frames."""
    return crops.with_suffix(".broken.json")


def read_broken(crops: Path) -> list[BrokenFrame]:
    """The broken frames of a procedure, which are listed even if its crops were removed."""
    path = broken_path(crops)
    if not path.is_file():
        return []
    return [BrokenFrame(**row) for row in read_json(path)]


def refuse_broken(frame: BrokenFrame, crops: Path | None = None) -> NoReturn:
    """Raise the error of a broken frame; `crops` is the file of an earlier run that lists it."""
    removal = "" if crops is None else f", remove {crops}"
    raise PolyplinkError(
        f"image {frame.image}, frame {frame.frame}, cannot be decoded ({frame.why})",
        f"restore it{removal}, or prepare without --strict: its tracklet is then cut there",
    )


def write_crops(
    path: Path,
    frames: Sequence[FrameCrops],
    source: Path,
    size: int,
    *,
    workers: int,
    tick: Callable[[int], None],
    strict: bool = False,
) -> list[BrokenFrame]:
    """Write one procedure's crops as a .npy file, atomically.

    The crops of a broken frame stay black, and the frame is listed beside the file (see
    `broken_path`) before the file is renamed into place.

    Args:
        path: The file; its array is (crops, size, size, 3) uint8.
        frames: The frames, each with an image; their rows are 0 .. crops - 1, each once.
        source: Folder of the images, archives and videos.
        size: Width and height of a crop, pixels.
        workers: Threads that decode and cut.
        tick: Callback with the number of crops that have just been written.
        strict: Whether to raise an error at the first broken frame.

    Returns:
        The broken frames, in order.

    Raises:
        PolyplinkError: If a file is missing, an image is not of the procedure's size, all frames
            are broken, or, if strict, one is.
        OSError: If the disk is full.
    """
    count = sum(len(frame.rows) for frame in frames)
    broken: list[BrokenFrame] = []
    cuts = closing(cut_crops(source, frames, size, workers))
    with cuts as cut_frames, crops_file(path, count, size) as file:
        start = file.tell()
        file.truncate(start + count * size * size * 3)
        for frame, pixels in cut_frames:
            if isinstance(pixels, str):
                broken.append(BrokenFrame(frame.frame, str(frame.image), pixels))
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
        if broken:
            write_json(broken_path(path), broken)
        else:
            broken_path(path).unlink(missing_ok=True)
    return broken


def render_crops(
    path: Path,
    frames: Sequence[FrameCrops],
    source: Path,
    size: int,
    *,
    procedure_id: str,
    device: str,
) -> int:
    """Render one simulated procedure's crops into the file of `write_crops`; return their number.

    Args:
        path: The file.
        frames: The frames and the crops of each.
        source: Folder that the procedure was simulated in.
        size: Width and height of a crop, pixels.
        procedure_id: The procedure.
        device: Name of the torch device that renders.

    Raises:
        PolyplinkError: If the source was simulated by another version, or lacks the procedure.
    """
    renderer = crop_source(source)
    if renderer is None:
        raise PolyplinkError(
            f"nothing installed renders the pictures of {source}",
            "import the data with its images, or install what simulated it",
        )
    count = sum(len(frame.rows) for frame in frames)
    numbers = np.zeros(count, np.int64)  # frame of each crop, in the order of the file's rows
    windows = np.zeros((count, 4), np.int64)  # left, top, right, bottom in it
    for frame in frames:
        numbers[frame.rows], windows[frame.rows] = frame.frame, frame.crops
    batch, threads = (BATCH, 1) if device == "cpu" else (GPU_BATCH, os.cpu_count() or 1)
    with crops_file(path, count, size) as file:
        if count:
            rendering = renderer.open(source, procedure_id, device)
            for start in range(0, count, batch):
                part = slice(start, start + batch)
                drawn = rendering.crops(numbers[part], windows[part], size, threads=threads)
                file.write(drawn.data)
    return count
