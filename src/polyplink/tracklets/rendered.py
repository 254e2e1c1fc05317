"""Crops without stored frames, which plugins render from the description of a procedure."""

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
            frames: (n,) frame of each crop.
            windows: (n, 4) left, top, right and bottom of each crop in its frame.
            size: Width and height of a crop, pixels.
            threads: Number of threads.
        """


class CropSource(Protocol):
    """The interface of plugins of the kind "crops": a class or a module with two functions."""

    def holds(self, folder: Path) -> bool:
        """Whether the procedures of a folder can be rendered."""

    def open(self, folder: Path, procedure_id: str, device: str) -> Rendering:
        """Open a procedure of a folder, to render it on a torch device."""


@cache
def _sources() -> tuple[CropSource, ...]:
    return tuple(map(CROPS.find, CROPS.names()))


def crop_source(folder: Path) -> CropSource | None:
    """The plugin that renders the procedures of a folder; None if its frames are files.

    Raises:
        PolyplinkError: If a plugin cannot be imported.

    Example:
        >>> crop_source(Path("videos")) is None
        True
    """
    return next((source for source in _sources() if source.holds(folder)), None)
