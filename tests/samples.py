"""Small data sets shared by the tests of several packages."""

import shutil
from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import simplejpeg

from polyplink.data.tables import DataSet, write_data

WIDTH, HEIGHT = 48, 40


def colour_of(polyp: int) -> np.ndarray:
    """A distinct colour (3,) per polyp, so that any encoder can distinguish them."""
    rng = np.random.default_rng(100 + polyp)
    return rng.integers(40, 220, 3).astype(np.uint8)


@cache
def noises() -> tuple[np.ndarray, np.random.Generator]:
    """Noise of 64 frames (64, HEIGHT, WIDTH, 3), and the generator that drew it."""
    rng = np.random.default_rng(0)
    return rng.normal(0, 12, (64, HEIGHT, WIDTH, 3)), rng


@cache
def frame_of(polyp: int, noise: int) -> bytes:
    """A frame as JPEG: the polyp's colour with one of the noises."""
    pixels = np.clip(noises()[0][noise] + colour_of(polyp), 0, 255).astype(np.uint8)
    encoded: bytes = simplejpeg.encode_jpeg(pixels)
    return encoded


def copy_frames(frames: Path, folder: Path, numbers: Iterable[int]) -> Path:
    """Copy frames of a procedure, by their numbers, into a new folder, as a recording."""
    folder.mkdir()
    for number in numbers:
        shutil.copy(frames / f"{number}.jpg", folder)
    return folder


def write_procedures(
    root: Path,
    *,
    procedures: int = 4,
    polyps: int = 2,
    views: int = 3,
    length: int = 32,
    labelled: bool = True,
    images: bool = True,
) -> Path:
    """Write a data folder with procedures of uniformly coloured polyps, the last one in "eval".

    Every polyp has `views` tracklets of `length` frames, ten frames apart, one polyp after the
    other. Frames show the polyp's colour with noise.
    """
    rows: list[dict[str, object]] = []
    frame_count = polyps * views * (length + 10)
    rng = deepcopy(noises()[1])
    names = [f"001-{i + 1:03d}" for i in range(procedures)]
    for p, name in enumerate(names):
        if images:
            (root / "frames" / name).mkdir(parents=True, exist_ok=True)
        for view in range(polyps * views):
            polyp = p * polyps + view // views
            for step in range(length):
                frame = view * (length + 10) + step
                image = f"{name}/{frame}.jpg"
                if images:
                    frame_bytes = frame_of(polyp, int(rng.integers(64)))
                    (root / "frames" / image).write_bytes(frame_bytes)
                rows.append(
                    {
                        "procedure_id": name,
                        "frame": frame,
                        "x": 10.0 + step % 5,
                        "y": 8.0,
                        "w": 16.0,
                        "h": 12.0,
                        "polyp_id": f"{name}_{view // views + 1}" if labelled else None,
                        "image": image if images else None,
                    }
                )
    table = pl.DataFrame(
        {
            "procedure_id": names,
            "dataset": "sample",
            "patient": names,
            "n_frames": frame_count,
            "fps": 25.0,
            "width": WIDTH,
            "height": HEIGHT,
            "source": str(root / "frames"),
        }
    )
    polyps_table = pl.DataFrame(
        {
            "polyp_id": [f"{n}_{k + 1}" for n in names for k in range(polyps)],
            "procedure_id": [n for n in names for _ in range(polyps)],
        }
    )
    splits = {"train": names[:-1], "eval": names[-1:]}
    write_data(root / "data", DataSet.of(pl.DataFrame(rows), table, polyps_table, splits))
    return root / "data"
