"""What holds for every kind of encoder."""

import pytest
import torch
from torch import nn

from polyplink.encoders import ClipWise, Encoder, Tokens
from tests.encoders.small import KINDS, TRANSFORMER, crops, made

LENGTHS = [3, 8, 2, 3]


@pytest.fixture(scope="module", params=KINDS)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return made(KINDS[request.param])


@torch.no_grad()
def test_packed_equals_one_at_a_time(encoder: Encoder) -> None:
    frames = crops(sum(LENGTHS))
    packed = encoder(frames, LENGTHS)
    assert packed.tracklet.shape == (4, encoder.width)
    assert packed.frames.shape == (16, encoder.width)
    alone = [encoder(part, [len(part)]) for part in torch.split(frames, LENGTHS)]
    assert torch.allclose(packed.tracklet, torch.cat([t.tracklet for t in alone]), atol=1e-5)
    assert torch.allclose(packed.frames, torch.cat([t.frames for t in alone]), atol=1e-5)


@pytest.mark.parametrize("kind", ["transformer", "frames", "clips"])
def test_activations_that_are_computed_again_give_the_same_gradients(kind: str) -> None:
    gradients, calls = [], []
    for on in (False, True):
        encoder = made(KINDS[kind])
        for norm in encoder.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.requires_grad_(False)  # its statistics stay, so that both runs are one
        encoder.checkpointing(on)
        encoder.train()
        ran: list[int] = []
        for module in encoder.backbone.modules():
            module.register_forward_hook(lambda *_, ran=ran: ran.append(1))
        torch.manual_seed(1)
        encoder(crops(4), [2, 2]).tracklet.square().sum().backward()
        first = next(p for p in encoder.backbone.parameters() if p.grad is not None)
        assert first.grad is not None
        gradients.append(first.grad.clone())
        calls.append(sum(ran))
    assert torch.allclose(gradients[0], gradients[1], atol=1e-6)
    assert calls[1] > calls[0]


def test_a_norm_that_does_not_learn_does_not_adapt() -> None:
    encoder = made(TRANSFORMER)
    norms = [m for m in encoder.modules() if isinstance(m, nn.BatchNorm2d)]
    assert norms
    for norm in norms[1:]:
        norm.requires_grad_(False)
    encoder.train()
    assert norms[0].training
    assert not any(norm.training for norm in norms[1:])


class Sizes(ClipWise):
    """Tells what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.width = 1
        self.keep_pixel_scale((0.0,) * 3, (1.0,) * 3)

    def encode_clips(self, clips: torch.Tensor) -> Tokens:
        b, t = clips.shape[:2]
        first = clips[:, :, 0, 0, :1].float()  # b t 1
        return Tokens(first.sum(dim=1), first.reshape(b * t, 1))


def test_clips_come_back_in_the_order_of_their_tracklets() -> None:
    frames = torch.arange(6, dtype=torch.uint8).view(6, 1, 1, 1).expand(6, 2, 2, 3)
    tokens = Sizes()(frames, [2, 1, 3])
    assert tokens.tracklet.tolist() == [[1.0], [2.0], [12.0]]
    assert tokens.frames.flatten().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert Sizes().device == torch.device("cpu")
