"""What a live count needs before its first frame: a detector, the links for its boxes, warnings."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from polyplink.associate.identities import OperatingPoint, Purpose
from polyplink.core.messages import Message
from polyplink.counting.count_part import (
    rate_messages,
    shipped_messages,
    simulated_messages,
    used_models,
)
from polyplink.counting.interval import Cover, point_for_boxes
from polyplink.data.origin import UNKNOWN, BoxesOrigin, BoxSource, write_origin
from polyplink.detect.first_pass import Detector
from polyplink.detect.folder import OpenedDetector, open_detector, training_warnings
from polyplink.detect.onnx import OnnxDetector
from polyplink.detect.recordings import recording_messages
from polyplink.encoders.load import NamedEncoder
from polyplink.encoders.weights import weights_path
from polyplink.streaming.live_count import DATASET, LIVE
from polyplink.streaming.sources import LiveSource


def warm_detector(
    name: str | None, function: Detector | None, source: LiveSource
) -> OpenedDetector:
    """The detector of a live count, warmed up.

    Args:
        name: Its file or name, by default the shipped one; with `function` its name.
        function: A detector of the user's own, which sees only frames of the procedure.
        source: The procedure.

    Raises:
        PolyplinkError: As for `open_detector`.
    """
    opened = open_detector(name, function)
    if isinstance(opened.find, OnnxDetector):  # a slow first call would delay the first frames
        opened.find(np.zeros((source.height, source.width, 3), np.uint8))
    return opened


def open_linking(
    load: Callable[..., NamedEncoder],
    origin: BoxesOrigin | None,
    fps: float | None,
    out: Path,
    *,
    purpose: Purpose,
    keep_alarms: bool,
) -> tuple[NamedEncoder, OperatingPoint, Cover]:
    """The encoder, its operating point, and the cover of its intervals for these boxes.

    Args:
        load: Loads the encoder, given the `origin` of the boxes.
        origin: The detector of the boxes, which is recorded in `out`; None if it is unknown.
        fps: Frames per second; None if unknown.
        out: The output folder.
        purpose: Purpose for which the price of a polyp is chosen.
        keep_alarms: Whether false alarms are counted.
    """
    source = BoxSource(UNKNOWN, None, "recordings", fps=fps)
    if origin is not None:
        write_origin(out / LIVE, origin)
        source = BoxSource(origin.key, origin.name, "recordings", fps=fps)
    encoder = load(origin=origin)
    point, cover = point_for_boxes(
        encoder.record, source, encoder.prepare, origin, purpose=purpose, keep_alarms=keep_alarms
    )
    return encoder, point, cover


def first_messages(
    source: LiveSource,
    detector: OpenedDetector | None,
    weights: Path,
    encoder: NamedEncoder,
    cover: Cover,
    *,
    point: OperatingPoint,
    out: Path,
) -> tuple[list[Message], list[Message]]:
    """Warnings that are known before the first frame.

    Args:
        source: The procedure.
        detector: The detector; None if the frames come with boxes.
        weights: The weights file or folder.
        encoder: The encoder.
        cover: The cover of the intervals.
        point: The operating point.
        out: The output folder, which holds the origin of the boxes.

    Returns:
        Warnings that the final count finds again, about the weights and an unknown frame rate; and
        others, about the training of the detector and the times of the recording.
    """
    used = used_models(weights_path(weights), encoder.name, encoder.record, out / LIVE)
    of_count = [*cover.warnings(point), *shipped_messages(used, point)]
    of_count += simulated_messages(encoder.record, point, [DATASET])
    of_count += rate_messages([] if source.rate_known else [source.name])
    others = [] if detector is None else training_warnings(detector.find, [source.name])
    return of_count, others + recording_messages(source.recordings)
