"""Crops: the part of a frame around a box."""

import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import simplejpeg
import torch
from PIL import Image, UnidentifiedImageError
from torch.nn.functional import interpolate

from polyplink.core.errors import PolyplinkError, first_line

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class FrameCrops:
    """What is to be cut from one frame.

    Attributes:
        image: The value of the column `image`; None where boxes name no image.
        frame: Number of the frame in its procedure.
        width: Its width as the procedure tells it, pixels.
        height: Its height as the procedure tells it, pixels.
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
    """A frame that is there but cannot be decoded, and why."""

    why: str


def decode(data: bytes) -> Pixels | Unreadable:
    """Decode an image; rotation tags are not followed, as boxes refer to stored pixels.

    Args:
        data: The bytes of the file: JPEG, PNG, TIFF or whatever else Pillow reads.

    Returns:
        (height, width, 3) RGB, or why that cannot be had.
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


def cut_frame(
    image: Pixels | Unreadable, frame: FrameCrops, name: str, size: int
) -> Pixels | Unreadable:
    """Cut all crops of a decoded frame: (k, size, size, 3); what is unreadable stays so.

    Args:
        image: (height, width, 3), or why there is none.
        frame: What to cut.
        name: Where the image is, for messages.
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
