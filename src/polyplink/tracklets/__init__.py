"""Tracklets: detections -> tracklets -> fragments; boxes -> crops, stored once."""

from polyplink.tracklets.build import box_rows, build_tracklets
from polyplink.tracklets.fragments import crop_rows
from polyplink.tracklets.prepare import (
    Prepared,
    PrepareSettings,
    kept_tracklets,
    lost_boxes,
    prepare,
)

__all__ = [
    "PrepareSettings",
    "Prepared",
    "box_rows",
    "build_tracklets",
    "crop_rows",
    "kept_tracklets",
    "lost_boxes",
    "prepare",
]
