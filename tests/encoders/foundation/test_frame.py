"""Frames of a tracklet are averaged."""

import torch

from polyplink.encoders import FoundationConfig
from polyplink.encoders.foundation.frame import FrameFoundation
from polyplink.encoders.foundation.pooling import pool
from tests.encoders.small import crops, made


@torch.no_grad()
def test_a_tracklet_is_the_mean_of_its_pooled_frames() -> None:
    config = FoundationConfig(
        model="dinov2-s", depth=1, size=28, pooling="cat", mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7)
    )
    encoder = made(config)
    assert isinstance(encoder, FrameFoundation)
    frames = crops(5, size=28)
    found = encoder(frames, [2, 3])
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (config.mean, config.std))
    pixels = (frames.permute(0, 3, 1, 2) / 255 - mean) / std
    vectors = pool(encoder.tokens(pixels), "cat")
    assert torch.allclose(found.frames, vectors, atol=1e-5)
    assert torch.allclose(found.tracklet[1], vectors[2:].mean(dim=0), atol=1e-5)
    assert encoder.width == 2 * 384
