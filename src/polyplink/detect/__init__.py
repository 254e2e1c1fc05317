"""Recordings to boxes: the user's detector, from an ONNX file or a Python callable."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.detect.onnx import DetectorRecord, OnnxDetector
    from polyplink.detect.recordings import Recording, find_recordings
    from polyplink.detect.run import Detector, detect

__all__ = [
    "Detector",
    "DetectorRecord",
    "OnnxDetector",
    "Recording",
    "detect",
    "find_recordings",
]

hand_on(__name__)
