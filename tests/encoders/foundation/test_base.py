"""What foundation encoders of frames and of clips have in common."""

import pytest
import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders import FoundationConfig
from polyplink.encoders.foundation.base import Foundation
from polyplink.encoders.foundation.build import build_foundation


@pytest.mark.parametrize("model", ["dinov3-s", "vjepa2-l"])
def test_both_families_are_built_from_a_settled_configuration(model: str) -> None:
    with torch.device("meta"):
        encoder = build_foundation(FoundationConfig(model, depth=1, size=64))
    assert isinstance(encoder, Foundation)
    assert (encoder.size, encoder.config.size, encoder.config.pooling) == (64, 64, encoder.pooling)
    assert encoder.width == encoder.spec.width
    encoder.check_pixels(torch.zeros(2, 64, 64, 3))
    with pytest.raises(PolyplinkError, match="64 pixels, and these crops have 32 x 48"):
        encoder.check_pixels(torch.zeros(2, 48, 32, 3))
