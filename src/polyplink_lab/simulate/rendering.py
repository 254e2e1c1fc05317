"""Render frames and crops of simulated procedures on demand, without storing frames on disk.

A crop is rendered at its final size, at a small part of the cost of the whole frame, and then
compressed as JPEG. (Crops of released frames are cut from frames compressed at full size.)
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import simplejpeg
import torch
from numpy.typing import ArrayLike, NDArray

from polyplink.core.errors import PolyplinkError
from polyplink_lab.simulate.picture.render import Renderer, draw_appearance
from polyplink_lab.simulate.plan import Plan, plan_procedure
from polyplink_lab.simulate.presets import read_settings
from polyplink_lab.simulate.procedure_specs import procedure_specs

Pixels = NDArray[np.uint8]

QUALITY = 92  # of JPEG: the release is near lossless


def check_device(device: str) -> None:
    """Check that a device exists.

    Raises:
        PolyplinkError: If the name is not that of a device, or this machine has no such device.
    """
    error = PolyplinkError(f"no device {device!r} here", "use --device cpu, cuda or cuda:N")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise error
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise error from None


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: processes share the cores, and sums are reproducible."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def to_jpeg(picture: Pixels) -> bytes:
    """Compress a picture (h, w, 3) as JPEG, as the simulator writes frames and crops."""
    data: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(picture), quality=QUALITY)
    return data


def through_jpeg(picture: Pixels) -> Pixels:
    """Compress a picture (h, w, 3) as JPEG and decode it again."""
    decoded: Pixels = simplejpeg.decode_jpeg(to_jpeg(picture))
    return decoded


def read_plan(source: Path, procedure_id: str) -> tuple[Plan, int]:
    """The plan of a procedure of a simulated data set, and the data set's seed.

    Args:
        source: Folder that `polyplink simulate` wrote.
        procedure_id: Name of the procedure.

    Raises:
        PolyplinkError: If the folder is no simulation, another version made it, or there is no such
            procedure.
    """
    settings = read_settings(source)
    preset, seed = settings.preset, settings.seed
    specs = {spec.procedure_id: spec for spec in procedure_specs(preset, seed)}
    if procedure_id not in specs:
        raise PolyplinkError(
            f"no procedure {procedure_id!r} in the simulation {source}", "import it again"
        )
    return plan_procedure(preset, seed, specs[procedure_id]), seed


@dataclass(frozen=True)
class SimulatedProcedure:
    """A procedure of which any part of any frame can be rendered, at any size.

    Attributes:
        plan: The plan of the procedure.
        renderer: The renderer of its frames.

    Example:
        >>> from polyplink_lab.simulate.presets import smoke
        >>> plan = plan_procedure(smoke(), 0, procedure_specs(smoke(), seed=0)[0])
        >>> procedure = SimulatedProcedure.of(plan, seed=0)
        >>> procedure.crops([40, 41], [[0, 0, 32, 32], [4, 8, 44, 48]], size=24).shape
        (2, 24, 24, 3)
    """

    plan: Plan
    renderer: Renderer

    @classmethod
    def of(cls, plan: Plan, seed: int, device: str = "cpu") -> Self:
        """Add colours and textures to a planned procedure; this takes seconds."""
        check_device(device)
        with one_thread():
            return cls(plan, Renderer(plan, draw_appearance(plan, seed), torch.device(device)))

    @classmethod
    def open(cls, source: Path, procedure_id: str, device: str = "cpu") -> Self:
        """Open a procedure of a simulated data set.

        Args:
            source: Folder that `polyplink simulate` wrote.
            procedure_id: Name of the procedure.
            device: Torch device for rendering.

        Raises:
            PolyplinkError: If the folder is no simulation, another version made it, or there is
                no such procedure.
        """
        return cls.of(*read_plan(source, procedure_id), device)

    def windows(self, frames: ArrayLike, windows: ArrayLike, size: tuple[int, int]) -> Pixels:
        """Render parts of frames, before JPEG.

        Args:
            frames: (s,) frame numbers.
            windows: (s, 4) left, top, right, bottom, in pixels of the whole frame.
            size: Width and height of the rendered windows, pixels.

        Returns:
            (s, h, w, 3) RGB.
        """
        numbers, edges = np.asarray(frames, np.int64), np.asarray(windows, np.float64)
        with one_thread():
            images, _ = self.renderer.windows(numbers, edges, size)
        return images

    def frames(self, frames: ArrayLike, size: tuple[int, int] | None = None) -> Pixels:
        """Render whole frames (s, h, w, 3), before JPEG; a `size` of None is the native size."""
        width, height = self.plan.spec.width, self.plan.spec.height
        full_windows = np.tile(np.array([0.0, 0.0, width, height]), (np.size(frames), 1))
        return self.windows(frames, full_windows, size or (width, height))

    def crops(self, frames: ArrayLike, windows: ArrayLike, size: int, threads: int = 1) -> Pixels:
        """Render square crops (s, size, size, 3), compressed as JPEG and decoded again.

        Args:
            frames: (s,) frame numbers.
            windows: (s, 4), see `windows`.
            size: Width and height of a crop, pixels.
            threads: Number of threads for JPEG, so that a GPU does not wait for it.
        """
        images = self.windows(frames, windows, (size, size))
        if threads == 1:
            return np.stack([through_jpeg(image) for image in images])
        with ThreadPoolExecutor(threads) as pool:
            return np.stack(list(pool.map(through_jpeg, images)))
