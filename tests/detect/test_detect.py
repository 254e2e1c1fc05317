"""Detection in recordings: frames decoded once, runs continued, crops equal to those of prepare."""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import simplejpeg

from polyplink.core.errors import PolyplinkError
from polyplink.data.files import video
from polyplink.data.files.folders import natural_order
from polyplink.data.origin import read_origin
from polyplink.data.tables import DataSet, read_data
from polyplink.detect import first_pass
from polyplink.detect.first_pass import LeftOut, detect, remove_pieces, write_detections
from polyplink.detect.folder import detect_folder
from polyplink.detect.recordings import find_recordings
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import PrepareSettings
from tests.data.videos import corrupt_packet, write_video

SETTINGS = PrepareSettings(stride=2, crop_factor=2.0, size=16, min_seconds=0.2)
N, WIDTH, HEIGHT = 30, 64, 48


def write_frames(folder: Path, cut: int = N) -> None:
    """Write N frames of a colour gradient; from frame `cut` on, their colours are inverted."""
    folder.mkdir()
    for frame in range(N):
        y, x = np.mgrid[:HEIGHT, :WIDTH]
        pixels = np.stack([3 * x + frame, 4 * y, x + y + frame], 2).astype(np.uint8)
        pixels = pixels if frame < cut else 255 - pixels
        (folder / f"f{frame}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels))


class MovingBox:
    """A detector that returns one box, moving with each call, and none in every seventh frame."""

    def __init__(self, start: int = 0, stop_after: int = 1000) -> None:
        self.calls, self.start, self.stop_after = 0, start, stop_after

    def __call__(self, image: np.ndarray) -> np.ndarray:
        assert image.shape == (HEIGHT, WIDTH, 3)
        if self.calls == self.stop_after:
            raise KeyboardInterrupt
        frame = self.start + self.calls
        self.calls += 1
        return np.array([[5.0 + frame, 8.0, 12.0, 10.0, 0.9]])[frame % 7 == 0 :]


def detect_into(*arguments: Any, **options: Any) -> tuple[DataSet, Mapping[str, LeftOut]]:
    """Detect with the arguments of `detect`, and write the data folder, the third of them."""
    detected = detect(*arguments, **options)
    write_detections(arguments[2], detected.data, detected.scenes)
    remove_pieces(arguments[2])
    return detected.data, detected.left_out


def test_crops_stored_during_detection_equal_those_that_prepare_cuts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyplink.tracklets.detection_crops.COPIED_BYTES", 1)  # copied one by one
    write_frames(tmp_path / "p1_frames")
    recordings = find_recordings(tmp_path / "p1_frames")
    assert [(recording.name, recording.n_frames, recording.width) for recording in recordings] == [
        ("p1", N, WIDTH)
    ]
    data, _ = detect_into(recordings, MovingBox(), tmp_path / "data", SETTINGS)
    assert data.detections.height == N - 5
    assert data.detections["image"][9] == "f11.jpg"  # in the order of their numbers
    prepared = prepare(tmp_path / "data", SETTINGS)
    assert prepared.tracklets.select("first_frame", "last_frame", "n").rows() == [(1, 29, 25)]
    crops = np.array(prepared.crops("p1"))
    finer = prepare(tmp_path / "data", replace(SETTINGS, stride=1))  # most crops are not stored
    np.testing.assert_array_equal(finer.crops("p1")[:: SETTINGS.stride], crops)
    shutil.copytree(tmp_path / "data" / "kept", tmp_path / "kept")
    # Without stored crops, or if they are damaged (with a warning), prepare cuts them anew.
    for name, size in (("", 0), ("p1.npy", 90), ("p1.npy", 999), ("p1.parquet", 99)):
        caplog.clear()
        shutil.rmtree(prepared.folder / "crops")
        shutil.rmtree(tmp_path / "data" / "kept")
        shutil.copytree(tmp_path / "kept", tmp_path / "data" / "kept")
        for path in (tmp_path / "data" / "kept").glob(name or "*"):
            path.write_bytes(path.read_bytes()[:size]) if name else path.unlink()
        np.testing.assert_array_equal(prepare(tmp_path / "data", SETTINGS).crops("p1"), crops)
        assert ("p1.npy is damaged" in caplog.text) == bool(name)
        assert not [*(tmp_path / "data" / "kept").iterdir()]


def test_stored_crops_of_boxes_with_one_area_need_no_recording(tmp_path: Path) -> None:
    frames = tmp_path / "p1_frames"
    write_frames(frames)
    boxes = np.array([[2.0, 2, 60, 44, 0.9], [2.4, 2, 60, 44, 0.8]])  # one crop: the whole frame
    detect_into(find_recordings(frames), lambda image: boxes, tmp_path / "data", SETTINGS)
    shutil.rmtree(frames)  # as after a count of a camera, which has none
    prepared = prepare(tmp_path / "data", SETTINGS)
    first, second = (prepared.crops("p1")[row] for row in prepared.tracklets["crop_first"])
    assert prepared.tracklets["n_crops"].to_list() == [len(prepared.crops("p1")) // 2] * 2
    np.testing.assert_array_equal(first, second)


def test_every_frame_of_a_video_is_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings = find_recordings(write_video(tmp_path / "p1.mp4", N))  # decodes the first one
    decoded: list[int | None] = []
    decode = video._decode

    def record_frames(packets: Iterator[Any]) -> Iterator[Any]:
        for packet, frames in decode(packets):
            decoded.extend(frame.pts for frame in frames or ())
            yield packet, frames

    monkeypatch.setattr(video, "_decode", record_frames)
    # The film's frames differ so much from one another that they are many scenes.
    settings = replace(SETTINGS, min_seconds=0.0)
    detect_into(recordings, MovingBox(), tmp_path / "data", settings)
    assert len(prepare(tmp_path / "data", settings).crops("p1")) >= 13
    assert len(decoded) == len(set(decoded)) == N


def test_an_interrupted_run_continues_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("polyplink.detect.first_pass.PIECE", 8)
    write_frames(tmp_path / "p1", cut=18)
    recordings = find_recordings(tmp_path / "p1")
    uninterrupted, _ = detect_into(recordings, MovingBox(), tmp_path / "whole", SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        detect_into(recordings, MovingBox(stop_after=20), tmp_path / "data", SETTINGS)
    first_two_pieces = tmp_path / "two"
    shutil.copytree(tmp_path / "data", first_two_pieces)
    rest = MovingBox(start=16)
    data, _ = detect_into(recordings, rest, tmp_path / "data", SETTINGS)
    assert rest.calls == N - 16  # two pieces of eight were done
    assert data.detections.equals(uninterrupted.detections)
    # A damaged piece and all later ones are computed again, with a warning that names the piece.
    for k, name in enumerate(("boxes.parquet", "kept.parquet", "crops.npy", "scenes.npy")):
        shutil.rmtree(tmp_path / "data")
        shutil.copytree(first_two_pieces, tmp_path / "data")
        (piece,) = (tmp_path / "data").glob(f"pieces/*/{8 * (k % 2):09d}")
        (piece / name).write_bytes((piece / name).read_bytes()[: -k or None][k == 0 :])
        rest = MovingBox(start=8 * (k % 2))
        assert detect_into(recordings, rest, tmp_path / "data", SETTINGS)[0].detections.equals(
            uninterrupted.detections
        )
        assert rest.calls == N - rest.start
        warning = f"warning: {piece} is damaged or of other tracklets; it is made again"
        assert caplog.messages[k:] == [warning]
    for name in ("kept/p1.parquet", "scenes.parquet"):
        assert pl.read_parquet(tmp_path / "whole" / name).equals(
            pl.read_parquet(tmp_path / "data" / name)
        )
    assert pl.read_parquet(tmp_path / "data" / "scenes.parquet").rows() == [("p1", 18, 1)]
    tracklets = prepare(tmp_path / "data", SETTINGS).tracklets  # with the stored crops
    assert tracklets.select("first_frame", "last_frame").rows() == [(1, 17), (18, 29)]


def test_pieces_of_a_recording_that_was_replaced_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyplink.detect.first_pass.PIECE", 8)
    write_frames(tmp_path / "p1")
    with pytest.raises(KeyboardInterrupt):
        detect_into(
            find_recordings(tmp_path / "p1"), MovingBox(stop_after=20), tmp_path / "o", SETTINGS
        )
    shutil.rmtree(tmp_path / "p1")
    write_frames(tmp_path / "p1", cut=0)  # another recording of as many frames
    anew = MovingBox()
    detect_into(find_recordings(tmp_path / "p1"), anew, tmp_path / "o", SETTINGS)
    assert anew.calls == N


def test_a_detection_killed_while_it_writes_changes_nothing_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    write_frames(tmp_path / "p1")
    source, out = tmp_path / "p1", tmp_path / "data"
    detect_folder(source, out, SETTINGS, detector="first", function=MovingBox())
    before = read_data(out).key, read_origin(out)
    with monkeypatch.context() as patched:
        patched.setattr("polyplink.core.runs.RunRecord.write", kill)
        with pytest.raises(KeyboardInterrupt):
            detect_folder(source, out, SETTINGS, detector="second", function=MovingBox(start=1))
    assert (read_data(out).key, read_origin(out)) == before
    again = MovingBox(start=1)
    data, _ = detect_folder(source, out, SETTINGS, detector="second", function=again)
    assert again.calls == 0  # the frames of the killed detection are not repeated
    origin = read_origin(out)
    assert origin is not None
    assert (origin.name, read_data(out).key) == ("second", data.key)
    assert data.key != before[0]
    assert not (out / "pieces").exists()


def test_recordings_of_a_folder_are_in_natural_order_and_without_hidden_files(
    tmp_path: Path,
) -> None:
    for name in ("p10.mp4", "p2.mp4"):
        write_video(tmp_path / name, 3)
    (tmp_path / ".p3.mp4").write_bytes(b"a hidden file of a file manager")
    assert [recording.name for recording in find_recordings(tmp_path)] == ["p2", "p10"]
    (tmp_path / "p2.mp4").rename(tmp_path / "p10.mkv")
    with pytest.raises(PolyplinkError, match="are both procedure 'p10'; rename one"):
        find_recordings(tmp_path)


def test_an_unreadable_video_among_others_can_be_moved_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "p1.mp4").write_bytes(bytes(2000))
    with pytest.raises(PolyplinkError, match=r"p1.mp4 cannot be opened .* cut short$"):
        find_recordings(tmp_path)  # without it, nothing would be counted
    write_video(tmp_path / "p2.mp4", 3)
    hint = rf"cut short; to continue without it, move it out of {tmp_path}$"
    with pytest.raises(PolyplinkError, match=hint):
        find_recordings(tmp_path)


def test_a_pipe_is_refused_with_the_address_that_reads_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.ts"
    os.mkfifo(pipe)
    with pytest.raises(PolyplinkError) as refused:
        find_recordings(pipe)
    assert f"file://{pipe}" in refused.value.hint


def test_images_of_several_sizes_are_not_one_recording(tmp_path: Path) -> None:
    write_frames(tmp_path / "p1")
    other = np.zeros((HEIGHT, WIDTH + 2, 3), np.uint8)
    (tmp_path / "p1" / "f7.jpg").write_bytes(simplejpeg.encode_jpeg(other))
    recordings = find_recordings(tmp_path / "p1")
    with pytest.raises(PolyplinkError, match=r"f7.jpg is 66 x 48, .* first image is 64 x 48; keep"):
        detect_into(recordings, lambda image: np.zeros((0, 5)), tmp_path / "d", SETTINGS)


def test_a_first_image_that_does_not_decode_is_counted_as_any_other(tmp_path: Path) -> None:
    write_frames(tmp_path / "p1")
    first, *others = sorted((tmp_path / "p1").iterdir(), key=lambda path: natural_order(path.name))
    first.write_bytes(first.read_bytes()[:200])
    (recording,) = find_recordings(tmp_path / "p1")
    assert (recording.n_frames, recording.width, recording.height) == (N, WIDTH, HEIGHT)
    _, left_out = detect_into([recording], MovingBox(), tmp_path / "d", SETTINGS)
    assert left_out["p1"].frames == 1
    for path in others:
        path.write_bytes(b"")
    with pytest.raises(PolyplinkError, match="p1: no image can be decoded; copy"):
        find_recordings(tmp_path / "p1")


def test_several_threads_return_the_same_boxes_as_one(tmp_path: Path) -> None:
    film = write_video(tmp_path / "film.mp4", 24)

    def detect_left_edge(image: np.ndarray) -> np.ndarray:  # later frames return sooner
        left = float(image[0, :, 0].mean())
        time.sleep((255 - left) / 20_000)
        return np.array([[left / 16, 8.0, 12.0, 10.0, 0.9]])

    tables = []
    for n in (1, 3):
        data, _ = detect_into(
            find_recordings(film), detect_left_edge, tmp_path / str(n), SETTINGS, workers=n
        )
        tables.append(data.detections)
    assert tables[0].equals(tables[1])
    assert tables[0]["frame"].to_list() == list(range(24))


def test_undecodable_frames_are_counted(tmp_path: Path) -> None:
    film = write_video(tmp_path / "film.mp4", 60)
    corrupt_packet(film, 50)
    data, left_out = detect_into(find_recordings(film), MovingBox(), tmp_path / "data", SETTINGS)
    assert data.procedures["n_frames"].to_list() == [60]
    assert 0 < left_out["film"].frames < 30


def test_boxes_outside_the_frame_are_counted_also_by_a_continued_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_pass, "PIECE", 10)
    write_frames(tmp_path / "p1_frames")
    edges = [[-5.0, -5, 9, 9, 0.9], [WIDTH, 2, 5, 5, 0.9], [-9, 2, 9, 5, 0.9], [2, 2, 0, 5, 0.9]]

    def detector(image: np.ndarray) -> np.ndarray:
        calls.append(image)
        if len(calls) == 25:
            raise KeyboardInterrupt
        return np.array(edges)

    calls: list[np.ndarray] = []
    recordings = find_recordings(tmp_path / "p1_frames")
    with pytest.raises(KeyboardInterrupt):
        detect_into(recordings, detector, tmp_path / "data", SETTINGS)
    data, left_out = detect_into(recordings, detector, tmp_path / "data", SETTINGS)
    assert len(calls) == 25 + 10
    assert data.detections.select("x", "y", "w", "h").unique().rows() == [(0, 0, 4, 4)]
    assert left_out["p1"] == LeftOut(frames=0, boxes=3 * N)
