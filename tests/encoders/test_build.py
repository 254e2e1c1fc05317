"""Any encoder from its configuration."""

import pytest
import torch
from torch import nn

from polyplink.encoders import build_encoder, build_projector
from polyplink.encoders.foundation.clip import ClipFoundation
from polyplink.encoders.foundation.frame import FrameFoundation
from polyplink.encoders.mve import MveEncoder
from polyplink.encoders.sfe import SfeEncoder
from polyplink.encoders.tracklet import TrackletEncoder
from tests.encoders.small import KINDS

CLASSES: dict[str, tuple[type, int]] = {
    "transformer": (TrackletEncoder, 128),
    "sfe": (SfeEncoder, 4),
    "projected": (SfeEncoder, 4),
    "mve": (MveEncoder, 4),
    "clips": (ClipFoundation, 128),
    "frames": (FrameFoundation, 128),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_built_with_what_its_loss_needs(kind: str) -> None:
    expected, out = CLASSES[kind]
    encoder = build_encoder(KINDS[kind])
    assert isinstance(encoder, expected)
    projector = build_projector(encoder)
    assert projector(torch.rand(3, encoder.width)).shape == (3, out)
    assert isinstance(projector, nn.Identity) == (kind in {"projected", "mve"})
