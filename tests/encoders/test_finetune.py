"""Which parameters move after one step."""

import copy

import pytest
import torch
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.build import build_encoder, build_frame_encoder
from polyplink.encoders.config import AnyEncoderConfig
from polyplink.encoders.encoder import Encoder, FrameWise
from polyplink.encoders.finetune import (
    FineTune,
    adapt_statistics,
    blocks_of,
    merge_adapters,
    trainable,
)
from tests.encoders.checkpoints import State
from tests.encoders.small import CLIPS, FRAMES, SFE, TRANSFORMER, crops, made


def moved(encoder: Encoder) -> set[str]:
    """Names of the tensors that one step of training changes, buffers included."""
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    learning = [p for p in encoder.parameters() if p.requires_grad]
    encoder.train()
    tokens = encoder(crops(4), [2, 2])
    generator = torch.Generator().manual_seed(0)
    aim = torch.randn(tokens.tracklet.shape, generator=generator)
    (tokens.tracklet - aim).square().sum().backward()
    torch.optim.AdamW(learning, lr=1e-2, weight_decay=0.0).step()
    after = encoder.state_dict()
    return {name for name, value in before.items() if not torch.equal(after[name], value)}


def test_whole_and_frozen() -> None:
    whole = moved(trainable(made(TRANSFORMER), FineTune("whole")))
    assert {"adapter.weight", "cls_token", "backbone.conv1.0.weight"} <= whole
    frozen = moved(trainable(made(TRANSFORMER), FineTune("frozen")))
    assert "adapter.weight" in frozen
    assert not {name for name in frozen if name.startswith("backbone.")}  # statistics neither


def test_the_last_blocks() -> None:
    encoder = made(FRAMES.__class__("dinov3-s", depth=3, size=32))
    names = moved(trainable(encoder, FineTune("last", blocks=2)))
    assert names
    assert all(".layer.1." in name or ".layer.2." in name for name in names)
    assert {name.split(".layer.")[1][0] for name in names} == {"1", "2"}
    resnet = trainable(made(TRANSFORMER), FineTune("last", blocks=1))
    assert {n.split(".")[1] for n in moved(resnet) if n.startswith("backbone.")} == {"layer4"}
    with pytest.raises(PolyplinkError, match=r"finetune.blocks is 9, but the backbone has \d"):
        trainable(made(TRANSFORMER), FineTune("last", blocks=9))


@pytest.mark.parametrize(
    ("name", "count"),
    [("timm:resnet50", 16), ("timm:caformer_s18", 18), ("timm:vit_tiny_patch16_224", 12)],
)
def test_blocks_are_found_in_backbones_of_all_kinds(name: str, count: int) -> None:
    with torch.device("meta"):
        model, _ = build_frame_encoder(name)
    assert len(blocks_of(model)) == count


def test_adapters_learn_alone_and_merge_into_the_layers() -> None:
    for config in (FRAMES, CLIPS):
        plain = made(config)
        names = list(plain.state_dict())
        encoder = trainable(made(config), FineTune("lora", rank=2))
        changed = moved(encoder)
        assert changed
        assert all("lora_" in name for name in changed)
        encoder.eval()
        with torch.no_grad():
            wanted = encoder(crops(4), [4]).tracklet
            assert not torch.allclose(wanted, plain(crops(4), [4]).tracklet, atol=1e-4)
            merged = merge_adapters(encoder)
            assert list(merged.state_dict()) == names
            assert torch.allclose(merged(crops(4), [4]).tracklet, wanted, atol=1e-4)
            plain.load_state_dict(merged.state_dict())
    assert merge_adapters(plain) is plain


def test_what_cannot_be_tuned_so() -> None:
    with pytest.raises(PolyplinkError, match="no attention to adapt"):
        trainable(made(TRANSFORMER), FineTune("lora"))
    for bad in ({"blocks": 0}, {"rank": 0}, {"dropout": 1.0}):
        with pytest.raises(PolyplinkError, match="finetune"):
            FineTune(**bad)


def slopes(config: AnyEncoderConfig, tune: FineTune, again: bool) -> tuple[State, int]:
    """Gradients of one batch by name, and how often the last block began for them."""
    encoder = trainable(made(config), tune)
    encoder.checkpointing(again)
    encoder.train()
    calls = []
    # A part within the block: libraries keep hooks of the block itself out of what is repeated.
    part = next(m for m in blocks_of(encoder.backbone)[-1].modules() if not list(m.children()))
    part.register_forward_pre_hook(lambda *_: calls.append(1))
    torch.manual_seed(3)  # dropout
    tokens = encoder(crops(4), [4])
    (tokens.tracklet.square().sum() + tokens.frames.sin().sum()).backward()
    found = {n: p.grad for n, p in encoder.named_parameters() if p.grad is not None}
    return found, len(calls)


@pytest.mark.parametrize(
    ("config", "tune"),
    [
        (FRAMES, FineTune("lora", rank=2, dropout=0.2)),
        (CLIPS, FineTune("lora", rank=2)),
        (CLIPS, FineTune("whole")),
        (TRANSFORMER, FineTune("last", blocks=2)),  # the BatchNorm of the rest stands still
    ],
    ids=["frames lora", "clips lora", "clips whole", "resnet last"],
)
def test_activations_computed_again_give_the_same_gradients(
    config: AnyEncoderConfig, tune: FineTune
) -> None:
    kept, once = slopes(config, tune, again=False)
    anew, twice = slopes(config, tune, again=True)
    assert 0 < once < twice  # again, as far as gradients need it
    assert kept.keys() == anew.keys()
    assert any(name.startswith("backbone.") for name in kept)
    for name, slope in kept.items():
        torch.testing.assert_close(anew[name], slope, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_adapted_statistics_make_up_for_another_tone() -> None:
    encoder = build_encoder(SFE)
    assert isinstance(encoder, FrameWise)
    drawn = torch.randint(60, 170, (64, 24, 24, 3), generator=torch.Generator().manual_seed(0))
    plain, harsh = drawn.to(torch.uint8), (2 * drawn - 115).to(torch.uint8)  # about its mean

    def adapted(frames: torch.Tensor) -> torch.Tensor:
        own = copy.deepcopy(encoder)
        layers = adapt_statistics(own, [frames[:32], frames[32:]])
        assert layers == sum(isinstance(m, nn.BatchNorm2d) for m in own.modules()) > 0
        assert not own.training
        assert all(map(torch.equal, own.parameters(), encoder.parameters()))
        return own.encode_frames(frames)

    encoder.eval()
    before, after = encoder.encode_frames(plain), encoder.encode_frames(harsh)
    assert (after - before).norm() > 0.3 * before.norm()
    before, after = adapted(plain), adapted(harsh)
    assert (after - before).norm() < 0.05 * before.norm()
