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

from typer import Argument, echo

from polyplink.cli import options
from polyplink.cli.options import (
    DetectorFunction,
    DetectorName,
    Fps,
    TrackletRequest,
    WeightsOption,
    option,
)
from polyplink.cli.outputs import (
    RUN_PARTS,
    SOURCE,
    OutOfSource,
    Replace,
    keep_other_counts,
    output_folder,
)
from polyplink.cli.verb import Result, check_given, inform
from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.progress import Progress
from polyplink.core.sharing import sole_writer
from polyplink.models import ENCODER

if TYPE_CHECKING:
    from polyplink.associate import OperatingPoint
    from polyplink.cli.counted import Counted
    from polyplink.cli.live_count import LiveCount
    from polyplink.core.messages import Message
    from polyplink.counting import Cover
    from polyplink.data import BoxesOrigin
    from polyplink.detect.live import LiveSource
    from polyplink.detect.run import Detector
    from polyplink.serve.live import LivePage

STDIN = "-"
REPORT = "count/report.html"
LOOK = 0.2  # seconds from one look at signals and the clock to the next


@dataclass(frozen=True)
class LiveRequest(TrackletRequest):
    """Which procedure to count while it runs, and with what.

    A `function` from Python may be the detector, as in `DetectRequest`.
    """

    source: Annotated[
        str,
        Argument(
            help="A video or a folder of images, played in real time; a camera (/dev/video0, "
            "FORMAT:DEVICE); a stream (rtsp://...); - for boxes on stdin, as JSON lines; the "
            "output folder of a count that was killed, to report what it had written."
        ),
    ]
    weights: WeightsOption = Path(ENCODER)
    detector: DetectorName = None
    boxes: Path | None = option("Boxes of the recording SOURCE, JSON lines, for a detector.")
    recording: Path | None = option("Video or folder with the pictures of boxes from stdin.")
    out: OutOfSource = None
    replace: Replace = False
    speed: float = option(
        "Times real time for a recording; 0: as fast as it goes, none dropped.", 1.0, min=0
    )
    fps: Fps = None
    stall: float = option("Seconds without a frame after which the count ends.", 10.0, min=0.1)
    window: float = option("Minutes for which the polyp of a tracklet may be revised.", 15.0, min=0)
    page: bool = option("Serve a page that shows the count.", True)
    port: int = option("Its port; 0 takes any free one.", 0, min=0, max=65535)
    browser: bool = option("Open it in the browser.", True)
    alarms: options.Alarms = "drop"
    purpose: options.Purpose = "count"
    device: options.Device = "auto"
    workers: options.Workers = 2
    function: DetectorFunction = None


def live(request: LiveRequest, progress: Progress = inform) -> "Result[Counted]":
    """Count polyps while a procedure runs: events as JSON lines, a page, and a report in the end.

    A source that ends, stalls or breaks off, Ctrl-C and SIGTERM all end in the report. What a
    killed count has written is reported by a call whose source is its output folder.

    Args:
        request: Source, detector, weights, and the output folder, which gets live (events.jsonl and
            pictures), and data, count and tracks as `run` writes them.
        progress: Called for the report.

    Raises:
        PolyplinkError: If the source, the detector or the weights are at fault before a frame came,
            or the output folder holds a count that was killed.
    """
    check_given(request.weights, device=request.device)
    detects = request.detector is not None or request.function is not None
    PolyplinkError.unless(
        not (detects and _has_boxes(request)),
        "a detector is given beside boxes",
        "leave --detector or --boxes out",
    )
    from polyplink.detect.live import is_device, without_password
    from polyplink.detect.recordings import find_recordings

    if not (request.source == STDIN or is_device(request.source) or Path(request.source).is_dir()):
        find_recordings(Path(request.source), request.fps)  # before torch is imported
    from polyplink.cli.live_count import written_pieces

    if written_pieces(Path(request.source)):
        with sole_writer(Path(request.source)):
            return _after_kill(request, Path(request.source), progress)
    out = output_folder(request.out, "live", without_password(request.source))
    with sole_writer(out):
        return _live(request, out, progress)


def _live(request: LiveRequest, out: Path, progress: Progress) -> "Result[Counted]":
    """Count into a folder that no other process writes into; as `live`."""
    from polyplink.associate import OnlineSettings, from_record
    from polyplink.cli.live_count import LIVE, LiveCount, percentiles, written_pieces
    from polyplink.counting.used_models import shipped_messages, used_models
    from polyplink.detect.live import is_device
    from polyplink.encoders import weights_path
    from polyplink.encoders.load import load_named

    played = Path(request.source).exists() and not is_device(request.source)
    record = _record(request, out)
    warnings: list[Message] = []
    PolyplinkError.unless(
        request.replace or not written_pieces(out),
        f"{out} holds a count that was killed",
        f"report it with `polyplink live {out} --weights WEIGHTS`, replace it with --replace, or "
        "name another --out",
    )
    count_source = request.source if played else None
    keep_other_counts(out, count_source, RUN_PARTS, replace=request.replace)
    source = _source(request)
    detector, origin = _detector(request, source, warnings)
    encoder = load_named(
        request.weights, request.device, tracklets=request.tracklet_options, origin=origin
    )
    assert encoder.record is not None
    point = from_record(encoder.record.operating).at(request.purpose)
    shutil.rmtree(out / LIVE, ignore_errors=True)
    cover = _cover(request, out, origin, point)
    point = cover.applied(point)
    with ExitStack() as stack:
        counting = LiveCount(
            source,
            encoder,
            point,
            out,
            _printer(out, stack),
            drop_alarms=request.alarms == "drop",
            settings=OnlineSettings(window=60 * request.window),
            basis=cover.basis,
        )
        threads = counting.warm_up(os.cpu_count() or 1)
        page = _page(request, out, counting, stack)
        facts = {"procedure": source.name, "fps": source.fps, "window": 60 * request.window}
        counting.say(
            "started", **facts, threads=threads, page=page and page.address, weights=encoder.key
        )
        used = used_models(weights_path(request.weights), encoder.name, out / LIVE)
        count_warnings = [*cover.warnings(point), *shipped_messages(used, point)]
        for message in (*count_warnings, *warnings):
            counting.warn(message)
        with record.stage("live"):
            caught = _run(request, source, detector, counting)
        warnings = [text for text in counting.warnings if text not in count_warnings]
        PolyplinkError.unless(
            counting.frames > 0,
            "; ".join(map(str, warnings)) or f"{request.source} has no frame",
            "give a source that is running",
        )
        counting.end()
        warnings = [text for text in counting.warnings if text not in count_warnings]
        counted, facts = _reported(request, out, record, warnings, progress)
        stays = page is not None and bool(page.open) and not caught
        review = stack.enter_context(_review(out)) if stays else None
        counting.finish(counted.value.count, out / REPORT, review)
        latency = {"frame": percentiles(counting.latencies)}
        latency["tracklet"] = percentiles(counting.closings)
        timings = {"backwards": counting.backwards, "milliseconds": latency}
        finished = counting.say("finished", **facts, **timings)
        if stays:
            _stay()
    return Result(counted.value, finished, [], counted.warnings)


def _stay() -> None:
    """Serve the pages until Ctrl-C or SIGTERM."""
    echo("the page stays open; Ctrl-C ends", err=True)
    with _signals() as stopped:
        while not stopped:
            time.sleep(LOOK)


def _page(
    request: LiveRequest, out: Path, counting: "LiveCount", stack: ExitStack
) -> "LivePage | None":
    """The page, served until the stack is left; None where none was asked for."""
    from polyplink.cli.live_count import LIVE

    if not request.page:
        return None
    from polyplink.serve.live import serving

    page = serving(lambda: counting.state, out / LIVE, out / REPORT, request.port)
    served = stack.enter_context(page)
    echo(f"live: {served.address}", err=True)
    if request.browser:
        import webbrowser

        webbrowser.open(served.address)
    return served


@contextmanager
def _review(out: Path) -> Iterator[str]:
    """The address at which a finished count can be reviewed, while its page is open."""
    from polyplink.serve import Desk
    from polyplink.serve.server import serving

    with serving(Desk(out)) as address:
        yield address


def _cover(
    request: LiveRequest, out: Path, origin: "BoxesOrigin | None", point: "OperatingPoint"
) -> "Cover":
    """Whether intervals are given for the boxes; records which detector they are from."""
    from polyplink.cli.live_count import LIVE
    from polyplink.counting import cover_of
    from polyplink.data import BoxSource, write_origin
    from polyplink.data.origin import UNKNOWN

    source = BoxSource(UNKNOWN, None, "recordings")
    if origin is not None:
        write_origin(out / LIVE, origin)
        source = BoxSource(origin.key, origin.name, "recordings")
    alarms_kept = request.alarms == "keep"
    return cover_of(point, source, purpose=request.purpose, alarms_kept=alarms_kept)


def _record(request: LiveRequest, out: Path) -> RunRecord:
    from polyplink.detect.live import without_password

    setting_names = (
        "source",
        "weights",
        "detector",
        "boxes",
        "speed",
        "window",
        "alarms",
        "purpose",
    )
    settings = {name: getattr(request, name) for name in setting_names}
    exists = Path(request.source).exists()
    settings[SOURCE] = (
        str(Path(request.source).resolve()) if exists else without_password(request.source)
    )
    record = RunRecord("live", settings=settings)
    record.claim(out)
    return record


def _reported(
    request: LiveRequest,
    out: Path,
    record: RunRecord,
    warnings: "list[Message]",
    progress: Progress,
) -> "tuple[Result[Counted], dict[str, Any]]":
    """Count the data folder that was written, and remove what a killed count is reported from."""
    from polyplink.cli.count_data import count_and_track
    from polyplink.cli.live_count import LIVE, PIECES, VECTORS
    from polyplink.data import read_origin, write_origin

    write_origin(out / "data", read_origin(out / LIVE))
    counted = count_and_track(
        request.weights,
        out / "data",
        out,
        alarms=request.alarms,
        purpose=request.purpose,
        device=request.device,
        workers=request.workers,
        tracklets=request.tracklet_options,
        warnings=warnings,
        progress=progress,
    )
    record.write(out)
    (out / VECTORS).unlink(missing_ok=True)
    (out / PIECES).rename(out / f"{PIECES}.part")  # whole or gone
    shutil.rmtree(out / f"{PIECES}.part")
    (procedure,) = counted.value.count.procedures
    final = {name: getattr(procedure, name) for name in ("polyps", "low", "high", "tracklets")}
    facts = {"report": str(counted.value.report), "final": final}
    count_facts = ("cover", "warnings", "messages")
    return counted, facts | {name: counted.value.summary[name] for name in count_facts}


def _after_kill(request: LiveRequest, out: Path, progress: Progress) -> "Result[Counted]":
    """Report what a count that was killed has written."""
    from polyplink.cli.live_count import killed_source, write_pieces
    from polyplink.core.messages import Message
    from polyplink.encoders.load import load_named
    from polyplink.report.formats import clock

    record = _record(request, out)
    encoder = load_named(request.weights, request.device, tracklets=request.tracklet_options)
    source, frames = killed_source(out)
    write_pieces(out, source, frames, encoder)
    killed = Message("live.killed", {"clock": clock(frames / source.fps)})
    counted, facts = _reported(request, out, record, [killed], progress)
    finished = {"event": "finished", "frame": frames - 1} | facts
    with ExitStack() as stack:
        _printer(out, stack, "a")(finished)
    return Result(counted.value, finished, [], counted.warnings)


def _source(request: LiveRequest) -> "LiveSource":
    """The source, opened."""
    from polyplink.detect.live import boxes_from, captured, is_device, played
    from polyplink.detect.recordings import Recording, find_recordings

    def recorded(path: Path) -> Recording:
        recordings = find_recordings(path, request.fps)
        PolyplinkError.unless(
            len(recordings) == 1, f"{path} holds {len(recordings)} recordings", "name one of them"
        )
        return recordings[0]

    if request.source == STDIN:
        recording = None if request.recording is None else recorded(request.recording)
        return boxes_from(sys.stdin, "stdin", recording)
    PolyplinkError.unless(
        request.recording is None,
        f"--recording is given beside {request.source}",
        "leave it out; it is for boxes on stdin (-)",
    )
    if is_device(request.source):
        return captured(request.source, request.fps, request.stall)
    recording = recorded(Path(request.source))
    if request.boxes is None:
        return played(recording)
    PolyplinkError.unless(
        request.boxes.is_file(), f"no file {request.boxes}", "check the path given with --boxes"
    )
    return boxes_from(
        request.boxes.open(encoding="utf-8", errors="replace"),
        str(request.boxes),
        recording,
        "recording",
    )


def _has_boxes(request: LiveRequest) -> bool:
    return request.source == STDIN or request.boxes is not None


def _detector(
    request: LiveRequest, source: "LiveSource", warnings: "list[Message]"
) -> "tuple[Detector | None, BoxesOrigin | None]":
    """The detector and what is recorded of it; None where boxes are given."""
    import numpy as np

    from polyplink.detect.folder import find_detector, origin_of

    if _has_boxes(request):
        return None, None
    detector, key = find_detector(request.detector, request.function, [source.name], warnings)
    if request.function is None:  # the first call is slow, and frames would come too late
        detector(np.zeros((source.height, source.width, 3), np.uint8))
    return detector, origin_of(detector, key)


def _printer(out: Path, stack: ExitStack, mode: str = "w") -> Callable[[Any], None]:
    """Prints events as JSON lines, and keeps them in a file."""
    from polyplink.cli.live_count import LIVE

    (out / LIVE).mkdir(parents=True, exist_ok=True)
    file = stack.enter_context((out / LIVE / "events.jsonl").open(mode, encoding="utf-8"))
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


def _run(
    request: LiveRequest, source: "LiveSource", detector: "Detector | None", counting: "LiveCount"
) -> bool:
    """Take frames until the source ends, stalls or breaks off, or a signal comes: that is True."""
    from polyplink.core.messages import Message
    from polyplink.detect.live import Feed
    from polyplink.detect.run import look

    size = (source.width, source.height)
    feed = Feed(source, request.speed)
    with _signals() as caught:
        last = time.monotonic()
        while not caught:
            try:
                frame = feed.next(LOOK)
                while source.warnings:
                    numbered_on = source.warnings.pop(0)
                    counting.warn(Message("live.numbered_on", {"what": numbered_on}))
                if frame is None:
                    break
                before = counting.frames
                frame_size = size if frame.picture is None else frame.picture.size
                PolyplinkError.unless(
                    frame_size == size,
                    f"the pictures were {size[0]} x {size[1]} pixels and are now {frame_size[0]} x "
                    f"{frame_size[1]}",
                    "start again with another --out",
                )
                boxes = frame.boxes
                if boxes is None:
                    assert detector is not None
                    assert frame.picture is not None
                    boxes = look(detector, frame.picture)
                counting.late = feed.dropped
                counting.frame(frame, boxes)
                if counting.frames > before:
                    last = time.monotonic()
            except TimeoutError:
                pass
            except (PolyplinkError, OSError) as error:
                counting.warn(Message("live.ended", {"why": first_line(error)}))
                break
            if time.monotonic() - last > request.stall:
                counting.warn(Message("live.stalled", {"seconds": f"{request.stall:g}"}))
                break
    feed.stop()
    if counting.late:
        counting.warn(Message("live.late", {"n": counting.late}))
    if counting.backwards:
        counting.warn(Message("live.left_out", {"n": counting.backwards}))
    return bool(caught)
