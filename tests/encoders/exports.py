"""A small encoder that the tests of exports share."""

import numpy as np
import torch

from polyplink.encoders import EncoderConfig, TrackletEncoder, WeightsRecord
from polyplink.encoders.weights import Seen
from polyplink.tracklets import PrepareSettings

SIDE = 64
TINY = EncoderConfig(frame_encoder="timm:test_resnet", width=32, layers=1, heads=4, feedforward=64)
CROPS = np.random.default_rng(0).integers(0, 256, (13, SIDE, SIDE, 3), dtype=np.uint8)
LENGTHS = [3, 8, 2]
RECORD = WeightsRecord(
    encoder=TINY,
    prepare=PrepareSettings(crop_factor=1.5, size=SIDE),
    recipe={"name": "tiny"},
    seen=Seen(trained=[("set", "p1", "p1")]),
    origin={"epoch": 3},
)


def tiny() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder(TINY).eval()
