"""Every way of drawing bags that a recipe can name, told apart by `kind`."""

from typing import Annotated

from pydantic import Field

from polyplink.learn.frame_pairs import FramePairs
from polyplink.learn.polyp_parts import PolypParts
from polyplink.learn.polyp_views import PolypViews
from polyplink.learn.temporal_bags import TemporalBags
from polyplink.learn.tracklet_parts import TrackletParts

AnyBags = Annotated[
    TemporalBags | PolypViews | FramePairs | TrackletParts | PolypParts,
    Field(discriminator="kind"),
]
"""A way of drawing bags: see `BagSampler` for what it can do."""
