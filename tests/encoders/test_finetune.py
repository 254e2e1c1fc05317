"""Fine-tuning: which tensors one training step changes, adapters, and adapted statistics."""

import copy

import pytest
import torch
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.adapt import adapt_statistics
from polyplink.encoders.build import build_encoder, build_frame_encoder
from polyplink.encoders.config import AnyEncoderConfig, SfeConfig
from polyplink.encoders.encoder import Encoder, FrameWise
from polyplink.encoders.finetune import FineTune, blocks_of, merge_adapters, trainable
from tests.encoders.checkpoints import State
from tests.encoders.small import CLIPS, FRAMES, SFE, TRANSFORMER, random_crops, random_encoder


def changed_tensors(encoder: Encoder) -> set[str]:
    """Names of the tensors, buffers included, that one training step changes."""
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    trainable_parameters = [p for p in encoder.parameters() if p.requires_grad]
    encoder.train()
    tokens = encoder(random_crops(4), [2, 2])
    generator = torch.Generator().manual_seed(0)
    aim = torch.randn(tokens.tracklet.shape, generator=generator)
    (tokens.tracklet - aim).square().sum().backward()
    torch.optim.AdamW(trainable_parameters, lr=1e-2, weight_decay=0.0).step()
    after = encoder.state_dict()
    return {name for name, value in before.items() if not torch.equal(after[name], value)}


def test_whole_tunes_the_backbone_and_frozen_leaves_it() -> None:
    changed = changed_tensors(trainable(random_encoder(TRANSFORMER), FineTune("whole")))
    assert {"adapter.weight", "cls_token", "backbone.conv1.0.weight"} <= changed
    changed_frozen = changed_tensors(trainable(random_encoder(TRANSFORMER), FineTune("frozen")))
    assert "adapter.weight" in changed_frozen
    assert not {name for name in changed_frozen if name.startswith("backbone.")}  # nor statistics


def test_last_tunes_only_the_last_blocks_of_the_backbone() -> None:
    encoder = random_encoder(FRAMES.__class__("dinov3-s", depth=3, size=32))
    names = changed_tensors(trainable(encoder, FineTune("last", blocks=2)))
    assert names
    assert all(".layer.1." in name or ".layer.2." in name for name in names)
    assert {name.split(".layer.")[1][0] for name in names} == {"1", "2"}
    resnet = trainable(random_encoder(TRANSFORMER), FineTune("last", blocks=1))
    assert {n.split(".")[1] for n in changed_tensors(resnet) if n.startswith("backbone.")} == {
        "layer4"
    }
    with pytest.raises(PolyplinkError, match=r"finetune.blocks is 9, but the backbone has \d"):
        trainable(random_encoder(TRANSFORMER), FineTune("last", blocks=9))


@pytest.mark.parametrize(
    ("name", "count"),
    [("timm:resnet50", 16), ("timm:caformer_s18", 18), ("timm:vit_tiny_patch16_224", 12)],
)
def test_blocks_of_takes_the_blocks_of_backbones_of_all_kinds(name: str, count: int) -> None:
    with torch.device("meta"):
        model, _ = build_frame_encoder(name)
    assert len(blocks_of(model)) == count


def test_only_adapters_are_trained_and_merge_into_the_layers() -> None:
    for config in (FRAMES, CLIPS):
        plain = random_encoder(config)
        names = list(plain.state_dict())
        encoder = trainable(random_encoder(config), FineTune("lora", rank=2))
        changed_names = changed_tensors(encoder)
        assert changed_names
        assert all("lora_" in name for name in changed_names)
        encoder.eval()
        with torch.no_grad():
            expected = encoder(random_crops(4), [4]).tracklet
            assert not torch.allclose(expected, plain(random_crops(4), [4]).tracklet, atol=1e-4)
            merged = merge_adapters(encoder)
            assert list(merged.state_dict()) == names
            assert torch.allclose(merged(random_crops(4), [4]).tracklet, expected, atol=1e-4)
            plain.load_state_dict(merged.state_dict())
    assert merge_adapters(plain) is plain


def test_unsupported_fine_tuning_is_refused() -> None:
    with pytest.raises(PolyplinkError, match="no attention to adapt"):
        trainable(random_encoder(TRANSFORMER), FineTune("lora"))
    for config in (SFE, FRAMES):  # only the projector would learn, which is dropped
        with pytest.raises(PolyplinkError, match="leaves nothing of this encoder to train"):
            trainable(random_encoder(config), FineTune("frozen"))
    for bad in ({"blocks": 0}, {"rank": 0}, {"dropout": 1.0}):
        with pytest.raises(PolyplinkError, match="finetune"):
            FineTune(**bad)


def gradients(config: AnyEncoderConfig, tune: FineTune, checkpointing: bool) -> tuple[State, int]:
    """Gradients of one batch by name, and the number of forward passes of the last block."""
    encoder = trainable(random_encoder(config), tune)
    encoder.checkpointing(checkpointing)
    encoder.train()
    calls = []
    # A layer inside the block, because libraries skip hooks of the block itself in a recomputation.
    part = next(m for m in blocks_of(encoder.backbone)[-1].modules() if not list(m.children()))
    part.register_forward_pre_hook(lambda *_: calls.append(1))
    torch.manual_seed(3)  # dropout
    tokens = encoder(random_crops(4), [4])
    (tokens.tracklet.square().sum() + tokens.frames.sin().sum()).backward()
    gradients_by_name = {n: p.grad for n, p in encoder.named_parameters() if p.grad is not None}
    return gradients_by_name, len(calls)


@pytest.mark.parametrize(
    ("config", "tune"),
    [
        (FRAMES, FineTune("lora", rank=2, dropout=0.2)),
        (CLIPS, FineTune("whole")),
        (TRANSFORMER, FineTune("last", blocks=2)),  # BatchNorm layers of the others are frozen
        (SfeConfig("timm:test_efficientnet", stages=(0, 1)), FineTune("last", blocks=1)),
    ],
    ids=["frames lora", "clips whole", "resnet last", "stages last"],
)
def test_recomputed_activations_give_the_same_gradients(
    config: AnyEncoderConfig, tune: FineTune
) -> None:
    stored, passes = gradients(config, tune, checkpointing=False)
    recomputed, passes_recomputed = gradients(config, tune, checkpointing=True)
    assert 0 < passes < passes_recomputed  # only what gradients need is recomputed
    assert stored.keys() == recomputed.keys()
    assert any(name.startswith("backbone.") for name in stored)
    for name, gradient in stored.items():
        torch.testing.assert_close(recomputed[name], gradient, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_adapted_statistics_compensate_another_contrast() -> None:
    encoder = build_encoder(SFE)
    assert isinstance(encoder, FrameWise)
    pixels = torch.randint(60, 170, (64, 24, 24, 3), generator=torch.Generator().manual_seed(0))
    plain, harsh = pixels.to(torch.uint8), (2 * pixels - 115).to(torch.uint8)  # around the mean

    def vectors_after_adapting(frames: torch.Tensor) -> torch.Tensor:
        adapted_encoder = copy.deepcopy(encoder)
        layers = adapt_statistics(adapted_encoder, [frames[:32], frames[32:]])
        assert layers == sum(isinstance(m, nn.BatchNorm2d) for m in adapted_encoder.modules()) > 0
        assert not adapted_encoder.training
        assert all(map(torch.equal, adapted_encoder.parameters(), encoder.parameters()))
        return adapted_encoder.encode_frames(frames)

    encoder.eval()
    before, after = encoder.encode_frames(plain), encoder.encode_frames(harsh)
    assert (after - before).norm() > 0.3 * before.norm()
    before, after = vectors_after_adapting(plain), vectors_after_adapting(harsh)
    assert (after - before).norm() < 0.05 * before.norm()
