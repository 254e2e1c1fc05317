"""Benchmarks on pixels: first pass, recordings, simulated crops."""

import functools
import itertools
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from polyplink.core.workers import worker_pool
from polyplink.data.files.images import Pixels, decode_image
from polyplink.detect.first_pass import detect, write_detections
from polyplink.detect.recordings import find_recordings
from polyplink.encoders.encoder import to_pixels
from polyplink.tracklets.crops import FrameCrops, cut_frame
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.settings import PrepareSettings
from polyplink_lab.bench.harness import Call, Work, time_calls
from polyplink_lab.simulate.colon.surface import BatchSurface
from polyplink_lab.simulate.picture.rays import (
    FAR,
    SETTLED,
    Cameras,
    Windows,
    beams_of,
    march_windows,
    tiles,
)
from polyplink_lab.simulate.picture.render import March, Renderer, draw_appearance
from polyplink_lab.simulate.plan import boxes_of, plan_procedure
from polyplink_lab.simulate.presets import preset
from polyplink_lab.simulate.preview import write_film
from polyplink_lab.simulate.procedure_specs import procedure_specs
from polyplink_lab.simulate.rendering import one_thread

GREY_LEVELS, MASKS = 1.0, 0.01  # largest mean difference of pixels, and share of masks
SIDE = 232  # width and height of a crop, pixels, as in the papers

LENGTH = 8  # frames of a fragment
FRAME = (1920, 1080)
BOX = np.array([760, 340, 1360, 940])  # a crop at psi = 5
MEAN, STD = 0.45, 0.225


def smooth_pictures(
    n: int, height: int, width: int, rng: np.random.Generator, detail: tuple[int, int] = (4, 4)
) -> np.ndarray:
    """Pictures (n, height, width, 3) float32 in [0, 255]: enlarged random grids of `detail`."""
    small = rng.uniform(0, 255, (n, 3, *detail)).astype(np.float32)
    smooth = interpolate(torch.from_numpy(small), (height, width), mode="bicubic")
    return smooth.permute(0, 2, 3, 1).numpy()


def cut(frame: bytes) -> Pixels:
    """The crop (side, side, 3) of a frame, cut as in the first pass."""
    crops = FrameCrops("frame", 0, *FRAME, np.arange(1), BOX[None])
    pixels: Any = cut_frame(decode_image(frame), crops, "frame", SIDE)
    return np.asarray(pixels[0])


def normalised(crops: Pixels) -> Tensor:
    """Convert crops (s, h, w, 3) to the network's input (s, 3, h, w)."""
    mean, std = torch.full((3, 1, 1), MEAN), torch.full((3, 1, 1), STD)
    return to_pixels(torch.from_numpy(crops), mean, std)


def read_at_every_step(images: list[Path]) -> Tensor:
    """The rival: decode whole frames, convert to float, crop, resize, normalise (s, 3, h, w).

    This is what the papers' program does with the frames of a fragment.
    """
    frames = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in images])
    floats = torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255.0  # s 3 h w
    left, top, right, bottom = BOX.tolist()
    part = floats[:, :, top:bottom, left:right]
    small = interpolate(part, (SIDE, SIDE), mode="bilinear", antialias=True)
    return (small - MEAN) / STD


def same_pixels(ours: Tensor, theirs: Tensor) -> bool:
    """Whether normalised pixels differ by less than a grey level on average."""
    return float((ours - theirs).abs().mean()) * STD * 255.0 < GREY_LEVELS


def _fragment(folder: Path) -> tuple[list[bytes], list[Path]]:
    """Full-HD JPEG frames of a fragment, with some detail, in memory and as files."""
    frames, paths = [], [folder / f"{number}.jpg" for number in range(LENGTH)]
    for number, path in enumerate(paths):
        rng = np.random.default_rng(number)
        picture = smooth_pictures(1, FRAME[1], FRAME[0], rng, (68, 120))[0]
        noisy = picture + rng.normal(0, 3, picture.shape).astype(np.float32)
        pixels = np.clip(noisy, 0, 255).astype(np.uint8)
        frames.append(bytes(simplejpeg.encode_jpeg(pixels, quality=90)))
        path.write_bytes(frames[-1])
    return frames, paths


def first_pass(size: int, device: torch.device, folder: Path) -> Work:
    """Decoding and cropping the frames of `size` fragments, in one thread.

    `equal` is whether pixels agree with the rival's within a grey level.
    """
    frames, paths = _fragment(folder)

    def pass_over(fragments: int) -> Call:
        def cut_all() -> list[Pixels]:
            for _ in range(fragments):
                crops = [cut(frame) for frame in frames]
            return crops

        return cut_all

    def equal(ours: list[Pixels], theirs: Tensor) -> bool:
        return same_pixels(normalised(np.stack(ours)), theirs)

    rival = one_thread()(lambda: read_at_every_step(paths))
    return Work(pass_over(size), rival, equal, scale=size, at=pass_over)


def recording(
    size: int, device: torch.device, folder: Path, frame: tuple[int, int] = FRAME
) -> Work:
    """A full-HD video of `size` frames, from the file to stored crops, without a detector's time.

    The detector returns a moving box at once. The rate is frames per second. The rival decodes the
    video a second time for the crops, as `prepare` does if none were kept; `equal` is whether the
    crops are the same.
    """
    rng, (width, height) = np.random.default_rng(0), frame
    wide = smooth_pictures(1, height + 64, width + 64, rng, (68, 120))[0]
    noisy = np.clip(wide + rng.normal(0, 3, wide.shape), 0, 255).astype(np.uint8)
    moving = (noisy[k % 64 :, k % 64 :][:height, :width] for k in range(size))
    write_film(folder / "film.mp4", map(np.ascontiguousarray, moving), 25.0)
    recordings, settings = find_recordings(folder / "film.mp4"), PrepareSettings()
    runs = itertools.count()

    def run(keep: bool) -> Pixels:
        numbers = itertools.count()
        data = folder / f"data{next(runs)}"

        def detector(image: Pixels) -> NDArray[np.float64]:
            left = width / 3 + next(numbers) % 64
            return np.array([[left, height / 3, width / 5, height / 3, 0.9]])

        detected = detect(recordings, detector, data, settings)
        write_detections(data, detected.data, detected.scenes)
        if not keep:
            shutil.rmtree(data / "kept")
        return prepare(data, settings, workers=2).crops("film")

    def rate(output: object, seconds: float) -> dict[str, Any]:
        return {"rate": size / seconds}

    return Work(lambda: run(True), lambda: run(False), np.array_equal, more=rate)


RELEASED = (1350, 1080)  # frame size of the simulated release
GPU_CROPS = 256  # rendered at a time on a GPU; with fewer, launching kernels would dominate
MARGIN = 1.5  # size of a crop relative to its box
STEPS = 400  # most steps of a plain march


def plain_march(
    surface: BatchSurface, cameras: Cameras, windows: Windows, max_pixels: int
) -> Tensor:
    """The rival: all rays of a tile step from the camera until each has reached the surface."""
    beams = beams_of(cameras, windows)
    depth = torch.zeros_like(beams.directions[0])
    for frames, pixels in tiles(len(depth), depth.shape[1], max_pixels):
        tile, part = beams.part(frames, pixels), depth[frames, pixels]
        for _ in range(STEPS):
            free = surface.distance(tile.at(part), tile.frame)
            part = (part + free).clamp_max(FAR)
            if not ((free.abs() > SETTLED * part * tile.width) & (part < FAR)).any():
                break
        depth[frames, pixels] = part
    return depth


@functools.cache
def renderer(device: str, march: March = march_windows) -> Renderer:
    """A renderer of a small procedure with frames of the released size."""
    small = preset("smoke")
    spec = procedure_specs(small, 0)[0]
    plan = plan_procedure(small, 0, spec)
    plan = replace(plan, spec=replace(spec, width=RELEASED[0], height=RELEASED[1]))
    return Renderer(plan, draw_appearance(plan, 0), torch.device(device), march=march)


def draw(
    device: str, count: int, side: int, march: March = march_windows
) -> tuple[Pixels, NDArray[np.int8]]:
    """Images and masks of crops around boxes, rendered as for tracklets."""
    drawer = renderer(device, march)
    boxes = boxes_of(drawer.plan).sort("polyp", "frame")
    rows = boxes[(np.arange(count) % len(boxes)).tolist()]
    x, y, w, h = (rows[name].to_numpy().astype(float) for name in ("x", "y", "w", "h"))
    half = MARGIN / 2 * np.maximum(w, h)
    middle = np.stack([x + w / 2, y + h / 2], axis=1)
    windows = np.concatenate([middle - half[:, None], middle + half[:, None]], axis=1)
    return drawer.windows(rows["frame"].to_numpy().astype(np.int64), windows, (side, side))


def drawn_from_to(device: str, count: int, side: int) -> tuple[float, float]:
    """Time at which a process began and ended rendering, without its start-up."""
    with one_thread():
        draw(device, min(count, 4), side)
        start = time.time()
        draw(device, count, side)
        return start, time.time()


def simulated_crops(size: int, device: torch.device, folder: Path, side: int = SIDE) -> Work:
    """Rendering `size` crops of 232 x 232 pixels in one process with one thread.

    The rate is that of one process per core, or of the GPU with 256 crops or more per batch. Ours
    and the rival render everything (colours, light, effects, noise) and differ only in how they
    locate the surface: `equal` is whether images agree within one grey level on average, and masks
    in all but 1 % of the pixels.
    """
    kind = device.type

    def at(count: int) -> Call:
        return one_thread()(lambda: draw(kind, count, side))

    def equal(ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> bool:
        off = np.abs(ours[0].astype(np.int16) - theirs[0]).mean()
        return bool(off < GREY_LEVELS and (ours[1] != theirs[1]).mean() < MASKS)

    def rate(output: object, seconds: float) -> dict[str, Any]:
        workers = os.cpu_count() or 1
        if kind == "cuda":
            n_crops = max(size, GPU_CROPS)
            return {"rate": n_crops / time_calls(at(n_crops))[1]}
        if workers == 1:
            return {"rate": size / seconds}
        with worker_pool(workers) as pool:
            spans = [pool.submit(drawn_from_to, kind, size, side) for _ in range(workers)]
            starts, stops = zip(*(span.result() for span in spans), strict=True)
        return {"rate": workers * size / float(max(stops) - min(starts))}

    rival = one_thread()(lambda: draw(kind, size, side, plain_march))
    return Work(at(size), rival, equal, at=at, more=rate)
