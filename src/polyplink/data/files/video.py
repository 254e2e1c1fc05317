"""Videos: frames by exact number, from the decoder, through PyAV.

A frame's number is its place, from 0, in the order in which frames are shown; neither a variable
frame rate nor B-frames (stored out of order) change it. It is what `cv2.VideoCapture` and
`ffmpeg -fps_mode passthrough` count. An index of the packets, read once without decoding, maps
numbers to times of presentation (pts). After damage no frame is returned until a key frame makes
the picture trustworthy again: a decoder shows wrong pictures without an error.
"""

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.files.images import Picture
from polyplink.data.files.values import check_utf8

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    Packets = Iterator[Packet[VideoStream]]

Times = npt.NDArray[np.int64]

SUFFIXES = (".mp4", ".mkv", ".avi", ".ts", ".m4v", ".mov", ".mpg", ".mpeg", ".webm", ".m2ts")

_FRAME = re.compile(rf"(.+(?:{'|'.join(map(re.escape, SUFFIXES))}))#(\d+)", re.IGNORECASE)
_WORTH_SEEKING = 16  # frames: to decode fewer is quicker than to seek
_UNSURE = 16  # frames after a lost one whose numbers are uncertain where frames are only counted
_EARLY = 1 << 24  # in units of any stream: before its first packet
_BACK = (0, 1, 4, 16, 1 << 30)  # key frames to go back where a seek lands too late


def frame_name(video: str, frame: int) -> str:
    """Name of a video's frame for the column `image`: `video.mp4#17`."""
    return f"{video}#{frame}"


def split_frame_name(image: str) -> tuple[str, int] | None:
    """The video and the frame that an image's name stands for; None for other names."""
    match = _FRAME.fullmatch(image)
    return (match.group(1), int(match.group(2))) if match else None


def is_video(name: str) -> bool:
    """Whether a file's name is that of a video."""
    return name.lower().endswith(SUFFIXES)


def natural_order(name: str) -> list[tuple[int, str]]:
    """A sorting key by the numbers in names: frame2 comes before frame10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def videos_in(folder: Path) -> list[Path]:
    """The videos of a folder, without hidden files, in natural order of their names.

    A folder that is missing or may not be read holds none.

    Raises:
        PolyplinkError: If a name is not UTF-8.
    """
    if not (folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)):
        return []
    paths = (path for path in folder.iterdir() if is_video(path.name) and path.name[0] != ".")
    paths = (folder / check_utf8(path.name, folder) for path in paths)
    return sorted((path for path in paths if path.is_file()), key=lambda p: natural_order(p.name))


@dataclass(frozen=True)
class Video:
    """An open video.

    Attributes:
        n_frames: Packets that hold a frame, from the first key frame on.
        width: Width of a frame, pixels.
        height: Height of a frame, pixels.
        fps: Mean frames per second; None where the file does not say.
    """

    n_frames: int
    width: int
    height: int
    fps: float | None
    _container: "InputContainer"
    _times: Times | None  # (n_frames,) pts, ascending, in the stream's unit; None: only counted
    _keys: Times  # (k,) pts of every key frame, ascending; decoding can begin there
    _key_order: Times  # (k,) when each key frame is decoded (dts), in the same unit

    def frames(self, wanted: Iterable[int]) -> Iterator[tuple[int, Picture | None]]:
        """Decode some frames, forward; seeks where a long way lies between two.

        Args:
            wanted: Frame numbers, ascending, each once.

        Yields:
            Number and frame; None for a frame that does not decode, is of another size than the
            video or in a format that is not converted, or lies beyond the end.
        """
        numbers = list(wanted)
        inside = deque(n for n in numbers if 0 <= n < self.n_frames)
        times = self._times
        for number, frame in self._counted(inside) if times is None else self._timed(inside, times):
            yield number, None if frame is None else self._picture(frame)
        yield from ((n, None) for n in numbers if not 0 <= n < self.n_frames)

    def frame(self, number: int) -> Picture | None:
        """One frame; None if it does not decode or does not exist."""
        return next(picture for _, picture in self.frames([number]))

    def _picture(self, frame: "VideoFrame") -> Picture | None:
        import av  # noqa: PLC0415 - heavy, and only videos need it

        if (frame.width, frame.height) != (self.width, self.height):
            return None
        try:
            return Picture(frame)
        except (av.error.FFmpegError, ValueError):
            return None

    def _timed(self, todo: deque[int], times: Times) -> "Iterator[tuple[int, VideoFrame | None]]":
        """Frames by their times; a frame that the decoder skips is None."""
        stream: Iterator[tuple[VideoFrame, bool]] | None = None
        number = -1  # number of the last frame that came
        start = -1  # key frame that the stream began with: none is sought twice
        while todo:
            # The last key frame shown at or before the wanted frame. Frames shown before a key
            # frame but decoded after it may need the key frame before, which this is for them.
            key = max(int(np.searchsorted(self._keys, times[todo[0]], side="right")) - 1, 0)
            key_frame = int(np.searchsorted(times, self._keys[key]))
            if stream is None or (key > start and key_frame - number > _WORTH_SEEKING):
                stream, start = self._trusted(key, times), key
            frame, sound = next(stream, (None, False))
            if frame is None:
                yield from ((n, None) for n in todo)
                return
            number = int(np.searchsorted(times, frame.pts or 0))
            while todo and todo[0] < number:
                yield todo.popleft(), None
            if todo and todo[0] == number and times[number] == frame.pts:
                yield todo.popleft(), frame if sound else None

    def _counted(self, todo: deque[int]) -> "Iterator[tuple[int, VideoFrame | None]]":
        """Count frames from the beginning, for files without pts.

        Where a packet does not decode, it is not known which of the frames around it is lost: those
        that come next are given up, until the count is certain again.
        """
        if not _can_seek(self._container, 0):
            yield from ((n, None) for n in todo)
            return
        number, packets, sure = 0, 0, 0
        for packet, frames in _decoded(_demuxed(self._container)):
            packets += 1 if packet.size else 0
            if frames is None:
                number += 1
                sure = packets + _UNSURE
            for frame in frames or ():
                while todo and todo[0] < number:
                    yield todo.popleft(), None
                if todo and todo[0] == number:
                    bad = number < sure or frame.is_corrupt
                    yield todo.popleft(), None if bad else frame
                number += 1
        yield from ((n, None) for n in todo)

    def _trusted(self, key: int, times: Times) -> "Iterator[tuple[VideoFrame, bool]]":
        """Frames from a key frame on as they are shown, and whether they are what was recorded.

        Where a frame is lost, those predicted from it decode to wrong pictures without an error:
        no frame is used then until the next key frame that the decoder had not reached yet.
        """

        def next_key() -> int:
            """Pts of the first key frame that is decoded after the current packet."""
            later = self._keys[self._key_order > order]
            return int(later[0]) if len(later) else int(np.iinfo(np.int64).max)

        order, before = 0, -1
        sound_again: int | None = None
        for packet, frames in _decoded(self._from_key(key)):
            order = packet.dts if packet.dts is not None else order
            lost = frames is None
            for frame in frames or ():
                if frame.pts is None:
                    continue
                number = int(np.searchsorted(times, frame.pts))
                if lost or frame.is_corrupt or before not in (-1, number - 1):
                    sound_again, lost = next_key(), False
                before = number
                if sound_again is not None and frame.pts >= sound_again:
                    sound_again = None
                yield frame, sound_again is None
            if lost:
                sound_again = next_key()

    def _from_key(self, key: int) -> "Packets":
        """Packets from a key frame to the end, independent of earlier reads."""
        # By the time of decoding: that is what some containers (ts) look for, and never too late.
        for back in _BACK:
            order = self._key_order
            early = int(order[key - back]) if back <= key else int(order.min()) - _EARLY
            stream = self._container.streams.video[0]
            if not _can_seek(self._container, early, stream=stream, backward=True):
                continue
            at_key = False
            for packet in _demuxed(self._container):
                if not at_key and packet.size:
                    at_key = packet.pts == self._keys[key] and packet.is_keyframe
                    if not at_key and packet.dts is not None and packet.dts > order[key]:
                        break  # the seek landed too late
                if at_key:
                    yield packet
            if at_key:
                return


def _not_a_video(path: Path) -> tuple[str, str]:
    """What is wrong with a file that is no video, and what to do."""
    endings = ", ".join(SUFFIXES[:4])
    return (
        f"{path} is not a video",
        f"give a video ({endings}, ...), or a folder of videos or images",
    )


@contextmanager
def open_video(path: Path) -> Iterator[Video]:
    """Open a video and index its frames (one pass over the file, without decoding).

    Args:
        path: mp4, mkv, avi, ts, or any other format that FFmpeg reads.

    Raises:
        PolyplinkError: If the file is missing, no video, or holds no frame.
    """
    import av  # noqa: PLC0415 - heavy, and only videos need it

    if not path.is_file():
        raise PolyplinkError(f"video {path} is missing", "restore it, or correct `source`")
    try:
        container = av.open(str(path), metadata_errors="replace")
    except (av.error.FFmpegError, OSError) as error:
        PolyplinkError.unless(is_video(path.name), *_not_a_video(path))
        raise PolyplinkError(
            f"video {path} cannot be opened ({first_line(error)})",
            "copy it again; ffmpeg may be able to repair a recording that was cut short",
        ) from None
    with container:
        # FFmpeg draws the letters of a text file as a video.
        PolyplinkError.unless(container.format.name != "tty", *_not_a_video(path))
        if not container.streams.video:
            raise PolyplinkError(f"{path} has no video in it", "give the recording itself")
        stream = container.streams.video[0]
        context = getattr(stream, "codec_context", None)
        if context is None:  # FFmpeg has no decoder for it
            raise PolyplinkError(f"video {path} is of an unknown codec", "convert it to H.264")
        # Packets before the first key frame have nothing to be decoded from, and those that an
        # edit list takes away are never shown: neither is counted.
        stamps: list[int | None] = []
        keys: list[tuple[int, int]] = []
        begun = False
        for packet in _demuxed(container):
            begun = begun or packet.is_keyframe
            if not packet.size or not begun or packet.is_discard:
                continue
            stamps.append(packet.pts)
            if packet.is_keyframe and packet.pts is not None:
                keys.append((packet.pts, packet.pts if packet.dts is None else packet.dts))
        if not stamps:
            raise PolyplinkError(f"video {path} holds no frame", "copy it again")
        in_order = sorted(time for time in stamps if time is not None)
        # avi stores no pts: those that the reader makes up may be wrong.
        # Where an edit list takes every key frame away, no seek finds the frames that are left.
        has_keys, has_times = bool(keys), len(set(in_order)) == len(stamps)
        timed = container.format.name != "avi" and has_times and has_keys
        times = np.array(in_order, dtype=np.int64) if timed else None
        pairs = np.array(sorted(keys), dtype=np.int64).reshape(-1, 2)  # k 2
        fps = None if stream.average_rate is None else float(stream.average_rate)
        if timed and len(stamps) > 1 and stream.time_base is not None:
            seconds = (in_order[-1] - in_order[0]) * stream.time_base
            fps = round(float((len(stamps) - 1) / seconds), 3)
        size = (context.width, context.height)
    with av.open(str(path), metadata_errors="replace") as container:
        # A damaged frame is an error instead of a guess. With several threads an error may come
        # some packets late, which would spoil counting.
        stream = container.streams.video[0]
        stream.thread_type = "AUTO" if timed else "SLICE"
        stream.codec_context.options = {"err_detect": "explode"}
        yield Video(len(stamps), *size, fps, container, times, pairs[:, 0], pairs[:, 1])


def _can_seek(container: "InputContainer", time: int, **how: Any) -> bool:
    """Seek as `container.seek`; False where damage leaves no way there."""
    import av  # noqa: PLC0415 - heavy, and only videos need it

    try:
        container.seek(time, **how)
    except av.error.FFmpegError:
        return False
    return True


def _demuxed(container: "InputContainer") -> "Packets":
    """All packets, the empty one that flushes the decoder last; a broken end is an end."""
    import av  # noqa: PLC0415 - heavy, and only videos need it

    try:
        yield from container.demux(container.streams.video[0])
    except (av.error.FFmpegError, IndexError):  # damage can open a stream that av does not know
        return


def _decoded(
    packets: "Packets",
) -> "Iterator[tuple[Packet[VideoStream], list[VideoFrame] | None]]":
    """Each packet and the frames that the decoder returns; None where it meets damage."""
    import av  # noqa: PLC0415

    for packet in packets:
        try:
            yield packet, packet.decode()
        except av.error.FFmpegError:
            yield packet, None
