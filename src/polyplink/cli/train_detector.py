"""The verb `train-detector`: a detector of polyps, and its figures on procedures held out."""

import csv
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from polyplink.cli import options
from polyplink.cli.options import StrPath, check_inputs
from polyplink.cli.verb import inform, prints_lines, verb
from polyplink.core.artefacts import atomic_file, file_key, to_plain, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, Result
from polyplink.core.runs import sole_writer
from polyplink.core.text import many
from polyplink.learn.held_out import hold_out_share
from polyplink.models.shipped import DETECTOR, is_shipped, shipped_model

if TYPE_CHECKING:
    import torch

    from polyplink.core.arrays import Floats
    from polyplink.detect.onnx import DetectorRecord
    from polyplink.evaluate.detections import DetectorFigures
    from polyplink.learn.detector.augmented_frames import TrainingFrames
    from polyplink.learn.detector.fit import FitConfig, FitState
    from polyplink.learn.detector.yolox import YoloxNano

NESTED = 0.5  # share of a box within another one, above which both show one polyp


@verb
def train_detector(
    data: options.Data,
    *,
    out: Annotated[StrPath, Option("--out", "-o", help="ONNX file to write.")] = "detector.onnx",
    part: options.Part = None,
    init: Annotated[
        StrPath | None,
        Option(
            help=f"Detector to start from: {DETECTOR}, an ONNX file of `train-detector`, or "
            "yolox-nano.param (COCO)."
        ),
    ] = None,
    empty: Annotated[
        StrPath | None,
        Option(metavar="FOLDER", help="Folder of images without a polyp, to learn from too."),
    ] = None,
    empty_repeats: Annotated[
        int, Option(min=1, help="Times that a frame without a polyp is seen in an epoch.")
    ] = 2,
    epochs: Annotated[int, Option(min=1, help="Times that each frame is seen.")] = 24,
    side: Annotated[
        int, Option(min=64, help="Width and height of the input, pixels; a multiple of 32.")
    ] = 320,
    rate: Annotated[float, Option(min=1e-6, help="Largest learning rate.")] = 1e-3,
    batch: Annotated[int, Option(min=1, help="Most frames in a step.")] = 16,
    frames: Annotated[
        int, Option(min=1, help="Use at most this many frames with a polyp of each procedure.")
    ] = 100,
    freeze: Annotated[
        bool, Option(help="With --init: leave the first two stages of the network as they are.")
    ] = True,
    held: Annotated[
        float,
        Option(min=0, max=0.9, help="Share of the patients held out to measure the detector."),
    ] = 0.1,
    seed: Annotated[int, Option(min=0, help="Seed of order and augmentation.")] = 0,
    device: options.Device = "auto",
    workers: options.Workers = 2,
    progress: Progress = inform,
) -> Result[dict[str, Any]]:
    """Train a detector of polyps on annotated frames; a stopped training continues.

    The network is YOLOX-Nano with one class. The procedures of a share of the patients are held
    out: the figures printed, and the scores that begin and continue a track, are those of these
    procedures. The same share of the recordings of --empty is held out.

    Args:
        out: The ONNX file to write. It gets its record beside it (NAME.json), and a folder
            NAME-training with the state, epochs.csv, figures.json and training.png.
        init: Detector to start from: the name of a shipped one, an ONNX file of `train-detector`,
            or yolox-nano.param (COCO).
        empty: Folder of images without a polyp. Their names say which are of one recording, as in
            `import masks`.
        workers: Threads that read frames; then one process trains, and the others draw its batches.
        progress: Called for procedures and steps.

    Returns:
        out, number of procedures, held (the names of those held out), figures, losses by epoch,
        and the scores from which a track begins (high) and continues (low).

    Raises:
        PolyplinkError: If there is no annotated polyp, an image is missing, the folder holds
            another training, the device is missing, or a package of the extras `detect` and
            `export` is not installed.
    """
    data, out = Path(data), Path(out)
    init, empty = (None if path is None else Path(path) for path in (init, empty))
    init = _check(out, side, init)
    check_inputs(data=data, parts=[part])
    folder = out.with_name(f"{out.stem}-training")
    with sole_writer(folder):
        # Procedures, and images without a polyp, to train on and to measure on.
        from polyplink.data.tables import read_data
        from polyplink.detect.onnx import DetectorRecord
        from polyplink.encoders.device import pick_device
        from polyplink.evaluate.detections import LEAST_SCORE
        from polyplink.learn.detector.figure import training_figure
        from polyplink.learn.detector.fit import FitConfig
        from polyplink.learn.detector.frames import broken_warnings, read_frames, recordings_of
        from polyplink.learn.detector.onnx_file import export_detector
        from polyplink.report.printed_tables import detector_lines

        torch_device = pick_device(device)
        data_set = read_data(data)
        patients, names = data_set.patients, data_set.part(part)
        trained, unseen = hold_out_share({name: patients[name] for name in names}, held)
        config = FitConfig(
            side=side,
            epochs=epochs,
            batch=batch,
            rate=rate,
            empty_repeats=empty_repeats,
            freeze=freeze and init is not None,
            seed=seed,
        )
        images, unseen_images = hold_out_share(recordings_of(empty) if empty else {}, held)
        start, before = _start(init, seed)
        read = partial(read_frames, data, data_set, side=side, most=frames, workers=workers)
        learned = read(list(trained), empty=images, progress=partial(progress, "procedures"))

        # The network, as an ONNX file.
        processes = max(1, workers - 1)  # this one trains
        state = _fit(
            learned, start, config, folder, progress, device=torch_device, workers=processes
        )
        record = DetectorRecord(
            "yolov8",
            (side, side),
            letterbox=True,
            threshold=LEAST_SCORE,
            nested=NESTED,
            trained_on=tuple(dict.fromkeys([*trained, *map(file_key, images), *before.trained_on])),
            datasets=tuple(sorted({*data_set.procedures["dataset"], *before.datasets})),
            name=out.stem,
        )
        export_detector(state.mean, out, record)

        # What it learned, and its figures on what was held out.
        facts: dict[str, Any] = {"out": str(out), "procedures": len(trained), "held": list(unseen)}
        printed = [
            f"{out}: trained on {many(len(learned.pixels), 'frame')} of "
            f"{many(len(trained), 'procedure')} for {many(epochs, 'epoch')}"
        ]
        drawing = folder / "training.png"
        warnings = broken_warnings(learned)
        if held:
            warnings += _holdout_warnings(unseen, images, unseen_images)
        trained_before = {*unseen, *map(file_key, unseen_images)} & set(before.trained_on)
        if trained_before:
            warnings.append(
                f"{init} was trained on {len(trained_before)} of the procedures and images held "
                "out: these figures are too good"
            )
        if unseen:
            measured_on = read(list(unseen), empty=unseen_images)
            warnings += broken_warnings(measured_on)
            record, figures, predicted = _measure(out, record, measured_on, warnings)
            facts["figures"] = to_plain(figures)
            printed += detector_lines(figures)
            write_json(folder / "figures.json", facts["figures"])
            training_figure(drawing, state.losses, measured_on, predicted, score=figures.score)
        else:
            training_figure(drawing, state.losses, None, [], score=0.0)
    facts |= {"high": record.high, "low": record.low, "losses": state.losses}
    printed.append(f"losses and examples: {drawing}")
    return Result(facts, printed=printed, warnings=warnings)


def _check(out: Path, side: int, init: Path | None) -> Path | None:
    """Refuse what is at fault before anything is loaded; return the file to start from."""
    if out.suffix != ".onnx":
        raise PolyplinkError(f"{out} is not named as an ONNX file", "give --out NAME.onnx")
    if side % 32 != 0:
        raise PolyplinkError(
            f"--side {side} is not a multiple of 32",
            f"give --side {max(64, round(side / 32) * 32)}",
        )
    if init is not None and is_shipped(init, "detector"):
        init = shipped_model(init.name).path
    if init is not None:
        from polyplink.data.files.folders import check_is_file

        check_is_file(init)
    return init


def _start(init: Path | None, seed: int) -> "tuple[YoloxNano, DetectorRecord]":
    """The network that training starts from, and the record of the detector that it is from."""
    from polyplink.detect.onnx import DetectorRecord, read_record
    from polyplink.learn.detector.onnx_file import read_network
    from polyplink.learn.detector.yolox import YoloxNano

    if init is None:
        return YoloxNano.random(seed), DetectorRecord()
    return read_network(init), read_record(init)


def _fit(
    frames: "TrainingFrames",
    start: "YoloxNano",
    config: "FitConfig",
    folder: Path,
    progress: Progress,
    *,
    device: "torch.device",
    workers: int,
) -> "FitState":
    """Train the network, or continue its training in a folder, with a line of epochs.csv each."""
    from polyplink.learn.detector.fit import fit_detector

    if (folder / "state.pt").exists():
        raise PolyplinkError(
            f"{folder} holds a training of an earlier version",
            "give another --out, or delete that folder",
        )

    def after_epoch(state: "FitState") -> None:
        _write_epochs(folder / "epochs.csv", state)
        line = f"epoch {state.epoch} of {config.epochs}: loss {state.losses[-1]:.3f}"
        if prints_lines(progress):
            print(line, file=sys.stderr, flush=True)
        else:
            progress(line, state.epoch, config.epochs)

    return fit_detector(
        frames,
        start,
        config,
        folder / "state.safetensors",
        device=device,
        workers=workers,
        after_epoch=after_epoch,
        progress=partial(progress, "steps"),
    )


def _measure(
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
    from polyplink.detect.onnx import OnnxDetector, record_path
    from polyplink.evaluate.detections import measure_in_frames, track_scores
    from polyplink.learn.detector.frames import detect_in_frames, true_boxes

    predicted, truth = detect_in_frames(OnnxDetector(path), frames), true_boxes(frames)
    in_empty = [boxes for boxes, polyps in zip(predicted, truth, strict=True) if not len(polyps)]
    if in_empty:
        high, low = track_scores(in_empty)
        record = replace(record, high=high, low=low, threshold=round(low / 2, 3))
        write_json(record_path(path), record)
    else:
        warnings.append(
            "no frame without a polyp is held out, so the record does not say from which score a "
            f"track begins: write `high` and `low` into {record_path(path)}"
        )
    figures = measure_in_frames(predicted, frames, score=record.begins_track)
    if figures.recall.value == 0.0:
        warnings.append(
            f"no polyp held out has a box of score {record.begins_track:g}, from which a track "
            f"begins, so that a count would be 0: train for longer, or lower `high` in "
            f"{record_path(path)}"
        )
    return record, figures, predicted


def _holdout_warnings(
    unseen: Mapping[str, str], images: Mapping[Path, str], unseen_images: Mapping[Path, str]
) -> list[str]:
    """Warnings if no procedure or image is held out, because all are of one group."""
    warnings = []
    if not unseen:
        warnings.append(
            "the procedures are of one patient, so none is held out to measure on, and the record "
            "does not say from which score a track begins"
        )
    if images and not unseen_images:
        warnings.append(
            "by their names, the images of --empty are of one recording, so none is held out: "
            "name them RECORDING_NUMBER"
        )
    return warnings


def _write_epochs(path: Path, state: "FitState") -> None:
    """One line an epoch: its number and its mean loss."""
    with atomic_file(path) as new, new.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["epoch", "loss"])
        rows.writerows([k, f"{loss:.4f}"] for k, loss in enumerate(state.losses, 1))
