"""The verb `count`: number of polyps, groups of tracklets, probabilities, and a report."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from polyplink.cli import options
from polyplink.cli.options import TrackletOptions, option
from polyplink.cli.outputs import (
    OutOfSource,
    Replace,
    output_folder,
)
from polyplink.cli.verb import Result, inform
from polyplink.core.progress import Progress

if TYPE_CHECKING:
    from polyplink.cli.counted import Counted


@dataclass(frozen=True)
class CountRequest(TrackletOptions):
    """What to count, and with which weights."""

    weights: options.Weights
    data: options.Data
    out: OutOfSource = None
    replace: Replace = False
    part: options.Part = None
    truth: Path | None = option(
        "Data folder with annotated boxes of the same procedures, to compare with."
    )
    alarms: options.Alarms = "drop"
    purpose: options.Purpose = "count"
    device: options.Device = "auto"
    workers: options.Workers = 2
    video: options.Video = False


def count(request: CountRequest, progress: Progress = inform) -> "Result[Counted]":
    """Count the polyps of every procedure; writes count.json, tables and a report.

    Procedures are linked at the operating point stored in the weights. True polyps are shown where
    they are known and are not used.

    Args:
        request: Weights, data folder and output folder, which gets count.json, counts.csv,
            views.csv, assignment.parquet, vectors.parquet (for
            `review`), report.html and run.json, and boxes-with-tracks: the boxes as they were
            imported, each with its track and polyp.
        progress: Called for crops and tracklets.

    Raises:
        PolyplinkError: If weights, data folder or an image is at fault.
    """
    from polyplink.cli.count_data import count_data, return_data

    out = output_folder(request.out, "count", request.data)
    counted = count_data(
        request.weights,
        request.data,
        out,
        replace=request.replace,
        part=request.part,
        truth=request.truth,
        alarms=request.alarms,
        purpose=request.purpose,
        device=request.device,
        workers=request.workers,
        tracklets=request.tracklet_options,
        progress=progress,
    )
    return return_data(counted, request.data, out, progress, video=request.video)
