"""Scenes of a recording: no track continues from one scene to another.

A new scene begins at a frame that differs much from the previous one, and much more than recent
frames differ from their predecessors: where a recording was paused, or where films were joined. The
difference is the mean over a small image, which blur and reflections change little. Water on the
lens or a flash changes the picture just as suddenly, but then the earlier picture returns: this
counts as a return to the earlier scene, and its tracks continue.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.arrays import Floats, Ints
from polyplink.data.tables import read_table, write_table

SIDE = 16  # of the small image, pixels
SAMPLES = 4  # pixels across and down that are averaged for each pixel of the small image
LEAST, TIMES = 12.0, 3.0  # least difference at a cut: grey levels, and relative to recent ones
BEFORE = 4  # number of recent differences; several, because frames may be duplicated
LASTING = 12  # frames: a shorter scene does not replace the one that may return
AREA = SIDE * SIDE
STATE = 2 * AREA + BEFORE + 4  # length of a finder's state
SCHEMA = pl.Schema({"procedure_id": pl.String, "frame": pl.Int32, "scene": pl.Int32})


def are_counts(numbers: npt.NDArray[Any]) -> bool:
    """Whether all values are valid numbers of frames or scenes."""
    with np.errstate(invalid="ignore"):
        return bool(((numbers >= 0) & (numbers < 1 << 31) & (numbers % 1 == 0)).all())


def is_state(array: npt.NDArray[Any]) -> bool:
    """Whether an array read from a file can be the `state` of a `SceneFinder`."""
    if array.dtype != np.float64 or array.shape not in ((0,), (STATE,)):
        return False
    levels = array[:-4]  # images and differences; infinite if there was no earlier scene
    in_range = (levels >= 0) & ((levels <= 255) | np.isposinf(levels))
    return bool(in_range.all()) and are_counts(array[-4:])


class SceneFinder:
    """Numbers the scenes of a recording, frame by frame.

    Attributes:
        state: (STATE,) small images of the last frame and of the last frame of the previous scene,
            the recent differences, the numbers of the current scene, of the newest scene and of the
            previous scene, and the length of the current scene in frames. Empty before the first
            frame.

    Example:
        >>> finder = SceneFinder()
        >>> dark, bright = (np.full((480, 640, 3), level, np.uint8) for level in (0, 90))
        >>> [finder.scene(image) for image in (*[dark] * 12, bright, bright, dark)][-4:]
        [0, 1, 1, 0]
    """

    def __init__(self, state: Floats | None = None) -> None:
        """Start before the first frame, or continue from a `state`."""
        self.state = np.zeros(0) if state is None else state

    def scene(self, image: npt.NDArray[np.uint8]) -> int:
        """The scene, from 0, of the next frame (height, width, 3) RGB."""
        count = SIDE * SAMPLES
        down, across = (((np.arange(count) + 0.5) * n / count).astype(int) for n in image.shape[:2])
        samples = image[down[:, None], across].reshape(SIDE, SAMPLES, SIDE, -1)  # SAMPLES x 3 each
        thumbnail = samples.mean((1, 3)).ravel()
        if not self.state.size:
            self.state = np.concatenate([thumbnail, np.full(AREA, np.inf), np.zeros(BEFORE + 4)])
        last, previous, changes, numbers = np.split(self.state, [AREA, 2 * AREA, 2 * AREA + BEFORE])
        scene, newest, before, lasted = numbers
        change = np.abs(thumbnail - last).mean()
        returns = np.abs(thumbnail - previous).mean() < max(LEAST, change / 2)
        if change >= LEAST and (returns or change >= TIMES * changes.max()):
            if lasted >= LASTING or np.isinf(previous[0]):
                previous, before, returns = last, scene, False
            scene, lasted = before if returns else newest + 1, 0
            newest = max(newest, scene)
        numbers = np.array([scene, newest, before, lasted + 1])
        self.state = np.concatenate([thumbnail, previous, changes[1:], [change], numbers])
        return int(scene)


def write_scenes(folder: Path, scenes: Mapping[str, Ints]) -> None:
    """Write `scenes.parquet`, if a procedure has more than one scene.

    Args:
        folder: The data folder.
        scenes: (s, 2) first frame and number of each procedure's scenes.
    """
    rows = [(name, *row) for name, numbers in scenes.items() for row in numbers.tolist()]
    if rows:
        table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
        write_table(folder / "scenes.parquet", table)


def read_scenes(folder: Path) -> dict[str, Ints]:
    """Scenes (s, 2), first frame and number, in order, of procedures with several scenes."""
    path = folder / "scenes.parquet"
    if not path.is_file():
        return {}
    table = read_table(path, f"import again, or remove {path}", SCHEMA)
    groups = table.group_by("procedure_id", maintain_order=True)
    return {
        str(name): rows.select(pl.col("frame", "scene").cast(pl.Int64)).to_numpy()
        for (name,), rows in groups
    }
