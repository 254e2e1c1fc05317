"""Frames to a short video that any player shows."""

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyplink.core.artefacts import whole_file
from polyplink.core.errors import PolyplinkError

QUALITY = "20"  # x264's constant rate factor: small files without visible loss
FPS_LIMIT = 100_000  # denominator of the frame rate: 29.97 is told as it is


def check_film() -> None:
    """Make sure that films can be written.

    Raises:
        PolyplinkError: If PyAV is not installed.
    """
    try:
        import av  # noqa: F401, PLC0415 - needed by videos alone
    except ImportError:
        raise PolyplinkError("videos need PyAV, which is not installed", "pip install av") from None


def write_film(path: Path, frames: Iterable[NDArray[np.uint8]], fps: float) -> int:
    """Write an mp4 (H.264, 4:2:0), whole or not at all.

    Args:
        path: The file.
        frames: (h, w, 3) RGB each, all of one size; h and w even.
        fps: Frames per second.

    Returns:
        The number of frames written.

    Raises:
        PolyplinkError: If PyAV is not installed, there is no frame, or a side is odd.
    """
    check_film()
    import av  # noqa: PLC0415 - needed by videos alone

    count, stream = 0, None
    with whole_file(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        for frame in frames:
            if stream is None:
                rate = Fraction(fps).limit_denominator(FPS_LIMIT)
                stream = container.add_stream("libx264", rate, options={"crf": QUALITY})
                stream.height, stream.width = _even(frame.shape[:2])
                stream.pix_fmt = "yuv420p"
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            count += 1
        if stream is None:
            raise PolyplinkError(f"{path}: no frames for a video", "give at least one")
        container.mux(stream.encode())
    return count


def _even(sides: tuple[int, ...]) -> tuple[int, int]:
    height, width = sides
    if height % 2 or width % 2:
        raise PolyplinkError(f"a video of {width} x {height} pixels", "give even sides")
    return height, width
