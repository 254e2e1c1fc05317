"""Crops: the part of a frame around a box, and the file that holds a procedure's crops."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import numpy.typing as npt
import simplejpeg
import torch
from PIL import Image, UnidentifiedImageError
from torch.nn.functional import interpolate

from polyplink.core.artefacts import read_json, whole_file, write_json
from polyplink.core.errors import PolyplinkError, first_line

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class FrameCrops:
    """The crops to cut from one frame.

    Attributes:
        image: The value of the column `image`; None if its boxes name no image.
        frame: Number of the frame in its procedure.
        width: Width of the procedure's frames, pixels.
        height: Height of the procedure's frames, pixels.
        rows: (k,) rows of the crops in the procedure's array.
        crops: (k, 4) left, top, right, bottom (see `boxes.enlarge`).
    """

    image: str | None
    frame: int
    width: int
    height: int
    rows: npt.NDArray[np.int64]
    crops: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Unreadable:
    """The reason why a frame cannot be decoded."""

    why: str


def decode(data: bytes) -> Pixels | Unreadable:
    """Decode an image; rotation tags are ignored, because boxes refer to stored pixels.

    Args:
        data: The bytes of the file: JPEG, PNG, TIFF or any other format of Pillow.

    Returns:
        (height, width, 3) RGB, or why it cannot be decoded.
    """
    try:
        if simplejpeg.is_jpeg(data):
            pixels: Pixels = simplejpeg.decode_jpeg(data)
            return pixels
        with Image.open(io.BytesIO(data)) as image:
            return np.array(image.convert("RGB"))
    except (
        ValueError,
        SyntaxError,
        OSError,
        UnidentifiedImageError,
        Image.DecompressionBombError,
    ) as error:
        return Unreadable(first_line(error))


def cut(image: Pixels, crop: npt.NDArray[np.int64], size: int) -> Pixels:
    """Cut out a crop and resize it, ignoring its aspect ratio.

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


def cut_frame(
    image: Pixels | Unreadable, frame: FrameCrops, name: str, size: int
) -> Pixels | Unreadable:
    """Cut all crops of a decoded frame: (k, size, size, 3); an unreadable frame is returned.

    Args:
        image: (height, width, 3), or why there is none.
        frame: The crops.
        name: Path of the image, for messages.
        size: Width and height of a crop, pixels.

    Raises:
        PolyplinkError: If the image is not of the procedure's size.
    """
    if isinstance(image, Unreadable):
        return image
    height, width = image.shape[:2]
    if (width, height) != (frame.width, frame.height):
        raise PolyplinkError(
            f"image {name} is {width} x {height}, its procedure says "
            f"{frame.width} x {frame.height}",
            "mend width and height in procedures, or import again",
        )
    return np.stack([cut(image, crop, size) for crop in frame.crops])  # k size size 3


@contextmanager
def crops_file(path: Path, count: int, size: int) -> Iterator[IO[bytes]]:
    """A procedure's crops as a .npy file (count, size, size, 3) uint8, whole or not at all.

    Yields:
        The open file, after its header. It is written, not memory-mapped: a full disk is then an
        error and not a crash.
    """
    header: dict[str, Any] = {
        "descr": "|u1",
        "fortran_order": False,
        "shape": (count, size, size, 3),
    }
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        yield file


@dataclass(frozen=True)
class Broken:
    """A frame that cannot be decoded: its number, its image, and the reason."""

    frame: int
    image: str
    why: str


def broken_path(crops: Path) -> Path:
    """The file beside a procedure's crops that lists its broken frames."""
    return crops.with_suffix(".broken.json")


def write_broken(crops: Path, broken: Sequence[Broken]) -> None:
    """Write the list of broken frames; without any there is no file."""
    if broken:
        write_json(broken_path(crops), broken)
    else:
        broken_path(crops).unlink(missing_ok=True)


def read_broken(crops: Path) -> list[Broken]:
    """The broken frames of a procedure's crops; none if there are no crops."""
    path = broken_path(crops)
    if not (crops.is_file() and path.is_file()):
        return []
    return [Broken(**row) for row in read_json(path)]


def refuse_broken(frame: Broken, crops: Path | None = None) -> NoReturn:
    """Raise the error of a broken frame, of the file `crops` if it was found earlier."""
    again = "" if crops is None else f", remove {crops}"
    raise PolyplinkError(
        f"image {frame.image}, frame {frame.frame}, cannot be decoded ({frame.why})",
        f"restore it{again}, or prepare without --strict: its tracklet is then cut there",
    )
