"""Sources of a running procedure: a recording played in real time, a camera, a stream, boxes.

`frames_from` makes a source of a program's own frames, in Python.

Frames are read in a thread. If too many wait, some are dropped and counted, evenly over the time
that the waiting ones span; a source that is played as fast as possible waits instead.

Boxes come as JSON lines, see docs/reference/files.md: a line with fps, width and height, then one
line per frame. The pictures come from a recording, or each box comes with a crop.
"""

import base64
import binascii
import math
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from io import TextIOWrapper
from pathlib import Path
from threading import Condition, Event, Thread
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from polyplink.core.arrays import Floats
from polyplink.core.artefacts import parse_json
from polyplink.core.errors import PolyplinkError, first_line, one_line
from polyplink.core.messages import Message
from polyplink.core.text import many
from polyplink.data.files.folders import check_is_file
from polyplink.data.files.images import Picture, Pixels, decode_image
from polyplink.data.files.video import RESTART
from polyplink.detect.first_pass import check_output, clip_boxes
from polyplink.detect.recordings import Recording, find_recordings
from polyplink.tracklets.box_runs import USUAL_FPS

Kind = Literal["recording", "device", "lines"]
TimedFrame = tuple[float, Pixels] | tuple[float, Pixels, npt.ArrayLike]
Arrival = tuple[float | None, Any, Floats | None]  # time, a decoder's frame or pixels, boxes

AHEAD = 8  # most frames that wait
LONGEST_LINE = 16 << 20  # characters
FIRST_LINE = '{"fps": 25, "width": 1280, "height": 1024}'  # of boxes, as messages show it
LARGEST = (1000.0, 16_384, 16_384)  # fps, width, height
LARGEST_FRAME = 2**31 - 2  # the tables hold the number of frames in 32 bits
CLOSING = 1.0  # seconds that the end of a count waits for its source and detector to end
PATIENCE = 10.0  # seconds to wait for a stream to open, and at least for its next packet
CHECKED = 100  # first frames of a program: their rate is compared with the stated one
LONGEST_GAP = 86_400.0  # seconds between frames of a program; a longer step is a reset clock
# Formats of FFmpeg for capture devices: "v4l2:/dev/video0", "dshow:video=NAME".
DEVICES = ("v4l2", "dshow", "avfoundation", "decklink", "gdigrab", "x11grab")


@dataclass(frozen=True)
class LiveFrame:
    """A frame of a running procedure.

    Attributes:
        number: Frame number from 0, at the source's rate: lost frames leave gaps.
        picture: The pixels; None if there are none.
        boxes: (k, 5) x, y, w, h and score; None for a source without boxes.
        crops: The crop (h, w, 3) of each box; empty for a source without crops.

    A frame without picture and boxes is one that does not decode.
    """

    number: int
    picture: Picture | None = None
    boxes: Floats | None = None
    crops: Sequence[Pixels] = ()

    @property
    def decodes(self) -> bool:
        """Whether there is anything to count in it."""
        return self.picture is not None or self.boxes is not None


@dataclass(frozen=True)
class LiveSource:
    """Frames of a running procedure.

    Attributes:
        name: The procedure's id.
        fps: Frames per second.
        width: Width of a frame, pixels.
        height: Height of a frame, pixels.
        frames: The frames, as they arrive.
        recording: The recording, from which pictures can be read again; None for a camera.
        kind: "recording" is played at a speed, frames of a "device" come in real time, and the
            writer of "lines" waits until they are read.
        warnings: Irregularities of the frames so far; the reader removes them.
        rate_known: Whether `fps` is stated, and not assumed.
        brings_boxes: Whether the frames come with boxes and need no detector.
        of_program: Whether a program makes the frames: an error that ends them is raised, where for
            other sources it is a warning.
    """

    name: str
    fps: float
    width: int
    height: int
    frames: Iterator[LiveFrame] = field(repr=False)
    recording: Recording | None = None
    kind: Kind = "recording"
    warnings: list[Message] = field(default_factory=list)
    rate_known: bool = True
    brings_boxes: bool = False
    of_program: bool = False

    @property
    def recordings(self) -> list[Recording]:
        """The recording, if there is one."""
        return [] if self.recording is None else [self.recording]


def frames_from(
    frames: Iterable[TimedFrame],
    *,
    name: str,
    fps: float,
    width: int,
    height: int,
    boxes: bool = False,
    wait: bool = False,
) -> LiveSource:
    """Frames of a program's own, such as those of a capture card, as a source for `live`.

    A thread takes the frames; it waits whenever there is none. The procedure is over when they end.
    If the count ends earlier, this thread closes a generator, so that its `finally` blocks run.

    Args:
        frames: For each frame its time in seconds from any moment, its pixels (height, width, 3) in
            8 bits RGB, which are copied, and with `boxes` its boxes (k, 5): x, y, w, h in pixels
            and a score from 0 to 1.
        name: The procedure's name.
        fps: Frames per second, at least as many as arrive.
        width: Width of a frame, pixels.
        height: Height of a frame, pixels.
        boxes: Whether each frame comes with its boxes, and no detector is called.
        wait: Whether the frames wait until they are processed, as those of a file can. Otherwise
            frames are dropped if too many arrive.

    Raises:
        PolyplinkError: If the rate or the size is out of range, or the name is empty; while the
            frames are taken, if one is malformed, or their times do not fit the rate.

    Example:
        >>> black = np.zeros((48, 64, 3), np.uint8)
        >>> timed = [(0.0, black), (0.04, black), (0.12, black)]  # the third is missing
        >>> source = frames_from(timed, name="case7", fps=25, width=64, height=48)
        >>> [frame.number for frame in source.frames]
        [0, 1, 3]
    """
    facts = {"fps": fps, "width": width, "height": height}
    for (key, value), most in zip(facts.items(), LARGEST, strict=True):
        if not (0 < value <= most):
            raise PolyplinkError(f"{key} is {value}", f"give up to {most:g}")
    if not (0 < len(name) <= 200):
        raise PolyplinkError(f"name {name!r}", "give 1 to 200 characters")
    warnings: list[Message] = []

    def arrivals() -> Iterator[Arrival]:
        last: float | None = None
        elapsed = 0.0  # seconds, without steps back in time
        with _closing(frames):
            for count, timed in enumerate(frames):
                at = f"frame {count} of {name}"
                if not isinstance(timed, Sequence) or len(timed) != 2 + boxes:
                    raise PolyplinkError(
                        f"{at} is not a tuple of {2 + boxes} values",
                        f"give its time, its pixels{' and its boxes' if boxes else ''}",
                    )
                pixels = np.array(timed[1])  # a copy: capture cards use their memory again
                if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
                    raise PolyplinkError(
                        f"{at} is {pixels.dtype} {pixels.shape}",
                        "give uint8 (height, width, 3), RGB",
                    )
                boxes_in = check_output(np.asarray(timed[-1])) if boxes else None
                now = _seconds(timed[0], at)
                elapsed += 0.0 if last is None else max(now - last, 0.0)
                last = now
                usual = CHECKED / fps  # seconds of the first frames
                too_short = count == CHECKED and elapsed <= usual / 1.5
                too_long = count <= CHECKED and elapsed >= usual * 100
                if too_short or too_long:
                    raise PolyplinkError(
                        f"the times of {name} say that {many(count, 'frame')} took {elapsed:g} s, "
                        f"and fps is {fps:g}",
                        "give times in seconds, and at least as many frames per second as arrive",
                    )
                yield now, pixels, boxes_in

    def jumped(seconds: float) -> None:
        warnings.append(_jump(name, seconds))

    numbered = _number_frames(arrivals(), fps, LONGEST_GAP, jumped)
    kind: Kind = "lines" if wait else "device"
    return LiveSource(
        name,
        fps,
        width,
        height,
        numbered,
        kind=kind,
        warnings=warnings,
        brings_boxes=boxes,
        of_program=True,
    )


def _seconds(value: object, at: str) -> float:
    """The time of a program's frame."""
    try:
        seconds = float(value)  # type: ignore[arg-type]  # of the user
    except (TypeError, ValueError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise PolyplinkError(f"the time of {at} is {one_line(repr(value), 40)}", "give seconds")
    return seconds


def play_recording(recording: Recording) -> LiveSource:
    """A recording as a source, with a warning if it has changed when it ends."""
    before, warnings = recording.state(), list[Message]()

    def frames() -> Iterator[LiveFrame]:
        for number, picture in recording.frames():
            yield LiveFrame(number, picture)
        if recording.state() != before:
            warnings.append(Message("live.grew", {"path": str(recording.path)}))

    return LiveSource(
        recording.name,
        recording.rate,
        recording.width,
        recording.height,
        frames(),
        recording,
        warnings=warnings,
        rate_known=recording.fps is not None,
    )


def is_device(source: str) -> bool:
    """Whether a source is a camera, a capture device or a stream, and not a file.

    Example:
        >>> [is_device(source) for source in ("rtsp://tower/1", "v4l2:/dev/video0", "film.mp4")]
        [True, True, False]
    """
    return (
        "://" in source
        or source.startswith("/dev/video")
        or source.split(":", maxsplit=1)[0] in DEVICES
    )


def without_password(source: str) -> str:
    """An address without the user and password of a camera, which may be printed and stored.

    Example:
        >>> without_password("rtsp://admin:secret@tower/1")
        'rtsp://tower/1'
    """
    return re.sub(r"(?<=://)[^/]*@", "", source)


def capture_stream(source: str, fps: float | None = None, stall: float = 0.0) -> LiveSource:
    """A camera, a capture device or a stream as a source.

    A packet that cannot be decoded is a frame that does not decode. If the clock of a stream is
    reset, as by an encoder that restarts, the numbers of its frames continue. Frames and warnings
    end with a source that breaks off.

    Args:
        source: An address (rtsp://...), /dev/video0, or FORMAT:DEVICE with one of `DEVICES`.
        fps: Frames per second; None for the rate that the source states.
        stall: Seconds to wait for a packet, if more than `PATIENCE`.

    Raises:
        PolyplinkError: If the source cannot be opened, has no video or states no size.
    """
    import av  # noqa: PLC0415 - heavy

    form, _, device = source.partition(":")
    is_named = form in DEVICES
    address = without_password(source)
    patience = max(PATIENCE, stall)

    def reason(error: Exception, seconds: float) -> str | Message:
        late = isinstance(error, av.error.ExitError)
        return Message("live.silent", {"seconds": seconds}) if late else first_line(error)

    # The source, opened.
    try:
        container: Any = av.open(
            device if is_named else source,
            format=form if is_named else "v4l2" if source.startswith("/dev/") else None,
            options={"rtsp_transport": "tcp"} if source.startswith("rtsp") else {},
            timeout=(PATIENCE, patience),
        )
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise PolyplinkError(
            f"{address} cannot be opened ({reason(error, PATIENCE)})",
            "check the address and the cable",
        ) from None

    # Its video, and the size and rate of it.
    stream = container.streams.best("video")
    if stream is None:
        raise PolyplinkError(f"{address} has no video", "name a camera or a stream")
    stated = float(stream.average_rate or 0)
    if stated > LARGEST[0]:  # the units of time of raw DV
        stated = float(stream.guessed_rate or 0)
    rate = fps or stated or USUAL_FPS
    width, height = stream.codec_context.width, stream.codec_context.height
    if width <= 0 or height <= 0:
        raise PolyplinkError(f"{address} does not state its size", "play it with ffmpeg first")
    warnings: list[Message] = []

    def arrivals() -> Iterator[Arrival | None]:
        with container:
            try:
                for packet in container.demux(stream):
                    try:
                        for picture in packet.decode():
                            yield picture.time, picture, None
                    except av.error.InvalidDataError:
                        yield None
            except (av.error.FFmpegError, OSError) as error:
                why = reason(error, patience)
                warnings.append(Message("live.broke_off", {"name": address, "why": why}))

    def jumped(seconds: float) -> None:
        warnings.append(_jump(address, seconds))

    # A longer gap would have been a timeout, so a larger step is a reset of the clock.
    frames = _number_frames(arrivals(), rate, patience + RESTART, jumped)
    return LiveSource("live", rate, width, height, frames, kind="device", warnings=warnings)


def _jump(name: str, seconds: float) -> Message:
    """The warning that the clock of a source was reset by a number of seconds."""
    return Message("live.numbered_on", {"name": name, "seconds": round(seconds, 1)})


@contextmanager
def _closing(frames: object) -> Iterator[None]:
    """Close a generator in the end; other iterables belong to the program that made them."""
    try:
        yield
    finally:
        if isinstance(frames, Generator):
            frames.close()


def _number_frames(
    arrivals: Iterable[Arrival | None], rate: float, longest: float, jumped: Callable[[float], None]
) -> Iterator[LiveFrame]:
    """Number frames by the clock of a stream; numbers continue if the clock is reset.

    Args:
        arrivals: The frames; None for one that does not decode.
        rate: Frames per second.
        longest: Longest step from one frame to the next that is no reset, seconds.
        jumped: Called with the seconds by which the clock was reset.
    """
    first = last = None
    number = -1
    with _closing(arrivals):
        for arrival in arrivals:
            if arrival is None:
                if last is not None:  # a stream may begin amid frames that depend on each other
                    number += 1
                    yield LiveFrame(number)
                continue
            stamp, picture, boxes = arrival
            now = time.monotonic() if stamp is None else stamp
            first = now if first is None else first
            if last is not None and not -RESTART <= now - last <= longest:
                jumped(now - last)
                first += now - last - 1 / rate
                last = now - 1 / rate
            clock_number = round((now - first) * rate)
            # Jitter may round two frames to one number; going back in time stays visible.
            number = max(clock_number, number + 1) if last is None or now > last else clock_number
            last = now
            yield LiveFrame(number, Picture(picture), boxes)


def boxes_from(
    lines: IO[str],
    where: str,
    recording: Recording | None = None,
    kind: Kind = "lines",
    *,
    fps: float | None = None,
) -> LiveSource:
    """Boxes as JSON lines, as a source.

    Args:
        lines: The lines.
        where: Name of the lines, for messages.
        recording: The recording with the pictures; None if each box comes with a crop.
        kind: "recording" to play the frames at its rate.
        fps: Frames per second; None for those of the first line or of the recording.

    Raises:
        PolyplinkError: If the first line does not describe the frames.
    """
    first = lines.readline(LONGEST_LINE)
    if not first:
        raise PolyplinkError(
            f"{where} is empty: no boxes arrived", f"begin with {FIRST_LINE}, then a line per frame"
        )
    head = _object(first, f"{where}, line 1")
    name = head.get("procedure", recording.name if recording else "live")
    facts: dict[str, Any] = dict.fromkeys(("fps", "width", "height"))
    if recording is not None:
        facts |= {"fps": recording.rate, "width": recording.width, "height": recording.height}
    facts |= {key: head[key] for key in facts if key in head}
    if fps is not None:
        facts["fps"] = fps
    for (key, value), most in zip(facts.items(), LARGEST, strict=True):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if (
            not is_number
            or not (0 < value <= most)
            or (key != "fps" and not isinstance(value, int))
        ):
            raise PolyplinkError(
                f"{where}, line 1: {key} is {one_line(repr(value), 40)}",
                f"begin with {FIRST_LINE}, {key} up to {most:g}",
            )
    if not isinstance(name, str) or not (0 < len(name) <= 200):
        raise PolyplinkError(
            f"{where}, line 1: procedure is not a name", "give a text of 1 to 200 characters"
        )
    size = facts["width"], facts["height"]
    if recording is not None and size != (recording.width, recording.height):
        raise PolyplinkError(
            f"{where}, line 1: {size[0]} x {size[1]} pixels, and {recording.path} has "
            f"{recording.width} x {recording.height}",
            "give the boxes of this recording",
        )
    frames = _frames(lines, where, size, cropped=recording is None)
    if recording is not None:
        frames = _add_pictures(frames, recording)
    return LiveSource(
        str(name),
        float(facts["fps"]),
        *size,
        frames,
        recording,
        kind,
        rate_known="fps" in head or recording is None or recording.fps is not None,
        brings_boxes=True,
    )


def _object(line: str, at: str) -> dict[str, Any]:
    """The JSON object of a line."""
    if len(line) >= LONGEST_LINE:
        raise PolyplinkError(f"{at} is too long", "write one frame a line")
    hint = "write one JSON object a line"
    value = parse_json(line, at, hint)
    if not isinstance(value, dict):
        raise PolyplinkError(f"{at} is not a JSON object", hint)
    return dict(value)


def _frames(
    lines: IO[str], where: str, size: tuple[int, int], *, cropped: bool
) -> Iterator[LiveFrame]:
    """The frames of the lines after the first, each box with a crop if `cropped`."""
    count = 1
    while line := lines.readline(LONGEST_LINE):
        count += 1
        at = f"{where}, line {count}"
        if not line.strip():
            continue
        row = _object(line, at)
        number, raw_boxes = row.get("frame"), row.get("boxes", [])
        if type(number) is not int or not (0 <= number <= LARGEST_FRAME):
            raise PolyplinkError(
                f"{at}: frame is {one_line(repr(number), 40)}",
                "number the frames with whole numbers from 0",
            )
        try:
            rows = [[*map(float, box), *([1.0] if len(box) == 4 else [])] for box in raw_boxes]
            boxes = check_output(np.array(rows, np.float64).reshape(len(rows), 5))
        except (TypeError, ValueError, OverflowError, PolyplinkError):
            raise PolyplinkError(
                f"{at}: these are not boxes", "write [x, y, w, h, score], score from 0 to 1"
            ) from None
        crops: list[Pixels] = []
        if cropped:
            texts = row.get("crops", [])
            if not isinstance(texts, list) or not (
                len(texts) == len(clip_boxes(boxes, size)) == len(boxes)
            ):
                raise PolyplinkError(
                    f"{at}: {many(len(rows), 'box')}, and not as many crops, or one lies outside "
                    "the frame",
                    "give a crop of each box, or pictures with --recording",
                )
            crops = [_crop(text, at) for text in texts]
        assert isinstance(number, int)
        yield LiveFrame(number, None, boxes, crops)


def _crop(text: object, at: str) -> Pixels:
    """A crop from JPEG or PNG in base 64."""
    image: Pixels | str = "no text"
    if isinstance(text, str):
        try:
            image = decode_image(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError) as error:
            image = first_line(error)
    if isinstance(image, str):
        raise PolyplinkError(f"{at}: a crop cannot be decoded ({image})", "write JPEG in base 64")
    return image


def _add_pictures(frames: Iterator[LiveFrame], recording: Recording) -> Iterator[LiveFrame]:
    """Frames with the pictures of a recording, which is decoded forward once."""
    pictures = recording.frames()
    number, picture = -1, None
    for frame in frames:
        while number < frame.number:
            try:
                number, picture = next(pictures)
            except StopIteration:
                raise PolyplinkError(
                    f"frame {frame.number} is not in {recording.path}",
                    "give the recording that the boxes are of",
                ) from None
        if number > frame.number:  # the numbers of the lines go backwards
            yield frame
        else:
            yield LiveFrame(number) if picture is None else replace(frame, picture=picture)


STDIN = "-"


def open_source(
    source: str,
    stack: ExitStack,
    *,
    boxes: str | Path | None = None,
    recording: str | Path | None = None,
    fps: float | None = None,
    stall: float = 0.0,
) -> LiveSource:
    """The source that a user names on the command line.

    Args:
        source: A video or a folder of images, a device or an address; `STDIN` for boxes on stdin.
        stack: Closes the file of the boxes.
        boxes: File of the boxes of the recording, as JSON lines.
        recording: The recording with the pictures, for boxes on stdin.
        fps: Frames per second; None for the rate of the recording or of the first line.
        stall: Seconds without a frame after which a device counts as stalled.

    Raises:
        PolyplinkError: If the source does not exist, or the options do not apply to it.
    """
    if source == STDIN:
        pictures = None if recording is None else _one_recording(Path(recording), fps)
        lines = TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
        return boxes_from(lines, "stdin", pictures, fps=fps)
    if recording is not None:
        raise PolyplinkError(
            f"--recording is given beside {source}", "leave it out; it is for boxes on stdin (-)"
        )
    if is_device(source):
        return capture_stream(source, fps, stall)
    pictures = _one_recording(Path(source), fps)
    if boxes is None:
        return play_recording(pictures)
    file = Path(boxes)
    check_is_file(file, "check the path given with --boxes")
    lines = stack.enter_context(file.open(encoding="utf-8", errors="replace"))
    return boxes_from(lines, str(boxes), pictures, "recording", fps=fps)


def _one_recording(path: Path, fps: float | None) -> Recording:
    recordings = find_recordings(path, fps)
    if len(recordings) != 1:
        raise PolyplinkError(f"{path} holds {len(recordings)} recordings", "name one of them")
    return recordings[0]


class Feed:
    """Frames of a source, read in a thread.

    If frames arrive faster than they are taken, those are dropped that leave the smallest gaps: a
    moment without processing costs every second or third frame of it, and no tracks.

    Attributes:
        dropped: Number of frames that were not taken in time.
        error: The error that ended the source; None so far, or if it ended without one.
        due: Time at which the next frame of a recording is to be shown, of `time.monotonic`.
    """

    def __init__(self, source: LiveSource, speed: float) -> None:
        """Start reading.

        Args:
            source: The source.
            speed: Playback speed of a recording relative to real time; 0 for as fast as possible,
                without dropping frames of any source.
        """
        self.dropped = 0
        self.error: Exception | None = None
        self.due = 0.0
        self._source, self._speed = source, speed
        self._drops = source.kind != "lines" and speed > 0
        self._taken = -1  # number of the last frame that was taken
        self._waiting: deque[LiveFrame] = deque()
        self._ended = False
        self._changed = Condition()
        self._stopped = Event()
        self._thread = Thread(target=self._read, daemon=True, name="frames")
        self._thread.start()

    def _read(self) -> None:
        begun, first = time.monotonic(), None
        try:
            with _closing(self._source.frames):
                for frame in self._source.frames:
                    first = frame.number if first is None else first
                    if self._source.kind == "recording" and self._speed:
                        self.due = begun + (frame.number - first) / self._source.fps / self._speed
                        self._stopped.wait(max(self.due - time.monotonic(), 0.0))
                    self._check_size(frame)
                    self._put(frame)
                    if self._stopped.is_set():
                        break
        except Exception as error:
            self.error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _check_size(self, frame: LiveFrame) -> None:
        """Refuse a frame of another size."""
        if frame.picture is not None:
            size, expected = frame.picture.size, (self._source.width, self._source.height)
            if size != expected:
                raise PolyplinkError(
                    f"the pictures were {expected[0]} x {expected[1]} pixels and are now "
                    f"{size[0]} x {size[1]}",
                    "start again with another --out",
                )

    def _put(self, frame: LiveFrame) -> None:
        """Let a frame wait to be taken; if too many wait, drop that which leaves the least gap."""
        with self._changed:
            if not self._drops:
                self._changed.wait_for(lambda: len(self._waiting) < AHEAD or self._stopped.is_set())
            self._waiting.append(frame)
            if len(self._waiting) > AHEAD:
                numbers = [self._taken, *(waiting.number for waiting in self._waiting)]
                gaps = [after - before for before, after in zip(numbers, numbers[2:], strict=False)]
                del self._waiting[gaps.index(min(gaps))]
                self.dropped += 1
            self._changed.notify_all()

    def next(self, timeout: float) -> LiveFrame | None:
        """The next frame; None at the end of the source.

        Raises:
            TimeoutError: If no frame arrives within `timeout` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting or self._ended, timeout):
                raise TimeoutError
            if self._waiting:
                frame = self._waiting.popleft()
                self._taken = frame.number
                self._changed.notify_all()
                return frame
        return None

    def stop(self) -> None:
        """Stop reading, and close the source; later if it does not give its next frame soon."""
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(CLOSING)
