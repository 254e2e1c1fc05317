"""Crops: the part of a frame around a box, cut once and stored for good."""

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import simplejpeg
import torch
from PIL import Image, UnidentifiedImageError
from torch.nn.functional import interpolate

from polyplink.artefacts import whole_file
from polyplink.errors import PolyplinkError

Pixels = npt.NDArray[np.uint8]

AHEAD = 32  # frames in flight per worker: bounds memory, and what Ctrl-C waits for


@dataclass(frozen=True)
class FrameCrops:
    """What is to be cut from one frame.

    Attributes:
        image: File of the frame.
        width: Its width as the procedure tells it, pixels.
        height: Its height as the procedure tells it, pixels.
        rows: (k,) rows of the crops in the procedure's array.
        crops: (k, 4) left, top, right, bottom (see `boxes.enlarge`).
    """

    image: Path
    width: int
    height: int
    rows: npt.NDArray[np.int64]
    crops: npt.NDArray[np.int64]


def decode(path: Path) -> Pixels:
    """Decode an image file; rotation tags are not followed, as boxes refer to stored pixels.

    Returns:
        (height, width, 3) RGB.

    Raises:
        PolyplinkError: If the file is missing or is not a whole image.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise PolyplinkError(
            f"image {path} is missing", "mend `source` in procedures, or import again"
        ) from None
    try:
        if simplejpeg.is_jpeg(data):
            pixels: Pixels = simplejpeg.decode_jpeg(data)
            return pixels
        with Image.open(io.BytesIO(data)) as image:
            return np.array(image.convert("RGB"))
    except (ValueError, SyntaxError, OSError, UnidentifiedImageError) as error:
        raise PolyplinkError(
            f"image {path} cannot be decoded ({error})", "restore the file, or leave its rows out"
        ) from None


def cut(image: Pixels, crop: npt.NDArray[np.int64], size: int) -> Pixels:
    """Cut a crop and resize it, without keeping the aspect ratio.

    The filter is antialiased bilinear on uint8, the kernel that torchvision's resize calls.

    Args:
        image: (height, width, 3).
        crop: (4,) left, top, right, bottom.
        size: Width and height of the result, pixels.

    Returns:
        (size, size, 3).
    """
    left, top, right, bottom = crop
    part = np.ascontiguousarray(image[top:bottom, left:right])
    pixels = torch.from_numpy(part).permute(2, 0, 1)[None]  # 1 3 height width
    small = interpolate(pixels, (size, size), mode="bilinear", antialias=True)
    resized: Pixels = small[0].permute(1, 2, 0).contiguous().numpy()
    return resized


def cut_frame(frame: FrameCrops, size: int) -> Pixels:
    """Decode a frame once and cut all its crops: (k, size, size, 3).

    Raises:
        PolyplinkError: If the image is missing, broken, or not of the procedure's size.
    """
    image = decode(frame.image)
    height, width = image.shape[:2]
    if (width, height) != (frame.width, frame.height):
        raise PolyplinkError(
            f"image {frame.image} is {width} x {height}, its procedure says "
            f"{frame.width} x {frame.height}",
            "mend width and height in procedures, or import again",
        )
    return np.stack([cut(image, crop, size) for crop in frame.crops])  # k size size 3


class Cutter:
    """Threads that cut frames; decoding and resizing both work outside Python's lock."""

    def __init__(self, pool: ThreadPoolExecutor, ahead: int) -> None:
        self._pool = pool
        self._ahead = ahead

    def write(
        self, path: Path, frames: Sequence[FrameCrops], size: int, tick: Callable[[int], None]
    ) -> None:
        """Write one procedure's crops as a .npy file, whole or not at all.

        Args:
            path: The file; its array is (crops, size, size, 3) uint8.
            frames: What to cut; their rows are 0 .. crops - 1, each once.
            size: Width and height of a crop, pixels.
            tick: Called with the number of crops that have just been written.

        Raises:
            PolyplinkError: As `cut_frame`.
            OSError: If the disk is full.
        """
        crops = sum(len(frame.rows) for frame in frames)
        header: dict[str, Any] = {
            "descr": "|u1",
            "fortran_order": False,
            "shape": (crops, size, size, 3),
        }
        with whole_file(path) as temporary, temporary.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            start = file.tell()
            # Written, not memory-mapped: a full disk is then an error and not a crash.
            for frame, pixels in self._cut(frames, size):
                for row, crop in zip(frame.rows, pixels, strict=True):
                    file.seek(start + int(row) * crop.nbytes)
                    file.write(crop.data)
                tick(len(frame.rows))

    def _cut(self, frames: Sequence[FrameCrops], size: int) -> Iterator[tuple[FrameCrops, Pixels]]:
        waiting = iter(frames)
        while batch := list(islice(waiting, self._ahead)):
            yield from zip(batch, self._pool.map(lambda f: cut_frame(f, size), batch), strict=True)


@contextmanager
def cutter(workers: int) -> Iterator[Cutter]:
    """Open a `Cutter` of `workers` threads; on an error or Ctrl-C what waits is not begun."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="crops")
    try:
        yield Cutter(pool, AHEAD * workers)
    finally:
        pool.shutdown(cancel_futures=True)
