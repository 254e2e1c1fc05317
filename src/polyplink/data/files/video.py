"""Videos: frames by exact number, decoded with PyAV.

A frame's number is its index, from 0, in presentation order, whatever the frame rate and B-frames
(which are stored out of order). `cv2.VideoCapture` and `ffmpeg -fps_mode passthrough` count frames
in the same way. The files of a playlist are one video. An index of the packets, read once without
decoding, maps numbers to presentation times (pts). After damage a decoder shows wrong pictures
without an error, so no frame is returned until the next key frame.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.files.folders import VIDEO_ENDINGS, is_playlist, is_video, read_playlist
from polyplink.data.files.images import Picture

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    Packets = Iterator[Packet[VideoStream]]

Times = npt.NDArray[np.int64]

_PICTURES = ("mjpeg", "png", "bmp", "gif", "webp")  # codecs of a cover
_WORTH_SEEKING = 16  # frames; decoding fewer is faster than seeking
_MOST_MISSING = 20  # times the frames that are there
_UNSURE = 16  # frames with uncertain numbers after a lost one, if frames are only counted
NOTICEABLE = 0.5  # seconds by which times may drift unmentioned: they are shown in whole seconds
RESTART = 1  # seconds: a clock that goes back further has begun anew
_PAUSE = 10  # usual steps from one frame to the next: a longer one, of over a second, is a pause
_EARLY = 1 << 24  # time units of any stream, back from its first packet
_BACK = (0, 1, 4, 16, 1 << 30)  # key frames to go back if a seek lands too late


@dataclass(frozen=True)
class _FileIndex:
    """A file of a video, and what its packets say about its frames."""

    path: Path
    n_streams: int  # videos in the file, without pictures of a cover
    n_frames: int  # from the first key frame on
    n_missing: int  # frames that a file cut short lists after its end
    width: int  # pixels
    height: int  # pixels
    fps: float | None  # mean frames per second, without pauses
    unit: float  # seconds in a time unit
    times: Times | None  # (n_frames,) pts, ascending, in time units; None: frames are counted
    keys: Times  # (k,) pts of every key frame, ascending; decoding can begin there
    key_order: Times  # (k,) decoding time (dts) of every key frame, in the same unit

    @property
    def length(self) -> int:
        """Number of frames, with those that are missing."""
        return self.n_frames + self.n_missing

    @property
    def drift(self) -> float:
        """Largest difference between a frame's time and its number divided by `fps`, seconds."""
        if self.times is None or self.fps is None:
            return 0.0
        seconds = (self.times - self.times[0]) * self.unit
        return float(np.abs(seconds - np.arange(self.n_frames) / self.fps).max())


class Video:
    """An open video: a file, or the files of a playlist as one video. It has one reader at a time.

    Attributes:
        n_frames: Number of frames, without those missing at the end.
        n_missing: Number of frames that a file cut short lists after its end. Those of a file
            before the last one are among `n_frames`, and do not decode.
        width: Width of a frame, pixels.
        height: Height of a frame, pixels.
        fps: Mean frames per second, without pauses of the recording; None if a file does not state
            them.
        drift: Largest difference between a frame's time and its number divided by `fps`, seconds.
            Times count from the first frame. The drift of a file without pts is 0.
        n_streams: Number of videos in a file, of which the one that FFmpeg selects is read.
        why: Why the frame that `frames` yielded last is None; "" if it is a picture.
    """

    def __init__(self, indexes: Sequence[_FileIndex], opened: ExitStack) -> None:
        """Take the index of each file, and a stack that closes the file that is open."""
        self.why = ""
        self._indexes, self._opened = indexes, opened
        self._open: tuple[int, _OpenFile] | None = None
        numbers = list(accumulate((index.length for index in indexes), initial=0))
        *self._first, total = numbers  # the number of each file's first frame
        self.n_missing = indexes[-1].n_missing
        self.n_frames = total - self.n_missing
        self.width, self.height = indexes[0].width, indexes[0].height
        self.fps, self.drift = indexes[0].fps, max(index.drift for index in indexes)
        self.n_streams = max(index.n_streams for index in indexes)
        if len(indexes) > 1:
            durations = [index.length / index.fps for index in indexes if index.fps]
            seconds = list(accumulate(durations, initial=0.0))  # at which each file begins
            self.fps = round(total / seconds[-1], 3) if len(durations) == len(indexes) else None
            if self.fps is not None:
                shifts = np.array(seconds) - np.array(numbers) / self.fps
                self.drift += float(np.abs(shifts).max())

    def frames(self, requested: Iterable[int]) -> Iterator[tuple[int, Picture | None]]:
        """Decode some frames in ascending order; seek over long gaps between them.

        Args:
            requested: Frame numbers, ascending, each once.

        Yields:
            Number and frame; None for a frame that does not decode, has another size than the
            video or a format that cannot be converted, or is beyond the end.
        """
        numbers = list(requested)
        for place, (first, index) in enumerate(zip(self._first, self._indexes, strict=True)):
            of_file = [n - first for n in numbers if first <= n < first + index.length]
            if of_file:
                for number, frame in self._file(place).frames(of_file):
                    picture = self._picture(first + number, frame)
                    self.why = picture if isinstance(picture, str) else ""
                    yield first + number, None if isinstance(picture, str) else picture
        total = self.n_frames + self.n_missing
        self.why = self._beyond
        yield from ((n, None) for n in numbers if not 0 <= n < total)

    def frame(self, number: int) -> Picture | None:
        """One frame; None if it does not decode or does not exist."""
        return next(picture for _, picture in self.frames([number]))

    @property
    def rotation(self) -> int:
        """Degrees by which a tag says to turn the frames, which are decoded as stored; 0 for none.

        The first frame is decoded, which alone has the tag.
        """
        _, frame = next(self._file(0).frames([0]))
        return 0 if frame is None else int(frame.rotation)

    def change_of_size(self) -> tuple[int, int, int] | None:
        """Number, width and height of the first frame of another size; None if there is none.

        Frames are decoded: the key frames, at which alone a size can change, or all if they are
        only counted.
        """
        for place, (first, index) in enumerate(zip(self._first, self._indexes, strict=True)):
            numbers = range(index.n_frames)
            if index.times is not None:
                numbers = np.searchsorted(index.times, index.keys).tolist()
            for number, frame in self._file(place).frames(numbers):
                if frame is None:
                    continue
                if (frame.width, frame.height) != (self.width, self.height):
                    return first + number, frame.width, frame.height
        return None

    def _file(self, place: int) -> "_OpenFile":
        """A file, opened; the one before is closed, because a decoder has threads and memory."""
        if self._open is None or self._open[0] != place:
            self._open = None
            self._opened.close()
            self._open = place, self._opened.enter_context(_open_file(self._indexes[place]))
        return self._open[1]

    @property
    def _beyond(self) -> str:
        """Why there is no frame beyond the end."""
        return f"the video has {self.n_frames} frames"

    def _picture(self, number: int, frame: "VideoFrame | None") -> Picture | str:
        """A frame as a picture, or why it is none; None is a frame that does not decode."""
        import av  # noqa: PLC0415 - heavy, and only videos need it

        if frame is None:
            return "damaged" if number < self.n_frames else self._beyond
        size, expected = (frame.width, frame.height), (self.width, self.height)
        if size != expected:
            sizes = "{} x {} pixels, and {} x {} at the beginning"
            return sizes.format(*size, *expected)
        try:
            return Picture(frame)
        except (av.error.FFmpegError, ValueError) as error:
            return first_line(error)


@dataclass(frozen=True)
class _OpenFile:
    """A file of a video, open for decoding."""

    _index: _FileIndex
    _container: "InputContainer"

    def frames(self, requested: Iterable[int]) -> "Iterator[tuple[int, VideoFrame | None]]":
        """Decode some frames in ascending order; None for one that does not decode."""
        numbers, n, times = list(requested), self._index.n_frames, self._index.times
        inside = deque(number for number in numbers if number < n)
        yield from (
            self._frames_by_count(inside) if times is None else self._frames_by_time(inside, times)
        )
        yield from ((number, None) for number in numbers if number >= n)

    def _frames_by_time(
        self, queue: deque[int], times: Times
    ) -> "Iterator[tuple[int, VideoFrame | None]]":
        """Frames identified by their pts; None for a frame that the decoder skips."""
        stream: Iterator[tuple[VideoFrame, bool]] | None = None
        number = -1  # number of the last decoded frame
        start = -1  # key frame at which the stream began: seek to none twice
        while queue:
            # The last key frame shown at or before the wanted frame. This is also right for frames
            # shown before a key frame but decoded after it: they may need the key frame before.
            key = max(int(np.searchsorted(self._index.keys, times[queue[0]], side="right")) - 1, 0)
            key_frame = int(np.searchsorted(times, self._index.keys[key]))
            if stream is None or (key > start and key_frame - number > _WORTH_SEEKING):
                stream, start = self._frames_from_key(key, times), key
            frame, is_trusted = next(stream, (None, False))
            if frame is None:
                yield from ((n, None) for n in queue)
                return
            number = int(np.searchsorted(times, frame.pts or 0))
            while queue and queue[0] < number:
                yield queue.popleft(), None
            if queue and queue[0] == number and times[number] == frame.pts:
                yield queue.popleft(), frame if is_trusted else None

    def _frames_by_count(self, queue: deque[int]) -> "Iterator[tuple[int, VideoFrame | None]]":
        """Count frames from the beginning, for files without pts.

        If a packet does not decode, the lost frame may be any of those around it: the next frames
        are discarded until their numbers are certain again.
        """
        # A file without any times is searched by bytes.
        bytewise = {"unsupported_byte_offset": True}
        if not (_can_seek(self._container, 0) or _can_seek(self._container, 0, **bytewise)):
            yield from ((n, None) for n in queue)
            return
        number, packets, certain_from = 0, 0, 0
        for packet, frames in _decode(_demux(self._container)):
            packets += 1 if packet.size else 0
            if frames is None:
                number += 1
                certain_from = packets + _UNSURE
            for frame in frames or ():
                while queue and queue[0] < number:
                    yield queue.popleft(), None
                if queue and queue[0] == number:
                    bad = number < certain_from or frame.is_corrupt
                    yield queue.popleft(), None if bad else frame
                number += 1
        yield from ((n, None) for n in queue)

    def _frames_from_key(self, key: int, times: Times) -> "Iterator[tuple[VideoFrame, bool]]":
        """Frames from a key frame on, in presentation order, and whether each can be trusted.

        If a frame is lost, frames predicted from it decode to wrong pictures without an error: they
        are not trusted until the next key frame that the decoder had not reached at the loss.
        """
        order = 0  # dts of the current packet
        last = -1  # number of the last frame
        sound_again: int | None = None  # pts of the key frame from which frames can be trusted
        for packet, frames in _decode(self._from_key(key)):
            order = packet.dts if packet.dts is not None else order
            lost = frames is None
            for frame in frames or ():
                if frame.pts is None:
                    continue
                number = int(np.searchsorted(times, frame.pts))
                if lost or frame.is_corrupt or last not in (-1, number - 1):
                    sound_again, lost = self._next_key(order), False
                last = number
                if sound_again is not None and frame.pts >= sound_again:
                    sound_again = None
                yield frame, sound_again is None
            if lost:
                sound_again = self._next_key(order)

    def _next_key(self, order: int) -> int:
        """The pts of the first key frame that is decoded after a dts; without one, the largest."""
        later = self._index.keys[self._index.key_order > order]
        return int(later[0]) if len(later) else int(np.iinfo(np.int64).max)

    def _from_key(self, key: int) -> "Packets":
        """Packets from a key frame to the end, independent of earlier reads."""
        # Seek by decoding time: some containers (ts) search for it, and it is never too late.
        for back in _BACK:
            order = self._index.key_order
            early = int(order[key - back]) if back <= key else int(order.min()) - _EARLY
            stream = _video_of(self._container)
            if not _can_seek(self._container, early, stream=stream, backward=True):
                continue
            at_key = False
            for packet in _demux(self._container):
                if not at_key and packet.size:
                    at_key = packet.pts == self._index.keys[key] and packet.is_keyframe
                    if not at_key and packet.dts is not None and packet.dts > order[key]:
                        break  # the seek landed too late
                if at_key:
                    yield packet
            if at_key:
                return


def _not_a_video(path: Path) -> tuple[str, str]:
    """Message and hint for a file that is not a video."""
    endings = ", ".join(VIDEO_ENDINGS[:4])
    return (
        f"{path} is not a video",
        f"give a video ({endings}, ...), or a folder of videos or images",
    )


@contextmanager
def open_video(path: Path) -> Iterator[Video]:
    """Open a video and index its frames (one pass over the file, without decoding).

    Args:
        path: mp4, mkv, avi, ts, or any other format that FFmpeg reads; or a playlist (.m3u) of the
            files of one recording, see `read_playlist`.

    Raises:
        PolyplinkError: If a file is missing, is not a video, or contains no frame, or the files of
            a playlist differ in size.
    """
    files = read_playlist(path) if is_playlist(path.name) else [path]
    for file in files:
        # os.path: of a name that is too long, Path.exists would raise an error.
        if file != path and not os.path.exists(file):  # noqa: PTH110
            raise PolyplinkError(f"{path} names {file}, which does not exist", "correct the name")
    indexes = [_index_file(file) for file in files]
    first = indexes[0]
    for index in indexes[1:]:
        if (index.width, index.height) != (first.width, first.height):
            raise PolyplinkError(
                f"{index.path} has {index.width}x{index.height} pixels, but {first.path} in the "
                f"same playlist has {first.width}x{first.height}",
                "convert them to one size, or list files of one size",
            )
    with ExitStack() as opened:
        yield Video(indexes, opened)


def _index_file(path: Path) -> _FileIndex:
    """Open a file of a video, and read all its packets once."""
    if not path.is_file():
        raise PolyplinkError(f"video {path} is missing", "restore it, or correct `source`")
    if path.stat().st_size == 0:
        raise PolyplinkError(f"video {path} is empty", "copy it again")
    with _container(path) as container:
        # FFmpeg draws the letters of a text file as a video.
        if container.format.name == "tty":
            raise PolyplinkError(*_not_a_video(path)) from None
        # It also takes the JPEG images in an archive for a video.
        with path.open("rb") as file:
            archived = container.format.name == "mjpeg" and file.read(2) != b"\xff\xd8"
        hint = "unpack an archive, and give the folder of its images"
        if archived:
            raise PolyplinkError(_not_a_video(path)[0], hint)
        if not container.streams.video:
            raise PolyplinkError(f"{path} has no video in it", "give the recording itself")
        stream = _video_of(container)
        context = getattr(stream, "codec_context", None)
        if context is None:  # FFmpeg has no decoder for it
            raise PolyplinkError(f"video {path} is of an unknown codec", "convert it to H.264")
        n_frames, times, keys, end = _index_frames(container)
        if n_frames == 0:
            raise PolyplinkError(f"video {path} holds no frame", "copy it again")
        fps = None if stream.average_rate is None else float(stream.average_rate)
        unit = float(stream.time_base or 0)
        if times is not None and n_frames > 1 and stream.time_base is not None:
            fps = _mean_rate(times, stream.time_base)
        n_missing = _missing_frames(container, n_frames, end, fps or 0.0)
        size = (context.width, context.height)
        others = [s for s in container.streams.video if s.index != stream.index]
        n_streams = 1 + sum(not _is_cover(other) for other in others)
        counts = (n_streams, n_frames, n_missing)
        return _FileIndex(path, *counts, *size, fps, unit, times, *keys.T)


def _is_cover(stream: "VideoStream") -> bool:
    """Whether a video beside that of a recording is the picture of a cover, as in a player."""
    from av.stream import Disposition  # noqa: PLC0415 - heavy, and only videos need it

    context = getattr(stream, "codec_context", None)  # None if FFmpeg has no decoder for it
    is_picture = context is not None and context.name in _PICTURES  # mkv may not mark it
    return is_picture or bool(stream.disposition & Disposition.attached_pic)


def _mean_rate(times: Times, unit: Fraction) -> float:
    """Mean frames per second of two frames or more, without pauses of the recording.

    Args:
        times: The pts (n,), ascending, in time units.
        unit: Seconds in a time unit.

    Example:
        >>> _mean_rate(np.array([0, 40, 80, 60_000, 60_040]), Fraction(1, 1000))
        25.0
    """
    steps = np.diff(times)  # n - 1
    recorded = steps[steps <= max(_PAUSE * float(np.median(steps)), float(1 / unit))]
    return round(float(len(recorded) / (int(recorded.sum()) * unit)), 3)


def _container(path: Path) -> "InputContainer":
    """A file of a video, opened; it may have gone since it was indexed."""
    import av  # noqa: PLC0415 - heavy, and only videos need it

    try:
        # Absolute: FFmpeg takes the beginning of a name such as 10:37.mp4 for a protocol.
        return av.open(str(path.absolute()), metadata_errors="replace")
    except (av.error.FFmpegError, OSError) as error:
        if not is_video(path.name):
            raise PolyplinkError(*_not_a_video(path)) from None
        raise PolyplinkError(
            f"video {path} cannot be opened ({first_line(error)})",
            "copy it again; ffmpeg may be able to repair a recording that was cut short",
        ) from None


@contextmanager
def _open_file(index: _FileIndex) -> "Iterator[_OpenFile]":
    """Open a file of a video for decoding."""
    with _container(index.path) as container:
        # A damaged frame is an error instead of a guess. With frame threads, an error may come some
        # packets late, which would break counting.
        stream = _video_of(container)
        stream.thread_type = "SLICE" if index.times is None else "AUTO"
        stream.codec_context.options = {"err_detect": "explode"}
        yield _OpenFile(index, container)


def _video_of(container: "InputContainer") -> "VideoStream":
    """The video of a file, of several that which FFmpeg selects: never the picture of a cover."""
    # Not None, as a file without video is refused when it is indexed.
    return cast("VideoStream", container.streams.best("video"))


def _index_frames(container: "InputContainer") -> tuple[int, Times | None, Times, int]:
    """Read all packets of a video once, without decoding.

    Returns:
        Number of frames, from the first key frame on; the pts of all frames (n,),
        ascending, in time units, or None if they are missing or unreliable, so that frames must be
        counted; the pts and the dts of every key frame (k, 2), ascending; when the last frame ends,
        in time units.
    """
    # Packets before the first key frame cannot be decoded, and packets that an edit list removes
    # are never shown: neither are counted.
    stream = _video_of(container)
    stamps: list[int | None] = []
    orders: list[int] = []  # the dts, where known
    keys: list[tuple[int, int]] = []
    begun = awaits_second = False
    end = 0
    shortest = _shortest_of_frame(container)
    for packet in _demux(container):
        pts, dts, duration = packet.pts, packet.dts, packet.duration
        end = max(end, ((dts if pts is None else pts) or 0) + (duration or 0))
        begun = begun or packet.is_keyframe
        if not packet.size or not begun or packet.is_discard:
            continue
        if duration and duration < shortest:  # one of the two fields of a frame
            awaits_second = not awaits_second and pts is not None
            if not awaits_second:  # its frame has been counted
                continue
        else:
            awaits_second = False
        stamps.append(pts)
        if dts is not None:
            orders.append(dts)
        if pts is not None and packet.is_keyframe:
            keys.append((pts, pts if dts is None else dts))

    # avi stores no pts: those that FFmpeg derives may be wrong. Where files were joined end to end,
    # the clock restarts, and the times of one may lie between those of another. If an edit list
    # removes every key frame, seeking cannot reach the remaining frames.
    steps = np.diff(np.array(orders, dtype=np.int64))
    restarts = bool((steps < -int(RESTART / (stream.time_base or 1))).any())
    known_times = sorted(time for time in stamps if time is not None)
    are_distinct = len(set(known_times)) == len(stamps)
    is_timed = container.format.name != "avi" and not restarts and are_distinct and bool(keys)
    times = np.array(known_times, dtype=np.int64) if is_timed else None
    return len(stamps), times, np.array(sorted(keys), dtype=np.int64).reshape(-1, 2), end


def _shortest_of_frame(container: "InputContainer") -> float:
    """The shortest duration of a packet that has a whole frame, in time units.

    In mpegts, such as the .mts files of cameras, the two fields of an interlaced frame may be
    packets of their own: their duration is half of a frame's. Elsewhere, any duration is a frame's.
    """
    stream = _video_of(container)
    context = stream.codec_context
    if (container.format.name, context.name) != ("mpegts", "h264"):
        return 0.0
    if not (stream.time_base and context.framerate):
        return 0.0
    return float(Fraction(3, 4) / (stream.time_base * context.framerate))


def _missing_frames(container: "InputContainer", n_frames: int, end: int, fps: float) -> int:
    """Number of frames that a file states beyond its end.

    mp4 and mov list the place of every frame. avi states the number of its frames, which are its
    units of time; those dropped in recording count, but have no packet. Others, such as mkv, state
    the duration of the longest stream, so it counts only if the video is the only one. Formats that
    state neither, such as ts, look complete wherever they are cut.

    Args:
        container: The video.
        n_frames: Number of frames in the file.
        end: When the last of them ends, in time units.
        fps: Frames per second; 0 if unknown.
    """
    stream = _video_of(container)
    if container.format.name.startswith("mov,"):
        return sum(
            entry.pos >= container.size and not entry.is_discard for entry in stream.index_entries
        )
    missing = 0
    if container.format.name == "avi":
        missing = stream.frames - end
    elif container.duration and len(container.streams) == 1 and stream.time_base:
        missing = round((container.duration / 1e6 - float(end * stream.time_base)) * fps)
    # What is stated may be off by some frames, and far off in a damaged header.
    return missing if fps < missing < _MOST_MISSING * n_frames else 0


def _can_seek(container: "InputContainer", time: int, **how: Any) -> bool:
    """Call `container.seek`; return False if damage makes it fail."""
    import av  # noqa: PLC0415 - heavy, and only videos need it

    try:
        container.seek(time, **how)
    except av.error.FFmpegError:
        return False
    return True


def _demux(container: "InputContainer") -> "Packets":
    """All packets, the last one empty to flush the decoder; an error ends the packets."""
    import av  # noqa: PLC0415 - heavy, and only videos need it

    try:
        yield from container.demux(_video_of(container))
    except (av.error.FFmpegError, IndexError):  # damage can open a stream that av does not know
        return


def _decode(
    packets: "Packets",
) -> "Iterator[tuple[Packet[VideoStream], list[VideoFrame] | None]]":
    """Each packet and the frames that the decoder returns; None for a damaged packet."""
    import av  # noqa: PLC0415

    for packet in packets:
        try:
            yield packet, packet.decode()
        except av.error.FFmpegError:
            yield packet, None
