"""The frames of a video by number: found by reading its packets, without decoding."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class VideoIndex:
    """What a pass over the packets tells.

    Attributes:
        n_frames: Packets that hold a frame, from the first key frame on.
        times: (n_frames,) when each frame is shown, ascending, in units of the stream; None where
            the file does not say (avi), so that frames can only be counted.
        keys: (k,) when each key frame is shown, ascending; decoding can begin there.
        key_order: (k,) when each key frame is decoded, in the same units.
    """

    n_frames: int
    times: Times | None
    keys: Times
    key_order: Times

    def key_before(self, time: int) -> int:
        """Number of the last key frame shown at or before a time.

        Frames that are shown before a key frame but decoded after it may need the key frame
        before, which this is for them.
        """
        return max(int(np.searchsorted(self.keys, time, side="right")) - 1, 0)

    def fps(self, unit: Fraction | None, stated: Fraction | None) -> float | None:
        """Mean frame rate: by the times where there are such, else as the file states it."""
        if self.times is not None and self.n_frames > 1 and unit is not None:
            seconds = (int(self.times[-1]) - int(self.times[0])) * unit
            return round(float((self.n_frames - 1) / seconds), 3)
        return None if stated is None else float(stated)


def index_packets(container: "InputContainer", stream: "VideoStream") -> VideoIndex:
    """Read all packets of a video.

    Args:
        container: The video, at its beginning.
        stream: Which of its streams.

    Returns:
        Its index. Packets before the first key frame have nothing to be decoded from, and those
        that an edit list takes away are never shown: neither is counted. A file that ends in the
        middle is read as far as it goes.
    """
    import av  # noqa: PLC0415 - heavy, and only videos need it

    shown: list[int | None] = []
    keys: list[tuple[int, int]] = []
    begun = False
    try:
        for packet in container.demux(stream):
            begun = begun or packet.is_keyframe
            if not packet.size or not begun or packet.is_discard:
                continue
            shown.append(packet.pts)
            if packet.is_keyframe and packet.pts is not None:
                order = packet.pts if packet.dts is None else packet.dts
                keys.append((packet.pts, order))
    except av.error.FFmpegError:
        pass
    known = [time for time in shown if time is not None]
    # avi has no times of showing: those that the reader makes up may be wrong.
    timed = container.format.name != "avi" and len(set(known)) == len(shown)
    times = np.array(sorted(known), dtype=np.int64) if timed else None
    pairs = np.array(sorted(keys), dtype=np.int64).reshape(-1, 2)  # k 2
    return VideoIndex(len(shown), times, pairs[:, 0], pairs[:, 1])
