"""Models that ship with the package: a detector and an encoder, each with its model card."""

from typing import TYPE_CHECKING

from polyplink.core.on_demand import hand_on

if TYPE_CHECKING:
    from polyplink.models.shipped import (
        DETECTOR as DETECTOR,
        ENCODER as ENCODER,
        ShippedModel as ShippedModel,
        is_shipped as is_shipped,
        models as models,
        shipped_model as shipped_model,
        shipped_names as shipped_names,
    )

hand_on(__name__)
