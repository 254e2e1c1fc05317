"""Recordings to boxes: the user's detector, from an ONNX file or a Python callable."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.detect.first_pass import Detector as Detector, detect as detect
    from polyplink.detect.onnx import DetectorRecord as DetectorRecord, OnnxDetector as OnnxDetector
    from polyplink.detect.recordings import (
        Recording as Recording,
        find_recordings as find_recordings,
    )

hand_on(__name__)
