"""The verb `live`: counts the polyps of a procedure while it runs."""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, echo

from polyplink.app.detect import DetectorName, Fps, Function
from polyplink.app.request import (
    Alarms,
    Device,
    Out,
    Progress,
    Purpose,
    Result,
    TrackletOptions,
    Workers,
    check_given,
    inform,
)
from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import PolyplinkError, first_line

if TYPE_CHECKING:
    from polyplink.app.count import Counted
    from polyplink.app.live_count import LiveCount
    from polyplink.detect.live import LiveSource
    from polyplink.detect.run import Detector

STDIN = "-"
LOOK = 0.2  # seconds from one look at signals and the clock to the next


@dataclass(frozen=True)
class LiveRequest(TrackletOptions):
    """Which procedure to count while it runs, and with what.

    A `function` from Python may be the detector, as in `DetectRequest`.
    """

    source: Annotated[
        str,
        Argument(
            help="A video or a folder of images, played in real time; a camera (/dev/video0, "
            "FORMAT:DEVICE); a stream (rtsp://...); - for boxes on stdin, as JSON lines."
        ),
    ]
    weights: Annotated[Path, Option(help="Weights file, or a folder `polyplink train` wrote.")]
    detector: DetectorName = None
    boxes: Annotated[
        Path | None, Option(help="Boxes of the recording SOURCE, JSON lines, for a detector.")
    ] = None
    recording: Annotated[
        Path | None, Option(help="Video or folder with the pictures of boxes from stdin.")
    ] = None
    out: Out = Path("live")
    speed: Annotated[
        float,
        Option(min=0, help="Times real time for a recording; 0: as fast as it goes, none dropped."),
    ] = 1.0
    fps: Fps = None
    stall: Annotated[
        float, Option(min=0.1, help="Seconds without a frame after which the count ends.")
    ] = 10.0
    window: Annotated[
        float, Option(min=0, help="Minutes for which the polyp of a tracklet may be revised.")
    ] = 15.0
    page: Annotated[bool, Option(help="Serve a page that shows the count.")] = True
    port: Annotated[int, Option(min=0, max=65535, help="Its port; 0 takes any free one.")] = 0
    browser: Annotated[bool, Option(help="Open it in the browser.")] = False
    alarms: Alarms = "drop"
    purpose: Purpose = "count"
    device: Device = "auto"
    workers: Workers = 2
    function: Function = None


def live(request: LiveRequest, progress: Progress = inform) -> "Result[Counted]":
    """Count polyps while a procedure runs: events as JSON lines, a page, and a report in the end.

    A source that ends, stalls or breaks off, Ctrl-C and SIGTERM all end in the report.

    Args:
        request: Source, detector, weights, and the output folder, which gets live (events.jsonl and
            pictures), and data, count and tracks as `run` writes them.
        progress: Called for the report.

    Raises:
        PolyplinkError: If the source, the detector or the weights are at fault before a frame came.
    """
    check_given(request.weights, device=request.device)
    from polyplink.app.detect import count_found
    from polyplink.app.encoded import load_named
    from polyplink.app.live_count import LIVE, LiveCount, percentiles
    from polyplink.associate import OnlineSettings, from_record

    out, warnings = request.out, list[str]()
    named = ("source", "weights", "detector", "boxes", "speed", "window", "alarms", "purpose")
    record = RunRecord("live", settings={name: getattr(request, name) for name in named})
    record.claim(out)
    source = _source(request)
    detector = _detector(request, source, warnings)
    encoder = load_named(request.weights, request.device, tracklets=request)
    assert encoder.record is not None
    point = from_record(encoder.record.operating).at(request.purpose)
    shutil.rmtree(out / LIVE, ignore_errors=True)
    with ExitStack() as stack:
        counting = LiveCount(
            source,
            encoder,
            point,
            out,
            _printer(out / LIVE / "events.jsonl", stack),
            drop_alarms=request.alarms == "drop",
            settings=OnlineSettings(window=60 * request.window),
        )
        threads = counting.warm_up(os.cpu_count() or 1)
        address = None
        if request.page:
            from polyplink.serve.live import serving

            pictures = out / LIVE
            address = stack.enter_context(serving(lambda: counting.state, pictures, request.port))
            if request.browser:
                import webbrowser

                webbrowser.open(address)
        facts = {"procedure": source.name, "fps": source.fps, "window": 60 * request.window}
        counting.say("started", **facts, threads=threads, page=address, weights=encoder.key)
        for line in warnings:
            counting.warn(line)
        with record.stage("live"):
            _run(request, source, detector, counting)
        PolyplinkError.unless(
            counting.frames > 0,
            "; ".join(counting.warnings) or f"{request.source} has no frame",
            "give a source that is running",
        )
        counting.end()
        counting.write_data(out / "data")
        counted = count_found(request, out / "data", counting.warnings, progress)
        shutil.rmtree(out / LIVE / "pieces")
        (out / LIVE / "vectors.bin").unlink()
        record.write(out)
        counting.finished(str(counted.value.report))
        latency = {"frame": percentiles(counting.latencies)}
        latency["tracklet"] = percentiles(counting.closings)
        (own,) = counted.value.summary["procedures"]
        final = {name: own[name] for name in ("polyps", "low", "high", "tracklets")}
        said = counting.say(
            "finished",
            report=str(counted.value.report),
            final=final,
            backwards=counting.backwards,
            milliseconds=latency,
        )
    return Result(counted.value, said, [], counted.warnings)


def _source(request: LiveRequest) -> "LiveSource":
    """The source, opened."""
    from polyplink.detect.live import boxes_from, captured, is_device, played
    from polyplink.detect.recordings import Recording, find_recordings

    def recorded(path: Path) -> Recording:
        found = find_recordings(path, request.fps)
        PolyplinkError.unless(
            len(found) == 1, f"{path} holds {len(found)} recordings", "name one of them"
        )
        return found[0]

    if request.source == STDIN:
        recording = None if request.recording is None else recorded(request.recording)
        return boxes_from(sys.stdin, "stdin", recording)
    PolyplinkError.unless(
        request.recording is None, "--recording is given beside a SOURCE", "give one of them"
    )
    if is_device(request.source):
        return captured(request.source, request.fps)
    recording = recorded(Path(request.source))
    if request.boxes is None:
        return played(recording)
    PolyplinkError.unless(request.boxes.is_file(), f"no file {request.boxes}", "name the boxes")
    return boxes_from(
        request.boxes.open(encoding="utf-8", errors="replace"),
        str(request.boxes),
        recording,
        "recording",
    )


def _detector(request: LiveRequest, source: "LiveSource", warnings: list[str]) -> "Detector | None":
    """The detector; None where boxes are given."""
    from polyplink.app.detect import find_detector

    asked = request.detector is not None or request.function is not None
    given = request.source == STDIN or request.boxes is not None
    PolyplinkError.unless(
        not (asked and given), "a detector is given beside boxes", "give one of them"
    )
    if given:
        return None
    return find_detector(
        request.detector, request.function, request.source, [source.name], warnings
    )[0]


def _printer(path: Path, stack: ExitStack) -> Callable[[Any], None]:
    """Prints events as JSON lines, and keeps them in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = stack.enter_context(path.open("w", encoding="utf-8"))
    listening = True

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

    return say


@contextmanager
def _signals() -> Iterator[list[str]]:
    """A list that a first Ctrl-C or SIGTERM is written to; a second one ends at once."""
    caught: list[str] = []
    before: dict[int, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        caught.append(signal.Signals(number).name)
        for each, handler in before.items():
            signal.signal(each, handler)

    try:
        for one in (signal.SIGINT, signal.SIGTERM):
            before[one] = signal.signal(one, note)
    except ValueError:  # not the main thread: whoever called ends it otherwise
        before.clear()
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(
    request: LiveRequest,
    source: "LiveSource",
    detector: "Detector | None",
    counting: "LiveCount",
) -> None:
    """Take frames until the source ends, stalls or breaks off, or a signal comes."""
    import numpy as np

    from polyplink.detect.live import Feed
    from polyplink.detect.run import checked

    size = (source.width, source.height)
    feed = Feed(source, request.speed)
    with _signals() as caught:
        last = time.monotonic()
        while not caught:
            try:
                frame = feed.next(LOOK)
                if frame is None:
                    break
                before = counting.frames
                seen = size if frame.pixels is None else frame.pixels.shape[1::-1]
                PolyplinkError.unless(
                    seen == size, f"its pictures are now {seen[0]} x {seen[1]}", "start again"
                )
                boxes = frame.boxes
                if boxes is None:
                    assert detector is not None
                    assert frame.pixels is not None
                    boxes = checked(np.asarray(detector(frame.pixels)), size)
                counting.late = feed.dropped
                counting.frame(frame, boxes)
                if counting.frames > before:
                    last = time.monotonic()
            except TimeoutError:
                pass
            except (PolyplinkError, OSError) as error:
                counting.warn(f"the source has ended: {first_line(error)}")
                break
            if time.monotonic() - last > request.stall:
                counting.warn(
                    f"the source has ended: no new frame for {request.stall:g} s (--stall)"
                )
                break
    feed.stop()
    if counting.late:
        counting.warn(f"{counting.late} frames came too late and were dropped (a faster detector)")
    if counting.backwards:
        counting.warn(f"{counting.backwards} frames were left out, whose time went backwards")
