"""The verb `live`: counts the polyps of a procedure while it runs."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from typer import Argument, Option, echo

from polyplink.cli import options
from polyplink.cli.options import StrPath, TrackletOptions, check_inputs, refuse_unused
from polyplink.cli.verb import inform, verb
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result
from polyplink.core.runs import RunRecord, read_run, sole_writer
from polyplink.core.text import readable_path
from polyplink.models.shipped import ENCODER

if TYPE_CHECKING:
    from polyplink.core.messages import Message
    from polyplink.data.origin import BoxesOrigin
    from polyplink.detect.folder import OpenedDetector
    from polyplink.encoders.load import NamedEncoder
    from polyplink.pipeline.count_data import Counted
    from polyplink.streaming.live_count import Event, LiveCount
    from polyplink.streaming.live_page import LivePage
    from polyplink.streaming.sources import LiveSource

    CountFolder = Callable[..., Result[Counted]]  # count_and_track, of a data folder into a folder

REPORT = "count/report.html"


@verb
def live(
    source: Annotated[
        "str | LiveSource",
        Argument(
            help="A video or a folder of images, played in real time; a camera (/dev/video0, "
            "FORMAT:DEVICE); a stream (rtsp://...); - for boxes on stdin, as JSON lines; the "
            "output folder of a count that was killed, to write its report."
        ),
    ],
    *,
    weights: options.WeightsOption = ENCODER,
    detector: options.DetectorName = None,
    boxes: Annotated[
        StrPath | None,
        Option(help="JSON lines with boxes of the recording SOURCE, instead of a detector."),
    ] = None,
    recording: Annotated[
        StrPath | None, Option(help="Video or folder with the pictures of boxes from stdin.")
    ] = None,
    out: options.OutOfSource = None,
    replace: options.Replace = False,
    speed: Annotated[
        float,
        Option(
            min=0,
            help="Speed of a recording, 1 for real time; 0: as fast as possible, without "
            "dropping frames, also those of a pipe or stream.",
        ),
    ] = 1.0,
    fps: options.Fps = None,
    stall: Annotated[
        float, Option(min=0.1, help="Seconds without a frame after which the count ends.")
    ] = 10.0,
    window: Annotated[
        float, Option(min=0, help="Minutes for which the polyp of a tracklet may be revised.")
    ] = 15.0,
    page: Annotated[bool, Option(help="Serve a page that shows the count.")] = True,
    port: Annotated[int, Option(min=0, max=65535, help="Its port; 0 takes any free one.")] = 0,
    browser: Annotated[bool, Option(help="Open it in the browser.")] = True,
    alarms: options.Alarms = "drop",
    purpose: options.Purpose = "count",
    device: options.Device = "auto",
    workers: options.Workers = 2,
    language: options.Language = "en",
    function: options.DetectorFunction = None,
    on_event: "Callable[[Event], object] | None" = None,
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> "Result[Counted]":
    """Count polyps while a procedure runs: events as JSON lines, a page, and a report in the end.

    The report is written when the source ends, stalls or fails, and on Ctrl-C and SIGTERM. If a
    count was killed, a call with its output folder as the source writes the report.

    Args:
        source: A video or a folder of images, a camera, the address of a stream, "-" for boxes on
            stdin, or the output folder of a count that was killed; or the frames of your program
            (`polyplink.streaming.sources.frames_from`).
        detector: An ONNX file, FILE.py:NAME of a function, or the name of a detector; the shipped
            one by default. With boxes or `function` the name of the detector that makes them, as it
            was calibrated.
        out: The output folder, which gets live (events.jsonl and pictures), and data, count and
            tracks as `run` writes them.
        function: Your own detector; see `detect_polyps`.
        on_event: Called with each event, in the thread that called `live`; no event is printed
            then.
        progress: Called for the report.

    Returns:
        The count of all frames, as `count` returns it.

    Raises:
        Exception: An error of your frames, `function` or `on_event` ends the count, and is raised
            when the report is written.
        PolyplinkError: If the source, the detector or the weights are missing or broken before the
            first frame, or the output folder holds a count that was killed.
    """
    # Refuse what is wrong before torch is imported.
    weights = Path(weights)
    check_inputs(weights, device=device)
    refuse_unused(None, 0, tracklets)
    frames, source = _frames_of(source)
    brings_boxes = _brings_boxes(
        source,
        frames,
        boxes,
        recording,
        fps,
        has_detector=function is not None
        or re.search(r"\.onnx$|\.py(:|$)", str(detector)) is not None,
    )

    # The record, and how the written data folder is counted in the end.
    from polyplink.associate.online import OnlineSettings
    from polyplink.counting.count_folder import SOURCE, output_folder
    from polyplink.encoders.load import load_named
    from polyplink.pipeline.count_data import count_and_track
    from polyplink.streaming.live_count import LIVE, LiveCount
    from polyplink.streaming.session import count_frames, event_log, wait_for_signal
    from polyplink.streaming.setup import first_messages, open_linking, warm_detector
    from polyplink.streaming.sources import is_device, open_source, without_password

    exists = frames is None and Path(source).exists()
    record = RunRecord(
        "live",
        settings={
            SOURCE: str(Path(source).resolve()) if exists else without_password(source),
            "weights": weights,
            "detector": detector,
            "boxes": boxes,
            "speed": speed,
            "window": window,
            "alarms": alarms,
            "purpose": purpose,
        },
    )
    load = partial(load_named, weights, device, tracklets=tracklets)
    count_folder: CountFolder = partial(
        count_and_track,
        weights,
        alarms=alarms,
        purpose=purpose,
        device=device,
        workers=workers,
        tracklets=tracklets,
        language=language,
        progress=progress,
    )

    # A killed count: only its report is written.
    if frames is None and _is_killed(Path(source), out):
        with sole_writer(Path(source)):
            record.claim(Path(source))
            return _report_killed(Path(source), load, record, count_folder)

    # A procedure that runs.
    default = None if frames is None else readable_path(Path("live"), source)
    out = output_folder(out or default, "live", without_password(source))
    with sole_writer(out), ExitStack() as stack:
        # A camera's address is the same for every procedure and cannot identify one.
        _claim(record, out, source if exists and not is_device(source) else None, replace=replace)

        # The source, its detector, and how its boxes are linked.
        opened = frames or open_source(
            source, stack, boxes=boxes, recording=recording, fps=fps, stall=stall
        )
        finder = None if brings_boxes else warm_detector(detector, function, opened)
        shutil.rmtree(out / LIVE, ignore_errors=True)
        encoder, point, cover = open_linking(
            load,
            _origin(finder, detector),
            opened.fps if opened.rate_known else None,
            out,
            purpose=purpose,
            keep_alarms=alarms == "keep",
        )

        # The count, its events and its page.
        errors: list[Exception] = []  # raised when the report is written
        counting = LiveCount(
            opened,
            encoder,
            point,
            out,
            stack.enter_context(event_log(out, on_event=on_event, errors=errors)),
            cover=cover,
            keep_alarms=alarms == "keep",
            settings=OnlineSettings(window=60 * window),
        )
        threads = counting.warm_up(os.cpu_count() or 1)
        served = stack.enter_context(_serve_page(counting, out, port, browser)) if page else None
        counting.emit(
            "started",
            procedure=opened.name,
            fps=opened.fps,
            window=60 * window,
            threads=threads,
            page=served and served.address,
            weights=encoder.key,
        )
        of_count, others = first_messages(
            opened, finder, weights, encoder, cover, point=point, out=out
        )
        counting.warn(*of_count, *others)

        # Frames, until the source ends or is stopped.
        with record.stage("live"):
            stopped = count_frames(
                opened, finder, counting, speed=speed, stall=stall, errors=errors
            )
        _refuse_empty(source, counting, counting.warnings[len(of_count) + len(others) :], errors)
        counting.end()

        # The report, and the pages until they are closed.
        counted, facts = _report(out, record, count_folder, counting.warnings[len(of_count) :])
        stays = (
            served is not None
            and bool(served.open)
            and not stopped
            and current_thread() is main_thread()  # which alone receives Ctrl-C
        )
        review = stack.enter_context(_serve_review(out)) if stays else None
        finished = _finish(counting, counted.value, facts, review)
        if stays:
            echo("the page stays open; Ctrl-C ends", err=True)
            wait_for_signal()
    if errors:
        raise errors[0]
    return Result(counted.value, finished, [], counted.warnings)


def _is_killed(source: Path, out: StrPath | None) -> bool:
    """Whether a source is the output folder of a count that was killed before its report.

    Raises:
        PolyplinkError: If it is that of a finished count, or of one that was killed before it wrote
            frames, or the report is to be written elsewhere.
    """
    from polyplink.counting.count_folder import LIVE_SOURCE
    from polyplink.data.files.folders import images_in, videos_in
    from polyplink.detect.first_pass import PIECE
    from polyplink.streaming.live_count import written_pieces

    if not written_pieces(source):
        is_finished = read_run(source).get("command") == "live"
        is_count = is_finished or (source / LIVE_SOURCE).is_file()
        if not is_count or images_in(source) or videos_in(source):  # a recording
            return False
        if is_finished:
            raise PolyplinkError(
                f"{source} holds a finished count", f"its report is {source / REPORT}"
            )
        raise PolyplinkError(
            f"{source} holds a count that was killed in its first {PIECE} frames, none of which "
            "are on disk",
            "count the recording again",
        )
    if out is not None and Path(out).resolve() != source.resolve():
        raise PolyplinkError(
            f"the report of the killed count in {source} is written there", "leave --out out"
        )
    return True


def _claim(record: RunRecord, out: Path, recording: str | None, *, replace: bool) -> None:
    """Refuse an output folder that holds something else; with `replace`, remove its count.

    Args:
        record: The record of this count.
        out: The output folder.
        recording: The recording to count; None for a camera.
        replace: Whether to replace the count of another recording, or one that was killed.

    Raises:
        PolyplinkError: If its folder `live` is not of a live count, as the default folder of
            several counts is not, or is of one that was killed before its report and `replace` is
            False; and see `claim_for_count`.
    """
    from polyplink.counting.count_folder import LIVE_SOURCE, RUN_PARTS, claim_for_count, file_size
    from polyplink.data.origin import FILE as ORIGIN_FILE
    from polyplink.streaming.live_count import LIVE, written_pieces

    names = {path.name for path in (out / LIVE).glob("[!.]*")}
    if names and not names & {ORIGIN_FILE, Path(LIVE_SOURCE).name, "events.jsonl"}:
        raise PolyplinkError(f"{out} holds {LIVE} of another kind", "name another --out")
    if not replace and written_pieces(out):
        raise PolyplinkError(
            f"{out} holds a count that was killed",
            f"report it with `polyplink live {out} --weights WEIGHTS`, replace it with --replace, "
            "or name another --out",
        )
    claim_for_count(record, out, recording, RUN_PARTS, replace=replace, size=file_size(recording))


def _frames_of(source: object) -> "tuple[LiveSource | None, str]":
    """The frames of a program, if they are the source, and the name of the source."""
    from polyplink.streaming.sources import LiveSource

    if isinstance(source, LiveSource):
        return source, source.name
    if not isinstance(source, str | os.PathLike):
        kind = type(source).__name__
        raise TypeError(
            f"source is of type {kind}; give a text, or frames by "
            "`polyplink.streaming.sources.frames_from`"
        )
    return None, os.fspath(source)


def _brings_boxes(
    source: str,
    frames: "LiveSource | None",
    boxes: StrPath | None,
    recording: StrPath | None,
    fps: float | None,
    *,
    has_detector: bool,
) -> bool:
    """Whether the frames come with boxes; refuses two sources of boxes, and no recording."""
    from polyplink.detect.recordings import find_recordings
    from polyplink.streaming.sources import STDIN, is_device, without_password

    sends_frames = frames is not None or source == STDIN or is_device(source)
    if frames is not None and (recording is not None or fps is not None):
        raise PolyplinkError(
            "recording or fps is given beside frames", "leave it out; `frames_from` takes the rate"
        )
    if boxes is not None and sends_frames:
        raise PolyplinkError(
            f"--boxes is given beside {without_password(source)}",
            "leave it out; it is for the boxes of a recording",
        )
    brings_boxes = boxes is not None or (frames.brings_boxes if frames else source == STDIN)
    if brings_boxes and has_detector:
        raise PolyplinkError(
            "both a detector and boxes are given",
            "leave one out, or give the name of the detector that made the boxes",
        )
    if not (sends_frames or Path(source).is_dir()):
        find_recordings(Path(source), fps)
    return brings_boxes


def _origin(finder: "OpenedDetector | None", name: str | None) -> "BoxesOrigin | None":
    """The detector that looks at frames, or the named one that made the boxes; None if unknown."""
    from polyplink.data.origin import BoxesOrigin

    if finder is not None:
        return finder.origin
    return None if name is None else BoxesOrigin(name, name)


def _refuse_empty(
    source: str, counting: "LiveCount", warnings: "list[Message]", errors: list[Exception]
) -> None:
    """Refuse a source that had no frame that could be counted, with the reason."""
    if counting.latencies:  # one for each counted frame
        return
    if errors:
        raise errors[0]
    reason = "; ".join(map(str, warnings)) or f"{source} has no frame that can be read"
    raise PolyplinkError(reason, "give a source that is running")


@contextmanager
def _serve_page(counting: "LiveCount", out: Path, port: int, browser: bool) -> "Iterator[LivePage]":
    """Serve the page of the count, and open it in the browser if `browser` is set."""
    from polyplink.streaming.live_count import LIVE
    from polyplink.streaming.live_page import LivePage, serving

    page = LivePage(lambda: counting.state, out / LIVE, out / REPORT)
    with serving(page, port):
        echo(f"live: {page.address}", err=True)
        if browser:
            import webbrowser

            webbrowser.open(page.address)
        yield page


@contextmanager
def _serve_review(out: Path) -> Iterator[str]:
    """Serve the review of a finished count while the page is open; yields the review's address."""
    from polyplink.serve.desk import Desk
    from polyplink.serve.server import serving

    with serving(Desk(out)) as address:
        yield address


def _report(
    out: Path, record: RunRecord, count_folder: "CountFolder", warnings: "list[Message]"
) -> "tuple[Result[Counted], dict[str, Any]]":
    """Count the written data folder; remove the files from which a killed count is reported.

    A later `count` of the data folder has the same warnings.
    """
    from polyplink.data.origin import read_origin, write_origin, write_warnings
    from polyplink.streaming.live_count import LIVE, remove_pieces

    write_origin(out / "data", read_origin(out / LIVE))
    write_warnings(out / "data", warnings)
    counted = count_folder(out / "data", out)
    record.write(out)
    remove_pieces(out)
    (procedure,) = counted.value.count.procedures
    final = {name: getattr(procedure, name) for name in ("polyps", "low", "high", "tracklets")}
    facts = {"report": str(counted.value.report), "final": final}
    count_facts = ("cover", "warnings", "messages")
    return counted, facts | {name: counted.value.summary[name] for name in count_facts}


def _finish(
    counting: "LiveCount",
    counted: "Counted",
    facts: dict[str, Any],
    review: str | None,
) -> Any:
    """Show the final count, and emit the event with the latencies of frames and tracklets."""
    from polyplink.streaming.live_count import percentiles

    counting.finish(counted.count, counted.report, review)
    milliseconds = {
        "frame": percentiles(counting.latencies),
        "tracklet": percentiles(counting.closings),
    }
    timings = {"backwards": counting.backwards, "milliseconds": milliseconds}
    return counting.emit("finished", **facts, **timings)


def _report_killed(
    out: Path,
    load: "Callable[..., NamedEncoder]",
    record: RunRecord,
    count_folder: "CountFolder",
) -> "Result[Counted]":
    """Write the report of a killed count from the files that it has written."""
    from polyplink.core.messages import Message
    from polyplink.data.origin import read_origin
    from polyplink.detect.recordings import recording_messages
    from polyplink.report.formats import clock
    from polyplink.streaming.live_count import (
        LIVE,
        killed_source,
        late_messages,
        other_settings,
        write_pieces,
    )
    from polyplink.streaming.session import event_log, late_before

    others = other_settings(out, load(origin=read_origin(out / LIVE)))
    source, frames = killed_source(out)
    lost = write_pieces(out, source, frames)
    killed = Message("live.killed", {"clock": clock(frames / source.fps)})
    late = late_messages(late_before(out, frames), frames)
    messages = [killed, *others, *late, *lost, *recording_messages(source.recordings)]
    counted, facts = _report(out, record, count_folder, messages)
    finished = {"event": "finished", "frame": frames - 1} | facts
    with event_log(out, "a") as write_event:
        write_event(finished)
    return Result(counted.value, finished, [], counted.warnings)
