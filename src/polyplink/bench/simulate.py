"""Crops of a simulated procedure, against the same pixels marched without any shortcut."""

import dataclasses
import functools
import os
import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.bench.harness import BenchResult, against, best_of, growth
from polyplink.core.workers import worker_pool
from polyplink.encoders import pick_device
from polyplink.simulate.picture.appearance import draw_appearance
from polyplink.simulate.picture.field import Scene
from polyplink.simulate.picture.march import FAR, SETTLED, Eyes, beams_of, march_windows, tiles
from polyplink.simulate.picture.render import March, Renderer
from polyplink.simulate.picture.window import Windows
from polyplink.simulate.plan import boxes_of, plan_procedure
from polyplink.simulate.presets import preset
from polyplink.simulate.procedure_specs import procedure_specs
from polyplink.simulate.rendering import one_thread

CROPS = 32
GPU_CROPS = 256  # a GPU draws so many at a time: with fewer, its calls and not its work are timed
SIDE = 232  # pixels of a crop, as the encoders of the papers read them
FRAME = (1350, 1080)  # as released
MARGIN = 1.5  # of a crop about its box
STEPS = 400  # of a plain march at most
GREY_LEVELS, MASKS = 1.0, 0.01  # how far pictures and masks may differ on average

Crops = tuple[NDArray[np.int64], NDArray[np.float64]]


def plain_march(field: Scene, eyes: Eyes, windows: Windows, most: int) -> Tensor:
    """The rival: every ray steps from the camera until all rays of its tile are there."""
    beams = beams_of(eyes, windows)
    depth = torch.zeros_like(beams.directions[0])
    for frames, pixels in tiles(len(depth), depth.shape[1], most):
        tile, part = beams.tile(frames, pixels), depth[frames, pixels]
        for _ in range(STEPS):
            free = field.distance(tile.at(part), tile.phases)
            part = (part + free).clamp_max(FAR)
            if not ((free.abs() > SETTLED * part * tile.width) & (part < FAR)).any():
                break
        depth[frames, pixels] = part
    return depth


@functools.cache
def renderer(device: str, march: March = march_windows) -> Renderer:
    """A renderer of a small procedure in frames of the released size."""
    small = preset("smoke")
    spec = procedure_specs(small, 0)[0]
    plan = plan_procedure(small, 0, spec)
    plan = dataclasses.replace(
        plan, spec=dataclasses.replace(spec, width=FRAME[0], height=FRAME[1])
    )
    return Renderer(plan, draw_appearance(plan, 0), torch.device(device), march=march)


def crops(device: str, count: int) -> Crops:
    """Frames (s,) and square windows (s, 4) about boxes, as tracklets have them one by one."""
    boxes = boxes_of(renderer(device).plan).sort("polyp", "frame")
    rows = boxes[(np.arange(count) % len(boxes)).tolist()]
    x, y, w, h = (rows[name].to_numpy().astype(float) for name in ("x", "y", "w", "h"))
    half = MARGIN / 2 * np.maximum(w, h)
    middle = np.stack([x + w / 2, y + h / 2], axis=1)
    edges = np.concatenate([middle - half[:, None], middle + half[:, None]], axis=1)
    return rows["frame"].to_numpy().astype(np.int64), edges


def draw(
    device: str, count: int, side: int, march: March = march_windows
) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """Pictures and masks of some crops."""
    return renderer(device, march).windows(*crops(device, count), (side, side))


def work(device: str, count: int, side: int) -> tuple[float, float]:
    """When a process began to draw and when it was done; its start is not counted."""
    with one_thread():
        draw(device, min(count, 4), side)
        start = time.time()
        draw(device, count, side)
        return start, time.time()


def rate(device: str, count: int, side: int, workers: int) -> float:
    """Crops a second of several processes that draw `count` each."""
    with worker_pool(workers) as pool:
        spans = [pool.submit(work, device, count, side) for _ in range(workers)]
        starts, stops = zip(*(span.result() for span in spans), strict=True)
    return workers * count / float(max(stops) - min(starts))


def rate_alone(device: str, count: int, side: int) -> float:
    """Crops a second of this process, drawing `count` at a time."""
    return count / best_of(lambda: draw(device, count, side))


@one_thread()
def measure(size: int, side: int, workers: int, device: str = "cpu") -> BenchResult:
    """As `run_on`, at any side and with any number of processes."""
    images, masks = draw(device, size, side)
    start = time.perf_counter()
    plain, plain_masks = draw(device, size, side, plain_march)
    rival_s = time.perf_counter() - start
    off = np.abs(images.astype(np.int16) - plain).mean()
    ours_s = best_of(lambda: draw(device, size, side))
    many = device == "cpu" and workers > 1
    full = size if device == "cpu" else max(size, GPU_CROPS)
    return against(
        "simulate",
        f"sphere tracing of every pixel on {device}",
        size,
        ours_s=ours_s,
        rival_s=rival_s,
        exponent=growth(lambda count: lambda: draw(device, count, side), size, 1),
        equal=bool(off < GREY_LEVELS and (masks != plain_masks).mean() < MASKS),
        rate=rate(device, size, side, workers) if many else rate_alone(device, full, side),
    )


def run_on(size: int, device: torch.device) -> BenchResult:
    """Measure `Renderer.windows` on a device; size is crops of 232 x 232 pixels, at least 8.

    Seconds are those of one process with one thread; the
    rate is that of one process a core, or of the GPU at 256 crops or more at a time. Both draw
    all there is (colours, light, effects, noise) and differ in how they find the surface: equal
    means pictures within one grey level on average and masks alike but for 1 % of the pixels.
    """
    return measure(size, SIDE, os.cpu_count() or 1, device.type)


def run(size: int = CROPS) -> BenchResult:
    """Measure `Renderer.windows`, on a GPU where there is one: see `run_on`."""
    return run_on(size, pick_device())
