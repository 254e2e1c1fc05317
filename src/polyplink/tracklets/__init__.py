"""Tracklets: detections -> tracklets -> fragments; boxes -> crops, stored once."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.tracklets.box_runs import (
        box_rows as box_rows,
        build_tracklets as build_tracklets,
        fill_gaps as fill_gaps,
        numbers_of_boxes as numbers_of_boxes,
    )
    from polyplink.tracklets.fragments import crop_rows as crop_rows
    from polyplink.tracklets.prepare import (
        Prepared as Prepared,
        kept_tracklets as kept_tracklets,
        lost_boxes as lost_boxes,
        prepare as prepare,
    )
    from polyplink.tracklets.settings import (
        PrepareSettings as PrepareSettings,
        TrackSettings as TrackSettings,
    )

hand_on(__name__)
