"""Run a detector on recordings and write its boxes as a data folder."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from polyplink.core.artefacts import RunRecord, file_key
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.parts import DETECTORS
from polyplink.core.results import Progress, silent
from polyplink.data.origin import BoxesOrigin, write_origin
from polyplink.data.tables import DataSet, read_data, write_data
from polyplink.data.vocabulary import SIMULATED
from polyplink.detect.first_pass import Detector, detect
from polyplink.detect.onnx import OnnxDetector, check_is_detector
from polyplink.detect.recordings import find_recordings
from polyplink.models.shipped import DETECTOR
from polyplink.tracklets.settings import PrepareSettings, with_options

Function = Callable[..., Any] | None

MOST_AT_ONCE = 4  # frames; decoding does not keep up with more


def detect_folder(
    source: Path,
    out: Path,
    settings: PrepareSettings,
    *,
    detector: str | None = None,
    fps: float | None = None,
    seed: int = 0,
    function: Function = None,
    tracklets: Mapping[str, Any] | None = None,
    progress: Progress = silent,
    begin: Callable[[], None] = lambda: None,
) -> tuple[DataSet, list[Message]]:
    """Write the data folder of a detector's boxes; return its data set with warnings.

    Args:
        source: A video, or a folder of videos or images; a data folder for a simulated detector.
        out: Folder for the tables.
        settings: Settings of tracklets and crops.
        detector: ONNX file or name; None for `function` or, without one, the shipped detector.
        fps: Frames per second, if the recording does not state them.
        seed: Seed of a simulated detector.
        function: The detector: takes an image (height, width, 3) and returns (k, 5): x, y, w, h in
            pixels, and a score from 0 to 1.
        tracklets: Options that override the settings and the detector's record, see
            `with_options`.
        progress: Callback with the stage, frames done, and total frames.
        begin: Called before anything is written.

    Raises:
        PolyplinkError: If there is no recording or no detector, the detector's outputs fit no
            layout, or no frame decodes.
    """
    name, stated = detector, tracklets or {}
    plain = {"source": source, "detector": name, "fps": fps, "seed": seed}
    settings = with_options(settings, stated)  # reports wrong options before anything is loaded
    record = RunRecord("detect", settings=plain)
    record.claim(out)
    warnings: list[Message] = []
    plugin, colon, preset = (name or "").partition(":")
    if colon and plugin in DETECTORS.names():
        data = _simulated(plugin, preset, source, seed)
        begin()
        write_data(out, data)
        origin = BoxesOrigin(str(name), str(name))
    else:
        if name is not None and function is None and source.exists():
            check_is_detector(Path(name))
        recordings = find_recordings(source, fps)
        names = [recording.name for recording in recordings]
        several = frames_at_once(function)
        model, key = find_detector(name, function, names, warnings, several)
        origin = origin_of(model, key)
        settings = with_options(settings, stated, origin)
        begin()
        lost: dict[str, int] = {}
        with record.stage("detect"):
            data = detect(
                recordings,
                model,
                out,
                settings,
                key=key,
                workers=several,
                lost=lost,
                progress=lambda procedure_id, done, total: progress(
                    f"detect {procedure_id}", done, total
                ),
            )
        record.inputs["detector"] = key
        frames = dict(data.procedures.select("procedure_id", "n_frames").iter_rows())
        warnings += [
            Message(
                "not_decoded", {"lost": n, "frames": frames[procedure_id], "name": procedure_id}
            )
            for procedure_id, n in lost.items()
        ]
    write_origin(out, origin)
    record.settings = plain | {"tracklets": settings}
    if data.detections.is_empty():
        looked = int(data.procedures["n_frames"].sum())
        values = {"n": data.procedures.height, "frames": looked}
        warnings.append(Message("detector_nothing", values))
    record.write(out)
    return data, warnings


def _simulated(plugin: str, preset: str, folder: Path, seed: int) -> DataSet:
    """The boxes of a plugin's simulated detector in the annotated procedures of a data folder.

    Raises:
        PolyplinkError: If the detector does not exist, or no polyp is annotated.
    """
    PolyplinkError.unless(
        not folder.is_file(),
        f"the detector {plugin}:{preset} changes annotated boxes, and {folder} is a file",
        "give a data folder that `polyplink import` wrote, or --detector FILE.onnx",
    )
    annotated = read_data(folder)
    PolyplinkError.unless(
        bool(annotated.detections["polyp_id"].count()),
        f"{folder} has no annotated polyps to simulate a detector on",
        "give a data folder with polyps",
    )
    boxes: pl.DataFrame = DETECTORS.find(plugin)(preset, annotated, seed, folder)
    root = str(folder.resolve())
    sources = annotated.procedures.with_columns(
        source=annotated.procedures["source"].replace({".": root, "": root})
    )
    return DataSet.of(boxes, sources, annotated.polyps.clear(), annotated.splits)


def origin_of(detector: Detector, key: str) -> BoxesOrigin:
    """The record of a detector that is stored in a data folder of its boxes."""
    if not isinstance(detector, OnnxDetector):
        return BoxesOrigin(key, "a function")
    record = detector.record
    name = record.name or detector.path.stem
    digest = file_key(detector.path)
    return BoxesOrigin(
        key, name, record.high, record.low, record.min_seconds, digest, record.nested
    )


def frames_at_once(function: Function) -> int:
    """Number of threads that call a detector, each with a frame: 1 for a user's function."""
    return 1 if function is not None else min(os.cpu_count() or 1, MOST_AT_ONCE)


def find_detector(
    name: str | None,
    function: Function,
    procedures: Sequence[str],
    warnings: list[Message],
    at_once: int = 1,
) -> tuple[Detector, str]:
    """The requested detector, and its key.

    Args:
        name: An ONNX file, or the name of a shipped detector; None for `function` or, without one,
            the shipped detector.
        function: The detector as a Python function.
        procedures: Names of the recordings.
        warnings: Extended by warnings about the detector's training data.
        at_once: Threads that call the detector; the cores are shared among them.

    Raises:
        PolyplinkError: If the file is not a detector, or the shipped file was changed.
    """
    if function is not None:
        return function, "function"
    threads = 0 if at_once == 1 else (os.cpu_count() or 1) // at_once  # 0: one per core
    model = OnnxDetector(Path(name or DETECTOR), threads=threads)
    trained_on = [procedure for procedure in procedures if procedure in model.record.trained_on]
    if trained_on:
        warnings.append(Message("detector_seen", {"n": len(trained_on), "first": trained_on[0]}))
    sets = model.record.datasets
    if sets and all(dataset.startswith(SIMULATED) for dataset in sets):
        warnings.append(Message("detector_simulated"))
    return model, model.key
