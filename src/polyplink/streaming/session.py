"""Count a running procedure from its first frame until the source ends or a signal comes."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from typer import echo

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.messages import Message
from polyplink.detect.first_pass import Detector, look
from polyplink.streaming.live_count import LIVE, LiveCount
from polyplink.streaming.sources import Feed, LiveFrame, LiveSource

POLL_SECONDS = 0.2  # between checks for signals and stalls


def follow(
    source: LiveSource,
    detector: Detector | None,
    counting: LiveCount,
    *,
    speed: float = 1.0,
    stall: float = 10.0,
) -> bool:
    """Count frames until the source ends, stalls or fails, or a signal comes.

    Args:
        source: The procedure.
        detector: Detects boxes; None if the frames come with boxes.
        counting: The count, which also receives warnings.
        speed: Playback speed of a recording relative to real time; 0 for as fast as possible.
        stall: Seconds without a frame after which the count ends.

    Returns:
        Whether Ctrl-C or SIGTERM ended the count.
    """
    feed = Feed(source, speed)
    with record_signals() as caught:
        last = time.monotonic()
        while not caught:
            try:
                frame = feed.next(POLL_SECONDS)
                _warn_of_numbers(source, counting)
                if frame is None:
                    break
                counting.late = feed.dropped
                if counting.frame(frame, _boxes_of(frame, source, detector)):
                    last = time.monotonic()
            except TimeoutError:
                pass
            except (PolyplinkError, OSError) as error:
                counting.warn(Message("live.ended", {"why": first_line(error)}))
                break
            if time.monotonic() - last > stall:
                counting.warn(Message("live.stalled", {"seconds": f"{stall:g}"}))
                break
    feed.stop()
    if counting.late:
        counting.warn(Message("live.late", {"n": counting.late}))
    if counting.backwards:
        counting.warn(Message("live.left_out", {"n": counting.backwards}))
    return bool(caught)


def _warn_of_numbers(source: LiveSource, counting: LiveCount) -> None:
    while source.warnings:
        counting.warn(Message("live.numbered_on", {"what": source.warnings.pop(0)}))


def _boxes_of(frame: LiveFrame, source: LiveSource, detector: Detector | None) -> Any:
    """Boxes (k, 5) of a frame: those that come with it, or the detector's."""
    if frame.picture is not None:
        size, expected = frame.picture.size, (source.width, source.height)
        PolyplinkError.unless(
            size == expected,
            f"the pictures were {expected[0]} x {expected[1]} pixels and are now "
            f"{size[0]} x {size[1]}",
            "start again with another --out",
        )
    if frame.boxes is not None:
        return frame.boxes
    assert detector is not None
    assert frame.picture is not None
    return look(detector, frame.picture)


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


@contextmanager
def event_log(out: Path, mode: str = "w") -> Iterator[Callable[[Any], None]]:
    """A function that prints events as JSON lines and writes them to live/events.jsonl.

    Args:
        out: The output folder.
        mode: "w" for a new file, "a" to continue one.
    """
    (out / LIVE).mkdir(parents=True, exist_ok=True)
    has_reader = True
    with (out / LIVE / "events.jsonl").open(mode, encoding="utf-8") as file:

        def write_event(event: Any) -> None:
            nonlocal has_reader
            line = json.dumps(event)
            file.write(line + "\n")
            file.flush()
            try:
                if has_reader:
                    echo(line)
            except BrokenPipeError:  # the reader of stdout ended; the procedure continues
                has_reader = False

        yield write_event
