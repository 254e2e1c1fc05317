"""Crops from image files, archives and videos, and the file that stores them."""

import io
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.core.workers import prefetch
from polyplink.data.files.images import Pixels
from polyplink.tracklets.crops import (
    BrokenFrame,
    FrameCrops,
    broken_path,
    cut_crops,
    read_broken,
    write_crops,
)
from tests.data.packing import pack
from tests.data.videos import HEIGHT, WIDTH, corrupt_packet, frame_of, number_of, write_video


def whole_frame(image: str | None, row: int, width: int = WIDTH) -> FrameCrops:
    """A frame with one crop: the full frame."""
    box = np.array([[0, 0, width, HEIGHT]])
    return FrameCrops(image, row, width, HEIGHT, np.array([row]), box)


def cut_all(folder: Path, names: dict[int, str]) -> dict[int, Pixels | str]:
    """The crop (WIDTH, WIDTH, 3) of each frame number, or the reason for its absence."""
    frames = [whole_frame(name, k) for k, name in names.items()]
    cuts = list(cut_crops(folder, frames, WIDTH, 2))
    assert sorted(frame.frame for frame, _ in cuts) == sorted(names)
    return {f.frame: p if isinstance(p, str) else p[0] for f, p in cuts}


def numbers(cuts: dict[int, Pixels | str]) -> dict[int, int | None]:
    """The number that each frame shows; None for undecodable frames."""
    return {k: None if isinstance(p, str) else number_of(p) for k, p in cuts.items()}


def png(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(frame_of(number)).save(buffer, "png")
    return buffer.getvalue()


def test_image_files_are_cut_and_missing_ones_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    names = {0: "a/0.png", 1: "a/1.tif", 2: "a/2.png"}
    for number, name in names.items():
        Image.fromarray(frame_of(number)).save(tmp_path / name)
    (tmp_path / names[2]).write_bytes(b"half")
    assert numbers(cut_all(tmp_path, names)) == {0: 0, 1: 1, 2: None}
    for name in ("none.jpg", "a"):
        with pytest.raises(PolyplinkError, match=rf"image .*{name}"):
            cut_all(tmp_path, {0: name})


@pytest.mark.parametrize(
    ("kind", "prefix"), [("zip", ""), ("tar", "p_frames/"), ("tar.gz", ""), ("tgz", "p_frames/")]
)
def test_members_of_archives_are_cut_and_damaged_archives_refused(
    tmp_path: Path, kind: str, prefix: str
) -> None:
    members = {f"p_frames/{k}.png": png(k) for k in (2, 0, 1, 3)} | {"p_frames/1.png": b"half"}
    path = pack(tmp_path / f"p.{kind}", members)
    names = {k: f"p.{kind}!/{prefix}{k}.png" for k in (0, 1, 2, 9)}
    cuts = cut_all(tmp_path, names)
    assert numbers(cuts) == {0: 0, 1: None, 2: 2, 9: None}
    assert cuts[9] == "not in the archive"
    with pytest.raises(PolyplinkError, match=r"has no member other\.png; give the archive"):
        cut_all(tmp_path, {0: f"p.{kind}!/other.png"})
    path.write_bytes(path.read_bytes()[: -200 if kind != "tar" else 700])
    with pytest.raises(PolyplinkError, match="download it again"):
        cut_all(tmp_path, names)
    path.unlink()
    with pytest.raises(PolyplinkError, match="is missing; restore it"):
        cut_all(tmp_path, names)


def test_a_damaged_member_of_a_zip_is_unreadable(tmp_path: Path) -> None:
    path = pack(tmp_path / "p.zip", {"0.png": png(0), "1.png": png(1)})
    data = bytearray(path.read_bytes())
    data[60] ^= 255
    path.write_bytes(data)
    assert numbers(cut_all(tmp_path, {k: f"p.zip!/{k}.png" for k in (0, 1)})) == {0: None, 1: 1}


@pytest.mark.parametrize("suffix", ["mp4", "avi"])
def test_frames_of_videos_are_cut(tmp_path: Path, suffix: str) -> None:
    write_video(tmp_path / f"a.{suffix}", 60)
    cuts = cut_all(tmp_path, {k: f"a.{suffix}#{k}" for k in (3, 4, 17, 58, 60)})
    assert numbers(cuts) == {3: 3, 4: 4, 17: 17, 58: 58, 60: None}


def test_damaged_frames_of_a_video_are_left_out_and_missing_videos_refused(
    tmp_path: Path,
) -> None:
    corrupt_packet(write_video(tmp_path / "a.mp4", 40), 20)
    shown_numbers = numbers(cut_all(tmp_path, {k: f"a.mp4#{k}" for k in range(0, 40, 4)}))
    assert (shown_numbers[4], shown_numbers[20]) == (4, None)
    with pytest.raises(PolyplinkError, match=r"video .*none\.MKV is missing"):
        cut_all(tmp_path, {0: "none.MKV#0"})


def test_a_procedure_can_mix_files_archives_and_videos(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(png(0))
    (tmp_path / "d!").mkdir()
    (tmp_path / "d!" / "3.png").write_bytes(png(3))  # a folder, not an archive
    pack(tmp_path / "p.tar.gz", {"p/1.png": png(1)})
    write_video(tmp_path / "a.mp4", 10)
    names = {0: "0.png", 1: "p.tar.gz!/p/1.png", 2: "a.mp4#2", 3: "d!/3.png"}
    assert numbers(cut_all(tmp_path, names)) == {k: k for k in range(4)}


def test_prefetch_keeps_the_order_and_limits_items_in_flight() -> None:
    drawn_items: list[int] = []

    def items() -> Iterator[int]:
        for item in range(40):
            drawn_items.append(item)
            yield item

    results = prefetch(lambda item: item * 2, items(), 2, ahead=3)
    assert next(results) == 0
    assert len(drawn_items) == 6
    assert [0, *results] == [2 * item for item in range(40)]


def test_prefetch_raises_errors_and_drops_waiting_items() -> None:
    started: list[int] = []
    first = threading.Event()

    def work(item: int) -> int:
        started.append(item)
        if item == 0:
            first.wait(5)
            raise ValueError("broken")
        return item

    results = prefetch(work, range(100), 1, ahead=50)
    first.set()
    with pytest.raises(ValueError, match="broken"):
        next(results)
    assert len(started) < 100


@pytest.fixture
def frames(tmp_path: Path) -> list[FrameCrops]:
    """Crops of three files, with rows in another order than the files."""
    frame_crops = []
    for number, rows in enumerate(([4, 0], [2], [1, 3, 5])):
        (tmp_path / f"{number}.png").write_bytes(png(number))
        boxes = np.array([[0, 0, WIDTH, row + 20] for row in rows])
        crops = FrameCrops(f"{number}.png", number, WIDTH, HEIGHT, np.array(rows), boxes)
        frame_crops.append(crops)
    return frame_crops


def write(
    folder: Path, frames: list[FrameCrops], ticks: list[int] | None = None
) -> list[BrokenFrame]:
    tick = (ticks if ticks is not None else []).append
    return write_crops(folder / "out/c.npy", frames, folder, WIDTH, workers=2, tick=tick)


def test_crops_are_written_to_their_rows(tmp_path: Path, frames: list[FrameCrops]) -> None:
    ticks: list[int] = []
    assert write(tmp_path, frames, ticks) == []
    stored = np.load(tmp_path / "out/c.npy", mmap_mode="r")
    assert (stored.shape, stored.dtype) == ((6, WIDTH, WIDTH, 3), np.uint8)
    assert [number_of(crop) for crop in stored] == [0, 2, 1, 2, 0, 2]
    assert ticks == [2, 1, 3]
    write(tmp_path, [])
    assert np.load(tmp_path / "out/c.npy").shape == (0, WIDTH, WIDTH, 3)


def test_a_broken_frame_stays_black_and_is_listed(tmp_path: Path, frames: list[FrameCrops]) -> None:
    (tmp_path / "2.png").write_bytes(b"half")
    (broken,) = write(tmp_path, frames)
    assert (broken.frame, broken.image) == (2, "2.png")
    path = tmp_path / "out/c.npy"
    assert read_broken(path) == [broken]
    assert not np.load(path)[[1, 3, 5]].any()
    path.unlink()
    assert read_broken(path) == [broken]  # also without the crops
    (tmp_path / "2.png").write_bytes(png(2))
    assert write(tmp_path, frames) == []
    assert not broken_path(path).exists()


@pytest.mark.parametrize("missing", [True, False])
def test_a_failed_procedure_leaves_no_file(
    tmp_path: Path, frames: list[FrameCrops], missing: bool
) -> None:
    for k in range(3):
        (tmp_path / f"{k}.png").write_bytes(b"half")
    if missing:
        (tmp_path / "1.png").unlink()
    message = "is missing" if missing else r"image 0\.png cannot be decoded .*, nor any other"
    with pytest.raises(PolyplinkError, match=message):
        write(tmp_path, frames)
    assert list((tmp_path / "out").iterdir()) == []
