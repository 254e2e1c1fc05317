"""Videos: frames by exact number, from the decoder, through PyAV.

A frame's number is its place, from 0, in the order in which frames are shown; neither a frame
rate that varies nor frames that are stored out of order (B-frames) change it. It is what
`cv2.VideoCapture` and `ffmpeg -fps_mode passthrough` count.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.files.video_decoding import careful, decoded, demuxed, from_key, trusted
from polyplink.data.files.video_index import VideoIndex, index_packets

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame

SUFFIXES = (".mp4", ".mkv", ".avi", ".ts", ".m4v", ".mov", ".mpg", ".mpeg", ".webm", ".m2ts")

_FRAME = re.compile(rf"(.+(?:{'|'.join(map(re.escape, SUFFIXES))}))#(\d+)", re.IGNORECASE)
_WORTH_SEEKING = 16  # frames: to decode fewer is quicker than to seek
_UNSURE = 16  # frames after a lost one whose numbers are not sure where only counting helps


def frame_name(video: str, frame: int) -> str:
    """Name of a video's frame for the column `image`: `video.mp4#17`."""
    return f"{video}#{frame}"


def split_frame_name(image: str) -> tuple[str, int] | None:
    """The video and the frame that an image's name stands for; None for other names."""
    found = _FRAME.fullmatch(image)
    return (found.group(1), int(found.group(2))) if found else None


def is_video(name: str) -> bool:
    """Whether a file's name is that of a video."""
    return name.lower().endswith(SUFFIXES)


class Shown:
    """A decoded frame, turned into RGB when asked."""

    def __init__(self, frame: "VideoFrame") -> None:
        self._frame = frame

    def rgb(self) -> npt.NDArray[np.uint8]:
        """(height, width, 3) RGB; rotation tags are not followed."""
        pixels = self._frame.to_ndarray(format="rgb24")
        return np.asarray(pixels, dtype=np.uint8)


@dataclass(frozen=True)
class Video:
    """An open video.

    Attributes:
        path: The file.
        n_frames: Frames in it.
        width: Width of a frame, pixels.
        height: Height of a frame, pixels.
        fps: Mean frames per second; None where the file does not say.
    """

    path: Path
    n_frames: int
    width: int
    height: int
    fps: float | None
    _container: "InputContainer"
    _index: VideoIndex

    def frames(self, wanted: Iterable[int]) -> Iterator[tuple[int, Shown | None]]:
        """Decode some frames, forward; where a long way lies between two, it seeks.

        Args:
            wanted: Frame numbers, ascending, each once.

        Yields:
            Number and frame; None for a frame that does not decode, or lies beyond the end.
        """
        todo = deque(wanted)
        beyond = deque(n for n in todo if not 0 <= n < self.n_frames)
        todo = deque(n for n in todo if 0 <= n < self.n_frames)
        if self._index.times is None:
            yield from _counted(self._container, todo)
        else:
            yield from self._timed(todo, self._index.times)
        yield from ((number, None) for number in beyond)

    def _timed(
        self, todo: deque[int], times: npt.NDArray[np.int64]
    ) -> Iterator[tuple[int, Shown | None]]:
        stream: Iterator[tuple[VideoFrame, bool]] | None = None
        here = -1  # number of the last frame that came
        while todo:
            key = self._index.key_before(int(times[todo[0]]))
            key_frame = int(np.searchsorted(times, self._index.keys[key]))
            if stream is None or key_frame - here > _WORTH_SEEKING:
                stream = trusted(from_key(self._container, self._index, key), self._index)
            frame, sound = next(stream, (None, False))
            if frame is None:
                yield from ((todo.popleft(), None) for _ in range(len(todo)))
                return
            here = int(np.searchsorted(times, frame.pts or 0))
            while todo and todo[0] < here:
                yield todo.popleft(), None
            if todo and todo[0] == here and times[here] == frame.pts:
                yield todo.popleft(), Shown(frame) if sound else None

    def frame(self, number: int) -> Shown | None:
        """One frame; None if it does not decode or is not there."""
        return next(shown for _, shown in self.frames([number]))


@contextmanager
def open_video(path: Path) -> Iterator[Video]:
    """Open a video and find its frames (one pass over the file, without decoding).

    Args:
        path: mp4, mkv, avi, ts, or whatever else FFmpeg reads.

    Raises:
        PolyplinkError: If the file is missing, no video, or holds no frame.
    """
    import av  # noqa: PLC0415 - heavy, and only videos need it

    if not path.is_file():
        raise PolyplinkError(f"video {path} is missing", "restore it, or mend `source`")
    try:
        container = av.open(str(path), metadata_errors="replace")
    except (av.error.FFmpegError, OSError) as error:
        raise PolyplinkError(
            f"video {path} cannot be opened ({first_line(error)})",
            "copy it again; a recording that was cut short may be mended by ffmpeg",
        ) from None
    with container:
        if not container.streams.video:
            raise PolyplinkError(f"{path} has no video in it", "give the recording itself")
        stream = container.streams.video[0]
        if getattr(stream, "codec_context", None) is None:  # FFmpeg knows no decoder for it
            raise PolyplinkError(f"video {path} is of an unknown codec", "convert it to H.264")
        index = index_packets(container, stream)
        if not index.n_frames:
            raise PolyplinkError(f"video {path} holds no frame", "copy it again")
        context = stream.codec_context
        fps = index.fps(stream.time_base, stream.average_rate)
    with av.open(str(path), metadata_errors="replace") as container:
        careful(container, threads=index.times is not None)
        yield Video(path, index.n_frames, context.width, context.height, fps, container, index)


def _counted(container: "InputContainer", todo: deque[int]) -> Iterator[tuple[int, Shown | None]]:
    """Count frames from the beginning, for files that do not say when a frame is shown.

    Where a packet does not decode, it is not known which of the frames around it is lost: those
    that come next are given up, until the count is sure again.
    """
    container.seek(0)
    number, packets, sure = 0, 0, 0
    for packet, frames in decoded(demuxed(container)):
        packets += 1 if packet.size else 0
        if frames is None:
            number += 1
            sure = packets + _UNSURE
        for frame in frames or ():
            while todo and todo[0] < number:
                yield todo.popleft(), None
            if todo and todo[0] == number:
                yield todo.popleft(), None if number < sure or frame.is_corrupt else Shown(frame)
            number += 1
    yield from ((todo.popleft(), None) for _ in range(len(todo)))
