"""The verbs `detect` and `run`: from recordings and a detector to boxes, and on to a count."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from polyplink.app import options
from polyplink.app.options import TrackletOptions, option
from polyplink.app.outputs import (
    BOXES,
    SOURCE,
    VIDEOS,
    OutOfSource,
    Replace,
    keep_other_counts,
    output_folder,
)
from polyplink.app.request import Result, check_given, inform
from polyplink.core.artefacts import RunRecord, write_text
from polyplink.core.errors import ImportOptionError, PolyplinkError
from polyplink.core.progress import Progress
from polyplink.core.sharing import sole_writer
from polyplink.core.text import file_name
from polyplink.models import DETECTOR, ENCODER

if TYPE_CHECKING:
    from polyplink.app.count import Counted
    from polyplink.app.live import LiveRequest
    from polyplink.core.messages import Message
    from polyplink.data import BoxesOrigin, DataSet
    from polyplink.detect import Detector
    from polyplink.tracklets import PrepareSettings

# Folders that `run` writes.
RUN_PARTS = ("data", "count", "tracks", BOXES, VIDEOS)
MOST_AT_ONCE = 4  # frames: decoding is not faster
PREFIX = "sim:"  # of the names of simulated detectors

Source = Annotated[Path, Argument(help="A video, or a folder of videos or images; a data folder.")]
DetectorName = Annotated[
    str | None,
    Option(
        help=f"ONNX file [{DETECTOR}, which ships with polyplink]; or sim:good, sim:gi-genius, "
        "sim:shifted or sim:misses-15: a simulated one, for a data folder with annotated boxes."
    ),
]
WeightsOption = Annotated[
    Path, Option(help="Weights file, a folder `polyplink train` wrote, or a name.")
]
Fps = Annotated[float | None, Option(min=0.1, help="Frames per second, if not in the recording.")]
Seed = Annotated[int, Option(min=0, help="Seed of a simulated detector.")]
Function = Callable[..., Any] | None


@dataclass(frozen=True)
class DetectRequest(TrackletOptions):
    """Where to detect polyps, and with what.

    From Python a `function` may be the detector: it takes an image (height, width, 3) and returns
    (k, 5): x, y, w, h in pixels, and a score from 0 to 1.
    """

    source: Source
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
    from polyplink.tracklets import PrepareSettings

    with sole_writer(request.out):
        data, warnings = _detect(request, PrepareSettings(), request, progress)
    boxes, lines = data.detections, [str(one) for one in warnings]
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


def _detect(
    request: DetectRequest,
    settings: "PrepareSettings",
    tracklets: TrackletOptions,
    progress: Progress,
    begin: Callable[[], None] = lambda: None,
) -> "tuple[DataSet, list[Message]]":
    """The data folder of a detector's boxes, and warnings.

    Args:
        request: Where to detect, and with what.
        settings: Of the weights.
        tracklets: What was asked for in place of the settings, and of what the detector states.
        progress: Called for frames.
        begin: Called before the folder is begun.
    """
    from polyplink.core.messages import Message
    from polyplink.data import BoxesOrigin, DataSet, read_data, write_data, write_origin
    from polyplink.detect import detect, find_recordings

    source, out, name = request.source, request.out, request.detector
    plain = {"source": source, "detector": name, "fps": request.fps, "seed": request.seed}
    settings = tracklets.on(settings)  # refuses what is at fault before anything is loaded
    record = RunRecord("detect", settings=plain)
    record.claim(out)
    warnings: list[Message] = []
    if name is not None and name.startswith(PREFIX):
        from polyplink.simulate import detect_simulated, detector_preset

        given = read_data(source)
        PolyplinkError.unless(
            bool(given.detections["polyp_id"].count()),
            f"{source} has no annotated polyps to simulate a detector on",
            "give a data folder with polyps",
        )
        preset = detector_preset(name.removeprefix(PREFIX))
        found = detect_simulated(given, preset, request.seed, source).drop("truth", "alarm")
        root = str(source.resolve())
        sources = given.procedures.with_columns(
            source=given.procedures["source"].replace({".": root, "": root})
        )
        data = DataSet.of(found, sources, given.polyps.clear(), given.splits)
        begin()
        write_data(out, data)
        origin = BoxesOrigin(name, name)
    else:
        recordings = find_recordings(source, request.fps)
        names = [one.name for one in recordings]
        cores = os.cpu_count() or 1
        several = 1 if request.function is not None else min(cores, MOST_AT_ONCE)
        threads = cores // several
        detector, key = find_detector(name, request.function, names, warnings, threads)
        origin = origin_of(detector, key)
        settings = tracklets.on(settings, origin)
        begin()
        lost: dict[str, int] = {}
        with record.stage("detect"):
            data = detect(
                recordings,
                detector,
                out,
                settings,
                key=key,
                workers=several,
                lost=lost,
                progress=lambda one, done, total: progress(f"detect {one}", done, total),
            )
        record.inputs["detector"] = key
        frames = dict(data.procedures.select("procedure_id", "n_frames").iter_rows())
        warnings += [
            Message("not_decoded", {"lost": n, "frames": frames[one], "name": one})
            for one, n in lost.items()
        ]
    write_origin(out, origin)
    record.settings = plain | {"tracklets": settings}
    if data.detections.is_empty():
        looked = int(data.procedures["n_frames"].sum())
        values = {"n": data.procedures.height, "frames": looked}
        warnings.append(Message("detector_nothing", values))
    record.write(out)
    return data, warnings


def origin_of(detector: "Detector", key: str) -> "BoxesOrigin":
    """What a data folder records of the detector that made its boxes."""
    from polyplink.core.artefacts import file_key
    from polyplink.data import BoxesOrigin
    from polyplink.detect import OnnxDetector

    if not isinstance(detector, OnnxDetector):
        return BoxesOrigin(key, "a function")
    record = detector.record
    name = record.name or detector.path.stem
    digest = file_key(detector.path)
    return BoxesOrigin(key, name, record.high, record.low, record.min_seconds, digest)


def find_detector(
    name: str | None,
    function: Function,
    procedures: Sequence[str],
    warnings: "list[Message]",
    threads: int = 0,
) -> "tuple[Detector, str]":
    """The detector that was asked for, and its key.

    Args:
        name: An ONNX file, or the name of a shipped detector; None for the function, or, where
            there is none, for the shipped detector.
        function: The detector, from Python.
        procedures: Names of the recordings.
        warnings: Gets what makes its boxes unreliable.
        threads: Threads for a frame; 0 for one per core.

    Raises:
        PolyplinkError: If the file is no detector, or the shipped one has changed.
    """
    from polyplink.core.messages import Message
    from polyplink.data import SIMULATED
    from polyplink.detect import OnnxDetector

    if function is not None:
        return function, "function"
    found = OnnxDetector(Path(name or DETECTOR), threads=threads)
    known = [one for one in procedures if one in found.record.trained_on]
    if known:
        warnings.append(Message("detector_seen", {"n": len(known), "first": known[0]}))
    sets = found.record.datasets
    if sets and all(one.startswith(SIMULATED) for one in sets):
        warnings.append(Message("detector_simulated"))
    return found, found.key


@dataclass(frozen=True)
class RunRequest(TrackletOptions):
    """What to count polyps in: recordings, or boxes; with the shipped models, or others.

    A `function` from Python may be the detector, as in `DetectRequest`.
    """

    source: Source
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
    from polyplink.app.data_folder import ImportRequest, import_data
    from polyplink.data import is_data_folder
    from polyplink.encoders import read_record, weights_path

    source = request.source
    record = RunRecord("run", settings={SOURCE: str(source.resolve())})
    record.claim(out)
    keep_other_counts(out, source, RUN_PARTS, replace=request.replace)
    settings = read_record(weights_path(request.weights)).prepare
    data, given = out / "data", request.detector or request.function
    warnings: list[str | Message] = []
    if request.boxes is not None:
        asked = ImportRequest(
            request.boxes,
            source,
            data,
            identity="none",
            detector=request.detector,
            workers=request.workers,
        )
        try:
            warnings += import_data(asked, progress).warnings
        except ImportOptionError as error:
            line = f"`polyplink import {request.boxes} {source} DATA`"
            raise error.of_command(f"{line}, and then `polyplink run DATA`") from None
    elif given is None and is_data_folder(source):
        data = source  # it has boxes
    else:
        detecting = DetectRequest(
            source, data, request.detector, request.fps, request.seed, request.function
        )
        begin = partial(record.write, out)
        warnings += _detect(detecting, settings, request, progress, begin)[1]
    record.write(out)
    return count_found(request, data, out, warnings, progress, video=request.video)


def count_found(
    request: "RunRequest | LiveRequest",
    data: Path,
    out: Path,
    warnings: "Sequence[str | Message]",
    progress: Progress,
    *,
    video: bool = False,
) -> "Result[Counted]":
    """Count the boxes of a data folder and write their tracks; `out` gets count and tracks.

    Args:
        request: Weights and options.
        data: The data folder.
        out: The output folder.
        warnings: Of earlier stages, for the report.
        progress: Called for crops and tracklets.
        video: Whether `out` also gets videos with the boxes.
    """
    from polyplink.app.count import CountRequest, count_into, give_back

    counting = CountRequest(
        request.weights,
        data,
        out / "count",
        replace=True,  # by this folder's own run
        alarms=request.alarms,
        purpose=request.purpose,
        device=request.device,
        workers=request.workers,
        said=tuple(warnings),
        **request.tracklet_options,
    )
    counted = count_into(out / "count", counting, progress)
    counted = give_back(counted, data, out, progress, video=video)
    tracks = _write_tracks(counted.value, out / "tracks")
    facts = counted.json | {"out": str(out), "tracks": str(tracks)}
    shown = [*counted.shown, f"tracks: {tracks}"]
    return Result(counted.value, facts, shown, counted.warnings)


def _write_tracks(counted: "Counted", folder: Path) -> Path:
    """One file in MOT format a procedure: frame (from 1), polyp, x, y, w, h, score, -1, -1, -1.

    Boxes that were interpolated in the gaps of tracks are no boxes of a detector: they are in a
    file of the same name in the folder `interpolated`, with a score of 0.
    """
    import polars as pl

    from polyplink.evaluate import one_box_a_frame

    boxes = one_box_a_frame(counted.boxes, "procedure_id", "frame", "polyp")
    for (name,), rows in boxes.group_by("procedure_id", maintain_order=True):
        for home, made in ((folder, False), (folder / "interpolated", True)):
            lines = rows.filter(interpolated=made).select(
                pl.col("frame") + 1,
                "polyp",
                *(pl.col(side).round(2) for side in "xywh"),
                pl.col("score").fill_null(0.0 if made else 1.0).round(4),
                *(pl.lit(-1).alias(f"world{k}") for k in range(3)),
            )
            text = lines.write_csv(include_header=False)
            write_text(home / f"{file_name(str(name))}.txt", text)
    return folder
