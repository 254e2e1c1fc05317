"""Small encoders of every kind, and random crops, shared by the tests."""

from copy import deepcopy
from dataclasses import replace
from functools import cache

import torch

from polyplink.encoders.build import build_encoder
from polyplink.encoders.config import (
    AnyEncoderConfig,
    EncoderConfig,
    FoundationConfig,
    MveConfig,
    SfeConfig,
)
from polyplink.encoders.encoder import Encoder

BACKBONE = "timm:test_resnet"
TRANSFORMER = EncoderConfig(frame_encoder=BACKBONE, width=16, layers=1, heads=2, feedforward=16)
SFE = SfeConfig(frame_encoder=BACKBONE, projector_hidden=8, projector_out=4)
PROJECTED = SfeConfig(
    frame_encoder=BACKBONE, vector="projected", projector_hidden=8, projector_out=4
)
MVE = MveConfig(
    frame_encoder=BACKBONE,
    frame_hidden=8,
    width=16,
    layers=1,
    heads=2,
    feedforward=16,
    projector_out=4,
)
CLIPS = FoundationConfig(model="endofm", depth=1, size=32, clip=4)
FRAMES = FoundationConfig(model="dinov3-s", depth=1, size=32)
KINDS: dict[str, AnyEncoderConfig] = {
    "transformer": TRANSFORMER,
    "sfe": SFE,
    "projected": PROJECTED,
    "mve": MVE,
    "clips": CLIPS,
    "frames": FRAMES,
    "tone": replace(TRANSFORMER, tone=1.4),
}


@cache
def _drawn_encoder(config: AnyEncoderConfig, seed: int) -> Encoder:
    torch.manual_seed(seed)
    return build_encoder(config).eval()


def random_encoder(config: AnyEncoderConfig, seed: int = 0) -> Encoder:
    """An encoder with random values, in evaluation mode; the same ones are drawn once."""
    drawn = _drawn_encoder(config, seed)
    torch.manual_seed(seed)  # what a test draws next is the same too
    return deepcopy(drawn)


def random_crops(n: int, size: int = 32, seed: int = 0) -> torch.Tensor:
    """Random crops (n, size, size, 3) in uint8."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, size, size, 3), generator=generator, dtype=torch.uint8)
