"""Tracklets: detections -> tracklets -> fragments; boxes -> crops, stored once."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
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

hand_on(__name__)
