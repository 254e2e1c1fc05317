"""The crops of one procedure, cut wherever its frames are and written once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from polyplink.core.artefacts import whole_file
from polyplink.core.errors import PolyplinkError
from polyplink.tracklets.ahead import Threads
from polyplink.tracklets.broken import Broken, write_broken
from polyplink.tracklets.crops import FrameCrops, Unreadable
from polyplink.tracklets.sources import CropSource, cut_crops


def write_crops(
    path: Path,
    frames: Sequence[FrameCrops],
    sources: Sequence[CropSource],
    size: int,
    *,
    threads: Threads,
    tick: Callable[[int], None],
    strict: bool = False,
) -> list[Broken]:
    """Write one procedure's crops as a .npy file, whole or not at all.

    The crops of a frame that does not decode stay black, and the frame is written down beside
    the file before the file takes its place (see `broken.broken_path`).

    Args:
        path: The file; its array is (crops, size, size, 3) uint8.
        frames: What to cut; their rows are 0 .. crops - 1, each once.
        sources: Where from; each frame is taken by one of them.
        size: Width and height of a crop, pixels.
        threads: Where decoding and cutting run.
        tick: Called with the number of crops that have just been written.
        strict: Whether the first frame that does not decode is raised.

    Returns:
        The frames that do not decode, in their order.

    Raises:
        PolyplinkError: If a file is missing, an image is not of the procedure's size, or no
            frame at all decodes, or, if strict, one does not.
        OSError: If the disk is full.
    """
    crops = sum(len(frame.rows) for frame in frames)
    header: dict[str, Any] = {
        "descr": "|u1",
        "fortran_order": False,
        "shape": (crops, size, size, 3),
    }
    broken: list[Broken] = []
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        start = file.tell()
        file.truncate(start + crops * size * size * 3)
        # Written, not memory-mapped: a full disk is then an error and not a crash.
        for frame, pixels in cut_crops(sources, frames, size, threads):
            if isinstance(pixels, Unreadable):
                broken.append(Broken(frame.frame, str(frame.image), pixels.why))
                if strict:
                    refuse_broken(broken[0])
            else:
                for row, crop in zip(frame.rows, pixels, strict=True):
                    file.seek(start + int(row) * crop.nbytes)
                    file.write(crop.data)
            tick(len(frame.rows))
        broken.sort(key=lambda frame: frame.frame)
        if frames and len(broken) == len(frames):
            first = broken[0]
            raise PolyplinkError(
                f"image {first.image} cannot be decoded ({first.why}), nor any other of its "
                "procedure",
                "restore the images, or leave the procedure out",
            )
        write_broken(path, broken)
    return broken


def refuse_broken(frame: Broken, crops: Path | None = None) -> NoReturn:
    """Raise a frame that does not decode, or did not when `crops` was written."""
    again = "" if crops is None else f", remove {crops}"
    raise PolyplinkError(
        f"image {frame.image}, frame {frame.frame}, cannot be decoded ({frame.why})",
        f"restore it{again}, or prepare without --strict: its tracklet is then cut there",
    )
