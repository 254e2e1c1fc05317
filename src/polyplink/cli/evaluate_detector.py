"""The verb `evaluate-detector`: average precision and recall of a detector."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from polyplink.cli import options
from polyplink.cli.options import check_inputs
from polyplink.cli.verb import inform, verb
from polyplink.core.results import Progress, Result
from polyplink.core.text import many

if TYPE_CHECKING:
    from polyplink.evaluate.detections import DetectorFigures

SIDE = 640  # pixels: frames are measured at this size


@verb
def evaluate_detector(
    detector: Annotated[str, Argument(help=f"{options.DETECTOR_HELP}.")],
    data: options.Data,
    *,
    part: options.Part = None,
    frames: Annotated[
        int, Option(min=1, help="Use at most this many frames with a polyp of each procedure.")
    ] = 1000,
    score: Annotated[
        float | None, Option(min=0, max=1, help="Score for recall; by default what begins a track.")
    ] = None,
    workers: options.Workers = 2,
    progress: Progress = inform,
) -> "Result[DetectorFigures]":
    """Measure a detector on annotated frames: average precision, recall by size and shape.

    Args:
        score: Lowest score of a box that counts for recall and precision; by default the score at
            which a box begins a track.
        progress: Called for procedures.

    Raises:
        PolyplinkError: If there is no annotated polyp, the detector is missing or broken, or an
            image is missing.
    """
    data = Path(data)
    check_inputs(data=data, parts=[part])
    from polyplink.detect.folder import open_detector, record_of, training_warnings

    find = open_detector(detector, at_once=1).find
    record = record_of(find)
    from polyplink.data.empty import empty_files
    from polyplink.data.tables import read_data
    from polyplink.detect.onnx import OnnxDetector, images_not_learned
    from polyplink.evaluate.detections import LEAST_SCORE, measure_in_frames
    from polyplink.learn.detector.frames import broken_warnings, detect_in_frames, read_frames
    from polyplink.report.printed_tables import detector_lines

    # Frames that the detector was trained on.
    data_set = read_data(data)
    names = data_set.part(part)
    warnings = [str(message) for message in training_warnings(find, names)]
    empty = empty_files(data, data_set, names)
    learned = len(empty) - len(images_not_learned(empty, record))
    if learned:
        warnings.append(
            f"the detector was trained on {learned} of {many(len(empty), 'image')} without a "
            "polyp: its false boxes in them are too few"
        )

    # All its boxes of any use, in all frames, and the figures at the score that begins a track.
    if isinstance(find, OnnxDetector):
        find.record = replace(record, threshold=LEAST_SCORE)
    images = read_frames(
        data,
        data_set,
        names,
        SIDE,
        frames,
        workers=workers,
        progress=partial(progress, "procedures"),
    )
    warnings += broken_warnings(images)
    predicted = detect_in_frames(find, images)
    least = record.begins_track if score is None else score
    figures = measure_in_frames(predicted, images, score=least)
    return Result(figures, printed=detector_lines(figures), warnings=warnings)
