"""Crops: decoded and cut as by Pillow and torchvision, and enlarged as in the program."""

import io

import numpy as np
import pytest
import simplejpeg
import torch
from hypothesis import given, strategies as st
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.core.lazy_torch import heal_torchvision
from polyplink.data.files.images import decode_image
from polyplink.tracklets.crops import FrameCrops, cut, cut_frame, enlarge

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


@given(crops(), st.integers(1, 70))
def test_cut_equals_torchvision_and_nearly_pillow(crop: np.ndarray, size: int) -> None:
    image = noise()
    left, top, right, bottom = crop
    part = torch.from_numpy(image[top:bottom, left:right].copy()).permute(2, 0, 1)
    expected = resize(part, [size, size], antialias=True).permute(1, 2, 0).numpy()
    actual = cut(image, crop, size)
    assert actual.shape == (size, size, 3)
    assert actual.dtype == np.uint8
    assert np.abs(actual.astype(int) - expected).max() <= 1
    pillow = Image.fromarray(image[top:bottom, left:right])
    by_pillow = np.asarray(pillow.resize((size, size), Image.Resampling.BILINEAR))
    assert np.abs(actual.astype(int) - by_pillow).max() <= 2


def encode(image: np.ndarray, kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, kind)
    return buffer.getvalue()


def test_png_tiff_and_jpeg_are_decoded() -> None:
    image = noise()
    for kind in ("png", "tiff"):
        np.testing.assert_array_equal(np.asarray(decode_image(encode(image, kind))), image)
    data = simplejpeg.encode_jpeg(image)
    actual = decode_image(data)
    assert not isinstance(actual, str)
    with Image.open(io.BytesIO(data)) as by_pillow:
        difference = actual.astype(int) - np.asarray(by_pillow)
    assert np.abs(difference).max() <= 2
    grey = decode_image(encode(image[:, :, 0], "png"))
    assert not isinstance(grey, str)
    assert grey.shape == (HEIGHT, WIDTH, 3)


def test_truncated_and_other_files_are_unreadable() -> None:
    half = simplejpeg.encode_jpeg(noise())[:1000]
    for data in (half, b"no image", b"", encode(noise(), "png")[:99]):
        actual = decode_image(data)
        assert isinstance(actual, str)
        assert actual


def test_libtiff_prints_nothing_about_damaged_files(capfd: pytest.CaptureFixture[str]) -> None:
    buffer = io.BytesIO()
    Image.fromarray(noise()).save(buffer, "tiff", compression="tiff_deflate")
    data = bytearray(buffer.getvalue())
    data[100:120] = bytes(20)  # in the pixels
    assert isinstance(decode_image(bytes(data)), str)
    assert capfd.readouterr().err == ""


def frame(crops: list[list[int]], size: tuple[int, int] = (WIDTH, HEIGHT)) -> FrameCrops:
    return FrameCrops("a.png", 0, *size, np.arange(len(crops)), np.array(crops))


def test_cut_frame_cuts_all_crops_of_a_frame() -> None:
    boxes = [[0, 0, 30, 20], [5, 6, 50, 60]]
    actual = cut_frame(noise(), frame(boxes), "a.png", 9)
    assert not isinstance(actual, str)
    for pixels, box in zip(actual, boxes, strict=True):
        np.testing.assert_array_equal(pixels, cut(noise(), np.array(box), 9))
    assert cut_frame("cut short", frame(boxes), "a.png", 9) == "cut short"


def test_an_image_of_another_size_is_refused() -> None:
    with pytest.raises(PolyplinkError, match="is 90 x 60, its procedure says 80 x 60; correct"):
        cut_frame(noise(), frame([[0, 0, 9, 9]], (80, 60)), "a.png", 4)


SIDE, PLACE = st.floats(0.5, 500, width=32), st.floats(-300, 900, width=32)
BOXES = st.lists(st.tuples(PLACE, PLACE, SIDE, SIDE), min_size=1, max_size=8).map(np.array)


def naive_crop(box: np.ndarray, factor: float, width: int, height: int) -> list[int]:
    edges = []
    for start, span, limit in zip(box[:2].tolist(), box[2:].tolist(), (width, height), strict=True):
        low, width_of_crop = int(start - span * (factor - 1) / 2), int(span * factor)
        low, high = (min(max(edge, 0), limit) for edge in (low, low + width_of_crop))
        low = min(low, limit - 1)
        edges.append((low, max(high, low + 1)))
    (left, right), (top, bottom) = edges
    return [left, top, right, bottom]


@given(BOXES, st.floats(0.01, 20), st.integers(1, 700), st.integers(1, 700))
def test_enlarge_equals_a_naive_loop(boxes: np.ndarray, factor: float, w: int, h: int) -> None:
    expected = [naive_crop(box, factor, w, h) for box in boxes]
    np.testing.assert_array_equal(enlarge(boxes, factor, w, h), expected)


@pytest.mark.parametrize(
    ("box", "factor", "crop"),
    [
        ([0, 101, 51, 51], 2, [0, 75, 77, 177]),
        ([7, 3, 21, 15], 10, [0, 0, 123, 86]),
        ([1300, 1000, 33, 47], 2, [1283, 976, 1349, 1070]),
        ([500, 400, 33, 47], 5, [434, 306, 599, 541]),
    ],
)
def test_enlarged_boxes_equal_those_of_the_program(
    box: list[int], factor: int, crop: list[int]
) -> None:
    """Expected crops are recorded from torchvision, with the conversions of the program."""
    actual = enlarge(np.array([box], float), factor, 1350, 1080)
    np.testing.assert_array_equal(actual, [crop])


def test_crop_factors_of_one_and_none() -> None:
    box = np.array([[10.0, 20.0, 30.0, 40.0]])
    np.testing.assert_array_equal(enlarge(box, 1.0, 100, 100), [[10, 20, 40, 60]])
    np.testing.assert_array_equal(enlarge(box, None, 100, 90), [[0, 0, 100, 90]])
