"""The single-frame encoder."""

import torch

from polyplink.encoders import SfeConfig, SfeEncoder, build_projector
from polyplink.encoders.sfe import mean_over_frames
from tests.encoders.small import PROJECTED, SFE, crops, made


def test_means_equal_a_loop() -> None:
    features, lengths = torch.rand(6, 3), [1, 3, 2]
    found = mean_over_frames(features, lengths)
    start = 0
    for row, length in enumerate(lengths):
        for column in range(3):
            naive = sum(features[start + i, column].item() for i in range(length)) / length
            assert abs(found[row, column].item() - naive) < 1e-6
        start += length


@torch.no_grad()
def test_the_head_is_inside_or_beside() -> None:
    features, projected = made(SFE), made(PROJECTED)
    frames = crops(5)
    inside = projected(frames, [2, 3])
    assert inside.tracklet.shape == (2, 4)
    outside = features(frames, [2, 3])
    assert outside.tracklet.shape[1] == features.width > 4
    head = build_projector(features)
    assert head(outside.tracklet).shape == (2, 4)
    assert isinstance(build_projector(projected), torch.nn.Identity)


def test_the_papers_sizes() -> None:
    """27.97 M, head included wherever it stands."""
    with torch.device("meta"):
        inside = SfeEncoder(SfeConfig(vector="projected"))
        outside = SfeEncoder(SfeConfig())
        head = build_projector(outside)
    count = sum(p.numel() for p in inside.parameters())
    assert round(count / 1e6, 2) == 27.97
    assert count == sum(p.numel() for m in (outside, head) for p in m.parameters())
    assert (inside.width, outside.width) == (128, 2048)
