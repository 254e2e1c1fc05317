"""Crops of simulated procedures, rendered if their frames were not written.

In processes, a procedure each: rendering consists of many small steps, and threads would compete
for the interpreter's lock.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from polyplink.core.workers import as_done
from polyplink.simulate import SimulatedProcedure
from polyplink.tracklets.crops import FrameCrops, crops_file

BATCH = 32  # crops held in memory at a time
GPU_BATCH = 512


@dataclass(frozen=True)
class Rendering:
    """The crops of one procedure to render.

    Attributes:
        path: The .npy file to write.
        source: Folder that the procedure was simulated in.
        procedure_id: The procedure.
        frames: The frames to render and the crops of each.
        size: Width and height of a crop, pixels.
        device: Where to render, by torch's name.
    """

    path: Path
    source: Path
    procedure_id: str
    frames: Sequence[FrameCrops]
    size: int
    device: str = "cpu"

    def __len__(self) -> int:
        """The number of crops."""
        return sum(len(frame.rows) for frame in self.frames)


def render_all(renderings: Sequence[Rendering], workers: int, tick: Callable[[int], None]) -> None:
    """Write the crops of many procedures, each file whole or not at all.

    Args:
        renderings: What to write.
        workers: Processes; on a GPU this process renders alone.
        tick: Callback with the number of crops that have just been written.

    Raises:
        PolyplinkError: If a source was simulated by another version, or lacks the procedure.
    """
    longest_first = sorted(renderings, key=len, reverse=True)
    if any(one.device != "cpu" for one in renderings):
        workers = 1
    with contextlib.closing(as_done(render, longest_first, workers)) as done:
        for crops in done:
            tick(crops)


def render(rendering: Rendering) -> int:
    """Write one procedure's crops as .npy, (crops, size, size, 3) uint8; return their number."""
    count, size = len(rendering), rendering.size
    numbers = np.zeros(count, np.int64)  # frame of each crop, in the order of the file's rows
    windows = np.zeros((count, 4), np.int64)  # left, top, right, bottom in it
    for frame in rendering.frames:
        numbers[frame.rows], windows[frame.rows] = frame.frame, frame.crops
    on_cpu = rendering.device == "cpu"
    batch, threads = (BATCH, 1) if on_cpu else (GPU_BATCH, os.cpu_count() or 1)
    with crops_file(rendering.path, count, size) as file:
        if count:
            made = SimulatedProcedure.open(
                rendering.source, rendering.procedure_id, rendering.device
            )
            for start in range(0, count, batch):
                part = slice(start, start + batch)
                drawn = made.crops(numbers[part], windows[part], size, threads=threads)
                file.write(drawn.data)
    return count
