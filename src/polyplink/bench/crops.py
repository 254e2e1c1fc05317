"""A prepared data set of made-up crops, for benchmarks that train."""

from pathlib import Path

import numpy as np
import polars as pl
import torch

from polyplink.core.artefacts import whole_file
from polyplink.data import DataSet, write_data
from polyplink.tracklets import Prepared, PrepareSettings, prepare
from polyplink.tracklets.prepared import crops_path

PROCEDURES, POLYPS, VIEWS = 8, 3, 10  # procedures, polyps of each, tracklets of a polyp
BOXES = 32  # of a tracklet: 8 crops at every fourth box
PAUSE = 10  # frames without a box between tracklets


def _tables() -> DataSet:
    """Detections of all procedures: tracklet after tracklet, polyp after polyp."""
    names = [f"p{number}" for number in range(PROCEDURES)]
    steps = np.arange(POLYPS * VIEWS * BOXES)
    view = steps // BOXES
    boxes = pl.DataFrame(
        {
            "frame": view * (BOXES + PAUSE) + steps % BOXES,
            "x": 10.0 + steps % 5,
            "y": 8.0,
            "w": 16.0,
            "h": 12.0,
            "polyp": view // VIEWS,
        }
    )
    detections = pl.concat(
        boxes.select(
            pl.lit(name).alias("procedure_id"),
            pl.exclude("polyp"),
            pl.format("{}_{}", pl.lit(name), pl.col("polyp")).alias("polyp_id"),
            pl.lit(None, pl.String).alias("image"),
        )
        for name in names
    )
    frames = POLYPS * VIEWS * (BOXES + PAUSE)
    procedures = pl.DataFrame({"procedure_id": names}).with_columns(
        pl.lit("bench").alias("dataset"),
        pl.col("procedure_id").alias("patient"),
        pl.lit(frames).alias("n_frames"),
        pl.lit(25.0).alias("fps"),
        pl.lit(48).alias("width"),
        pl.lit(40).alias("height"),
        pl.lit("made").alias("source"),
    )
    polyps = detections.select("polyp_id", "procedure_id").unique(maintain_order=True)
    return DataSet.of(detections, procedures, polyps, {"train": names})


def pictures(polyp: np.ndarray, side: int, rng: np.random.Generator) -> np.ndarray:
    """Crops (n, side, side, 3) uint8 of polyps (n,): a smooth picture each, in a light of its own.

    Tracklets of 8 crops share their light; every crop has noise of its own.
    """
    small = torch.from_numpy(rng.uniform(0, 255, (polyp.max() + 1, 3, 4, 4)).astype(np.float32))
    smooth = torch.nn.functional.interpolate(small, (side, side), mode="bicubic")
    plain = smooth.permute(0, 2, 3, 1).numpy()  # p h w 3
    crops = np.empty((len(polyp), side, side, 3), np.uint8)
    light = np.repeat(rng.normal(0, 60, (len(polyp) // 8 + 1, 3)), 8, axis=0)
    for row, owner in enumerate(polyp):
        noisy = plain[owner] + light[row] + rng.normal(0, 20, (side, side, 1))
        crops[row] = np.clip(noisy, 0, 255).astype(np.uint8)
    return crops


def made_prepared(folder: Path, settings: PrepareSettings) -> Prepared:
    """Write 8 procedures of 30 tracklets of 8 crops each, and prepare them.

    Args:
        folder: An empty folder.
        settings: Crops of any size; every fourth box and at most 32 of a tracklet's least.

    Returns:
        240 tracklets of 24 polyps, all in the part "train".
    """
    write_data(folder, _tables())
    prepared = prepare(folder, settings, with_crops=False)
    rng = np.random.default_rng(0)
    for name in prepared.procedures:
        rows = prepared.tracklets.filter(pl.col("procedure_id") == name).sort("crop_first")
        code = np.unique(rows["polyp_id"].to_numpy(), return_inverse=True)[1]
        polyp = np.repeat(code, rows["n_crops"].to_numpy())
        with whole_file(crops_path(prepared.folder, name)) as path, path.open("wb") as file:
            np.save(file, pictures(polyp, settings.size, rng))
    return prepared
