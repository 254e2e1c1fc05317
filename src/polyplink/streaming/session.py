"""A procedure from its first frame to its last: frames are counted until the source ends."""

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

LOOK = 0.2  # seconds from one look at signals and the clock to the next


def follow(
    source: LiveSource,
    detector: Detector | None,
    counting: LiveCount,
    *,
    speed: float = 1.0,
    stall: float = 10.0,
) -> bool:
    """Count frames until the source ends, stalls or breaks off, or a signal comes.

    Args:
        source: The procedure.
        detector: Finds boxes; None where the frames bring them.
        counting: Takes the frames, and the warnings.
        speed: Times real time at which a recording is played; 0 for as fast as it goes.
        stall: Seconds without a frame after which the count ends.

    Returns:
        Whether Ctrl-C or SIGTERM ended it.
    """
    feed = Feed(source, speed)
    with signals_noted() as caught:
        last = time.monotonic()
        while not caught:
            try:
                frame = feed.next(LOOK)
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
    """Boxes (k, 5) of a frame: those that it brings, or the detector's."""
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
def signals_noted() -> Iterator[list[str]]:
    """A list that a first Ctrl-C or SIGTERM is written to; a second one ends at once."""
    caught: list[str] = []
    before: dict[int, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        caught.append(signal.Signals(number).name)
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)

    try:
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            before[signal_number] = signal.signal(signal_number, note)
    except ValueError:  # not the main thread: whoever called ends it otherwise
        before.clear()
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_for_signal() -> None:
    """Return at Ctrl-C or SIGTERM."""
    with signals_noted() as caught:
        while not caught:
            time.sleep(LOOK)


@contextmanager
def event_log(out: Path, mode: str = "w") -> Iterator[Callable[[Any], None]]:
    """A function that prints events as JSON lines, and keeps them in live/events.jsonl.

    Args:
        out: The output folder.
        mode: "w" for a new file, "a" to continue one.
    """
    (out / LIVE).mkdir(parents=True, exist_ok=True)
    listening = True
    with (out / LIVE / "events.jsonl").open(mode, encoding="utf-8") as file:

        def say(event: Any) -> None:
            nonlocal listening
            line = json.dumps(event)
            file.write(line + "\n")
            file.flush()
            try:
                if listening:
                    echo(line)
            except BrokenPipeError:  # whoever read has gone; the procedure has not
                listening = False

        yield say
