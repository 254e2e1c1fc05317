"""The multi-view encoder."""

import torch

from polyplink.encoders import MveConfig, MveEncoder
from tests.encoders.small import MVE, crops, made


@torch.no_grad()
def test_vectors_are_after_the_linear_layer() -> None:
    encoder = made(MVE)
    assert isinstance(encoder, MveEncoder)
    frames = crops(5)
    features = encoder.encode_frames(frames)
    assert features.shape == (5, 16)
    tokens = encoder(frames, [5])
    naive = encoder.transformer(torch.cat([encoder.cls_token, features[None]], dim=1))[0]
    assert torch.allclose(tokens.tracklet[0], encoder.head(naive[0]), atol=1e-5)
    assert torch.allclose(tokens.frames, encoder.head(naive[1:]), atol=1e-5)


def test_gradients_reach_every_parameter() -> None:
    encoder = made(MVE).train()
    tokens = encoder(crops(6), [2, 4])
    (tokens.tracklet.square().sum() + tokens.frames.square().sum()).backward()
    assert all(p.grad is not None for p in encoder.parameters())


def test_the_papers_sizes() -> None:
    """29.76 M: backbone, head of the single-frame encoder, transformer, linear layer."""
    with torch.device("meta"):
        encoder = MveEncoder(MveConfig())
    assert round(sum(p.numel() for p in encoder.parameters()) / 1e6, 2) == 29.76
