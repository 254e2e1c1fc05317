"""Small videos with the frame number as a pattern of stripes in each frame."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

WIDTH, HEIGHT = 64, 48
BITS = 8
VARYING = (40, 20, 75)  # milliseconds from one frame to the next


def frame_of(number: int) -> npt.NDArray[np.uint8]:
    """(HEIGHT, WIDTH, 3): stripe k is white where bit k of the number is set."""
    bits = [255 * (number >> bit & 1) for bit in range(BITS)]
    row = np.repeat(np.array(bits, np.uint8), WIDTH // BITS)  # WIDTH
    return np.tile(row[None, :, None], (HEIGHT, 1, 3))


def number_of(pixels: npt.NDArray[np.uint8]) -> int:
    """The number in the stripes of a frame."""
    stripes = pixels.mean(axis=(0, 2)).reshape(BITS, -1)[:, 2:-2].mean(axis=1)
    return sum(1 << bit for bit in range(BITS) if stripes[bit] > 128)


def write_video(
    path: Path,
    n: int = 60,
    *,
    codec: str = "libx264",
    varying: bool | Sequence[int] = False,
    gop: int = 12,
    index_first: bool = False,
    interlaced: bool = False,
) -> Path:
    """Write `n` frames, with B-frames, at 25 per second or at a varying rate.

    `varying` may be the milliseconds from one frame to the next, repeated.

    With `index_first`, the index of an mp4 file is at its beginning, not at its end. Every second
    line of an `interlaced` video, from the second on, is inverted.
    """
    steps = VARYING if varying is True else varying or (1,)
    unit = Fraction(1, 1000) if varying else Fraction(1, 25)
    options = {"movflags": "faststart"} if index_first else {}
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream(codec, rate=25)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.gop_size = gop
        stream.codec_context.max_b_frames = 2
        stream.options = {"flags": "+ildct+ilme"} if interlaced else {}
        stream.codec_context.time_base = unit
        time = 0
        for number in range(n):
            pixels = frame_of(number)
            if interlaced:
                pixels[1::2] = 255 - pixels[1::2]
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = time, unit
            time += steps[number % len(steps)]
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def write_sizes(path: Path, *sizes: tuple[int, int], n: int = 30) -> Path:
    """Write `n` frames of each size, with the times of one recording."""
    with av.open(str(path), "w") as container:
        stream: av.VideoStream | None = None
        for part, (width, height) in enumerate(sizes):
            encoder = av.CodecContext.create("libx264", "w")
            assert isinstance(encoder, av.VideoCodecContext)
            encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
            encoder.time_base, encoder.framerate = Fraction(1, 25), Fraction(25)
            encoder.max_b_frames = 0
            if stream is None:
                stream = container.add_stream("libx264", rate=25)
                assert isinstance(stream, av.VideoStream)
                stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
                container.start_encoding()
            grey = np.full((height, width, 3), 99, np.uint8)
            for number in [*range(part * n, part * n + n), None]:
                frame = None
                if number is not None:
                    frame = av.VideoFrame.from_ndarray(grey, format="rgb24")
                    frame.pts = number
                for packet in encoder.encode(frame):
                    packet.stream = stream
                    container.mux(packet)
    return path


def remux(
    source: Path,
    target: Path,
    change: Callable[[int, Any], None] = lambda number, packet: None,
    *,
    rotation: int = 0,
    **options: Any,
) -> Path:
    """Copy a video into another file, each packet after `change` of its index and itself.

    `rotation` is a tag in degrees; `options` are those of `av.open` for the target.
    """
    with av.open(str(source)) as read, av.open(str(target), "w", **options) as written:
        stream = written.add_stream_from_template(read.streams.video[0])
        if rotation:
            stream.set_display_rotation(rotation)
        for number, packet in enumerate(packet for packet in read.demux(video=0) if packet.size):
            change(number, packet)
            packet.stream = stream
            written.mux(packet)
    return target


def write_beside(target: Path, *sources: Path) -> Path:
    """Copy several videos into one file, each as a stream."""
    with av.open(str(target), "w") as written, ExitStack() as opened:
        reads = [opened.enter_context(av.open(str(source))) for source in sources]
        streams = [written.add_stream_from_template(read.streams.video[0]) for read in reads]
        for read, stream in zip(reads, streams, strict=True):
            for packet in read.demux(video=0):
                if packet.size:
                    packet.stream = stream
                    written.mux(packet)
    return target


def corrupt_packet(path: Path, packet: int) -> None:
    """Overwrite the content of a packet, by its index in decoding order."""
    with av.open(str(path)) as container:
        packed = [p for p in container.demux(video=0) if p.size][packet]
        content, position = bytes(packed), packed.pos
    data = bytearray(path.read_bytes())
    end = data.index(content[-12:], position or 0) + 12
    # The markers between frames of a stream stay; without them there would be one frame less.
    size = len(content) - (11 if path.suffix in (".ts", ".h264") else 0)
    noise = np.random.default_rng(packet).integers(0, 256, size, dtype=np.uint8)
    data[end - size : end] = noise.tobytes()
    path.write_bytes(data)
