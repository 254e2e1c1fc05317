"""The verb `train-detector`: a small detector for simulated procedures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyplink.app import options
from polyplink.app.options import Request, option
from polyplink.app.request import Progress, Result, check_given, counter, inform
from polyplink.core.errors import PolyplinkError

HELD = 5  # every fifth procedure is held out, to measure on


@dataclass(frozen=True)
class TrainDetectorRequest(Request):
    """On which annotated procedures to train a detector."""

    data: options.Data
    out: Path = option("ONNX file to write.", Path("detector.onnx"), "--out", "-o")
    part: options.Part = None
    steps: int = option("Optimiser steps.", 1000, min=1)
    frames: int = option("Frames with a polyp of each procedure.", 80, min=1)
    seed: int = option("Seed of weights and order.", 0, min=0)
    workers: options.Workers = 2


def train_detector(
    request: TrainDetectorRequest, progress: Progress = inform
) -> Result[dict[str, Any]]:
    """Train a small detector of polyps, for simulated procedures alone.

    Every fifth procedure is held out; the figures printed are those of these procedures.

    Args:
        request: Data, part and the ONNX file, which gets its record beside it.
        progress: Called for procedures and steps.

    Raises:
        PolyplinkError: If there is no annotated polyp, an image is missing, or a package of the
            extras `detect` and `export` is not installed.
    """
    PolyplinkError.unless(
        request.out.suffix == ".onnx",
        f"{request.out} is not named as an ONNX file",
        "give --out NAME.onnx",
    )
    check_given(data=request.data, parts=[request.part])
    from polyplink.data import SIMULATED, read_data
    from polyplink.detect import DetectorRecord, OnnxDetector
    from polyplink.learn.detector import (
        DetectorConfig,
        export_detector,
        fit_detector,
        read_frames,
        score_detector,
    )
    from polyplink.tracklets.tracks import TrackSettings

    out = request.out
    config = DetectorConfig(frames=request.frames, steps=request.steps, seed=request.seed)
    data = read_data(request.data)
    names = data.part(request.part)
    held = names[HELD - 1 :: HELD]
    trained = [name for name in names if name not in held]
    tick = counter(progress, "procedures")
    sets = sorted(set(data.procedures["dataset"]))
    workers = request.workers
    given = read_frames(request.data, data, trained, config, workers=workers, progress=tick)
    network = fit_detector(given, config, counter(progress, "steps"))
    export_detector(
        network,
        out,
        DetectorRecord("yolov8", letterbox=False, trained_on=tuple(trained), datasets=tuple(sets)),
    )
    least = TrackSettings().high
    facts: dict[str, Any] = {"out": str(out), "procedures": len(trained), "held": list(held)}
    shown = [f"{out}: trained on {len(given.pixels)} frames of {len(trained)} procedures"]
    if held:
        there = read_frames(request.data, data, held, config, workers=workers)
        found, false = score_detector(OnnxDetector(out), there, least)
        facts |= {"found": found, "false_boxes_per_frame": false, "least_score": least}
        shown.append(
            f"{len(held)} procedures held out: {100 * found:.1f} % of polyps found (IoU 0.5, "
            f"score {least:g}), {false:.2f} false boxes a frame"
        )
    real = [name for name in sets if not name.startswith(SIMULATED)]
    warnings = [f"made for simulated procedures, and {real[0]} is not simulated"] if real else []
    return Result(facts, facts, shown, warnings)
