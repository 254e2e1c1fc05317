"""The verb `count`: number of polyps, groups of tracklets, probabilities, and a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from typer import Option

from polyplink.cli import options
from polyplink.cli.options import StrPath, TrackletOptions, check_inputs
from polyplink.cli.verb import inform, verb
from polyplink.core.results import Progress, Result
from polyplink.core.runs import RunRecord

if TYPE_CHECKING:
    from polyplink.pipeline.count_data import Counted


@verb
def count(
    weights: options.Weights,
    data: options.Data,
    *,
    out: options.OutOfSource = None,
    replace: options.Replace = False,
    part: options.Part = None,
    truth: Annotated[
        StrPath | None,
        Option(help="Data folder with annotated boxes of the same procedures, to compare with."),
    ] = None,
    alarms: options.Alarms = "drop",
    purpose: options.Purpose = "count",
    device: options.Device = "auto",
    workers: options.Workers = 2,
    video: options.Video = False,
    language: options.Language = "en",
    progress: Progress = inform,
    **tracklets: Unpack[TrackletOptions],
) -> "Result[Counted]":
    """Count the polyps of every procedure; writes count.json, tables and a report.

    Procedures are linked at the operating point stored in the weights. Annotated polyps are shown
    in the report, but do not influence the count.

    Args:
        out: The output folder, which gets count.json, counts.csv, views.csv, assignment.parquet,
            vectors.parquet (for `review`), report.html and run.json, and boxes-with-tracks: the
            boxes as they were imported, each with its track and polyp.
        progress: Called for crops and tracklets.

    Returns:
        The count: `value.counts` has a row for each procedure, `value.views` one for each tracklet,
        and `value.report` is the file of the report.

    Raises:
        PolyplinkError: If the weights, the data folder or an image is missing or broken.
    """
    weights, data = Path(weights), Path(data)
    truth = None if truth is None else Path(truth)
    from polyplink.counting.count_folder import output_folder

    out = output_folder(out, "count", data)
    check_inputs(weights, data, [part], device, truth)
    RunRecord("count").claim(out)  # before torch is imported
    from polyplink.pipeline.count_data import count_data, return_data

    counted = count_data(
        weights,
        data,
        out,
        replace=replace,
        part=part,
        truth=truth,
        alarms=alarms,
        purpose=purpose,
        device=device,
        workers=workers,
        tracklets=tracklets,
        language=language,
        progress=progress,
    )
    return return_data(counted, data, out, progress, video=video)
