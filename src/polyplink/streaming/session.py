"""Count a running procedure from its first frame until the source ends or a signal comes."""

import json
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import FrameType
from typing import Any

import numpy as np
from typer import echo

from polyplink.core.arrays import Floats
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.messages import Message
from polyplink.detect.first_pass import look
from polyplink.detect.folder import OpenedDetector
from polyplink.streaming.live_count import LIVE, Event, LiveCount, late_messages
from polyplink.streaming.sources import CLOSING, Feed, LiveFrame, LiveSource

DetectedFrame = tuple[LiveFrame, Floats]

POLL_SECONDS = 0.2  # between checks for signals and stalls


def count_frames(
    source: LiveSource,
    detector: OpenedDetector | None,
    counting: LiveCount,
    *,
    speed: float = 1.0,
    stall: float = 10.0,
    errors: list[Exception] | None = None,
) -> bool:
    """Count frames until the source ends, stalls or fails, or a signal or an error comes.

    Args:
        source: The procedure.
        detector: The detector; None if the frames come with boxes.
        counting: The count, which also receives warnings.
        speed: Playback speed of a recording relative to real time; 0 for as fast as possible.
        stall: Seconds without a frame after which the count ends.
        errors: Errors so far. One of the detector, of a program's frames, or of the count itself is
            added, and any ends the count. The caller raises the first when the report is written.

    Returns:
        Whether Ctrl-C, SIGTERM or an error ended the count.
    """
    errors = [] if errors is None else errors
    feed = Feed(source, speed)
    decoded = 0  # frames up to the last one that decodes
    at_once = 1 if detector is None else detector.at_once
    find = partial(_detect_boxes, detector=detector)
    with record_signals() as caught, closing(_detect_all(feed, find, at_once, caught)) as frames:
        last = time.monotonic()
        try:
            for detected in frames:
                _pass_warnings(source, counting)
                counting.late = feed.dropped
                if detected is not None and detected[0].decodes:
                    decoded = detected[0].number + 1
                # A recording plays on over frames that do not decode, which are not counted.
                if detected is not None and (
                    counting.frame(*detected) or source.kind == "recording"
                ):
                    last = time.monotonic()
                # The next line of boxes may be for a frame much later in their recording.
                if time.monotonic() - max(last, feed.due) > stall:
                    counting.warn(Message("live.stalled", {"seconds": stall}))
                    break
                if caught or errors:
                    break
        except Exception as error:  # of any kind: the detector may be a function of the user
            errors.append(error)
    feed.stop()
    _pass_warnings(source, counting)
    if feed.error is not None:
        is_expected = isinstance(feed.error, PolyplinkError | OSError) and not source.of_program
        if is_expected:
            counting.warn(_error_message("live.ended", feed.error))
        else:
            errors.append(feed.error)
    if errors:
        counting.warn(_error_message("live.failed", errors[0]))
    counting.warn(*_early_end(source, counting.frames, decoded, was_stopped=bool(caught)))
    counting.warn(*late_messages(counting.late, counting.frames))
    if counting.backwards:
        counting.warn(Message("live.left_out", {"n": counting.backwards}))
    return bool(caught or errors)


def _pass_warnings(source: LiveSource, counting: LiveCount) -> None:
    """Move the warnings of a source to the count."""
    while source.warnings:
        counting.warn(source.warnings.pop(0))


def _early_end(
    source: LiveSource, frames: int, decoded: int, *, was_stopped: bool
) -> Sequence[Message]:
    """A warning if a recording was stopped, or a second or more at its end does not decode.

    Args:
        source: The source.
        frames: Number of frames that were counted or skipped.
        decoded: Number of frames up to the last one that was decoded.
        was_stopped: Whether a signal ended the count.
    """
    if source.recording is None:
        return ()
    n_frames = source.recording.n_frames
    if was_stopped and frames < n_frames:
        return (Message("live.stopped", {"frames": frames, "of": n_frames}),)
    if frames == n_frames and n_frames - decoded >= source.fps:
        return (Message("live.cut_short", {"frames": decoded, "of": n_frames}),)
    return ()


def _error_message(kind: str, error: Exception) -> Message:
    """The warning of a kind that an error ended the recording or the count."""
    is_named = isinstance(error, PolyplinkError | OSError)  # its message says enough
    why = first_line(error) if is_named else f"{type(error).__name__}: {first_line(error)}"
    return Message(kind, {"why": why})


def _detect_all(
    feed: Feed,
    find: Callable[[LiveFrame], DetectedFrame],
    at_once: int,
    caught: Sequence[str],
) -> Generator[DetectedFrame | None, None, None]:
    """Frames with their boxes, in order; None whenever no frame arrives for `POLL_SECONDS`.

    Boxes of the next frames are detected while the caller counts one. A signal in `caught` ends a
    wait for the detector, which may hang.
    """
    running = True
    waiting = deque[Future[DetectedFrame]]()
    with _threads(find, at_once) as submit:
        while running or waiting:
            try:
                while running and len(waiting) <= at_once:
                    frame = feed.next(0 if waiting else POLL_SECONDS)
                    running = frame is not None
                    if frame is not None:
                        waiting.append(submit(frame))
            except TimeoutError:
                pass
            if waiting:
                while not wait([waiting[0]], POLL_SECONDS).done:
                    if caught:
                        return
                yield waiting.popleft().result()
            elif running:
                yield None


@contextmanager
def _threads(
    find: Callable[[LiveFrame], DetectedFrame], at_once: int
) -> Iterator[Callable[[LiveFrame], Future[DetectedFrame]]]:
    """A function that has `find` called in threads; the program can end while a call hangs."""
    tasks = SimpleQueue[tuple[Future[DetectedFrame], LiveFrame] | None]()
    is_closing = False

    def work() -> None:
        while (task := tasks.get()) is not None and not is_closing:
            future, frame = task
            try:
                future.set_result(find(frame))
            except BaseException as error:  # raised where the result is taken
                future.set_exception(error)

    def submit(frame: LiveFrame) -> Future[DetectedFrame]:
        future = Future[DetectedFrame]()
        tasks.put((future, frame))
        return future

    threads = [Thread(target=work, daemon=True, name="detector") for _ in range(at_once)]
    for thread in threads:
        thread.start()
    try:
        yield submit
    finally:
        is_closing = True
        for _ in threads:
            tasks.put(None)
        deadline = time.monotonic() + CLOSING
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))


def _detect_boxes(frame: LiveFrame, detector: OpenedDetector | None) -> DetectedFrame:
    """A frame and its boxes (k, 5): those that come with it, or the detector's."""
    if not frame.decodes:
        return frame, np.zeros((0, 5))
    if frame.boxes is not None:
        return frame, frame.boxes
    assert detector is not None
    assert frame.picture is not None
    return frame, look(detector.find, frame.picture)


@contextmanager
def record_signals() -> Iterator[list[str]]:
    """Record a first Ctrl-C or SIGTERM in the list; a second one ends the program at once."""
    caught: list[str] = []
    before: dict[int, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        caught.append(signal.Signals(number).name)
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)

    try:
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            before[signal_number] = signal.signal(signal_number, note)
    except ValueError:  # not the main thread: the caller must end the count in another way
        before.clear()
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for_signal() -> None:
    """Wait for Ctrl-C or SIGTERM."""
    with record_signals() as caught:
        while not caught:
            time.sleep(POLL_SECONDS)


def late_before(out: Path, frame: int) -> int:
    """Number of frames before a frame that a count which was killed dropped, by its events."""
    lines = (out / LIVE / "events.jsonl").read_text("utf-8").splitlines(keepends=True)
    events = (json.loads(line) for line in lines if line.endswith("\n"))
    return max((event["late"] for event in events if event["frame"] < frame), default=0)


@contextmanager
def event_log(
    out: Path,
    mode: str = "w",
    on_event: Callable[[Event], object] | None = None,
    errors: list[Exception] | None = None,
) -> Iterator[Callable[[Event], None]]:
    """A function that writes events to live/events.jsonl, and prints them as JSON lines.

    Args:
        out: The output folder.
        mode: "w" for a new file, "a" to continue one; a line that a killed count began is removed.
        on_event: Called with each event, which is not printed then.
        errors: Receives the error of `on_event`, which is not called again.
    """
    errors = [] if errors is None else errors
    deliver = on_event or (lambda event: echo(json.dumps(event)))
    (out / LIVE).mkdir(parents=True, exist_ok=True)
    path = out / LIVE / "events.jsonl"
    if mode == "a":
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    has_reader = True
    with path.open(mode, encoding="utf-8") as file:

        def write_event(event: Event) -> None:
            nonlocal has_reader
            file.write(json.dumps(event) + "\n")
            file.flush()
            try:
                if has_reader:
                    deliver(event)
            except Exception as error:
                has_reader = False
                # The reader of stdout may end at any time, and the count continues.
                if on_event is not None or not isinstance(error, BrokenPipeError):
                    errors.append(error)

        yield write_event
