"""Clips of a tracklet are averaged."""

import torch

from polyplink.encoders import FoundationConfig
from polyplink.encoders.foundation.clip import ClipFoundation
from polyplink.encoders.foundation.windows import clip_starts
from tests.encoders.small import crops, made


@torch.no_grad()
def test_a_long_tracklet_is_the_mean_of_its_clips() -> None:
    cut = made(FoundationConfig(model="endofm", depth=1, size=32, clip=4))
    whole = made(FoundationConfig(model="endofm", depth=1, size=32, clip=0))
    assert isinstance(cut, ClipFoundation)
    frames = crops(10)
    found = cut(frames, [10])
    parts = [(start, whole(frames[start : start + 4], [4])) for start in clip_starts(10, 4)]
    mean = sum(tokens.tracklet for _, tokens in parts) / len(parts)
    assert torch.allclose(found.tracklet, torch.as_tensor(mean), atol=1e-5)
    for frame in range(10):
        own = [t.frames[frame - start] for start, t in parts if start <= frame < start + 4]
        assert torch.allclose(found.frames[frame], torch.stack(own).mean(dim=0), atol=1e-5)
    short = cut(frames[:3], [3])
    assert torch.allclose(short.tracklet, whole(frames[:3], [3]).tracklet)
