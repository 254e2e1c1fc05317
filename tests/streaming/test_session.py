"""Frames of a running procedure: dropped evenly, detected in threads, counted in order."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from io import BytesIO, TextIOWrapper
from itertools import count
from pathlib import Path
from threading import Event, Thread, current_thread
from types import SimpleNamespace
from typing import cast

import av
import numpy as np
import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.files.images import Picture
from polyplink.data.origin import BoxesOrigin
from polyplink.detect.first_pass import Detector
from polyplink.detect.folder import OpenedDetector
from polyplink.detect.recordings import Recording
from polyplink.streaming.live_count import LiveCount
from polyplink.streaming.session import count_frames, event_log
from polyplink.streaming.sources import (
    AHEAD,
    Feed,
    Kind,
    LiveFrame,
    LiveSource,
    TimedFrame,
    capture_stream,
    frames_from,
    open_source,
)

SIDE = 8
POLYP = np.array([[1.0, 1.0, 4.0, 4.0, 0.9]])


def source(frames: Iterator[LiveFrame], kind: Kind = "device") -> LiveSource:
    return LiveSource("case", 25.0, SIDE, SIDE, frames, kind=kind)


def pictures(count: int) -> Iterator[LiveFrame]:
    for number in range(count):
        yield LiveFrame(number, Picture(np.full((SIDE, SIDE, 3), number, np.uint8)))


def numbers_of(feed: Feed) -> list[int]:
    frames = iter(lambda: feed.next(5), None)
    return [frame.number for frame in frames]


@pytest.mark.parametrize("stall", [9, 25, 100])
def test_frames_of_a_stall_are_dropped_evenly(stall: int) -> None:
    feed = Feed(source(pictures(stall)), speed=1)
    while not feed._ended:  # the reader does not wait
        time.sleep(0.01)
    taken = numbers_of(feed)
    assert feed.dropped == stall - AHEAD
    assert taken[-1] == stall - 1
    assert np.diff([-1, *taken]).max() <= 2 * stall / AHEAD


def test_a_reader_at_half_speed_takes_every_second_frame() -> None:
    feed, taken = Feed(source(iter(())), speed=1), []
    for frame in pictures(100):
        feed._put(frame)
        if frame.number > 2 * AHEAD and frame.number % 2:
            taken.append(cast("LiveFrame", feed.next(5)).number)
    assert set(np.diff(taken[AHEAD:]).tolist()) == {2}


@pytest.mark.parametrize("kind", ["recording", "device"])
def test_a_source_as_fast_as_possible_loses_no_frame(kind: Kind) -> None:
    feed = Feed(source(pictures(50), kind), speed=0)
    time.sleep(0.1)
    assert (numbers_of(feed), feed.dropped) == (list(range(50)), 0)


@pytest.mark.parametrize(
    ("timed", "message"),
    [
        ((0.0,), "frame 0 of a is not a tuple of 3 values"),
        ((0.0, np.zeros((SIDE, SIDE, 3)), POLYP), r"frame 0 of a is float64 \(8, 8, 3\)"),
        ((0.0, np.zeros((SIDE, SIDE), np.uint8), POLYP), r"frame 0 of a is uint8 \(8, 8\)"),
        ((0.0, np.zeros((SIDE, SIDE, 3), np.uint8), [[1, 2]]), "no valid boxes"),
        ((None, np.zeros((SIDE, SIDE, 3), np.uint8), POLYP), "the time of frame 0 of a is None"),
        ((np.nan, np.zeros((SIDE, SIDE, 3), np.uint8), POLYP), "the time of frame 0 of a is nan"),
    ],
)
def test_malformed_frames_of_a_program_are_refused(timed: TimedFrame, message: str) -> None:
    frames = frames_from([timed], name="a", fps=25, width=SIDE, height=SIDE, boxes=True)
    with pytest.raises(PolyplinkError, match=message):
        next(frames.frames)


def test_frames_of_a_program_are_copies_numbered_by_their_time() -> None:
    memory = np.zeros((SIDE, SIDE, 3), np.uint8)

    def card() -> Iterator[TimedFrame]:
        for grey, at in enumerate([5.0, 5.041, 5.2, 5.19, 1.0, 1.04]):
            memory[:] = grey
            yield at, memory

    source = frames_from(card(), name="a", fps=25, width=SIDE, height=SIDE)
    frames = [*source.frames]
    assert [frame.number for frame in frames] == [0, 1, 5, 5, 6, 7]
    jump = "The clock of a jumped by -4.2 s; frame numbers continue."
    assert list(map(str, source.warnings)) == [jump]
    pictures = [frame.picture for frame in frames if frame.picture is not None]
    assert [picture.rgb().max() for picture in pictures] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("step", "took"),
    [
        (0.02, "100 frames took 2 s"),  # 50 frames a second
        (0.0, "100 frames took 0 s"),  # no clock
        (40.0, "10 frames took 400 s"),  # milliseconds
        (40e6, "1 frame took 4e+07 s"),  # nanoseconds
    ],
)
def test_times_that_do_not_fit_the_rate_end_the_source(step: float, took: str) -> None:
    black = np.zeros((SIDE, SIDE, 3), np.uint8)
    timed = [(7 + k * step, black) for k in range(200)]
    source = frames_from(timed, name="a", fps=25, width=SIDE, height=SIDE)
    with pytest.raises(PolyplinkError, match=re.escape(f"that {took}, and fps is 25")):
        list(source.frames)
    assert source.warnings == []


@pytest.mark.parametrize(("step", "at"), [(-1000.0, 90), (1.7e9, 110)])  # from 1970 to today
def test_numbers_of_frames_continue_when_the_clock_of_a_program_is_set(
    step: float, at: int
) -> None:
    black = np.zeros((SIDE, SIDE, 3), np.uint8)
    timed = [(k / 25 + step * (k >= at), black) for k in range(120)]
    source = frames_from(timed, name="a", fps=25, width=SIDE, height=SIDE)
    assert [frame.number for frame in source.frames] == list(range(120))
    assert len(source.warnings) == 1


class Recorder:
    """Takes the frames in place of a `LiveCount`."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, float]] = []
        self.messages: list[Message] = []
        self.late = self.backwards = self.frames = 0

    def frame(self, frame: LiveFrame, boxes: np.ndarray) -> bool:
        self.frames = frame.number + 1
        if frame.decodes:
            self.taken.append((frame.number, float(boxes[0, 0])))
        return frame.decodes

    def warn(self, *messages: Message) -> None:
        self.messages.extend(messages)


def in_3_threads(find: Detector) -> OpenedDetector:
    return OpenedDetector(find, BoxesOrigin("function", "a function"), at_once=3)


def test_frames_are_counted_in_order_with_their_own_boxes() -> None:
    rng = np.random.default_rng(0)
    seconds = rng.uniform(0, 0.01, 40)

    def find(image: np.ndarray) -> np.ndarray:
        number = int(image[0, 0, 0]) % 4
        time.sleep(seconds[image[0, 0, 0]])
        return np.array([[1 + number, 1, 4, 4, 0.9]])

    recorder = Recorder()
    frames = source(pictures(40), "lines")  # loses no frame
    count_frames(frames, in_3_threads(find), cast("LiveCount", recorder))
    assert recorder.taken == [(k, 1 + k % 4) for k in range(40)]
    assert recorder.messages == []


def test_frames_that_a_slow_detector_misses_are_counted_as_late() -> None:
    def slow(image: np.ndarray) -> np.ndarray:
        time.sleep(0.005)
        return POLYP

    recorder = Recorder()
    count_frames(source(pictures(60)), in_3_threads(slow), cast("LiveCount", recorder))
    assert recorder.late == 60 - len(recorder.taken) > 0
    assert recorder.messages == [
        Message("live.late", {"n": recorder.late, "frames": recorder.frames})
    ]


class BrokenStream:
    """A stream of FFmpeg that fails at its first packet."""

    average_rate = 25

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.streams = SimpleNamespace(best=lambda _: self)
        self.codec_context = SimpleNamespace(width=SIDE, height=SIDE)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def demux(self, _: object) -> Iterator[object]:
        raise self.error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (av.error.ExitError(1, "Immediate exit requested"), "12,5 s lang keine Daten"),
        (OSError("Input/output error"), "Input/output error"),
    ],
)
def test_a_stream_that_breaks_off_is_reported_in_the_language_of_the_page(
    error: Exception, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("av.open", lambda *_, **__: BrokenStream(error))
    recorder = Recorder()
    stream = capture_stream("rtsp://admin:secret@tower/1", stall=12.5)
    count_frames(stream, in_3_threads(lambda _: POLYP), cast("LiveCount", recorder))
    assert [message.text("de") for message in recorder.messages] == [
        f"Die Aufzeichnung brach ab: Die Verbindung zu rtsp://tower/1 ging verloren ({why}). "
        "Bitte das Kabel prüfen."
    ]


def test_frames_of_a_stream_in_raw_dv_are_numbered_at_its_rate(tmp_path: Path) -> None:
    path = tmp_path / "a.dv"
    with av.open(str(path), "w", format="dv") as container:
        stream = container.add_stream("dvvideo", rate=25)
        stream.width, stream.height, stream.pix_fmt = 720, 576, "yuv420p"
        for number in range(5):
            frame = av.VideoFrame(720, 576, "yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    source = capture_stream(path.as_uri())
    assert source.fps == 25.0
    assert [frame.number for frame in source.frames] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("ending", ["detector", "callback", "signal", "frame"])
def test_a_generator_of_a_program_is_closed_when_the_count_ends_early(ending: str) -> None:
    closed: list[str] = []

    def card() -> Iterator[TimedFrame]:
        try:
            for number in count():
                side = SIDE if number < 30 or ending != "frame" else 2 * SIDE
                yield number / 25, np.zeros((side, side, 3), np.uint8)
        finally:
            closed.append(current_thread().name)

    def find(image: np.ndarray) -> np.ndarray:
        calls.append(0)
        if ending == "signal" and len(calls) == 20:
            os.kill(os.getpid(), signal.SIGINT)
        if ending == "callback" and len(calls) == 20:
            errors.append(ValueError("no display"))
        return POLYP if ending != "detector" or len(calls) < 20 else np.zeros((1, 3))

    calls: list[int] = []
    errors: list[Exception] = []
    frames = frames_from(card(), name="a", fps=25, width=SIDE, height=SIDE, wait=True)
    recorder = cast("LiveCount", Recorder())
    opened = OpenedDetector(find, BoxesOrigin("function", "a function"), at_once=1)
    assert count_frames(frames, opened, recorder, errors=errors)
    assert closed == ["frames"]  # by the thread that took the frames
    assert bool(errors) == (ending != "signal")


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_signal_ends_a_count_while_the_detector_hangs(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyplink.streaming.session.POLL_SECONDS", 0.05)
    release, hangs = Event(), Event()

    def find(image: np.ndarray) -> np.ndarray:
        if image[0, 0, 0] == 20:
            hangs.set()
            release.wait(60)
        return POLYP

    def interrupt() -> None:
        hangs.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=interrupt).start()
    recorder = Recorder()
    opened = OpenedDetector(find, BoxesOrigin("function", "a function"), at_once)
    film = Recording("case", Path("case.mp4"), (), 60, 25.0, SIDE, SIDE)
    played = replace(source(pictures(60), "lines"), recording=film)
    try:
        assert count_frames(played, opened, cast("LiveCount", recorder))
    finally:
        release.set()
    (message,) = recorder.messages
    assert str(message).endswith("of 60 frames: the rest of the recording is not counted.")
    # The frames before the one that hangs; the last of them may not have been taken yet.
    taken = [number for number, _ in recorder.taken]
    assert taken == list(range(len(taken)))
    assert 20 - 2 * at_once <= len(taken) <= 20


@pytest.mark.parametrize("kind", ["recording", "device"])
def test_a_damaged_stretch_of_a_recording_is_no_stall(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]  # of a clock that advances with the frames
    clock = SimpleNamespace(monotonic=lambda: seconds[0])
    monkeypatch.setattr("polyplink.streaming.session.time", clock)

    class Refusing(Recorder):
        def frame(self, frame: LiveFrame, boxes: np.ndarray) -> bool:
            seconds[0] += 1.0
            return False

    recorder = Refusing()
    damaged = source(map(LiveFrame, range(9)), kind)
    counting = cast("LiveCount", recorder)
    count_frames(damaged, in_3_threads(lambda _: POLYP), counting, stall=3.0)
    stalled = "live.stalled" in [message.kind for message in recorder.messages]
    assert stalled == (kind == "device")


@pytest.mark.parametrize(
    ("broken", "kinds"),
    [(range(30, 60), ["live.cut_short"]), (range(20, 50), []), (range(50, 60), [])],
)
def test_a_recording_without_frames_at_its_end_broke_off(broken: range, kinds: list[str]) -> None:
    film = Recording("case", Path("case.mp4"), (), 60, 25.0, SIDE, SIDE)
    frames = (LiveFrame(k) if k in broken else frame for k, frame in enumerate(pictures(60)))
    recorder = Recorder()
    played = replace(source(frames, "lines"), recording=film)
    count_frames(played, in_3_threads(lambda _: POLYP), cast("LiveCount", recorder))
    assert [message.kind for message in recorder.messages] == kinds
    assert [message.values["frames"] for message in recorder.messages] == [30] * len(kinds)


def test_a_stretch_without_lines_of_boxes_is_no_stall_of_their_recording() -> None:
    """A program may write a line only for frames in which it finds something."""
    recorder = Recorder()
    lines = (LiveFrame(number, boxes=POLYP[None, 0]) for number in (0, 20))  # 0.8 s apart
    count_frames(source(lines, "recording"), None, cast("LiveCount", recorder), stall=0.3)
    assert [number for number, _ in recorder.taken] == [0, 20]
    assert recorder.messages == []


@pytest.mark.parametrize("broken", ["source", "detector"])
def test_frames_before_a_failure_are_counted(broken: str) -> None:
    def failing() -> Iterator[LiveFrame]:
        yield from pictures(20)
        raise PolyplinkError("the cable broke", "check it")

    def find(image: np.ndarray) -> np.ndarray:
        number = int(image[0, 0, 0])
        return POLYP if broken == "source" or number < 20 else np.zeros((1, 3))

    frames = failing() if broken == "source" else pictures(30)
    recorder, errors = Recorder(), list[Exception]()
    counting = cast("LiveCount", recorder)
    stopped = count_frames(source(frames, "lines"), in_3_threads(find), counting, errors=errors)
    assert [number for number, _ in recorder.taken] == list(range(20))
    (message,) = recorder.messages
    assert ("the cable broke" if broken == "source" else "no valid boxes") in str(message)
    assert stopped == bool(errors) == (broken == "detector")


def test_an_event_that_a_killed_count_wrote_in_part_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "live" / "events.jsonl"
    path.parent.mkdir()
    path.write_text('{"event": "count"}\n{"event": "clo')
    with event_log(tmp_path, "a", lambda event: None) as write_event:
        write_event({"event": "finished"})
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert events == ["count", "finished"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"frame": \xff\xfe}', "stdin, line 3 is not valid JSON"),
        (b'{"frame": 2147483647}', "stdin, line 3: frame is 2147483647"),
    ],
)
def test_frames_before_a_malformed_line_of_stdin_are_read(
    line: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = b'{"fps": 25, "width": 64, "height": 48}\n{"frame": 0}\n'
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(head + line), encoding="utf-8"))
    frames = open_source("-", ExitStack()).frames
    assert next(frames).number == 0
    with pytest.raises(PolyplinkError, match=message):
        next(frames)
