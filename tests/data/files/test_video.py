import random
from contextlib import suppress
from pathlib import Path

import av
import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.images import Picture
from polyplink.data.files.video import Video, frame_name, is_video, open_video, split_frame_name
from tests.data.videos import HEIGHT, WIDTH, corrupt_packet, number_of, write_video
from tests.mutations import flip_many

N = 60
FILMS = [
    ("mp4", "libx264", False),
    ("mp4", "libx264", True),
    ("mp4", "mpeg4", False),
    ("mkv", "libx264", False),
    ("mkv", "libx264", True),
    ("avi", "libx264", False),
    ("avi", "mpeg4", False),
    ("ts", "libx264", False),
    ("ts", "libx264", True),
]


def numbers(video: Video, wanted: list[int]) -> list[tuple[int, int | None]]:
    found = video.frames(wanted)
    return [(n, None if shown is None else number_of(shown.rgb())) for n, shown in found]


@pytest.mark.parametrize(("suffix", "codec", "varying"), FILMS)
def test_every_frame_by_its_number(tmp_path: Path, suffix: str, codec: str, varying: bool) -> None:
    path = write_video(tmp_path / f"a.{suffix}", N, codec=codec, varying=varying)
    with open_video(path) as video:
        assert (video.n_frames, video.width, video.height) == (N, WIDTH, HEIGHT)
        assert video.fps == pytest.approx(22.476 if varying else 25.0)
        assert numbers(video, list(range(N))) == [(n, n) for n in range(N)]
        some = [3, 29, 30, 59]
        assert numbers(video, [*some, 60]) == [*((n, n) for n in some), (60, None)]
        assert numbers(video, []) == []
        for number in (50, 2, 59, 13, 0):  # seeks to any key frame, forward and back
            shown = video.frame(number)
            assert shown is not None
            assert number_of(shown.rgb()) == number


@pytest.mark.parametrize(("suffix", "codec", "varying"), FILMS)
def test_a_broken_packet_loses_frames_and_never_shows_a_wrong_one(
    tmp_path: Path, suffix: str, codec: str, varying: bool
) -> None:
    path = write_video(tmp_path / f"a.{suffix}", N, codec=codec, varying=varying)
    corrupt_packet(path, 20)
    with open_video(path) as video:
        got = numbers(video, list(range(N)))
    lost = [n for n, shown in got if shown is None]
    assert lost
    assert set(lost) <= set(range(17, 40))
    assert [(n, shown) for n, shown in got if shown is not None] == [
        (n, n) for n in range(N) if n not in lost
    ]


def test_a_recording_that_was_cut_short(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.ts", N)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with open_video(path) as video:
        assert 20 < video.n_frames < 40
        got = numbers(video, list(range(N)))
    assert got[:20] == [(n, n) for n in range(20)]
    assert all(shown is None for _, shown in got[40:])
    whole = write_video(tmp_path / "a.mp4", N)
    whole.write_bytes(whole.read_bytes()[:1000])  # what tells how to read it comes last
    with (
        pytest.raises(PolyplinkError, match=r"video .*a\.mp4 cannot be opened .*; copy it again"),
        open_video(whole),
    ):
        pass


@pytest.mark.parametrize(("suffix", "codec"), [("mp4", "libx264"), ("avi", "mpeg4")])
def test_a_damaged_video_is_read_or_refused_and_its_frames_are_of_its_size(
    tmp_path: Path, suffix: str, codec: str
) -> None:
    whole = write_video(tmp_path / f"a.{suffix}", 24, codec=codec).read_bytes()
    path, read = tmp_path / f"b.{suffix}", 0
    for seed in range(40):
        path.write_bytes(flip_many(whole, random.Random(seed)))
        with suppress(PolyplinkError), open_video(path) as video:
            for _, shown in video.frames(range(24)):
                pixels = "lost" if shown is None else shown.rgb()
                assert isinstance(pixels, str) or pixels.shape == (video.height, video.width, 3)
            read += 1
    assert read > 10


def test_what_is_converted_of_a_frame_is_near_what_its_pixels_give(tmp_path: Path) -> None:
    with av.open(str(write_video(tmp_path / "a.mp4", 24))) as container:
        frames = [*container.decode(video=0)]
    for frame in frames:
        pixels = np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
        shown, known = Picture(frame), Picture(pixels)
        small = shown.resized(24, 30)
        np.testing.assert_allclose(small, known.resized(24, 30), atol=4)
        np.testing.assert_allclose(shown.points, known.points, atol=4)
        np.testing.assert_array_equal(shown.rgb(), pixels)
        np.testing.assert_array_equal(shown.resized(24, 30), small)  # the order changes nothing
        assert shown.size == known.size == (WIDTH, HEIGHT)


def test_files_that_are_no_video(tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    for name, message in (("none.mp4", "is missing"), ("text.mp4", "cannot be opened")):
        with pytest.raises(PolyplinkError, match=message), open_video(tmp_path / name):
            pass


def test_an_unknown_codec(tmp_path: Path) -> None:
    path = write_video(tmp_path / "x.mp4", 3)
    path.write_bytes(path.read_bytes().replace(b"avc1", b"zzz1"))
    with (
        pytest.raises(PolyplinkError, match=r"x\.mp4 is of an unknown codec; convert it"),
        open_video(path),
    ):
        pass


def test_a_title_that_is_no_text_does_no_harm(tmp_path: Path) -> None:
    path = write_video(tmp_path / "x.mp4", 3)
    path.write_bytes(path.read_bytes().replace(b"VideoHandler", b"\x86ideoHandler"))
    with open_video(path) as video:
        assert video.n_frames == 3


def test_names_of_frames() -> None:
    assert frame_name("d/a.mp4", 17) == "d/a.mp4#17"
    assert split_frame_name("d/a.mp4#17") == ("d/a.mp4", 17)
    assert split_frame_name("d/A.TS#0") == ("d/A.TS", 0)
    for other in ("a.jpg", "a#1.jpg", "a.mp4", "a.mp4#x", "a.zip!/b.jpg", "#3"):
        assert split_frame_name(other) is None
    assert is_video("a.AVI")
    assert not is_video("a.jpg")
