"""Crops that no file holds: plugins render them from what a folder says of its procedures."""

from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from polyplink.core.parts import CROPS


class Rendering(Protocol):
    """A procedure with pictures that can be rendered."""

    def crops(
        self,
        frames: npt.NDArray[np.int64],
        windows: npt.NDArray[np.int64],
        size: int,
        *,
        threads: int,
    ) -> npt.NDArray[np.uint8]:
        """Render crops (n, size, size, 3).

        Args:
            frames: (n,) the frame of each.
            windows: (n, 4) left, top, right and bottom of each in its frame.
            size: Their width and height, pixels.
            threads: Threads to render with.
        """


class CropSource(Protocol):
    """What a plugin of the kind "crops" is: a class or a module with two functions."""

    def holds(self, folder: Path) -> bool:
        """Whether the procedures of a folder can be rendered."""

    def open(self, folder: Path, procedure_id: str, device: str) -> Rendering:
        """A procedure of a folder, to be rendered on a device of torch."""


@cache
def _sources() -> tuple[CropSource, ...]:
    return tuple(map(CROPS.find, CROPS.names()))


def crop_source(folder: Path) -> CropSource | None:
    """What renders the procedures of a folder; None where its pictures are files.

    Raises:
        PolyplinkError: If a plugin cannot be imported.

    Example:
        >>> crop_source(Path("videos")) is None
        True
    """
    return next((source for source in _sources() if source.holds(folder)), None)
