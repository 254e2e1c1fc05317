"""A procedure counted while it runs, as a user types it."""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import polars as pl
import pytest
import simplejpeg
from typer.testing import Result

from polyplink.cli.command import app
from polyplink.cli.live import live
from polyplink.detect.first_pass import PIECE
from polyplink.serve.desk import Desk
from tests.cli.calls import assert_refused, invoke, polyplink
from tests.conftest import SampleRun
from tests.data.videos import write_video
from tests.kills import killer
from tests.samples import HEIGHT, WIDTH, colour_of, write_procedures

PLAIN = ("--no-page", "--speed", "0", "--device", "cpu")
SHORT = ("--bridge", "0.2", "--min-seconds", "0.3")
HEAD = {"fps": 25, "width": WIDTH, "height": HEIGHT, "procedure": "room 1"}
VIEW, GAP = 24, 16  # frames of a view, and without a box before it
END = 320  # frames of the recording that is counted and killed


def box(frame: int) -> list[float]:
    return [10.0 + frame % 5, 8.0, 16.0, 12.0, 0.9]


def crop(polyp: int) -> str:
    rng = np.random.default_rng(polyp)
    pixels = np.clip(rng.normal(0, 12, (32, 32, 3)) + colour_of(polyp), 0, 255).astype(np.uint8)
    return base64.b64encode(simplejpeg.encode_jpeg(pixels)).decode()


def lines(polyps: str = "aabba") -> list[str]:
    """Views of polyps, each box with its crop."""
    found = [json.dumps(HEAD)]
    for view, polyp in enumerate(polyps):
        for step in range(GAP, GAP + VIEW):
            frame = view * (GAP + VIEW) + step
            crops = [crop(8 + ord(polyp) - ord("a"))]
            found.append(json.dumps({"frame": frame, "boxes": [box(frame)], "crops": crops}))
    return found


def typed(given: list[str], *arguments: str | Path) -> Result:
    texts = ["live", "-", *map(str, arguments), *PLAIN, *SHORT]
    return invoke(app, *texts, typed="\n".join(given) + "\n")


def events(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def of_kind(kind: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in found if one["event"] == kind]


def test_boxes_from_stdin_become_events_and_a_counted_report(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    found = events(typed(lines(), "--weights", sample_run.run, "--out", out))
    assert [one["event"] for one in found][:: len(found) - 1] == ["started", "finished"]
    assert [json.loads(line) for line in (out / "live" / "events.jsonl").open()] == found
    closed = of_kind("closed", found)
    assert len(closed) == len(of_kind("opened", found)) == 5
    assert len(of_kind("count", found)) == 5 * (GAP + VIEW) // 25
    for one in closed:
        assert (out / one["thumbnail"]).is_file()
        earlier = one["seen_before"]
        assert (earlier is None) == (
            one["polyp"] not in {o["polyp"] for o in closed[: closed.index(one)]}
        )
        if earlier is not None:
            assert earlier["clock"] == f"0:{round(earlier['time']):02d}"
            assert (out / earlier["thumbnail"]).is_file()
    summary = json.loads((out / "count" / "count.json").read_text())
    (own,) = summary["procedures"]
    assert own["procedure_id"] == "room 1"
    assert found[-1]["final"]["polyps"] == own["polyps"]
    # Tracklets have the names that the report gives them, and vectors are not computed again.
    named = {t["tracklet_id"] for group in own["groups"] for t in group["tracklets"]}
    assert named == {one["tracklet"] for one in closed}
    assert not (out / "live" / "pieces").exists()
    assert pl.read_parquet(out / "data" / "detections.parquet").height == 5 * VIEW
    assert Desk(out).overview()["procedures"][0]["tracklets"] == 5


def test_a_recording_is_played_in_time_and_may_have_boxes_on_disk(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    images = sample_run.root / "frames" / "001-005"
    given = tmp_path / "boxes.jsonl"
    rows = [json.dumps({"frame": k, "boxes": [box(k)] if k % 32 >= 10 else []}) for k in range(96)]
    given.write_text("\n".join(["{}", *rows]))
    command = (
        "live",
        images,
        "--boxes",
        given,
        "--weights",
        sample_run.run,
        "--out",
        tmp_path / "out",
    )
    begun = time.monotonic()
    found = events(polyplink(*command, "--no-page", *SHORT, "--speed", "8"))
    assert time.monotonic() - begun > 95 / 25 / 8
    # Where the machine is busy, frames come too late.
    assert len(of_kind("closed", found)) == 3 or found[-1]["late"] > 0
    data = pl.read_parquet(tmp_path / "out" / "data" / "detections.parquet")
    assert data["image"].null_count() == 0


@pytest.mark.slow
def test_a_function_is_a_detector_and_a_slow_one_drops_frames(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    def slow(image: np.ndarray) -> np.ndarray:
        time.sleep(0.02)
        return np.array([box(0)])

    images = sample_run.root / "frames" / "001-005"
    result = live(
        str(images),
        weights=sample_run.run,
        out=tmp_path / "out",
        speed=20.0,
        page=False,
        function=slow,
    )
    assert result.json["late"] > 0
    assert any("too late" in line for line in result.value.summary["warnings"])
    assert len(result.value.summary["procedures"]) == 1


def test_time_that_goes_backwards_is_said_once_and_nothing_is_lost(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    given = lines("ab")
    mixed = [*given[:30], given[5], given[6], *given[30:]]
    found = events(typed(mixed, "--weights", sample_run.run, "--out", tmp_path / "out"))
    said = [one["kind"] for one in of_kind("warning", found)]
    assert said == ["cover.boxes", "live.backwards", "live.left_out"]
    assert [one["kind"] for one in found[-1]["messages"]][:3] == said
    assert found[-1]["backwards"] == 2
    assert found[-1]["final"]["tracklets"] == 2


@pytest.mark.slow
def test_a_source_that_breaks_off_ends_in_a_report(sample_run: SampleRun, tmp_path: Path) -> None:
    cuts = ("{", '{"frame": 1e400, "boxes": []}', '{"frame": 400, "boxes": [[1, 2]]}')
    for number, cut in enumerate(cuts):
        broken = [*lines("ab"), cut]
        found = events(typed(broken, "--weights", sample_run.run, "--out", tmp_path / str(number)))
        uncovered, said = of_kind("warning", found)
        assert uncovered["kind"] == "cover.boxes"
        assert "The source has ended: stdin, line 50" in said["message"]
        assert found[-1]["final"]["tracklets"] == 2


def test_a_stream_whose_clock_is_set_anew_counts_on_until_it_is_silent(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    film = write_video(tmp_path / "film.ts", 50).read_bytes()

    def serve(listening: socket.socket) -> None:
        with listening, listening.accept()[0] as viewer:
            viewer.sendall(film + b"\0" * 188 + film)
            viewer.recv(1)  # silent until the other side has gone

    listening = socket.create_server(("127.0.0.1", 0))
    Thread(target=serve, args=(listening,), daemon=True).start()
    source = f"tcp://me:secret@127.0.0.1:{listening.getsockname()[1]}"
    out, none = tmp_path / "out", np.zeros((0, 5))
    result = live(
        source, weights=sample_run.run, out=out, page=False, stall=3.0, function=lambda _: none
    )
    uncovered, clock, stall, *_ = (one for one in result.warnings if "too late" not in one)
    assert "not calibrated for boxes of the detector a function" in uncovered
    assert "jumped by -" in clock
    assert clock.startswith("the clock of tcp://127.0.0.1:")
    assert "no new frame for 3 s" in stall
    assert 95 <= result.json["frame"] <= 99  # of 100 frames, the last of which still wait
    assert "secret" not in (out / "run.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stall", "SIGINT", "SIGTERM"])
def test_a_stalled_or_stopped_source_ends_in_a_report(
    sample_run: SampleRun, tmp_path: Path, how: str
) -> None:
    out = tmp_path / "out"
    stall = "1.5" if how == "stall" else "60"
    command = [sys.executable, "-m", "polyplink", "live", "-", "--weights", str(sample_run.run)]
    command += ["--out", str(out), *PLAIN, *SHORT, "--stall", stall]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(("\n".join(lines("ab")) + "\n").encode())
        running.stdin.flush()
        for line in running.stdout:  # all lines have arrived
            if json.loads(line)["event"] == "count" and json.loads(line)["time"] >= 3:
                break
        time.sleep(0.5)
        if how != "stall":
            os.kill(running.pid, getattr(signal, how))
        rest = running.stdout.read()
        assert running.wait(60) == 0
    last = json.loads(rest.splitlines()[-1])
    assert (last["event"], last["final"]["tracklets"]) == ("finished", 2)
    assert ("--stall" in rest.decode()) == (how == "stall")
    assert (out / "count" / "report.html").is_file()


@pytest.mark.slow
def test_what_a_killed_count_has_written_is_reported(sample_run: SampleRun, tmp_path: Path) -> None:
    """Killed at file events while it runs and while it reports."""
    write_procedures(tmp_path, procedures=1, views=5)
    images, boxes, out = tmp_path / "frames" / "001-001", tmp_path / "boxes", tmp_path / "out"
    rows = [json.dumps({"frame": k, "boxes": [box(k)] if k % 32 >= 10 else []}) for k in range(END)]
    boxes.write_text("\n".join(["{}", *rows]))
    weights = ("--weights", sample_run.run, "--device", "cpu", *SHORT)
    command = ("live", images, "--boxes", boxes, *weights, "--speed", "0", "--no-page", "--out")
    step, told = 1 if os.environ.get("KILLS") == "1" else 7, dict.fromkeys((0, PIECE, END), 0)
    with killer() as kills:
        kills.run(*command, tmp_path / "whole", below=tmp_path / "whole")
        whole = pl.read_parquet(tmp_path / "whole" / "data" / "detections.parquet")
        for _ in kills.at_events(*command, out, below=out, events=count(1, step)):
            frames = END if (out / "run.json").is_file() else 0
            if [*out.glob("live/pieces/[0-9]*")]:
                assert_refused(polyplink(*command, out), f"{out} holds a count that was killed")
                events_before = (out / "live" / "events.jsonl").read_text()
                found = events(polyplink("live", out, *weights))
                frames = found[-1]["frame"] + 1
                assert (out / "live" / "events.jsonl").read_text().startswith(events_before)
                summary = json.loads((out / "count" / "count.json").read_text())
                assert "was killed" in summary["warnings"][1]
            if frames:
                data = pl.read_parquet(out / "data" / "detections.parquet")
                assert data.equals(whole.filter(pl.col("frame") < frames))
                assert (out / "count" / "report.html").is_file()
            told[frames] += 1
            shutil.rmtree(out, ignore_errors=True)
    print("kills, by the number of frames that were reported:", told)
    assert told[PIECE] > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["[]"], "stdin, line 1 is not a JSON object"),
        (["{}"], "fps is None"),
        (['{"fps": 25, "width": 1e9, "height": 3}'], "width is 1000000000.0"),
        (['{"fps": 0, "width": 9, "height": 3}'], "fps is 0"),
        (['{"fps": 25, "width": 9, "height": 3, "procedure": ""}'], "procedure is not a name"),
        ([json.dumps(HEAD)], "has no frame"),
        ([json.dumps(HEAD), '{"frame": -1}'], "frame is -1"),
        ([json.dumps(HEAD), '{"frame": 0, "boxes": [[0, 0, 9, 9, 2]]}'], "these are not boxes"),
        ([json.dumps(HEAD), '{"frame": 0, "boxes": [[0, 0, 9, NaN]]}'], "these are not boxes"),
        ([json.dumps(HEAD), '{"frame": 0, "boxes": [[0, 0, 9, 9]]}'], "not as many crops"),
        (
            [json.dumps(HEAD), '{"frame": 0, "boxes": [[0, 0, 9, 9]], "crops": ["bm8="]}'],
            "a crop cannot be decoded",
        ),
    ],
)
def test_wrong_lines_are_refused_in_one_line(
    sample_run: SampleRun, tmp_path: Path, given: list[str], message: str
) -> None:
    result = typed(given, "--weights", sample_run.run, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_what_cannot_be_counted_is_refused(sample_run: SampleRun, tmp_path: Path) -> None:
    images, weights = sample_run.root / "frames" / "001-005", ("--weights", sample_run.run, *PLAIN)
    boxes = tmp_path / "b.jsonl"
    boxes.write_text("{}")
    for arguments, message in (
        ((tmp_path / "none.mp4",), "no recording"),
        (("rtsp://127.0.0.1:9/x", "--detector", "x.onnx"), "cannot be opened"),
        ((images, "--recording", images), "--recording is given"),
        ((images, "--boxes", tmp_path / "none"), "no file"),
        ((images, "--boxes", boxes, "--detector", "x.onnx"), "both a detector and boxes are given"),
        ((sample_run.root / "frames", "--detector", "x.onnx"), "holds 5 recordings"),
    ):
        result = polyplink("live", *arguments, *weights, "--out", tmp_path / "out")
        assert_refused(result, message)
