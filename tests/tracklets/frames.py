"""Frames to cut, for the tests of their sources."""

import numpy as np

from polyplink.tracklets.ahead import threads
from polyplink.tracklets.crops import FrameCrops, Pixels, Unreadable
from polyplink.tracklets.sources import CropSource


def whole_frame(image: str | None, row: int, width: int, height: int) -> FrameCrops:
    """One crop, of the whole frame."""
    return FrameCrops(image, row, width, height, np.array([row]), np.array([[0, 0, width, height]]))


def cut_all(
    source: CropSource, frames: list[FrameCrops], size: int = 48
) -> dict[int, Pixels | Unreadable]:
    """Frame number -> its one crop (size, size, 3), or why there is none."""
    assert all(source.takes(frame) for frame in frames)
    with threads(2) as pool:
        cuts = list(source.crops(frames, size, pool))
    assert sorted(f.frame for f, _ in cuts) == sorted(f.frame for f in frames)
    return {f.frame: p if isinstance(p, Unreadable) else p[0] for f, p in cuts}
