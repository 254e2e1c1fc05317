import io
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from polyplink._torchvision import heal_torchvision
from polyplink.errors import PolyplinkError
from polyplink.tracklets.crops import FrameCrops, cut, cut_frame, cutter, decode

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


@settings(deadline=None)
@given(crops())
def test_a_plain_image_stays_plain(crop: np.ndarray) -> None:
    image = np.full((HEIGHT, WIDTH, 3), (10, 200, 90), np.uint8)
    np.testing.assert_array_equal(cut(image, crop, 5), np.full((5, 5, 3), (10, 200, 90)))


def test_cutting_at_the_same_size_copies_the_pixels() -> None:
    image = noise()
    got = cut(image, np.array([3, 4, 23, 24]), 20)
    np.testing.assert_array_equal(got, image[4:24, 3:23])


def test_png_and_jpeg_are_decoded(tmp_path: Path) -> None:
    image = noise()
    Image.fromarray(image).save(tmp_path / "a.png")
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), image)
    data = simplejpeg.encode_jpeg(image)
    (tmp_path / "a.jpg").write_bytes(data)
    with Image.open(io.BytesIO(data)) as other:
        difference = decode(tmp_path / "a.jpg").astype(int) - np.asarray(other)
    assert np.abs(difference).max() <= 2
    Image.fromarray(image[:, :, 0]).save(tmp_path / "grey.png")
    assert decode(tmp_path / "grey.png").shape == (HEIGHT, WIDTH, 3)


def test_a_missing_or_broken_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"image .*none\.jpg is missing; mend `source`"):
        decode(tmp_path / "none.jpg")
    (tmp_path / "half.jpg").write_bytes(simplejpeg.encode_jpeg(noise())[:1000])
    with pytest.raises(PolyplinkError, match=r"image .*half\.jpg cannot be decoded"):
        decode(tmp_path / "half.jpg")
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(PolyplinkError, match=r"image .*text\.png cannot be decoded"):
        decode(tmp_path / "text.png")


def frame(path: Path, rows: list[int], size: tuple[int, int] = (WIDTH, HEIGHT)) -> FrameCrops:
    boxes = np.array([[2 * row, row, 2 * row + 30, row + 20] for row in rows])
    return FrameCrops(path, *size, np.array(rows), boxes)


def test_an_image_of_another_size_is_refused(tmp_path: Path) -> None:
    Image.fromarray(noise()).save(tmp_path / "a.png")
    with pytest.raises(PolyplinkError, match="is 90 x 60, its procedure says 80 x 60; mend width"):
        cut_frame(frame(tmp_path / "a.png", [0], (80, 60)), 4)


def test_crops_land_in_their_rows_whatever_the_order_of_the_frames(tmp_path: Path) -> None:
    frames = []
    for k, rows in enumerate(([4, 0], [2], [1, 3, 5])):
        Image.fromarray(noise(k)).save(tmp_path / f"{k}.png")
        frames.append(frame(tmp_path / f"{k}.png", rows))
    ticks: list[int] = []
    with cutter(2) as threads:
        threads.write(tmp_path / "crops.npy", frames, 7, ticks.append)
    got = np.load(tmp_path / "crops.npy", mmap_mode="r")
    assert got.shape == (6, 7, 7, 3)
    assert got.dtype == np.uint8
    for k, item in enumerate(frames):
        for row, crop in zip(item.rows, item.crops, strict=True):
            np.testing.assert_array_equal(got[row], cut(noise(k), crop, 7))
    assert ticks == [2, 1, 3]


def test_no_crops_make_an_empty_array(tmp_path: Path) -> None:
    with cutter(1) as threads:
        threads.write(tmp_path / "crops.npy", [], 7, lambda n: None)
    assert np.load(tmp_path / "crops.npy", mmap_mode="r").shape == (0, 7, 7, 3)


def test_nothing_is_left_of_a_file_that_failed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with cutter(2) as threads, pytest.raises(PolyplinkError, match="is missing"):
        threads.write(out / "crops.npy", [frame(tmp_path / "none.png", [0])], 7, lambda n: None)
    assert list(out.iterdir()) == []
