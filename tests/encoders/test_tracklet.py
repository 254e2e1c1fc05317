"""The tracklet encoder: packed frames, no positions, the published sizes."""

import pytest
import torch

from polyplink.encoders import EncoderConfig, Projector, TrackletEncoder

SMALL = EncoderConfig(frame_encoder="timm:test_resnet", width=32, layers=2, heads=4, feedforward=64)


@pytest.fixture(scope="module")
def encoder() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder(SMALL).eval()


def crops(n: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, 32, 32, 3), generator=generator, dtype=torch.uint8)


@torch.no_grad()
@pytest.mark.parametrize("lengths", [[1], [3, 8, 1, 5], [4, 4, 4], [20, 2]])
def test_packed_equals_one_at_a_time(encoder: TrackletEncoder, lengths: list[int]) -> None:
    frames = crops(sum(lengths))
    packed = encoder(frames, lengths)
    alone = [encoder(part, [len(part)]) for part in torch.split(frames, lengths)]
    assert torch.allclose(packed.tracklet, torch.cat([t.tracklet for t in alone]), atol=1e-5)
    assert torch.allclose(packed.frames, torch.cat([t.frames for t in alone]), atol=1e-5)


@torch.no_grad()
def test_the_order_of_frames_does_not_matter(encoder: TrackletEncoder) -> None:
    frames = crops(9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    one, two = encoder(frames, [9]), encoder(frames[order], [9])
    assert torch.allclose(one.tracklet, two.tracklet, atol=1e-5)
    assert torch.allclose(one.frames[order], two.frames, atol=1e-5)


@torch.no_grad()
def test_another_tracklet_in_the_batch_changes_nothing(encoder: TrackletEncoder) -> None:
    frames = crops(4)
    one = encoder(torch.cat([frames, crops(6, seed=1)]), [4, 6]).tracklet[0]
    two = encoder(torch.cat([frames, crops(6, seed=2)]), [4, 6]).tracklet[0]
    assert torch.allclose(one, two, atol=1e-6)


def test_gradients_reach_every_parameter() -> None:
    torch.manual_seed(0)
    model = TrackletEncoder(SMALL)
    projector = Projector(SMALL)
    tokens = model(crops(6), [2, 4])
    loss = projector(tokens.tracklet).square().sum() + projector(tokens.frames).square().sum()
    loss.backward()
    for name, parameter in [*model.named_parameters(), *projector.named_parameters()]:
        assert parameter.grad is not None, name


def test_the_papers_encoder_has_its_parameters() -> None:
    """26.4 M, 26.5 M with the projector: what the paper's own sizes give."""
    with torch.device("meta"):
        model, projector = TrackletEncoder(EncoderConfig()), Projector(EncoderConfig())
    count = sum(p.numel() for p in model.parameters())
    assert count == 26_402_112
    assert count + sum(p.numel() for p in projector.parameters()) == 26_500_800
