from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.ahead import threads
from polyplink.tracklets.broken import Broken, broken_path, read_broken
from polyplink.tracklets.crops import FrameCrops, cut
from polyplink.tracklets.cutter import write_crops
from polyplink.tracklets.image_folder import ImageFolder

HEIGHT, WIDTH = 60, 90


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)


def frame(number: int, rows: list[int]) -> FrameCrops:
    boxes = np.array([[2 * row, row, 2 * row + 30, row + 20] for row in rows])
    return FrameCrops(f"{number}.png", number, WIDTH, HEIGHT, np.array(rows), boxes)


@pytest.fixture
def frames(tmp_path: Path) -> list[FrameCrops]:
    for k in range(3):
        Image.fromarray(noise(k)).save(tmp_path / f"{k}.png")
    return [frame(k, rows) for k, rows in enumerate(([4, 0], [2], [1, 3, 5]))]


def write(folder: Path, frames: Sequence[FrameCrops], ticks: list[int]) -> list[Broken]:
    path, sources = folder / "out" / "crops.npy", [ImageFolder(folder)]
    with threads(2) as pool:
        return write_crops(path, frames, sources, 7, threads=pool, tick=ticks.append)


def crops_of(frames: Sequence[FrameCrops]) -> Iterator[tuple[int, np.ndarray]]:
    for item in frames:
        for row, crop in zip(item.rows, item.crops, strict=True):
            yield int(row), cut(noise(item.frame), crop, 7)


def test_crops_land_in_their_rows(tmp_path: Path, frames: list[FrameCrops]) -> None:
    ticks: list[int] = []
    assert write(tmp_path, frames, ticks) == []
    got = np.load(tmp_path / "out" / "crops.npy", mmap_mode="r")
    assert got.shape == (6, 7, 7, 3)
    assert got.dtype == np.uint8
    for row, expected in crops_of(frames):
        np.testing.assert_array_equal(got[row], expected)
    assert ticks == [2, 1, 3]


def test_a_broken_frame_stays_black_and_is_written_down(
    tmp_path: Path, frames: list[FrameCrops]
) -> None:
    (tmp_path / "2.png").write_bytes(b"half")
    (broken,) = write(tmp_path, frames, [])
    assert (broken.frame, broken.image) == (2, "2.png")
    path = tmp_path / "out" / "crops.npy"
    assert read_broken(path) == [broken]
    got = np.load(path)
    assert got.shape == (6, 7, 7, 3)
    assert not got[[1, 3, 5]].any()
    for row, expected in crops_of(frames[:2]):
        np.testing.assert_array_equal(got[row], expected)
    Image.fromarray(noise(2)).save(tmp_path / "2.png")
    assert write(tmp_path, frames, []) == []
    assert not broken_path(path).exists()


def test_no_frame_that_decodes_is_an_error(tmp_path: Path, frames: list[FrameCrops]) -> None:
    for k in range(3):
        (tmp_path / f"{k}.png").write_bytes(b"half")
    with pytest.raises(PolyplinkError, match=r"image 0\.png cannot be decoded .*, nor any other"):
        write(tmp_path, frames, [])
    assert list((tmp_path / "out").iterdir()) == []


def test_no_crops_make_an_empty_array(tmp_path: Path) -> None:
    write(tmp_path, [], [])
    assert np.load(tmp_path / "out" / "crops.npy").shape == (0, 7, 7, 3)


def test_nothing_is_left_of_a_file_that_failed(tmp_path: Path, frames: list[FrameCrops]) -> None:
    (tmp_path / "1.png").unlink()
    with pytest.raises(PolyplinkError, match="is missing"):
        write(tmp_path, frames, [])
    assert list((tmp_path / "out").iterdir()) == []
