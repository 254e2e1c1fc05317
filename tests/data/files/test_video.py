import base64
import random
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.images import Picture
from polyplink.data.files.video import Video, open_video
from polyplink.detect.recordings import find_recordings, uncounted_messages
from tests.data.videos import (
    HEIGHT,
    WIDTH,
    corrupt_packet,
    frame_of,
    number_of,
    remux,
    write_beside,
    write_sizes,
    write_video,
)
from tests.mutations import flip_many

N = 60
VIDEOS = [
    ("mp4", "libx264", False),
    ("mp4", "libx264", True),
    ("mp4", "mpeg4", False),
    ("mkv", "libx264", False),
    ("mkv", "libx264", True),
    ("avi", "libx264", False),
    ("avi", "mpeg4", False),
    ("ts", "libx264", False),
    ("ts", "libx264", True),
    ("h264", "libx264", False),
]
# Three frames of H.264 in two fields each, 128x32 pixels, with the numbers 5, 42 and 79; the second
# field is inverted. FFmpeg reads such pictures, and writes none.
FIELDS = (
    "eNpjYGBg5PzAACTTfQ9w3VEKaGBgYGYAEpLsncIHQOIZ51i8FUCM1I5Wvs4uBiapoKQGhr45MxYwKC9V02DgeHkSCB4w"
    "wA1K7GizAonnnwQqtkJSrA4EDQykWyj9CWTGFJAZy8EWeoIMLkIIIpsKsz0TXRG6znkM5Hi9qAisew6S97F6HQjAvi9C"
    "eL8BAAn1Y6w="
)


def numbers(video: Video, indices: list[int]) -> list[tuple[int, int | None]]:
    frames = video.frames(indices)
    return [(n, None if picture is None else number_of(picture.rgb())) for n, picture in frames]


@pytest.mark.parametrize(("suffix", "codec", "varying"), VIDEOS)
def test_every_frame_is_read_by_its_number_unless_it_is_corrupted(
    tmp_path: Path, suffix: str, codec: str, varying: bool
) -> None:
    path = write_video(tmp_path / f"a.{suffix}", N, codec=codec, varying=varying)
    with open_video(path) as video:
        assert (video.n_frames, video.width, video.height) == (N, WIDTH, HEIGHT)
        assert video.fps == pytest.approx(22.476 if varying else 25.0)
        assert video.drift < 0.05
        assert numbers(video, list(range(N))) == [(n, n) for n in range(N)]
        subset = [3, 29, 30, 59]
        assert numbers(video, [*subset, 60]) == [*((n, n) for n in subset), (60, None)]
        assert numbers(video, []) == []
        for number in (50, 2, 59, 13, 0):  # seeks forward and back
            picture = video.frame(number)
            assert picture is not None
            assert number_of(picture.rgb()) == number
    # A corrupted packet loses frames, and gives no wrong frame.
    corrupt_packet(path, 20)
    with open_video(path) as video:
        read_numbers = numbers(video, list(range(N)))
    lost = [n for n, number in read_numbers if number is None]
    assert lost
    assert set(lost) <= set(range(17, 40))
    assert all(number in (n, None) for n, number in read_numbers)


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_the_drift_is_the_largest_error_of_times_by_the_mean_rate(
    tmp_path: Path, suffix: str
) -> None:
    path = write_video(tmp_path / f"a.{suffix}", 61, varying=(20,) * 30 + (120,) * 30)
    with open_video(path) as video:
        assert video.fps == pytest.approx(60 / 4.2, abs=1e-3)
        assert video.drift == pytest.approx(30 * 0.07 - 30 * 0.02, abs=1e-3)  # at frame 30


def test_a_pause_of_the_recording_does_not_count_in_the_rate(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mkv", 61, varying=(40,) * 30 + (60_000,))
    with open_video(path) as video:
        assert video.fps == pytest.approx(25.0)
        assert video.drift == pytest.approx(60.0 - 0.04, abs=1e-3)
    slow = write_video(tmp_path / "b.mkv", 9, varying=(2000,))  # no step is a pause
    with open_video(slow) as video:
        assert (video.fps, video.drift) == (0.5, 0.0)


@pytest.mark.parametrize("start", [0.0, 40.0])
def test_files_joined_end_to_end_are_read_in_the_order_of_their_frames(
    tmp_path: Path, start: float
) -> None:
    def shift(seconds: float) -> Callable[[int, Any], None]:
        def change(number: int, packet: Any) -> None:
            ticks = round(seconds / packet.time_base)
            packet.pts, packet.dts = packet.pts + ticks, packet.dts + ticks

        return change

    path = write_video(tmp_path / "a.ts", N)
    # The clock of the second file begins anew, half of a frame from those of the first.
    parts = [remux(path, tmp_path / f"{at}.ts", shift(at)) for at in (start, 0.02)]
    joined = tmp_path / "joined.ts"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    with open_video(joined) as video:
        assert (video.n_frames, video.fps, video.drift) == (2 * N, 25.0, 0.0)
        assert numbers(video, list(range(2 * N))) == [(n, n % N) for n in range(2 * N)]
        assert numbers(video, [7, N + 3]) == [(7, 7), (N + 3, 3)]


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_the_picture_of_a_cover_is_not_the_video(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    with av.open(str(path), "w") as container:
        packets = []
        for codec, n, form in (("mjpeg", 1, "yuvj420p"), ("libx264", 10, "yuv420p")):
            stream = container.add_stream(codec, rate=25)
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, form
            if n == 1:
                stream.disposition = av.stream.Disposition.attached_pic
            for number in range(n):
                frame = av.VideoFrame.from_ndarray(frame_of(number), format="rgb24")
                frame.pts, frame.time_base = number, Fraction(1, 25)
                packets += stream.encode(frame)
            packets += stream.encode()
        container.mux(packets)
    with open_video(path) as video:
        assert (video.n_frames, video.n_streams) == (10, 1)
        assert numbers(video, [0, 5, 9]) == [(0, 0), (5, 5), (9, 9)]


def test_tags_other_videos_and_a_change_of_size_are_reported(tmp_path: Path) -> None:
    plain = write_video(tmp_path / "plain.mp4", 20)
    turned = remux(plain, tmp_path / "turned.mp4", rotation=90)
    sizes = ((64, 48), (96, 64), (64, 48))
    changing = write_sizes(tmp_path / "sizes.mkv", *sizes)
    beside = write_beside(tmp_path / "beside.mp4", plain, changing)
    damaged = write_video(tmp_path / "damaged.mp4", N)
    corrupt_packet(damaged, 20)
    for path, rotation, n_streams, change in (
        (plain, 0, 1, None),
        (turned, 90, 1, None),
        (beside, 0, 2, None),
        (changing, 0, 1, (30, 96, 64)),
        (damaged, 0, 1, None),
    ):
        with open_video(path) as video:
            assert (video.rotation, video.n_streams) == (rotation, n_streams)
            assert video.change_of_size() == change
            assert (video.width, video.height) == (WIDTH, HEIGHT)
            if change is None and path != damaged:
                assert numbers(video, [0, 7, 19]) == [(0, 0), (7, 7), (19, 19)]
    playlist = tmp_path / "all.m3u"
    playlist.write_text("plain.mp4\nsizes.mkv\n")
    with open_video(playlist) as video:
        assert video.change_of_size() == (50, 96, 64)
        missing = [n for n, picture in video.frames(range(video.n_frames)) if picture is None]
        assert missing == [*range(50, 80)]
    joined = tmp_path / "joined.ts"  # the clock restarts, so that frames are counted
    parts = [write_sizes(tmp_path / f"{side}.ts", (side, 48)) for side in (64, 96)]
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    with open_video(joined) as video:
        assert video.change_of_size() == (30, 96, 48)


def test_truncated_videos_are_read_or_refused(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.ts", N)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with open_video(path) as video:
        assert 20 < video.n_frames < 40
        read_numbers = numbers(video, list(range(N)))
    assert read_numbers[:20] == [(n, n) for n in range(20)]
    assert all(number is None for _, number in read_numbers[40:])
    without_index = write_video(tmp_path / "a.mp4", N)
    # The index is at the end of the file.
    without_index.write_bytes(without_index.read_bytes()[:1000])
    with (
        pytest.raises(PolyplinkError, match=r"video .*a\.mp4 cannot be opened .*; copy it again"),
        open_video(without_index),
    ):
        pass


@pytest.mark.parametrize("share", [0.6, 0.8, 1.0])
def test_frames_listed_after_the_end_of_a_file_are_missing(tmp_path: Path, share: float) -> None:
    path = write_video(tmp_path / "a.mp4", N, index_first=True)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with open_video(path) as video:
        assert video.n_frames + video.n_missing == N
        assert (video.n_missing > 5) == (share < 1)
        assert all(picture is None for _, picture in video.frames(range(video.n_frames, N)))


@pytest.mark.parametrize(("suffix", "codec"), [("mkv", "libx264"), ("avi", "mpeg4")])
def test_frames_stated_after_the_end_of_a_file_are_missing(
    tmp_path: Path, suffix: str, codec: str
) -> None:
    path = write_video(tmp_path / f"a.{suffix}", 4 * N, codec=codec)
    with open_video(path) as video:
        assert (video.n_frames, video.n_missing) == (4 * N, 0)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with open_video(path) as video:
        assert video.n_frames < 3 * N
        assert abs(video.n_frames + video.n_missing - 4 * N) <= 2


def test_frames_dropped_in_recording_are_not_missing_at_the_end(tmp_path: Path) -> None:
    def delay(number: int, packet: Any) -> None:
        packet.dts += 2 * N * (number >= 36)  # FFmpeg marks each dropped frame in the file
        packet.pts = packet.dts

    whole = write_video(tmp_path / "a.avi", N, codec="mpeg4")
    with open_video(remux(whole, tmp_path / "b.avi", delay)) as video:
        assert (video.n_frames, video.n_missing) == (N, 0)


def test_a_last_frame_that_stays_for_seconds_has_none_after_it(tmp_path: Path) -> None:
    def lengthen(_: int, packet: Any) -> None:
        if packet.pts == (N - 1) * 40:  # milliseconds
            packet.duration = 10_000

    whole = write_video(tmp_path / "a.mkv", N)
    with open_video(remux(whole, tmp_path / "b.mkv", lengthen)) as video:
        assert (video.n_frames, video.n_missing) == (N, 0)


def test_a_damaged_duration_adds_no_frames(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mkv", N)
    content, duration = path.read_bytes(), b"\x44\x89\x88"  # the element and its size, 8 bytes
    head, rest = content.split(duration, 1)
    path.write_bytes(head + duration + struct.pack(">d", 1e15) + rest[8:])
    with open_video(path) as video:
        assert (video.n_frames, video.n_missing) == (N, 0)


def test_formats_that_do_not_list_their_frames_have_none_missing(tmp_path: Path) -> None:
    # A fragmented mp4 file lists the frames of the fragments that were read.
    options = {"movflags": "frag_keyframe+empty_moov"}
    whole = remux(write_video(tmp_path / "a.mkv", N), tmp_path / "a.mp4", options=options)
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    with open_video(whole) as video:
        assert 5 < video.n_frames < N
        assert video.n_missing == 0


@pytest.mark.parametrize(("suffix", "codec"), [("mp4", "libx264"), ("avi", "mpeg4")])
def test_frames_of_a_damaged_video_have_its_size(tmp_path: Path, suffix: str, codec: str) -> None:
    content = write_video(tmp_path / f"a.{suffix}", 24, codec=codec).read_bytes()
    path, n_read = tmp_path / f"b.{suffix}", 0
    for seed in range(16):
        path.write_bytes(flip_many(content, random.Random(seed)))
        with suppress(PolyplinkError), open_video(path) as video:
            for _, picture in video.frames(range(24)):
                pixels = "lost" if picture is None else picture.rgb()
                assert isinstance(pixels, str) or pixels.shape == (video.height, video.width, 3)
            n_read += 1
    assert n_read > 4


def test_conversions_of_a_frame_are_close_to_those_of_its_pixels(tmp_path: Path) -> None:
    with av.open(str(write_video(tmp_path / "a.mp4", 24))) as container:
        frames = [*container.decode(video=0)]
    for frame in frames:
        pixels = np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
        picture, reference = Picture(frame), Picture(pixels)
        small = picture.resized(24, 30)
        np.testing.assert_allclose(small, reference.resized(24, 30), atol=4)
        np.testing.assert_allclose(picture.points, reference.points, atol=4)
        np.testing.assert_array_equal(picture.rgb(), pixels)
        np.testing.assert_array_equal(picture.resized(24, 30), small)  # the order does not matter
        assert picture.size == reference.size == (WIDTH, HEIGHT)


@pytest.mark.parametrize("suffix", ["mp4", "ts", "avi"])
def test_a_playlist_is_one_video_of_its_files(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "day 1").mkdir()
    parts = {"a.mp4": 20, f"day 1/b.{suffix}": 7, f"c.{suffix}": 30}
    for name, n in parts.items():
        write_video(tmp_path / name, n)
    playlist = tmp_path / "case.m3u"
    playlist.write_text("\ufeff#EXTM3U\r\n\r\n" + "\r\n".join(parts), encoding="utf-8")
    numbers_shown = [number for n in parts.values() for number in range(n)]
    with open_video(playlist) as video:
        assert (video.n_frames, video.fps, video.n_missing) == (57, 25.0, 0)
        assert video.drift < 0.001
        assert numbers(video, list(range(57))) == list(enumerate(numbers_shown))
        assert numbers(video, [-1, 19, 20, 57]) == [(19, 19), (20, 0), (-1, None), (57, None)]
        for number in (40, 19, 56, 20, 0):
            assert numbers(video, [number]) == [(number, numbers_shown[number])]
    # A folder with the playlist holds one recording; files that are not in it are others.
    write_video(tmp_path / "other.mp4", 5)
    (case, other) = find_recordings(tmp_path)
    assert (case.name, case.n_frames, case.image(56)) == ("case", 57, "case.m3u#56")
    assert other.name == "other"
    before = case.state()
    (tmp_path / f"c.{suffix}").write_bytes(b"")
    assert case.state() != before


def test_files_that_a_playlist_names_in_any_way_are_no_recordings_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    for name in ("a.mp4", "#2.mp4", "10:37.mp4", "parts/c.mp4", "parts/d.mp4"):
        write_video(tmp_path / name, 5)
    lines = [
        "#EXTM3U",
        "#a.mp4",
        str(tmp_path / "a.mp4"),
        "#2.mp4",
        "parts/../parts/c.mp4",
        "10:37.mp4",
    ]
    (tmp_path / "case.m3u").write_text("\n".join(lines))
    (case,) = find_recordings(Path())
    assert (case.name, case.n_frames) == ("case", 20)
    (message,) = uncounted_messages(Path())
    assert message.values == {"n": 1, "first": "parts/d.mp4"}


def test_a_recorded_stream_is_one_video_although_its_files_are_none(tmp_path: Path) -> None:
    options = {"hls_segment_type": "fmp4", "hls_time": "0.4", "hls_list_size": "0"}
    whole = write_video(tmp_path / "a.mp4", 40)
    remux(whole, tmp_path / "case.m3u8", format="hls", options=options)
    assert len(list(tmp_path.glob("*.m4s"))) > 1
    with open_video(tmp_path / "case.m3u8") as video:
        assert numbers(video, list(range(40))) == [(n, n) for n in range(40)]


def test_a_file_that_is_gone_when_its_frames_are_read_is_named(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4"):
        write_video(tmp_path / name, 5)
    (tmp_path / "case.m3u").write_text("a.mp4\nb.mp4\n")
    with open_video(tmp_path / "case.m3u") as video:
        assert numbers(video, [4]) == [(4, 4)]
        (tmp_path / "b.mp4").rename(tmp_path / "gone.mp4")
        with pytest.raises(PolyplinkError, match=r"b\.mp4 cannot be opened"):
            video.frame(5)
        assert numbers(video, [4]) == [(4, 4)]
        (tmp_path / "gone.mp4").rename(tmp_path / "b.mp4")
        assert numbers(video, [5]) == [(5, 0)]


def test_frames_lost_within_a_playlist_keep_the_numbers_of_the_others(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4"):
        write_video(tmp_path / name, N, index_first=True)
    content = (tmp_path / "a.mp4").read_bytes()
    (tmp_path / "a.mp4").write_bytes(content[: len(content) * 4 // 5])
    (tmp_path / "case.m3u").write_text("a.mp4\nb.mp4\n")
    with open_video(tmp_path / "a.mp4") as video:
        assert video.n_missing > 0
    with open_video(tmp_path / "case.m3u") as video:
        assert (video.n_frames, video.n_missing) == (2 * N, 0)
        read_numbers = numbers(video, list(range(2 * N)))
    assert all(decoded in (n, None) for n, decoded in read_numbers[:N])
    assert read_numbers[N:] == [(N + n, n) for n in range(N)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"# only this\n", "names no video"),
        (b"a.mp4\na.mp4\n", "names a.mp4, twice"),
        (b"a.mp4\n./a.mp4\n", "names a.mp4, twice"),
        (b"b.m3u\n", "names b.m3u, a playlist"),
        (b"a.mp4\ngone.mp4\n", "gone.mp4, which does not exist"),
        (b"a.mp4\nsmall.png\n", "small.png has 32x16 pixels, but .*a.mp4"),
        (b"a.mp4\n%s\n" % (b"b" * 300), "which does not exist"),
        (b"\xff\xfea", "UTF-8"),
        ("a.mp4".encode("utf-16-le"), "UTF-8"),
    ],
)
def test_a_playlist_that_is_no_recording_is_refused(
    tmp_path: Path, text: bytes, message: str
) -> None:
    write_video(tmp_path / "a.mp4", 3)
    Image.new("RGB", (32, 16)).save(tmp_path / "small.png")
    (tmp_path / "case.m3u").write_bytes(text)
    with pytest.raises(PolyplinkError, match=message), open_video(tmp_path / "case.m3u"):
        pass


@pytest.mark.parametrize(
    ("suffix", "codec"), [("mp4", "libx264"), ("avi", "mpeg4"), ("ts", "mpeg2video")]
)
def test_the_picture_of_an_interlaced_frame_is_one_of_its_moments(
    tmp_path: Path, suffix: str, codec: str
) -> None:
    path = write_video(tmp_path / f"a.{suffix}", 30, codec=codec, interlaced=True)
    with open_video(path) as video:
        assert numbers(video, list(range(30))) == [(n, n) for n in range(30)]
        picture = video.frame(21)
    assert picture is not None
    assert picture.rgb().shape == (HEIGHT, WIDTH, 3)
    assert number_of(picture.resized(WIDTH, HEIGHT // 2)) == 21
    assert number_of(Picture(picture.yuv()).rgb()) == 21


@pytest.mark.parametrize("n_packets", [9, 18])
def test_the_fields_of_a_frame_may_be_packets_of_their_own(tmp_path: Path, n_packets: int) -> None:
    start = b"\0\0\0\1\x09"  # of an access unit
    content = zlib.decompress(base64.b64decode(FIELDS))
    fields = [start + field for field in content.split(start)[1:]] * 3
    together = 18 // n_packets
    (tmp_path / "a.h264").write_bytes(content)
    with (
        av.open(str(tmp_path / "a.h264")) as source,
        av.open(str(tmp_path / "a.mts"), "w", format="mpegts") as target,
    ):
        stream = target.add_stream_from_template(source.streams.video[0])
        for time in range(n_packets):
            packet = av.Packet(b"".join(fields[time * together : (time + 1) * together]))
            packet.stream, packet.time_base = stream, Fraction(together, 50)
            packet.pts = packet.dts = time
            target.mux(packet)
    with open_video(tmp_path / "a.mts") as video:
        assert (video.n_frames, video.fps) == (9, 25.0)
        assert numbers(video, list(range(9))) == list(enumerate([5, 42, 79] * 3))
        assert numbers(video, [1]) == [(1, 42)]


def test_files_that_are_not_videos_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    for name, message in (("none.mp4", "is missing"), ("text.mp4", "cannot be opened")):
        with pytest.raises(PolyplinkError, match=message), open_video(tmp_path / name):
            pass


def test_an_unknown_codec_is_refused(tmp_path: Path) -> None:
    path = write_video(tmp_path / "x.mp4", 3)
    path.write_bytes(path.read_bytes().replace(b"avc1", b"zzz1"))
    with (
        pytest.raises(PolyplinkError, match=r"x\.mp4 is of an unknown codec; convert it"),
        open_video(path),
    ):
        pass


def test_a_title_that_is_not_text_is_ignored(tmp_path: Path) -> None:
    path = write_video(tmp_path / "x.mp4", 3)
    path.write_bytes(path.read_bytes().replace(b"VideoHandler", b"\x86ideoHandler"))
    with open_video(path) as video:
        assert video.n_frames == 3
