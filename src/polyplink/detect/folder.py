"""Run a detector on recordings and write its boxes as a data folder."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl

from polyplink import __version__
from polyplink.core.arrays import Floats
from polyplink.core.artefacts import content_key, file_key
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.core.parts import DETECTORS, SIMULATED_DETECTORS, simulated_preset
from polyplink.core.results import Progress, silent
from polyplink.core.runs import RunRecord, read_run
from polyplink.data.files.images import Pixels
from polyplink.data.importing import new_data_folder
from polyplink.data.origin import BoxesOrigin, write_origin
from polyplink.data.tables import DataSet, read_data
from polyplink.data.vocabulary import RECORDINGS, is_simulated
from polyplink.detect.first_pass import (
    Detected,
    Detector,
    LeftOut,
    check_output,
    detect,
    remove_pieces,
)
from polyplink.detect.onnx import DetectorRecord, OnnxDetector, made_with
from polyplink.detect.recordings import (
    Recording,
    find_recordings,
    recording_messages,
    size_messages,
    uncounted_messages,
)
from polyplink.models.shipped import DETECTOR, is_shipped
from polyplink.tracklets.scenes import read_scenes, write_scenes
from polyplink.tracklets.settings import PrepareSettings, with_options

MOST_AT_ONCE = 4  # frames; decoding does not keep up with more


def detect_folder(
    source: Path,
    out: Path,
    settings: PrepareSettings,
    *,
    detector: str | None = None,
    fps: float | None = None,
    seed: int = 0,
    function: Detector | None = None,
    dataset: str = RECORDINGS,
    tracklets: Mapping[str, Any] | None = None,
    progress: Progress = silent,
    begin: Callable[[], None] = lambda: None,
) -> tuple[DataSet, list[Message]]:
    """Write the data folder of a detector's boxes; return its data set with warnings.

    Args:
        source: A video, or a folder of videos or images; a data folder for a simulated detector.
        out: Folder for the tables.
        settings: Settings of tracklets and crops.
        detector: A detector as `open_detector` takes it, or the name of a simulated one.
        fps: Frames per second, if the recording does not state them.
        seed: Seed of a simulated detector.
        function: The detector: takes an image (height, width, 3) and returns (k, 5): x, y, w, h in
            pixels, and a score from 0 to 1.
        dataset: Name of the data set of the boxes.
        tracklets: Options that override the settings and the detector's record, see
            `with_options`.
        progress: Callback with the stage, frames done, and total frames.
        begin: Called before anything is written.

    Raises:
        PolyplinkError: If there is no recording or no detector, the detector's outputs fit no
            layout, no frame decodes, or `fps` has no effect.
    """
    name, track_options = detector, tracklets or {}
    recorded: dict[str, Any] = {
        "source": source.absolute(),
        "detector": name,
        "fps": fps,
        "seed": seed,
    }
    record = RunRecord("detect", settings=recorded)
    record.claim(out)
    warnings: list[Message] = []
    simulated = simulated_preset(name)
    if simulated is not None and function is None:
        if fps is not None:
            raise PolyplinkError(
                "--fps is for recordings, and boxes of a simulated detector have the rate of their "
                "data folder",
                "leave it out, or give it to `polyplink import`",
            )
        settings = with_options(settings, track_options)
        detected = Detected(_simulate(*simulated, source, seed), {}, {})
        begin()
        origin = BoxesOrigin(str(name), str(name))
    else:
        opened = open_detector(name, function) if source.exists() else None
        if opened is not None:  # refuses wrong options before a recording is opened
            settings = with_options(settings, track_options, opened.origin)
        recordings = find_recordings(source, fps)  # refuses a source that does not exist
        assert opened is not None
        names = [recording.name for recording in recordings]
        warnings += training_warnings(opened.find, names)
        warnings += recording_messages(recordings) + uncounted_messages(source)
        origin = opened.origin
        state = _state(recordings, origin, settings)
        finished = _read_finished(out, state) if function is None else None
        if finished is not None:
            detected = finished
        else:
            begin()
            with record.stage("detect"):
                detected = detect(
                    recordings,
                    opened.find,
                    out,
                    settings,
                    key=origin.key,
                    dataset=dataset,
                    workers=opened.at_once,
                    progress=lambda procedure_id, done, total: progress(
                        f"detect {procedure_id}", done, total
                    ),
                )
        record.inputs |= {"detector": origin.key, "recordings": state, "boxes": detected.data.key}
        left_out = detected.left_out
        recorded["not_decoded"] = {name: n.frames for name, n in left_out.items() if n.frames}
        recorded["boxes_outside"] = {name: n.boxes for name, n in left_out.items() if n.boxes}
        lengths = detected.data.procedures.select("procedure_id", "n_frames").iter_rows()
        warnings += size_messages(r for r in recordings if left_out[r.name].frames)
        for procedure_id, n_frames in lengths:
            warnings += left_out[procedure_id].messages(procedure_id, n_frames)
    record.settings = recorded | {"tracklets": settings}
    data = detected.data
    if data.detections.is_empty():
        lost = sum(of_procedure.frames for of_procedure in detected.left_out.values())
        looked = int(data.procedures["n_frames"].sum()) - lost
        values = {"n": data.procedures.height, "frames": looked}
        warnings.append(Message("detector_nothing", values))
    with new_data_folder(out, data, warnings, record) as new:
        write_origin(new, origin)
        write_scenes(new, detected.scenes)
    remove_pieces(out)
    return data, warnings


def _simulate(plugin: str, preset: str, folder: Path, seed: int) -> DataSet:
    """The boxes of a plugin's simulated detector in the annotated procedures of a data folder.

    Raises:
        PolyplinkError: If the detector does not exist, or no polyp is annotated.
    """
    if folder.is_file():
        raise PolyplinkError(
            f"the detector {plugin}:{preset} changes annotated boxes, and {folder} is a file",
            "give a data folder that `polyplink import` wrote, or --detector FILE.onnx",
        )
    annotated = read_data(folder)
    if not annotated.detections["polyp_id"].count():
        raise PolyplinkError(
            f"{folder} has no annotated polyps to simulate a detector on",
            "give a data folder with polyps",
        )
    with SIMULATED_DETECTORS.running(plugin):
        returned = SIMULATED_DETECTORS.find(plugin)(preset, annotated, seed, folder)
    boxes = SIMULATED_DETECTORS.check_returned(plugin, returned, pl.DataFrame)
    root = str(folder.resolve())
    sources = annotated.procedures.with_columns(
        source=annotated.procedures["source"].replace({".": root, "": root})
    )
    return DataSet.of(boxes, sources, annotated.polyps.clear(), annotated.splits)


def _state(recordings: Sequence[Recording], origin: BoxesOrigin, settings: PrepareSettings) -> str:
    """A key of everything that boxes depend on; of files, their sizes and times of change."""
    files = [recording.state() for recording in recordings]
    return content_key("detect", __version__, recordings, files, origin, settings)


def _read_finished(out: Path, state: str) -> Detected | None:
    """What a finished detection has written.

    Returns:
        None if the folder holds no detection in this state, or its boxes have changed since.
    """
    record = read_run(out)
    if record.get("inputs", {}).get("recordings") != state:
        return None
    try:
        data, scenes = read_data(out), read_scenes(out)
    except PolyplinkError:  # damaged
        return None
    if data.key != record["inputs"]["boxes"]:
        return None
    settings = record["settings"]  # of earlier builds without boxes_outside
    frames, boxes = settings["not_decoded"], settings.get("boxes_outside", {})
    names = data.procedures["procedure_id"]
    left_out = {name: LeftOut(frames.get(name, 0), boxes.get(name, 0)) for name in names}
    return Detected(data, scenes, left_out)


@dataclass(frozen=True)
class OpenedDetector:
    """A detector, ready to be called.

    Attributes:
        find: Finds the polyps in an image.
        origin: What a data folder of its boxes records of it.
        at_once: Number of threads that may call it, each with a frame.
    """

    find: Detector
    origin: BoxesOrigin
    at_once: int


def open_detector(
    name: str | None, function: Detector | None = None, *, at_once: int = MOST_AT_ONCE
) -> OpenedDetector:
    """Open the detector that a user names.

    Args:
        name: An ONNX file, FILE.py:NAME or a plugin's name of a function, or the name of a shipped
            detector, by default the shipped one; with `function` a name for it, by which it is
            known again.
        function: A detector of the user's own, which one thread calls.
        at_once: Most threads that will call it, if it is an ONNX file.

    Raises:
        PolyplinkError: If there is no such file, function or name, the file is not a detector, or
            the shipped file was changed.
    """
    if function is not None:
        place = function if hasattr(function, "__qualname__") else type(function)
        # Nothing says whether a function without a name is that of an earlier run.
        label = name or f"{place.__module__}.{place.__qualname__}"
        return OpenedDetector(function, BoxesOrigin(name or f"function {uuid4().hex}", label), 1)
    if name is not None and _is_code(name):
        return _open_code(name)
    cores = os.cpu_count() or 1
    at_once = min(cores, at_once)
    threads = 0 if at_once == 1 else cores // at_once  # of a frame; 0: one per core
    model = OnnxDetector(Path(name or DETECTOR), threads=threads)
    record, shipped = model.record, made_with(model.record)
    origin = BoxesOrigin(
        key=model.key,
        name=record.name or model.path.stem,
        high=record.high,
        low=record.low,
        min_seconds=record.min_seconds,
        sha256=file_key(model.path),
        nested=record.nested,
        made_with=None if shipped is None else shipped.name,
    )
    return OpenedDetector(model, origin, at_once)


def _is_code(name: str) -> bool:
    """Whether a detector's name is that of a function, in a file or of a plugin."""
    if ".py:" in name or name.endswith(".py"):
        return True
    is_model = is_shipped(Path(name), "detector") or Path(name).is_file()
    return not is_model and name in DETECTORS.installed()


def _open_code(text: str) -> OpenedDetector:
    """Open a detector that is a function in a file, or of a plugin.

    The content of the file is part of its key: an edited function is another detector.
    """
    name, find = DETECTORS.typed(text)
    if isinstance(find, type):
        raise PolyplinkError(
            f"{text} is a class",
            "name a function of an image, or an object that is called with one",
        )

    def find_boxes(image: Pixels) -> Floats:
        with DETECTORS.running(name):
            return check_output(find(image))

    file, version = DETECTORS.code_of(text)
    digest = file_key(file)
    key = content_key("detector", name, version, digest)
    return OpenedDetector(find_boxes, BoxesOrigin(key, name, sha256=digest), 1)


def record_of(detector: Detector) -> DetectorRecord:
    """The record of a detector; that of a function is empty."""
    return detector.record if isinstance(detector, OnnxDetector) else DetectorRecord()


def training_warnings(detector: Detector, procedures: Sequence[str]) -> list[Message]:
    """Warnings about the data that a detector was trained on.

    Args:
        detector: The detector; nothing is known of the training of a function.
        procedures: Names of the recordings in which it looks for polyps.
    """
    record, warnings = record_of(detector), []
    seen = [name for name in procedures if name in record.trained_on]
    if seen:
        warnings.append(Message("detector_seen", {"n": len(seen), "first": seen[0]}))
    sets = record.datasets
    if sets and all(map(is_simulated, sets)):
        warnings.append(Message("detector_simulated"))
    return warnings
