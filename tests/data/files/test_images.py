from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from polyplink.data.files.images import decode_image


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_an_image_of_16_bits_keeps_its_shades(kind: str) -> None:
    image = Image.fromarray(np.array([[0, 256, 32768, 65535]], np.uint16))
    decoded = decode_image(encoded(image, kind))
    assert np.array_equal(decoded, [[[0] * 3, [1] * 3, [128] * 3, [255] * 3]])


def test_an_image_of_32_bits_is_refused() -> None:
    image = Image.fromarray(np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4))
    assert decode_image(encoded(image, "TIFF")) == "32 bits in a pixel"


def test_colours_of_a_mask_are_equally_bright() -> None:
    colours = np.zeros((1, 6, 3), np.uint8)
    colours[0, 1:5] = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)]
    brightness = decode_image(encoded(Image.fromarray(colours)), "L")
    assert np.array_equal(brightness, [[0, 255, 255, 255, 255, 0]])
    palette = Image.new("P", (3, 1))
    palette.putdata([0, 1, 2])
    palette.putpalette([0, 0, 0, 128, 0, 0, 0, 0, 128])
    assert np.array_equal(decode_image(encoded(palette), "L"), [[0, 128, 128]])
    white = np.full((1, 2, 4), 255, np.uint8)
    white[0, 0, 3] = 0  # transparent
    assert np.array_equal(decode_image(encoded(Image.fromarray(white)), "L"), [[0, 255]])
    for values, read in (
        ([0, 1, 2, 255], [0, 1, 2, 255]),
        ([0, 400, 32768, 65535], [0, 1, 127, 255]),
    ):
        mask = Image.fromarray(np.array([values], np.uint16))
        assert np.array_equal(decode_image(encoded(mask), "L"), [read])
