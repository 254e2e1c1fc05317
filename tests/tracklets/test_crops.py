"""Crops are decoded and cut as Pillow and torchvision do."""

import io

import numpy as np
import pytest
import simplejpeg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from polyplink.core._torchvision import heal_torchvision
from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.crops import FrameCrops, Unreadable, cut, cut_frame, decode

heal_torchvision()
from torchvision.transforms.v2.functional import resize  # type: ignore[import-untyped]  # noqa: E402

HEIGHT, WIDTH = 60, 90


def noise(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)


@st.composite
def crops(draw: st.DrawFn) -> np.ndarray:
    left, top = draw(st.integers(0, WIDTH - 1)), draw(st.integers(0, HEIGHT - 1))
    right, bottom = draw(st.integers(left + 1, WIDTH)), draw(st.integers(top + 1, HEIGHT))
    return np.array([left, top, right, bottom])


@settings(deadline=None)
@given(crops(), st.integers(1, 70))
def test_cut_equals_torchvision_and_is_near_pillow(crop: np.ndarray, size: int) -> None:
    image = noise()
    left, top, right, bottom = crop
    part = torch.from_numpy(image[top:bottom, left:right].copy()).permute(2, 0, 1)
    expected = resize(part, [size, size], antialias=True).permute(1, 2, 0).numpy()
    got = cut(image, crop, size)
    assert got.shape == (size, size, 3)
    assert got.dtype == np.uint8
    assert np.abs(got.astype(int) - expected).max() <= 1
    pillow = Image.fromarray(image[top:bottom, left:right])
    other = np.asarray(pillow.resize((size, size), Image.Resampling.BILINEAR))
    assert np.abs(got.astype(int) - other).max() <= 2


def encoded(image: np.ndarray, kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, kind)
    return buffer.getvalue()


def test_png_tiff_and_jpeg_are_decoded() -> None:
    image = noise()
    for kind in ("png", "tiff"):
        np.testing.assert_array_equal(np.asarray(decode(encoded(image, kind))), image)
    data = simplejpeg.encode_jpeg(image)
    got = decode(data)
    assert not isinstance(got, Unreadable)
    with Image.open(io.BytesIO(data)) as other:
        difference = got.astype(int) - np.asarray(other)
    assert np.abs(difference).max() <= 2
    grey = decode(encoded(image[:, :, 0], "png"))
    assert not isinstance(grey, Unreadable)
    assert grey.shape == (HEIGHT, WIDTH, 3)


def test_what_is_no_whole_image_is_unreadable() -> None:
    half = simplejpeg.encode_jpeg(noise())[:1000]
    for data in (half, b"no image", b"", encoded(noise(), "png")[:99]):
        got = decode(data)
        assert isinstance(got, Unreadable)
        assert got.why


def frame(crops: list[list[int]], size: tuple[int, int] = (WIDTH, HEIGHT)) -> FrameCrops:
    return FrameCrops("a.png", 0, *size, np.arange(len(crops)), np.array(crops))


def test_all_crops_of_a_frame() -> None:
    boxes = [[0, 0, 30, 20], [5, 6, 50, 60]]
    got = cut_frame(noise(), frame(boxes), "a.png", 9)
    assert not isinstance(got, Unreadable)
    for pixels, box in zip(got, boxes, strict=True):
        np.testing.assert_array_equal(pixels, cut(noise(), np.array(box), 9))
    broken = Unreadable("cut short")
    assert cut_frame(broken, frame(boxes), "a.png", 9) is broken


def test_an_image_of_another_size_is_refused() -> None:
    with pytest.raises(PolyplinkError, match="is 90 x 60, its procedure says 80 x 60; mend width"):
        cut_frame(noise(), frame([[0, 0, 9, 9]], (80, 60)), "a.png", 4)
