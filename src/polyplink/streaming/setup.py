"""What a live count needs before its first frame: a detector, the links for its boxes, warnings."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from polyplink.associate.identities import OperatingPoint
from polyplink.core.messages import Message
from polyplink.counting.count_part import rate_messages, shipped_messages, used_models
from polyplink.counting.interval import Cover, point_for_boxes
from polyplink.data.origin import UNKNOWN, BoxesOrigin, BoxSource, write_origin
from polyplink.detect.first_pass import Detector
from polyplink.detect.folder import OpenedDetector, open_detector, training_warnings
from polyplink.detect.onnx import OnnxDetector
from polyplink.detect.recordings import time_messages
from polyplink.encoders.load import NamedEncoder
from polyplink.encoders.weights import weights_path
from polyplink.evaluate.choosing import Purpose
from polyplink.streaming.live_count import LIVE
from polyplink.streaming.sources import LiveSource


def warm_detector(
    name: str | None, function: Detector | None, source: LiveSource
) -> tuple[OpenedDetector, list[Message]]:
    """The detector of a live count, warmed up, with warnings about its training.

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
    return opened, training_warnings(opened.find, [source.name])


def open_linking(
    load: Callable[..., NamedEncoder],
    origin: BoxesOrigin | None,
    out: Path,
    *,
    purpose: Purpose,
    keep_alarms: bool,
) -> tuple[NamedEncoder, OperatingPoint, Cover]:
    """The encoder, its operating point, and the cover of its intervals for these boxes.

    Args:
        load: Loads the encoder, given the `origin` of the boxes.
        origin: The detector of the boxes, which is recorded in `out`; None if it is unknown.
        out: The output folder.
        purpose: Purpose for which the price of a polyp is chosen.
        keep_alarms: Whether false alarms are counted.
    """
    source = BoxSource(UNKNOWN, None, "recordings")
    if origin is not None:
        write_origin(out / LIVE, origin)
        source = BoxSource(origin.key, origin.name, "recordings")
    encoder = load(origin=origin)
    point, cover = point_for_boxes(
        encoder.record, source, encoder.prepare, origin, purpose=purpose, keep_alarms=keep_alarms
    )
    return encoder, point, cover


def lasting_messages(
    source: LiveSource,
    weights: Path,
    encoder: NamedEncoder,
    cover: Cover,
    point: OperatingPoint,
    *,
    out: Path,
) -> list[Message]:
    """Warnings about the weights and the frame rate, which the count in the end repeats.

    Args:
        source: The procedure.
        weights: The weights file or folder.
        encoder: The encoder.
        cover: The cover of the intervals.
        point: The operating point.
        out: The output folder, which holds the origin of the boxes.
    """
    used = used_models(weights_path(weights), encoder.name, encoder.record, out / LIVE)
    rate = rate_messages([] if source.rate_known else [source.name])
    rate += time_messages([source.recording] if source.recording else [])
    return [*cover.warnings(point), *shipped_messages(used, point), *rate]
