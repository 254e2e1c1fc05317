"""The verb live: counting during a procedure."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Thread
from typing import IO, Any

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from typer.testing import Result

from polyplink.associate.alarms import FEATURES, AlarmModel, with_share
from polyplink.associate.identities import Calibration
from polyplink.cli.command import app
from polyplink.cli.live import live
from polyplink.core import results
from polyplink.core.artefacts import to_plain
from polyplink.core.errors import PolyplinkError
from polyplink.counting.interval import Cover
from polyplink.data.origin import BoxesOrigin, BoxSource, read_warnings
from polyplink.detect.first_pass import PIECE
from polyplink.detect.recordings import find_recordings
from polyplink.encoders.encode import read_embeddings
from polyplink.encoders.load import load_encoder, load_named
from polyplink.encoders.weights import save_weights
from polyplink.pipeline.count_data import Counted
from polyplink.serve.desk import Desk
from polyplink.streaming import live_count
from polyplink.streaming.live_count import (
    PIECES,
    Event,
    LiveCount,
    killed_source,
    other_settings,
)
from polyplink.streaming.setup import open_linking
from polyplink.streaming.sources import LiveSource, TimedFrame, frames_from, play_recording
from tests.cli.calls import assert_refused, invoke, polyplink
from tests.cli.live_lines import (
    GAP,
    HEAD,
    VIEW,
    box,
    crop,
    gaps,
    lines,
    write_lines,
)
from tests.conftest import SampleRun
from tests.data.videos import write_video
from tests.kills import killer
from tests.samples import HEIGHT, WIDTH, copy_frames, write_procedures

NO_PAGE = ("--no-page", "--speed", "0", "--device", "cpu")
SHORT_TRACKS = ("--bridge", "0.2", "--min-seconds", "0.3")
N_FRAMES = 320  # of the recording of the killed count


def run_live(stdin_lines: list[str], *arguments: str | Path) -> Result:
    texts = ["live", "-", *map(str, arguments), *NO_PAGE, *SHORT_TRACKS]
    return invoke(app, *texts, stdin="".join(f"{line}\n" for line in stdin_lines))


def count_live(
    sample_run: SampleRun, source: LiveSource | str, out: Path, **options: Any
) -> results.Result[Counted]:
    """Count on a CPU, without a page."""
    settings: dict[str, Any] = {"page": False, "device": "cpu", **options}
    return live(source, weights=sample_run.weights, out=out, **settings)


def events(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def events_of_kind(kind: str, all_events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in all_events if event["event"] == kind]


SHORT = [  # too short for a tracklet
    json.dumps({"frame": 5 * (GAP + VIEW) + 20 + k, "boxes": [box(k)], "crops": [crop(8)]})
    for k in range(3)
]


@pytest.fixture(scope="module")
def streamed(sample_run: SampleRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a count of five views from stdin, with what it printed in `stdout`."""
    out = tmp_path_factory.mktemp("streamed") / "out"
    result = run_live([*lines(), *SHORT], "--weights", sample_run.weights, "--out", out)
    assert result.exit_code == 0, result.output
    out.with_name("stdout").write_text(result.stdout)
    return out


def test_boxes_from_stdin_give_events_and_a_report(streamed: Path) -> None:
    out = streamed
    all_events = [json.loads(line) for line in out.with_name("stdout").open()]
    assert [event["event"] for event in all_events][:: len(all_events) - 1] == [
        "started",
        "finished",
    ]
    assert [json.loads(line) for line in (out / "live" / "events.jsonl").open()] == all_events
    closed = events_of_kind("closed", all_events)
    assert len(closed) == len(events_of_kind("opened", all_events)) == 5
    assert len(events_of_kind("count", all_events)) == 5 * (GAP + VIEW) // 25 + 1
    for event in closed:
        assert (out / event["thumbnail"]).is_file()
        earlier = event["seen_before"]
        before = {other["polyp"] for other in closed[: closed.index(event)]}
        assert event["new"] == (event["polyp"] not in before)
        assert (earlier is None) == (event["new"] or not event["certain"])
        if earlier is not None:
            assert earlier["clock"] == f"0:{round(earlier['time']):02d}"
            assert (out / earlier["thumbnail"]).is_file()
    summary = json.loads((out / "count" / "count.json").read_text())
    (procedure,) = summary["procedures"]
    assert procedure["procedure_id"] == "room 1"
    assert all_events[-1]["final"]["polyps"] == procedure["polyps"]
    # Tracklets have the same names as in the report, and vectors are not recomputed.
    views = pl.read_csv(out / "count" / "views.csv").select("tracklet", "start_s", "end_s")
    assert sorted(views.rows()) == sorted(
        (event["tracklet"], event["start"], event["end"]) for event in closed
    )
    assert not (out / "live" / "pieces").exists()
    assert pl.read_parquet(out / "data" / "detections.parquet").height == 5 * VIEW + len(SHORT)
    assert Desk(out).overview()["procedures"][0]["tracklets"] == 5


def test_vectors_of_some_of_the_crops_are_not_kept_for_the_report(
    streamed: Path, sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_count, "MOST_CROPS", 2)
    events(run_live(lines("ab"), "--weights", sample_run.weights, "--out", tmp_path / "out"))
    all_crops, few = (
        read_embeddings(out / "count" / "vectors.parquet") for out in (streamed, tmp_path / "out")
    )
    vector_of = dict(zip(all_crops.tracklet_ids, all_crops.vectors, strict=True))
    a, b = (vector_of[name] for name in all_crops.tracklet_ids[:3:2])  # of the views "aabba"
    np.testing.assert_allclose(few.vectors, [a, b], atol=1e-5)


def test_a_live_count_of_uncovered_boxes_has_no_interval(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    encoder = load_named(sample_run.weights, "cpu")
    assert encoder.record is not None
    assert encoder.record.operating is not None
    operating = dict(encoder.record.operating) | {"spread": 2.0}
    encoder = replace(encoder, weights_record=replace(encoder.record, operating=operating))
    origin = BoxesOrigin("another", "another detector")
    _, point, cover = open_linking(
        lambda origin: encoder, origin, 25.0, tmp_path, purpose="count", keep_alarms=False
    )
    assert (cover.gap, point.spread) == ("boxes", None)


def test_a_view_is_judged_by_the_views_before_it_in_the_recording(
    sample_run: SampleRun, streamed: Path, tmp_path: Path
) -> None:
    loaded = load_encoder(sample_run.weights, torch.device("cpu"))
    width = read_embeddings(streamed / "count" / "vectors.parquet").vectors.shape[1]
    # Alone, each view is likely a polyp; five of them are many for one recording.
    alarms = AlarmModel(
        np.log(0.7 / 0.3), (0.0,) * len(FEATURES), (0.0,) * width, 0.67, "", share=0.9
    )
    operating = {**(loaded.record.operating or {}), "alarms": to_plain(alarms)}
    weights = tmp_path / "weights.safetensors"
    save_weights(weights, loaded.encoder, replace(loaded.record, operating=operating))
    all_events = events(run_live(lines(), "--weights", weights, "--out", tmp_path / "out"))
    judged = [event for event in all_events if event["event"] in ("closed", "alarm")]
    expected = [with_share(np.full(n, 0.7), 0.9)[-1] for n in range(1, 6)]
    np.testing.assert_allclose([event["shows_polyp"] for event in judged], expected, atol=1e-4)
    assert [event["event"] for event in judged] == [
        "closed" if chance >= 0.67 else "alarm" for chance in expected
    ]
    assert {"closed", "alarm"} == {event["event"] for event in judged}
    # The count at the end judges all by all.
    views = pl.read_csv(tmp_path / "out" / "count" / "views.csv")
    np.testing.assert_allclose(views["shows_polyp"], [expected[-1]] * 5, atol=1e-4)


def test_weights_of_simulated_pictures_are_warned_about_before_the_first_frame(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    loaded = load_encoder(sample_run.weights, torch.device("cpu"))
    seen = replace(loaded.record.seen, trained=[("simulated smoke 0", "001-001", "001-001")])
    weights = tmp_path / "weights.safetensors"
    save_weights(weights, loaded.encoder, replace(loaded.record, seen=seen))
    result = run_live(lines(), "--weights", weights, "--out", tmp_path / "out")
    before = [event["kind"] for event in events(result)[:4] if event["event"] == "warning"]
    assert "encoder_simulated" in before
    assert result.stderr.count("trained on simulated pictures") == 1


def test_a_recording_with_boxes_in_a_file_is_played_at_its_speed(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    images = sample_run.frames
    boxes = write_lines(tmp_path / "boxes.jsonl", 96, gaps(96))
    options = ("--boxes", boxes, "--weights", sample_run.weights, "--out", tmp_path / "out")
    start = time.monotonic()
    command = ("live", images, *options, "--no-page", *SHORT_TRACKS, "--speed", "16")
    all_events = events(polyplink(*command))
    assert time.monotonic() - start > 95 / 25 / 16
    # On a busy machine frames may be late.
    assert len(events_of_kind("closed", all_events)) == 3 or all_events[-1]["late"] > 0
    data = pl.read_parquet(tmp_path / "out" / "data" / "detections.parquet")
    assert data["image"].null_count() == 0


@pytest.mark.parametrize("head", ["{}", '{"fps": 0}'])
def test_the_file_of_boxes_is_closed(
    sample_run: SampleRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    boxes = write_lines(tmp_path / "boxes.jsonl", 40, head=head)
    opened, open_path = list[IO[Any]](), Path.open

    def record(path: Path, *arguments: Any, **options: Any) -> IO[Any]:
        file: IO[Any] = open_path(path, *arguments, **options)
        if path == boxes:
            opened.append(file)
        return file

    monkeypatch.setattr(Path, "open", record)
    with pytest.raises(PolyplinkError, match="fps is 0") if "0" in head else nullcontext():
        count_live(sample_run, str(sample_run.frames), tmp_path / "out", boxes=boxes, speed=0)
    assert [file.closed for file in opened] == [True]


def test_the_rate_of_a_recording_that_the_user_states_is_used_and_warned_about(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    video = write_video(tmp_path / "film.mp4", 30)  # at 25 frames a second
    boxes = write_lines(tmp_path / "boxes.jsonl", 30, head='{"fps": 25}')
    result = count_live(sample_run, str(video), tmp_path / "out", boxes=boxes, fps=15, speed=0)
    assert result.value.data.procedures["fps"].to_list() == [15]
    expected = "Times of film are computed at 15 frames a second, as --fps states"
    assert sum(expected in warning for warning in result.value.count.warnings) == 1
    (tmp_path / "out" / PIECES / "000000000").mkdir(parents=True)
    source, _ = killed_source(tmp_path / "out")  # as if the count had been killed
    assert [recording.replaced_fps for recording in source.recordings] == [25]


@pytest.mark.parametrize("brings_boxes", [True, False])
def test_frames_that_do_not_decode_are_warned_about(
    sample_run: SampleRun, tmp_path: Path, brings_boxes: bool
) -> None:
    images = copy_frames(sample_run.frames, tmp_path / "film", range(30))
    for number in (20, 29):
        (images / f"{number}.jpg").write_bytes(b"no image")
    boxes: dict[str, Any] = {"function": lambda image: np.array([box(0)])}
    if brings_boxes:
        boxes = {"boxes": write_lines(tmp_path / "boxes.jsonl", 30)}
    result = count_live(sample_run, str(images), tmp_path / "out", speed=0, **boxes)
    expected = "2 of 30 frames of film cannot be decoded and were skipped."
    assert result.warnings.count(expected) == 1
    assert expected in result.value.count.warnings
    counted = result.value.data
    assert (counted.procedures["n_frames"].to_list(), counted.detections.height) == ([30], 28)


def film(sample_run: SampleRun) -> list[np.ndarray]:
    """The first 30 frames of a recording as arrays."""
    return [np.asarray(Image.open(sample_run.frames / f"{number}.jpg")) for number in range(30)]


@pytest.mark.parametrize("with_boxes", [True, False])
def test_frames_of_a_program_are_counted_with_a_callback(
    sample_run: SampleRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], with_boxes: bool
) -> None:
    pixels, detected = film(sample_run), np.array([box(0)])
    moments = [1e6 + k / 25 for k in range(20)] + [1e6 + 1 + k / 25 for k in range(10)]
    clock = enumerate(moments)
    timed = [(at, pixels[k], detected) if with_boxes else (at, pixels[k]) for k, at in clock]
    source = frames_from(
        timed, name="room 1", fps=25, width=WIDTH, height=HEIGHT, boxes=with_boxes, wait=True
    )
    heard: list[Event] = []
    function = None if with_boxes else lambda image: detected
    options: dict[str, Any] = {"function": function, "on_event": heard.append}
    result = count_live(sample_run, source, tmp_path, detector="ours 1.2", **options)
    assert capsys.readouterr().out == ""
    assert heard == [json.loads(line) for line in (tmp_path / "live/events.jsonl").open()]
    kinds = [event["event"] for event in heard]
    assert (kinds[0], kinds.count("closed"), kinds[-1]) == ("started", 1, "finished")
    boxes_of = heard[-1]["cover"]["source"]
    assert (boxes_of["boxes"], boxes_of["detector"]) == ("ours 1.2", "ours 1.2")
    counted = result.value.data
    assert counted.procedures["procedure_id"].to_list() == ["room 1"]
    assert counted.detections["frame"].to_list() == [*range(20), *range(25, 35)]
    (crops,) = (tmp_path / "data" / "prepared").rglob("*.npy")
    assert np.load(crops).any()


@pytest.mark.parametrize(
    ("broken", "fault", "message"),
    [
        ("frames", TimeoutError("the card is gone"), "the card is gone"),
        ("on_event", BrokenPipeError("the card is gone"), "the card is gone"),
        ("function", ValueError("no display"), "ValueError: no display"),
    ],
)
def test_an_error_of_a_program_is_raised_when_the_report_is_written(
    sample_run: SampleRun, tmp_path: Path, broken: str, fault: Exception, message: str
) -> None:
    def frames() -> Iterator[TimedFrame]:
        yield from ((k / 25, image) for k, image in enumerate(film(sample_run)))
        if broken == "frames":
            raise fault

    def detect(image: np.ndarray) -> np.ndarray:
        calls.append(1)
        if broken == "function" and len(calls) > 20:
            raise fault
        return np.array([box(0)])

    def hear(event: Event) -> None:
        heard.append(event["event"])
        if broken == "on_event" and event["event"] == "opened":
            raise fault

    calls: list[int] = []
    heard: list[str] = []
    source = frames_from(frames(), name="a", fps=25, width=WIDTH, height=HEIGHT, wait=True)
    with pytest.raises(type(fault)) as caught:
        count_live(sample_run, source, tmp_path, function=detect, on_event=hear)
    assert caught.value is fault
    assert heard[-1] == ("opened" if broken == "on_event" else "finished")
    summary = json.loads((tmp_path / "count" / "count.json").read_text())
    assert summary["procedures"][0]["tracklets"] == 1
    assert summary["warnings"][0] == f"The count broke off: {message}"


def test_time_that_goes_backwards_gives_one_warning_and_loses_nothing(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    rows = lines("ab")
    disordered = [*rows[:30], rows[5], rows[6], *rows[30:]]
    arguments = ("--weights", sample_run.weights, "--out", tmp_path / "out", "--language", "it")
    all_events = events(run_live(disordered, *arguments))
    kinds = [event["kind"] for event in events_of_kind("warning", all_events)]
    assert kinds == ["cover.boxes", "live.backwards", "live.left_out"]
    assert [event["kind"] for event in all_events[-1]["messages"]][:3] == kinds
    assert all_events[-1]["backwards"] == 2
    assert all_events[-1]["final"]["tracklets"] == 2
    page = (tmp_path / "out" / "count" / "report.html").read_text()
    assert '<html lang="it">' in page
    assert "<li>2 fotogrammi con tempo all’indietro sono stati esclusi.</li>" in page


@pytest.mark.slow
def test_an_interrupted_source_ends_with_a_report(sample_run: SampleRun, tmp_path: Path) -> None:
    last_lines = ("{", '{"frame": 1e400, "boxes": []}', '{"frame": 400, "boxes": [[1, 2]]}')
    for number, last_line in enumerate(last_lines):
        broken = [*lines("ab"), last_line]
        all_events = events(
            run_live(broken, "--weights", sample_run.weights, "--out", tmp_path / str(number))
        )
        uncovered, ended = events_of_kind("warning", all_events)
        assert uncovered["kind"] == "cover.boxes"
        assert "The recording broke off: stdin, line 50" in ended["message"]
        assert all_events[-1]["warnings"][0] == ended["message"]
        assert all_events[-1]["final"]["tracklets"] == 2


@pytest.mark.slow
def test_a_stream_with_a_reset_clock_is_counted_until_it_stalls(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    video = write_video(tmp_path / "film.ts", 50).read_bytes()

    def serve(listening: socket.socket) -> None:
        with listening, listening.accept()[0] as viewer:
            viewer.sendall(video + b"\0" * 188 + video)
            viewer.recv(1)  # send nothing until the client disconnects

    listening = socket.create_server(("127.0.0.1", 0))
    Thread(target=serve, args=(listening,), daemon=True).start()
    source = f"tcp://me:secret@127.0.0.1:{listening.getsockname()[1]}"
    out, no_boxes = tmp_path / "out", np.zeros((0, 5))
    result = count_live(sample_run, source, out, stall=3.0, function=lambda _: no_boxes)
    stall, uncovered, clock, *_ = (
        warning for warning in result.warnings if "in time" not in warning
    )
    assert "not calibrated for boxes of the detector tests.cli.test_live.test_a_stream" in uncovered
    assert "jumped by -" in clock
    assert clock.startswith("The clock of tcp://127.0.0.1:")
    assert "no new frame for 3 s" in stall
    assert 95 <= result.json["frame"] <= 99  # of 100 frames; the decoder still holds the last ones
    assert "secret" not in (out / "run.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["stall", "SIGINT", "SIGTERM"])
def test_a_stalled_or_stopped_source_ends_with_a_report(
    sample_run: SampleRun, tmp_path: Path, ending: str
) -> None:
    out = tmp_path / "out"
    stall = "1.5" if ending == "stall" else "60"
    command = [sys.executable, "-m", "polyplink", "live", "-", "--weights", str(sample_run.weights)]
    command += ["--out", str(out), *NO_PAGE, *SHORT_TRACKS, "--stall", stall]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(("\n".join(lines("ab")) + "\n").encode())
        process.stdin.flush()
        for line in process.stdout:  # until all lines were read
            if json.loads(line)["event"] == "count" and json.loads(line)["time"] >= 3:
                break
        time.sleep(0.5)
        if ending != "stall":
            os.kill(process.pid, getattr(signal, ending))
        output = process.stdout.read()
        assert process.wait(60) == 0
    last = json.loads(output.splitlines()[-1])
    assert (last["event"], last["final"]["tracklets"]) == ("finished", 2)
    assert ("--stall" in output.decode()) == (ending == "stall")
    assert (out / "count" / "report.html").is_file()


HANGING = """
import sys
import time

CALLS = []

def find(image):
    CALLS.append(0)
    if len(CALLS) > 30:
        print("hangs", file=sys.stderr, flush=True)
        time.sleep(600)
    return [[10.0, 8.0, 16.0, 12.0, 0.9]]
"""


@pytest.mark.slow
def test_ctrl_c_while_the_detector_hangs_ends_with_a_report(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    (tmp_path / "hanging.py").write_text(HANGING)
    command: list[str | Path] = [sys.executable, "-m", "polyplink", "live", sample_run.frames]
    command += ["--detector", f"{tmp_path / 'hanging.py'}:find", "--weights", sample_run.weights]
    command += ["--out", tmp_path / "out", *NO_PAGE, *SHORT_TRACKS]
    with subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert any(line == "hangs\n" for line in process.stderr)
        process.send_signal(signal.SIGINT)
        output = process.stdout.read()
        assert process.wait(60) == 0
    last = json.loads(output.splitlines()[-1])
    assert (last["event"], last["frame"], last["final"]["tracklets"]) == ("finished", 29, 1)
    assert (tmp_path / "out" / "count" / "report.html").is_file()


@pytest.mark.slow
def test_a_killed_count_is_reported_from_its_written_pieces(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    """The command is killed at file events, during the count and during the report."""
    write_procedures(tmp_path, procedures=1, views=5)
    images, out = tmp_path / "frames" / "001-001", tmp_path / "out"
    boxes = write_lines(tmp_path / "boxes", N_FRAMES, gaps(N_FRAMES))
    weights = ("--weights", sample_run.weights, "--device", "cpu", *SHORT_TRACKS)
    command = ("live", images, "--boxes", boxes, *weights, "--speed", "0", "--no-page", "--out")
    step, kills_by_frames = (
        1 if os.environ.get("KILLS") == "1" else 7,
        dict.fromkeys((0, PIECE, N_FRAMES), 0),
    )
    with killer() as kills:
        kills.run(*command, tmp_path / "whole", below=tmp_path / "whole")
        uninterrupted = pl.read_parquet(tmp_path / "whole" / "data" / "detections.parquet")
        for _ in kills.at_events(*command, out, below=out, events=count(1, step)):
            frames = N_FRAMES if (out / "run.json").is_file() else 0
            if [*out.glob("live/pieces/[0-9]*")]:
                assert_refused(polyplink(*command, out), f"{out} holds a count that was killed")
                events_before = (out / "live" / "events.jsonl").read_text()
                refused = polyplink("live", out, *weights, "--out", tmp_path / "other")
                assert_refused(refused, f"the killed count in {out} is written there")
                all_events = events(polyplink("live", out, *weights))
                assert_refused(polyplink("live", out, *weights), f"{out} holds a finished count")
                frames = all_events[-1]["frame"] + 1
                assert (out / "live" / "events.jsonl").read_text().startswith(events_before)
                summary = json.loads((out / "count" / "count.json").read_text())
                assert "was killed" in summary["warnings"][0]
                assert read_warnings(out / "data")[0].kind == "live.killed"
            if frames:
                data = pl.read_parquet(out / "data" / "detections.parquet")
                assert data.equals(uninterrupted.filter(pl.col("frame") < frames))
                assert (out / "count" / "report.html").is_file()
            kills_by_frames[frames] += 1
            shutil.rmtree(out, ignore_errors=True)
    print("kills, by the number of frames that were reported:", kills_by_frames)
    assert kills_by_frames[PIECE] > 0


def test_a_killed_count_reported_with_other_weights_or_options_says_so(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    encoder = load_named(sample_run.weights, "cpu")
    finer = replace(encoder, prepare=replace(encoder.prepare, stride=2))
    recording = play_recording(find_recordings(sample_run.frames)[0])
    camera = replace(recording, recording=None)
    kinds = {}
    for source, out in ((recording, tmp_path / "recording"), (camera, tmp_path / "camera")):
        _, point, cover = open_linking(
            lambda origin: encoder, None, 25.0, out, purpose="count", keep_alarms=False
        )
        LiveCount(source, encoder, point, out, lambda event: None, cover=cover)
        for name, other in {"same": encoder, "weights": replace(encoder, key="other")}.items():
            kinds[name] = [message.kind for message in other_settings(out, other)]
        assert kinds == {"same": [], "weights": ["live.other_settings"]}
    (message,) = other_settings(tmp_path / "recording", finer)
    assert message.kind == "live.other_settings"
    with pytest.raises(PolyplinkError, match=r"camera was counted with other .* crops for these"):
        other_settings(tmp_path / "camera", finer)


def test_a_recording_that_grows_while_it_is_played_has_a_warning(tmp_path: Path) -> None:
    (recording,) = find_recordings(write_video(tmp_path / "film.ts", 20))
    for grows in (False, True):
        source = play_recording(recording)
        next(source.frames)
        if grows:
            with recording.path.open("ab") as file:
                file.write(bytes(188))
        assert len(list(source.frames)) == 19
        assert [message.kind for message in source.warnings] == ["live.grew"] * grows


def test_a_count_that_drops_most_frames_has_no_interval(
    sample_run: SampleRun, tmp_path: Path
) -> None:
    source = play_recording(find_recordings(sample_run.frames)[0])
    encoder = load_named(sample_run.weights, "cpu")
    _, point, _ = open_linking(
        lambda origin: encoder, None, source.fps, tmp_path, purpose="count", keep_alarms=False
    )
    calibration = Calibration("annotated", None, "recordings", 40, views=50, fps=source.fps)
    cover = Cover(BoxSource("annotated", None, "recordings", fps=source.fps), calibration, "")
    counting = LiveCount(source, encoder, point, tmp_path, lambda event: None, cover=cover)
    has_basis = []
    for counting.frames, counting.late in ((0, 0), (100, 30), (100, 50), (200, 70)):
        counting.show()
        has_basis.append(bool(json.loads(counting.state)["basis"]["en"]))
    assert has_basis == [True, True, False, True]


@pytest.mark.parametrize(
    ("stdin_lines", "message"),
    [
        ([], "stdin is empty"),
        (["[]"], "stdin, line 1 is not a JSON object"),
        (["{}"], "fps is None"),
        (['{"fps": 25, "width": 1e9, "height": 3}'], "width is 1000000000.0"),
        (['{"fps": 0, "width": 9, "height": 3}'], "fps is 0"),
        (['{"fps": 25, "width": 9, "height": 3, "procedure": ""}'], "procedure is not a name"),
        ([json.dumps(HEAD)], "has no frame"),
        ([json.dumps(HEAD), '{"frame": -1}'], "frame is -1"),
        ([json.dumps(HEAD), '{"frame": 0, "boxes": [[0, 0, 9, 9, 2]]}'], "these are not boxes"),
        ([json.dumps(HEAD), '{"frame": 0, "boxes": [[0, 0, 9, NaN]]}'], "these are not boxes"),
        ([json.dumps(HEAD), '{"frame": 0, "boxes": [[0, 0, 9, 9]]}'], "1 box, and not as many"),
        (
            [json.dumps(HEAD), '{"frame": 0, "boxes": [[0, 0, 9, 9]], "crops": ["bm8="]}'],
            "a crop cannot be decoded",
        ),
    ],
)
def test_invalid_input_lines_are_refused(
    sample_run: SampleRun, tmp_path: Path, stdin_lines: list[str], message: str
) -> None:
    result = run_live(stdin_lines, "--weights", sample_run.weights, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_invalid_sources_and_options_are_refused(sample_run: SampleRun, tmp_path: Path) -> None:
    images, weights = sample_run.frames, ("--weights", sample_run.weights, *NO_PAGE)
    killed = tmp_path / "killed"
    killed.mkdir()
    copy_frames(images, killed / "live", range(2))  # pictures of views
    (killed / "live" / "source.json").write_text("{}")
    for arguments, message in (
        ((killed,), "was killed in its first 250 frames"),
        (("rtsp://127.0.0.1:9/x", "--detector", "x.onnx"), "cannot be opened"),
        ((images, "--recording", images), "--recording is given"),
        ((images, "--min-length", "1"), "--min-length: only for annotated boxes"),
        ((images, "--boxes", tmp_path / "none"), "no file"),
        ((sample_run.root / "frames", "--detector", "x.onnx"), "holds 5 recordings"),
    ):
        result = polyplink("live", *arguments, *weights, "--out", tmp_path / "out")
        assert_refused(result, message)
    # `live` is also the folder of all live counts without --out.
    earlier = tmp_path / "live" / "case7" / "run.json"
    earlier.parent.mkdir(parents=True)
    earlier.touch()
    result = polyplink("live", images, *weights, "--out", tmp_path)
    assert_refused(result, f"{tmp_path} holds live of another kind; name another --out")
    assert earlier.is_file()
