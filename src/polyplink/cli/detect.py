"""The verbs `detect` and `run`: from recordings and a detector to boxes, and on to a count."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import (
    DetectorName,
    Fps,
    Function,
    Seed,
    TrackletOptions,
    WeightsOption,
    option,
)
from polyplink.cli.outputs import (
    SOURCE,
    OutOfSource,
    Replace,
    keep_other_counts,
    output_folder,
)
from polyplink.cli.verb import Result, check_given, inform
from polyplink.core.artefacts import RunRecord
from polyplink.core.errors import ImportOptionError
from polyplink.core.progress import Progress, counter
from polyplink.core.sharing import sole_writer
from polyplink.models import ENCODER

if TYPE_CHECKING:
    from polyplink.cli.counted import Counted
    from polyplink.core.messages import Message
    from polyplink.data import DataSet


@dataclass(frozen=True)
class DetectRequest(TrackletOptions):
    """Where to detect polyps, and with what.

    From Python a `function` may be the detector: it takes an image (height, width, 3) and returns
    (k, 5): x, y, w, h in pixels, and a score from 0 to 1.
    """

    source: options.Source
    out: Annotated[Path, Argument(help="Folder for the tables.")]
    detector: DetectorName = None
    fps: Fps = None
    seed: Seed = 0
    function: Function = None


def detect_polyps(request: DetectRequest, progress: Progress = inform) -> "Result[DataSet]":
    """Find polyps in recordings with a detector; writes a data folder of boxes.

    Frames are decoded once: the crops that `count` will need are kept. A stopped run continues.

    Raises:
        PolyplinkError: If there is no recording or no detector, the detector's outputs fit no
            layout, or no frame decodes.
    """
    from polyplink.detect.folder import detect_folder
    from polyplink.tracklets import PrepareSettings

    with sole_writer(request.out):
        data, warnings = detect_folder(
            request.source,
            request.out,
            PrepareSettings(),
            detector=request.detector,
            fps=request.fps,
            seed=request.seed,
            function=request.function,
            tracklets=request.tracklet_options,
            progress=progress,
        )
    boxes, lines = data.detections, [str(warning) for warning in warnings]
    facts = {
        "out": str(request.out),
        "procedures": data.procedures.height,
        "frames": int(data.procedures["n_frames"].sum()),
        "boxes": boxes.height,
        "frames_with_a_box": boxes.select("procedure_id", "frame").n_unique(),
        "warnings": lines,
    }
    text = "{out}: {boxes} boxes in {frames_with_a_box} of {frames} frames".format(**facts)
    return Result(data, facts, [text], lines)


@dataclass(frozen=True)
class RunRequest(TrackletOptions):
    """What to count polyps in: recordings, or boxes; with the shipped models, or others.

    A `function` from Python may be the detector, as in `DetectRequest`.
    """

    source: options.Source
    weights: WeightsOption = Path(ENCODER)
    detector: DetectorName = None
    boxes: str | None = option("Boxes instead of a detector: the format of SOURCE (coco, mot ...).")
    out: OutOfSource = None
    replace: Replace = False
    fps: Fps = None
    seed: Seed = 0
    alarms: options.Alarms = "drop"
    purpose: options.Purpose = "count"
    device: options.Device = "auto"
    workers: options.Workers = 2
    video: options.Video = False
    function: Function = None


def run(request: RunRequest, progress: Progress = inform) -> "Result[Counted]":
    """Count the polyps of recordings, from the video to the report.

    Args:
        request: Recordings, or boxes; detector and weights, where they are not to be the shipped
            ones; and the output folder, which gets
            data (a data folder of the boxes), count (see `count`), tracks (a file in MOT format
            for each procedure, whose identities are the counted polyps) and, of boxes that were
            given, boxes-with-tracks (these again, each with its track and polyp).
        progress: Called for frames, crops and tracklets.

    Raises:
        PolyplinkError: If a recording, the detector, a box or the weights are at fault.
    """
    check_given(request.weights, device=request.device)
    out = output_folder(request.out, "run", request.source)
    with sole_writer(out):
        return _run(request, out, progress)


def _run(request: RunRequest, out: Path, progress: Progress) -> "Result[Counted]":
    """Count into a folder that no other process writes into; as `run`."""
    from polyplink.cli.count_data import count_and_track
    from polyplink.cli.outputs import RUN_PARTS
    from polyplink.data import is_data_folder
    from polyplink.data.importing import import_folder
    from polyplink.detect.folder import detect_folder
    from polyplink.encoders import read_record, weights_path

    source = request.source
    record = RunRecord("run", settings={SOURCE: str(source.resolve())})
    record.claim(out)
    keep_other_counts(out, source, RUN_PARTS, replace=request.replace)
    settings = read_record(weights_path(request.weights)).prepare
    data, detector = out / "data", request.detector or request.function
    warnings: list[str | Message] = []
    if request.boxes is not None:
        try:
            warnings += import_folder(
                request.boxes,
                source,
                data,
                detector=request.detector,
                workers=request.workers,
                options={"identity": "none"},
                progress=counter(progress, "procedures"),
            )[1]
        except ImportOptionError as error:
            line = f"`polyplink import {request.boxes} {source} DATA`"
            raise error.of_command(f"{line}, and then `polyplink run DATA`") from None
    elif detector is None and is_data_folder(source):
        data = source  # it has boxes
    else:
        _, lines = detect_folder(
            source,
            data,
            settings,
            detector=request.detector,
            fps=request.fps,
            seed=request.seed,
            function=request.function,
            tracklets=request.tracklet_options,
            progress=progress,
            begin=partial(record.write, out),
        )
        warnings += lines
    record.write(out)
    return count_and_track(
        request.weights,
        data,
        out,
        video=request.video,
        alarms=request.alarms,
        purpose=request.purpose,
        device=request.device,
        workers=request.workers,
        tracklets=request.tracklet_options,
        warnings=warnings,
        progress=progress,
    )
