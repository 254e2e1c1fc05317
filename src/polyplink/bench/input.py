"""The pixels of a training fragment, against decoding and cutting them anew at every step."""

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import simplejpeg
import torch
from PIL import Image
from torch.nn.functional import interpolate

from polyplink.bench.harness import BenchResult, against, best_of, growth
from polyplink.encoders import to_pixels
from polyplink.simulate.rendering import one_thread
from polyplink.tracklets.crops import FrameCrops, Unreadable, cut_frame, decode

FRAGMENTS = 8
LENGTH = 8  # frames of a fragment
SIDE = 232  # pixels of a crop
FRAME = (1920, 1080)
BOX = np.array([760, 340, 1360, 940])  # a crop as psi = 5 gives it
MEAN, STD = 0.45, 0.225
REPEATS = 25  # a call takes some ms, which others on the machine easily double
GREY_LEVELS = 1.0  # how far pixels may differ on average: one resizes bytes, the other floats


@dataclass(frozen=True)
class Stored:
    """Frames of some fragments as files, and their crops in one array on disk.

    Attributes:
        folder: Where they lie.
        images: JPEG files, `LENGTH` for each fragment.
        crops: Memory map (frames, side, side, 3) uint8.
    """

    folder: Path
    images: list[Path]
    crops: np.ndarray


def synthetic_frame(number: int) -> np.ndarray:
    """A full-HD frame (h, w, 3) uint8 with some detail."""
    rng = np.random.default_rng(number)
    small = torch.from_numpy(rng.uniform(0, 255, (1, 3, 68, 120)).astype(np.float32))
    big = interpolate(small, (FRAME[1], FRAME[0]), mode="bicubic")[0].permute(1, 2, 0).numpy()
    noisy = big + rng.normal(0, 3, big.shape).astype(np.float32)
    return np.asarray(np.clip(noisy, 0, 255).astype(np.uint8))


def cut_file(path: Path) -> np.ndarray:
    """Crop (side, side, 3) of a file as the first pass cuts it."""
    name = FrameCrops(path.name, 0, *FRAME, np.arange(1), BOX[None])
    found = cut_frame(decode(path.read_bytes()), name, path.name, SIDE)
    if isinstance(found, Unreadable):
        raise TypeError(f"{path}: {found.why}")  # this file wrote it: it can be read
    crop: np.ndarray = found[0]
    return crop


def store(folder: Path, fragments: int) -> Stored:
    """Write frames and their crops; the frames of all fragments are 8 different ones."""
    data = [simplejpeg.encode_jpeg(synthetic_frame(k), quality=90) for k in range(LENGTH)]
    images = [folder / f"{k:05d}.jpg" for k in range(fragments * LENGTH)]
    crops = np.lib.format.open_memmap(
        folder / "crops.npy", "w+", np.uint8, (len(images), SIDE, SIDE, 3)
    )
    for k, path in enumerate(images):
        path.write_bytes(data[k % LENGTH])
        crops[k] = cut_file(path) if k < LENGTH else crops[k % LENGTH]
    crops.flush()
    return Stored(folder, images, np.load(folder / "crops.npy", mmap_mode="r"))


def at_every_step(images: list[Path]) -> torch.Tensor:
    """The rival: decode whole frames, make them floats, crop, resize, normalise (s, 3, h, w).

    As the papers' program does, for the frames of one fragment.
    """
    frames = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in images])
    floats = torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255.0  # s 3 h w
    left, top, right, bottom = BOX.tolist()
    part = floats[:, :, top:bottom, left:right]
    small = interpolate(part, (SIDE, SIDE), mode="bilinear", antialias=True)
    return (small - MEAN) / STD


def from_crops(crops: np.ndarray, fragment: int) -> torch.Tensor:
    """Ours: a copy out of the memory map, normalised (s, 3, h, w)."""
    # A copy: torch wants writable memory, and a memory map is read-only.
    frames = np.array(crops[fragment * LENGTH : (fragment + 1) * LENGTH])
    mean, std = torch.full((3, 1, 1), MEAN), torch.full((3, 1, 1), STD)
    return to_pixels(torch.from_numpy(frames), mean, std)


def _copied(crops: np.ndarray, fragments: int) -> list[np.ndarray]:
    return [np.array(crops[k * LENGTH : (k + 1) * LENGTH]) for k in range(fragments)]


def _apart(stored: Stored) -> float:
    """Mean difference of both ways' pixels, in grey levels."""
    ours, theirs = from_crops(stored.crops, 0), at_every_step(stored.images[:LENGTH])
    return float((ours - theirs).abs().mean()) * STD * 255.0


def _in_folder() -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory(prefix="polyplink-bench-")


def _first_pass(size: int) -> Callable[[], object]:
    frame = simplejpeg.encode_jpeg(synthetic_frame(0), quality=90)
    name = FrameCrops("frame", 0, *FRAME, np.arange(1), BOX[None])

    def call() -> None:
        for _ in range(size * LENGTH):
            cut_frame(decode(frame), name, "frame", SIDE)

    return call


def _ready(crops: np.ndarray, fragments: int) -> Callable[[], object]:
    def call() -> None:
        for k in range(fragments):  # one at a time, as a loop takes them
            from_crops(crops, k)

    return call


@one_thread()
def run(size: int = FRAGMENTS) -> BenchResult:
    """Measure reading fragments of 8 crops after the first pass; size is fragments, at least 8.

    Ours copies bytes out of a memory map and normalises them. The rate is fragments a second of
    bytes alone, as a device is given them that casts and normalises by itself. The rival decodes,
    crops and normalises one fragment, and its time is scaled to all. All of it in one thread.
    """
    with _in_folder() as folder:
        stored = store(Path(folder), size)
        crops = stored.crops
        once = best_of(lambda: at_every_step(stored.images[:LENGTH]), 5)
        return against(
            "input",
            "Pillow, whole frames to float, crop, resize, normalise; one fragment scaled to all",
            size,
            ours_s=best_of(_ready(crops, size), REPEATS),
            rival_s=once * size,
            exponent=growth(lambda n: _ready(crops, n), size, REPEATS),
            equal=_apart(stored) < GREY_LEVELS,
            rate=size / best_of(lambda: _copied(crops, size), REPEATS),
        )


@one_thread()
def run_first_pass(size: int = FRAGMENTS) -> BenchResult:
    """Measure the first pass: decoding and cutting 8 frames; size is fragments, at least 8.

    The rival is that of `run`; both are measured on one fragment, in one thread, and their times
    scaled to all.
    """
    with _in_folder() as folder:
        stored = store(Path(folder), 1)
        rival = best_of(lambda: at_every_step(stored.images), 5)
        ours = best_of(_first_pass(1), 15)  # shorter than the rival's, so more often
        return against(
            "first-pass",
            "Pillow, whole frames to float, crop, resize, normalise; both one fragment scaled",
            size,
            ours_s=ours * size,
            rival_s=rival * size,
            exponent=growth(_first_pass, size, 1),
            equal=_apart(stored) < GREY_LEVELS,
        )
