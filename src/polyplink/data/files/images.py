"""Images decoded, or why they cannot be: decoders raise errors of any kind over damaged files."""

from collections.abc import Callable
from io import BytesIO
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image

from polyplink.core.errors import first_line

Result = TypeVar("Result")
Pixels = npt.NDArray[np.uint8]

LARGEST = 100_000_000  # pixels of an image: a damaged header may promise any number


def decode_image(data: bytes, mode: str = "RGB") -> Pixels | str:
    """Decode an image; rotation tags are ignored, because boxes refer to stored pixels.

    Args:
        data: The bytes of the file: JPEG, PNG, TIFF or any other format of Pillow.
        mode: "RGB", or "L" for grey.

    Returns:
        (height, width, 3) RGB or (height, width) grey, or why it cannot be decoded.
    """

    def decode() -> Pixels:
        if mode == "RGB" and simplejpeg.is_jpeg(data):
            _check_size(*simplejpeg.decode_jpeg_header(data)[:2])
            pixels: Pixels = simplejpeg.decode_jpeg(data)
            return pixels
        with Image.open(BytesIO(data)) as image:
            _check_size(*image.size)
            return np.array(image.convert(mode))

    return attempt(decode)


def image_size(data: bytes) -> tuple[int, int] | str:
    """Width and height of an image by its header, pixels, or why it cannot be read."""

    def read() -> tuple[int, int]:
        with Image.open(BytesIO(data)) as image:
            return image.size

    return attempt(read)


def attempt(decode: Callable[[], Result]) -> Result | str:
    """What a decoder gives, or the first line of its error, whatever that is."""
    try:
        return decode()
    except Exception as error:
        return first_line(error)


def _check_size(height: int, width: int) -> None:
    if height * width > LARGEST:
        raise ValueError(f"{height} x {width} pixels are more than {LARGEST}")
