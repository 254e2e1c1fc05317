"""Images decoded, or why they cannot be: decoders raise errors of any kind over damaged files."""

import threading
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image, UnidentifiedImageError

from polyplink.core.errors import first_line

Pixels = npt.NDArray[np.uint8]

LARGEST = 36_000_000  # pixels of an image, above 8K: a damaged header may promise any number
_ALONE = 9_000_000  # pixels, above 4K: larger images, of up to 14 bytes a pixel, one at a time
_one_large = threading.Lock()


def decode_image(data: bytes, mode: str = "RGB") -> Pixels | str:
    """Decode an image; rotation tags are ignored, because boxes refer to stored pixels.

    Args:
        data: The bytes of the file: JPEG, PNG, TIFF or any other format of Pillow.
        mode: "RGB", or "L" for grey.

    Returns:
        (height, width, 3) RGB or (height, width) grey, or why it cannot be decoded.
    """
    try:
        if mode == "RGB" and simplejpeg.is_jpeg(data):
            with _decoding_slot(*simplejpeg.decode_jpeg_header(data)[:2]):
                pixels: Pixels = simplejpeg.decode_jpeg(data)
                return pixels
        with Image.open(BytesIO(data)) as image, _decoding_slot(image.height, image.width):
            return np.array(image.convert(mode))
    except Exception as error:
        return _reason(error)


def image_size(data: bytes) -> tuple[int, int] | str:
    """Width and height of an image by its header, pixels, or why it cannot be read."""
    try:
        with Image.open(BytesIO(data)) as image:
            return image.size
    except Exception as error:
        return _reason(error)


def _reason(error: Exception) -> str:
    """The first line of a decoder's error, whatever that is."""
    unknown = isinstance(error, UnidentifiedImageError)  # whose message names an object in memory
    return "in no format of images" if unknown else first_line(error)


def _decoding_slot(height: int, width: int) -> AbstractContextManager[object]:
    if height * width > LARGEST:
        raise ValueError(f"{height} x {width} pixels are more than {LARGEST}")
    return _one_large if height * width > _ALONE else nullcontext()
