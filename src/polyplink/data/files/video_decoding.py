"""Decoding of a video from a key frame on, with what cannot be trusted told apart."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from polyplink.data.files.video_index import VideoIndex

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    Decoded = tuple[Packet[VideoStream], list[VideoFrame] | None]

_EARLY = 1 << 24  # in units of any stream: before its first packet
_BACK = (0, 1, 4, 16, 1 << 30)  # key frames to go back where a seek lands too late


def careful(container: "InputContainer", *, threads: bool) -> None:
    """Make a damaged frame an error instead of a guess.

    Args:
        container: The video, nothing of it decoded yet.
        threads: Decode several frames at a time; an error then may come some packets late.
    """
    stream = container.streams.video[0]
    stream.thread_type = "AUTO" if threads else "SLICE"
    stream.codec_context.options = {"err_detect": "explode"}


def demuxed(container: "InputContainer") -> "Iterator[Packet[VideoStream]]":
    """All packets, the empty one that flushes the decoder last; a broken end is an end."""
    import av  # noqa: PLC0415 - heavy, and only videos need it

    try:
        yield from container.demux(container.streams.video[0])
    except av.error.FFmpegError:
        return


def decoded(packets: "Iterable[Packet[VideoStream]]") -> "Iterator[Decoded]":
    """Each packet and the frames that it lets out; None where the decoder meets damage."""
    import av  # noqa: PLC0415

    for packet in packets:
        try:
            yield packet, packet.decode()
        except av.error.FFmpegError:
            yield packet, None


def from_key(
    container: "InputContainer", index: VideoIndex, key: int
) -> "Iterator[Packet[VideoStream]]":
    """Packets from a key frame to the end.

    Args:
        container: The video; what was read of it before does not matter.
        index: Its index.
        key: Which of the key frames.
    """
    for back in _BACK:
        packets = _after_seek(container, index, key, back)
        first = next(packets, None)
        if first is not None:
            yield first
            yield from packets
            return


def _after_seek(
    container: "InputContainer", index: VideoIndex, key: int, back: int
) -> "Iterator[Packet[VideoStream]]":
    """Packets from a key frame on, sought `back` key frames before it; none if it is missed."""
    stream = container.streams.video[0]
    # By the time of decoding: that is what some containers (ts) look for, and never too late.
    early = int(index.key_order[key - back]) if back <= key else int(index.key_order.min()) - _EARLY
    container.seek(early, stream=stream, backward=True)
    found = False
    for packet in demuxed(container):
        if not found and packet.size:
            found = packet.pts == index.keys[key] and packet.is_keyframe
            if not found and packet.dts is not None and packet.dts > index.key_order[key]:
                return
        if found:
            yield packet


def trusted(
    packets: "Iterable[Packet[VideoStream]]", index: VideoIndex
) -> "Iterator[tuple[VideoFrame, bool]]":
    """Frames in the order in which they are shown, and whether they are what was recorded.

    Where a frame is lost, those that were made from it decode to wrong pictures without a word:
    nothing is trusted then until the next key frame that the decoder had not met yet.

    Args:
        packets: From a key frame on.
        index: The video's index, with times.
    """
    times = index.times
    assert times is not None
    order, before = 0, -1
    sound_again: int | None = None
    for packet, frames in decoded(packets):
        order = packet.dts if packet.dts is not None else order
        lost = frames is None
        for frame in frames or ():
            if frame.pts is None:
                continue
            here = int(np.searchsorted(times, frame.pts))
            lost = lost or frame.is_corrupt or before not in (-1, here - 1)
            before = here
            if lost:
                sound_again = _key_after(index, order)
                lost = False
            if sound_again is not None and frame.pts >= sound_again:
                sound_again = None
            yield frame, sound_again is None
        if lost:
            sound_again = _key_after(index, order)


def _key_after(index: VideoIndex, order: int) -> int:
    """When the first key frame is shown that is decoded after this place."""
    later = index.keys[index.key_order > order]
    return int(later[0]) if len(later) else int(np.iinfo(np.int64).max)
