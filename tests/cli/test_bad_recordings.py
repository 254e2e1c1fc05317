"""`run` on files that are not recordings, and on recordings without a polyp."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import av
import numpy as np
import pytest
from PIL import Image

from polyplink import detect_polyps, live, run
from polyplink.cli.command import app
from polyplink.core.errors import PolyplinkError
from tests.cli.calls import invoke, succeed
from tests.conftest import SampleRun
from tests.data.videos import remux, write_beside, write_sizes, write_video


def write_audio(path: Path) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        assert isinstance(stream, av.AudioStream)
        silence = np.zeros((1, 1024), np.float32)
        for k in range(4):
            frame = av.AudioFrame.from_ndarray(silence, format="fltp", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = 8000, 1024 * k, Fraction(1, 8000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def find_nothing(image: np.ndarray) -> np.ndarray:
    return np.empty((0, 5))


def test_files_that_are_not_recordings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.mp4").touch()
    for name in ("text.mp4", "notes.txt"):
        (tmp_path / name).write_text("not a video\n" * 200)
    Image.new("RGB", (96, 80)).save(tmp_path / "still.png")
    Image.effect_noise((96, 80), 50).save(tmp_path / "0.jpg")
    with ZipFile(tmp_path / "images.zip", "w") as archive:
        for number in range(40):
            archive.write(tmp_path / "0.jpg", f"{number}.jpg")
    write_audio(tmp_path / "sound.mp4")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "subfolder" / "monday").mkdir(parents=True)
    write_video(tmp_path / "subfolder" / "monday" / "p1.mp4", 3)
    for name, message in (
        ("empty.mp4", "empty.mp4 is empty; copy it again"),
        ("text.mp4", "cannot be opened"),
        ("notes.txt", "notes.txt is not a video; give a video (.mp4, "),
        ("still.png", "still.png is an image; give the folder of the recording's images"),
        ("images.zip", "images.zip is not a video; unpack an archive, and give the folder of its"),
        ("sound.mp4", "has no video in it"),
        ("nothing", "holds no video and no image"),
        ("subfolder", "no image itself; give a video or a folder of them, such as"),
    ):
        with pytest.raises(PolyplinkError, match=re.escape(message)):
            run(tmp_path / name, out=tmp_path / "out", function=find_nothing)


def test_an_empty_count_states_the_frames_examined_and_those_missing(tmp_path: Path) -> None:
    """Of a file that was cut short."""
    path = write_video(tmp_path / "a.mp4", 60, index_first=True)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 7 // 10])
    result = succeed("run", path, "-o", tmp_path / "out", "--device", "cpu", "--json")
    report = (tmp_path / "out" / "count" / "report.html").read_text()
    for text in (result.stderr.replace("\n", " "), result.stdout, report):
        lost = re.search(r"(\d+) of 60 frames of a cannot be decoded", text)
        assert lost is not None
        assert 43 <= int(lost[1]) < 60
        assert "Counted 0 in 1 procedure" in text
        assert "Research use only" in text
        assert f"(frames examined: {60 - int(lost[1])})" in text


def test_a_frame_rate_that_varies_is_a_warning(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", 60, varying=(20,) * 30 + (120,) * 30)
    boxes = tmp_path / "a.csv"
    boxes.write_text("procedure_id,frame,x,y,w,h\na,0,8,8,9,9\n")
    options: dict[str, Any] = {"device": "cpu", "language": "de"}
    result = run(path, out=tmp_path / "out", function=find_nothing, **options)
    imported = run(boxes, boxes="csv", out=tmp_path / "boxes", **options)
    stated = detect_polyps(path, tmp_path / "stated", fps=14, function=find_nothing)
    texts = [" ".join(counted.warnings) for counted in (result, imported, stated)]
    assert "frame rate of a varies: times are computed at 14.4" in texts[0]
    assert "differ from a player's by up to 1.5 s" in texts[0]
    assert "1 x video with a varying frame rate, timed at 14.4" in texts[1]
    assert "varies" not in texts[2]
    assert "computed at 14 frames a second, as --fps states, although the recording" in texts[2]
    assert "While reading the boxes: 1 x video with" in texts[1]
    report = (tmp_path / "boxes" / "count" / "report.html").read_text()
    assert "Beim Einlesen der Rahmen: 1 × Video mit schwankender Bildrate" in report
    report = (tmp_path / "out" / "count" / "report.html").read_text()
    assert "weichen um bis zu 1,5 s von denen eines Abspielprogramms ab" in report


def test_turned_frames_other_videos_and_a_change_of_size_are_warnings(tmp_path: Path) -> None:
    source = tmp_path / "july"
    source.mkdir()
    plain = write_video(tmp_path / "plain.mp4", 60)
    remux(plain, source / "a.mp4", rotation=-90)
    write_beside(source / "b.mp4", plain, plain)
    write_sizes(source / "c.mkv", (64, 48), (96, 64))
    write_video(source / "d.mp4", 12)
    result = run(source, out=tmp_path / "out", function=find_nothing, device="cpu")
    text = " ".join(result.warnings)
    assert "A tag of a says to turn its frames by 90 degrees, and they are used as" in text
    assert "The file of b holds 2 videos: the one of 64 x 48 pixels is used" in text
    change = text.index("The size of c changes at frame 30 from 64 x 48 to 96 x 64 pixels: frames")
    assert text.index("30 of 60 frames of c cannot be decoded and were skipped") > change
    assert not re.search(r"\bof d\b|The size of [abd]", text)
    boxes = "".join(f"{name},0,8,8,9,9\n" for name in "abcd")
    (source / "boxes.csv").write_text(f"procedure_id,frame,x,y,w,h\n{boxes}")
    imported = succeed("import", "csv", source, tmp_path / "data").stderr
    turned = "1 x video with a tag to turn its frames by 90 degrees, read as stored ("
    assert f"{turned}{source / 'a.mp4'})" in imported
    beside = "1 x file with several videos, of which that of 64 x 48 pixels is read ("
    assert f"{beside}{source / 'b.mp4'})" in imported


def test_a_change_of_size_is_named_where_frames_are_skipped_for_it(
    tmp_path: Path, sample_run: SampleRun
) -> None:
    source = write_sizes(tmp_path / "c.mkv", (64, 48), (96, 64))
    skipped = "30 of 60 frames of c cannot be decoded and were skipped."
    change = "The size of c changes at frame 30 from 64 x 48 to 96 x 64 pixels: frames of another "
    detection = detect_polyps(source, tmp_path / "boxes", function=find_nothing)
    options: dict[str, Any] = {"speed": 0, "page": False, "device": "cpu"}
    options |= {"weights": sample_run.weights, "function": find_nothing}
    counted = live(str(source), out=tmp_path / "live", **options)
    for warnings in (detection.warnings, counted.warnings):
        first, second = (i for i, line in enumerate(warnings) if line.startswith((change, skipped)))
        assert warnings[first].startswith(change)
        assert warnings[second] == skipped
    rows = "".join(f"c,{frame},8,8,9,9\n" for frame in range(20, 40))
    (tmp_path / "boxes.csv").write_text(f"procedure_id,frame,x,y,w,h\n{rows}")
    succeed("import", "csv", tmp_path / "boxes.csv", tmp_path / "data")
    reason = "96 x 64 pixels, and 64 x 48 at the beginning"
    prepared = succeed("prepare", tmp_path / "data").stderr
    assert f"2 frames cannot be decoded (first: c.mkv#32, {reason}); tracklets" in prepared
    checked = invoke(app, "doctor", tmp_path / "data", "--deep").stdout
    assert f"unreadable image (10): procedure c, frame 30: c.mkv#30 does not decode: {reason}" in (
        checked
    )


def test_videos_in_subfolders_are_named_as_not_counted(tmp_path: Path) -> None:
    source = tmp_path / "july"
    for name in ("a.mp4", "late/b.mp4", "late/c.avi"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        write_video(source / name, 12)
    result = run(source, out=tmp_path / "out", function=find_nothing, device="cpu")
    assert [procedure.procedure_id for procedure in result.value.count.procedures] == ["a"]
    report = (tmp_path / "out" / "count" / "report.html").read_text()
    for text in (" ".join(result.warnings), str(result.value.summary["warnings"]), report):
        assert f"2 videos in subfolders (first: {source / 'late' / 'b.mp4'})" in text
    alone = detect_polyps(source / "a.mp4", tmp_path / "alone", function=find_nothing)
    assert "subfolder" not in " ".join(alone.warnings)
