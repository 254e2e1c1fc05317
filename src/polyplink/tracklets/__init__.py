"""Tracklets: detections -> tracklets -> fragments; boxes -> crops, stored once."""

from polyplink.tracklets.boxes import enlarge, iou
from polyplink.tracklets.build import build_tracklets
from polyplink.tracklets.fragments import Spans, crop_rows, fragments, spans_of
from polyplink.tracklets.prepare import prepare
from polyplink.tracklets.prepared import Prepared, PrepareSettings

__all__ = [
    "PrepareSettings",
    "Prepared",
    "Spans",
    "build_tracklets",
    "crop_rows",
    "enlarge",
    "fragments",
    "iou",
    "prepare",
    "spans_of",
]
