"""The verbs `train-detector` and `evaluate-detector`: a detector of polyps, and its figures."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Argument

from polyplink.cli import options
from polyplink.cli.options import Request, option
from polyplink.cli.verb import Result, check_given, inform
from polyplink.core.artefacts import file_key, read_json, to_plain, whole_file, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.progress import Progress, counter
from polyplink.core.sharing import sole_writer
from polyplink.core.text import many
from polyplink.models import is_shipped

if TYPE_CHECKING:
    from polyplink.core.messages import Message
    from polyplink.detect import DetectorRecord
    from polyplink.evaluate import DetectorFigures
    from polyplink.evaluate.detections import Floats
    from polyplink.learn.detector import FitState, TrainingFrames

Name = TypeVar("Name")
LEAST = 0.02  # score from which a box is measured
FALSE_HIGH = 0.1  # boxes in a frame without a polyp, at the score that begins a track
FALSE_LOW = 0.5  # at the score that continues one
SIDE = 640  # pixels: frames are measured at this size


@dataclass(frozen=True)
class TrainDetectorRequest(Request):
    """On which annotated frames to train a detector, and how long."""

    data: options.Data
    out: Path = option("ONNX file to write.", Path("detector.onnx"), "--out", "-o")
    part: options.Part = None
    init: Path | None = option(
        "Detector to start from: an ONNX file of `train-detector`, or yolox-nano.param (COCO)."
    )
    empty: Path | None = option(
        "Folder of images without a polyp, to learn from too.", metavar="FOLDER"
    )
    empty_repeats: int = option("Times that a frame without a polyp is seen in an epoch.", 2, min=1)
    epochs: int = option("Times that each frame is seen.", 24, min=1)
    side: int = option("Width and height of the input, pixels; a multiple of 32.", 320, min=64)
    rate: float = option("Largest learning rate.", 1e-3, min=1e-6)
    batch: int = option("Frames in a step.", 16, min=1)
    frames: int = option("Most frames with a polyp of each procedure.", 100, min=1)
    held: float = option("Share of the procedures to measure it on.", 0.1, min=0, max=0.9)
    seed: int = option("Seed of order and augmentation.", 0, min=0)
    workers: options.Workers = 2


def train_detector(
    request: TrainDetectorRequest, progress: Progress = inform
) -> Result[dict[str, Any]]:
    """Train a detector of polyps on annotated frames; a stopped training continues.

    The network is YOLOX-Nano with one class. A share of the procedures is held out: the figures
    printed, and the scores that begin and continue a track, are those of these procedures.

    Args:
        request: Data and the ONNX file to write. It gets its record beside it (NAME.json), and
            a folder NAME-training with the state, epochs.csv, figures.json and training.png.
        progress: Called for procedures and steps.

    Raises:
        PolyplinkError: If there is no annotated polyp, an image is missing, the folder holds
            another training, or a package of the extras `detect` and `export` is not installed.
    """
    _check(request)
    folder = request.out.with_name(f"{request.out.stem}-training")
    with sole_writer(folder):
        return _train(request, folder, progress)


def _train(
    request: TrainDetectorRequest, folder: Path, progress: Progress
) -> Result[dict[str, Any]]:
    """Train in a folder that no other process writes into; as `train_detector`."""
    from polyplink.data import read_data
    from polyplink.data.files.trees import image_files
    from polyplink.detect import DetectorRecord
    from polyplink.learn.detector import (
        FitConfig,
        YoloxNano,
        export_detector,
        fit_detector,
        read_frames,
        read_network,
        training_figure,
    )

    out, side = request.out, request.side
    data = read_data(request.data)
    trained, held = _split(data.part(request.part), request.held)
    _claim(folder, request)
    empty, empty_held = _split(image_files(request.empty) if request.empty else [], request.held)
    read = partial(
        read_frames, request.data, data, side=side, most=request.frames, workers=request.workers
    )
    frames = read(trained, empty=empty, progress=counter(progress, "procedures"))
    start = YoloxNano.random(request.seed) if request.init is None else read_network(request.init)
    config = FitConfig(
        side=side,
        epochs=request.epochs,
        batch=request.batch,
        rate=request.rate,
        empty_repeats=request.empty_repeats,
        freeze=request.init is not None,
        seed=request.seed,
    )

    def after_epoch(state: "FitState") -> None:
        _write_epochs(folder / "epochs.csv", state)
        progress(f"epoch {state.epoch}, loss {state.losses[-1]:.3f}", state.epoch, config.epochs)

    state = fit_detector(
        *(frames, start, config, folder / "state.pt"),
        after_epoch=after_epoch,
        progress=counter(progress, "steps"),
    )
    record = DetectorRecord(
        "yolov8",
        (side, side),
        letterbox=True,
        threshold=LEAST,
        trained_on=(*trained, *map(file_key, empty)),
        datasets=tuple(sorted(set(data.procedures["dataset"]))),
        name=out.stem,
    )
    export_detector(state.mean, out, record)
    facts: dict[str, Any] = {"out": str(out), "procedures": len(trained), "held": held}
    shown = [
        f"{out}: trained on {many(len(frames.pixels), 'frame')} of "
        f"{many(len(trained), 'procedure')} for {many(config.epochs, 'epoch')}"
    ]
    warnings: list[str] = []
    drawing = folder / "training.png"
    if held:
        frames = read(held, empty=empty_held)
        record, figures, predicted = _measured(out, record, frames, warnings)
        facts["figures"] = to_plain(figures)
        shown += figure_lines(figures)
        write_json(folder / "figures.json", facts["figures"])
        training_figure(drawing, state.losses, frames, predicted, score=figures.score)
    else:
        training_figure(drawing, state.losses, None, [], score=0.0)
    facts |= {"high": record.high, "low": record.low, "losses": state.losses}
    return Result(facts, facts, [*shown, f"losses and examples: {drawing}"], warnings)


def _check(request: TrainDetectorRequest) -> None:
    """Refuse what is at fault before anything is loaded."""
    PolyplinkError.unless(
        request.out.suffix == ".onnx",
        f"{request.out} is not named as an ONNX file",
        "give --out NAME.onnx",
    )
    PolyplinkError.unless(
        request.side % 32 == 0,
        f"--side {request.side} is no multiple of 32",
        f"give --side {max(64, round(request.side / 32) * 32)}",
    )
    PolyplinkError.unless(
        request.init is None or request.init.is_file(),
        f"no file {request.init}",
        "check the path",
    )
    check_given(data=request.data, parts=[request.part])


def _measured(
    path: Path, record: "DetectorRecord", frames: "TrainingFrames", warnings: list[str]
) -> "tuple[DetectorRecord, DetectorFigures, list[Floats]]":
    """Measure a new detector on frames held out, and write what they say of scores beside it.

    Args:
        path: The detector.
        record: Its record.
        frames: The frames held out.
        warnings: Gets why the scores of tracks are not known.

    Returns:
        The record, with the scores of tracks if a frame has no polyp; the figures; and boxes
        (k, 5) of each frame.
    """
    from polyplink.detect import OnnxDetector
    from polyplink.detect.onnx import record_path
    from polyplink.evaluate import measure_detector
    from polyplink.learn.detector import detect_in_frames, true_boxes
    from polyplink.tracklets import TrackSettings

    predicted, truth = detect_in_frames(OnnxDetector(path), frames), true_boxes(frames)
    in_empty = [boxes for boxes, polyps in zip(predicted, truth, strict=True) if not len(polyps)]
    if in_empty:
        record = _with_track_scores(record, in_empty)
        write_json(record_path(path), to_plain(record))
    else:
        warnings.append(
            "no frame without a polyp is held out, so the record does not say from which score a "
            f"track begins: write `high` and `low` into {record_path(path)}"
        )
    score, sizes = record.high or TrackSettings().high, frames.sizes.astype(float)
    figures = measure_detector(predicted, truth, sizes, frames.procedures, score=score)
    return record, figures, predicted


def _with_track_scores(record: "DetectorRecord", empty: "Sequence[Floats]") -> "DetectorRecord":
    """The record with the scores that begin and continue a track, and the smallest reported.

    Args:
        record: The record.
        empty: Boxes (k, 5) of frames without a polyp: how often these are mistaken decides.
    """
    from polyplink.evaluate import score_for_false_boxes

    high = round(max(score_for_false_boxes(empty, FALSE_HIGH), 2 * LEAST), 3)
    low = min(high, round(max(score_for_false_boxes(empty, FALSE_LOW), 2 * LEAST), 3))
    return replace(record, high=high, low=low, threshold=round(low / 2, 3))


def _split(names: Sequence[Name], share: float) -> tuple[list[Name], list[Name]]:
    """Procedures to train on and to measure on: evenly spread, and at least one to train on."""
    if not names:
        return [], []
    count = min(round(share * len(names)) or int(share > 0 and len(names) > 1), len(names) - 1)
    held_out = {names[(2 * k + 1) * len(names) // (2 * count)] for k in range(count)}
    trained = [name for name in names if name not in held_out]
    return trained, [name for name in names if name in held_out]


def _claim(folder: Path, request: TrainDetectorRequest) -> None:
    """Take the folder of a training, or refuse that of another."""
    settings = {k: v for k, v in to_plain(request).items() if k not in ("out", "workers")}
    path = folder / "settings.json"
    PolyplinkError.unless(
        not path.is_file() or settings == {"empty_repeats": 2} | read_json(path),  # older: 2
        f"{folder} holds a training with other data or options",
        "give another --out, or delete that folder",
    )
    write_json(path, settings)


def _write_epochs(path: Path, state: "FitState") -> None:
    """One line an epoch: its number and its mean loss."""
    with whole_file(path) as new, new.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["epoch", "loss"])
        rows.writerows([k, f"{loss:.4f}"] for k, loss in enumerate(state.losses, 1))


@dataclass(frozen=True)
class EvaluateDetectorRequest(Request):
    """Which detector to measure, on which annotated frames."""

    detector: Annotated[str, Argument(help="ONNX file, or the name of a shipped detector.")]
    data: options.Data
    part: options.Part = None
    frames: int = option("Most frames with a polyp of each procedure.", 1000, min=1)
    score: float | None = option("Score for recall; by default what begins a track.", min=0, max=1)
    workers: options.Workers = 2


def evaluate_detector(
    request: EvaluateDetectorRequest, progress: Progress = inform
) -> "Result[DetectorFigures]":
    """Measure a detector on annotated frames: average precision, recall by size and shape.

    Args:
        request: Detector and data folder.
        progress: Called for frames.

    Raises:
        PolyplinkError: If there is no annotated polyp, or the detector or an image is at fault.
    """
    check_given(data=request.data, parts=[request.part])
    detector_file = Path(request.detector)
    PolyplinkError.unless(
        is_shipped(detector_file, "detector") or detector_file.is_file(),
        f"no detector file {detector_file}",
        "check the path",
    )
    from polyplink.data import read_data
    from polyplink.data.empty import empty_files
    from polyplink.detect import OnnxDetector
    from polyplink.detect.folder import find_detector
    from polyplink.detect.onnx import images_not_learned
    from polyplink.evaluate import measure_detector
    from polyplink.learn.detector import detect_in_frames, read_frames, true_boxes

    data = read_data(request.data)
    messages: list[Message] = []
    names = data.part(request.part)
    detector, _ = find_detector(request.detector, None, names, messages)
    assert isinstance(detector, OnnxDetector)
    score = request.score or detector.record.high or detector.record.threshold
    warnings = [str(message) for message in messages]
    empty = empty_files(request.data, data, names)
    learned = len(empty) - len(images_not_learned(empty, detector.record))
    if learned:
        warnings.append(
            f"the detector was trained on {learned} of {many(len(empty), 'image')} without a "
            "polyp: its false boxes in them are too few"
        )
    detector.record = replace(detector.record, threshold=LEAST)
    frames = read_frames(
        *(request.data, data, names, SIDE, request.frames),
        workers=request.workers,
        progress=counter(progress, "procedures"),
    )
    predicted, sizes = detect_in_frames(detector, frames), frames.sizes.astype(float)
    figures = measure_detector(predicted, true_boxes(frames), sizes, frames.procedures, score=score)
    return Result(figures, to_plain(figures), figure_lines(figures), warnings)


def figure_lines(figures: "DetectorFigures") -> list[str]:
    """The figures of a detector, for people."""
    interval = figures.ap50_interval
    spread = "" if interval is None else f" ({interval[0]:.3f} to {interval[1]:.3f})"
    lines = [
        f"{many(figures.frames, 'frame')}, {figures.empty} of them without a polyp, "
        f"{many(figures.polyps, 'annotated box')}",
        f"AP50 {figures.ap50:.3f}{spread}, AP {figures.ap:.3f}",
        f"from score {figures.score:.2f}: recall {figures.recall:.3f}, precision "
        f"{figures.precision:.3f}"
        + (
            ""
            if figures.false_boxes is None
            else f", {figures.false_boxes:.3f} boxes in a frame without a polyp"
        ),
    ]
    lines += [
        f"recall at {boxes} boxes in a frame without a polyp: {recall:.3f}"
        for boxes, recall in figures.recall_at.items()
    ]
    return lines + [
        f"recall, {name}: {recall:.3f} of {count}"
        for name, (recall, count) in figures.recall_by.items()
    ]
