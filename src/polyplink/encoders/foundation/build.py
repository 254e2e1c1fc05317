"""A foundation encoder from its configuration."""

from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.foundation.catalogue import find_spec
from polyplink.encoders.foundation.clip import ClipFoundation
from polyplink.encoders.foundation.frame import FrameFoundation


def build_foundation(config: FoundationConfig) -> FrameFoundation | ClipFoundation:
    """Build an encoder with random values.

    Raises:
        PolyplinkError: If its name, image size, clip or pooling is at fault.
    """
    spec = find_spec(config.model)
    return spec.build(spec, config)
