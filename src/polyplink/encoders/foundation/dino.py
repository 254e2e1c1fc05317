"""DINOv2 S, B, L, g (facebookresearch/dinov2) and DINOv3 S, B, L (facebookresearch/dinov3)."""

from typing import Any

import torch
from torch import nn

from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.foundation.base import (
    FrameFoundation,
    Origin,
    Spec,
    State,
    from_published_names,
    renamed,
    transformers,
)

# Names in Meta's .pth files, and on the Hub.
_BOTH = (
    (r"^cls_token$", "embeddings.cls_token"),
    (r"^mask_token$", "embeddings.mask_token"),
    (r"\.ls([12])\.gamma$", r".layer_scale\1.lambda1"),
)
_V2_NAMES = (
    *_BOTH,
    (r"^pos_embed$", "embeddings.position_embeddings"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"^norm\.", "layernorm."),
    (r"^blocks\.", "encoder.layer."),
    (r"\.attn\.proj\.", ".attention.output.dense."),
    (r"\.mlp\.w12\.", ".mlp.weights_in."),
    (r"\.mlp\.w3\.", ".mlp.weights_out."),
)
_V2_QKV = tuple(f".attention.attention.{part}." for part in ("query", "key", "value"))
_V3_NAMES = (
    *_BOTH,
    (r"^storage_tokens$", "embeddings.register_tokens"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings."),
    (r"^blocks\.", "layer."),
    (r"\.attn\.proj\.", ".attention.o_proj."),
    (r"\.mlp\.fc1\.", ".mlp.up_proj."),
    (r"\.mlp\.fc2\.", ".mlp.down_proj."),
)
_V3_QKV = tuple(f".attention.{part}_proj." for part in "qkv")
_COMPUTED = ("bias_mask", "rope_embed.periods")  # transformers computes them itself
_V2_BY_WIDTH = {384: "dinov2-s", 768: "dinov2-b", 1024: "dinov2-l", 1536: "dinov2-g"}
_V3_BY_WIDTH = {384: "dinov3-s", 768: "dinov3-b", 1024: "dinov3-l"}


def _first(state: State, *names: str) -> torch.Tensor | None:
    return next((state[name] for name in names if name in state), None)


def dinov2_hub_names(state: State) -> dict[str, torch.Tensor]:
    """Rename the tensors of Meta's DINOv2 file to the Hub's names; the Hub's own stay."""
    return renamed(state, _V2_NAMES, _V2_QKV)


def dinov3_hub_names(state: State) -> dict[str, torch.Tensor]:
    """Rename the tensors of Meta's DINOv3 file to the Hub's names; the Hub's own stay."""
    kept = {name: tensor for name, tensor in state.items() if not name.endswith(_COMPUTED)}
    fused = renamed({n: t for n, t in kept.items() if "qkv.bias" in n}, _V3_NAMES, _V3_QKV)
    keys = {name for name in fused if name.endswith(f"{_V3_QKV[1]}bias")}  # keys have no bias
    found = renamed(kept, _V3_NAMES, _V3_QKV)
    if "embeddings.mask_token" in found:
        found["embeddings.mask_token"] = found["embeddings.mask_token"].reshape(1, 1, -1)
    return {name: tensor for name, tensor in found.items() if name not in keys}


def _v2_shape(spec: Spec, config: FoundationConfig) -> Any:
    return transformers().Dinov2Config(
        hidden_size=spec.width,
        num_attention_heads=spec.width // 64,
        num_hidden_layers=config.depth or spec.depth,
        use_swiglu_ffn=spec.shape["swiglu"],
        image_size=518,  # of the position table, which is resampled for other image sizes
        patch_size=spec.patch,
        layer_norm_eps=1e-6,
    )


def _v3_shape(spec: Spec, config: FoundationConfig) -> Any:
    return transformers().DINOv3ViTConfig(
        hidden_size=spec.width,
        intermediate_size=4 * spec.width,
        num_attention_heads=spec.width // 64,
        num_hidden_layers=config.depth or spec.depth,
        num_register_tokens=4,
        patch_size=spec.patch,
        layer_norm_eps=1e-5,
        rope_theta=100.0,
        key_bias=False,
        pos_embed_rescale=None,  # otherwise positions are augmented at random in training
    )


class _DinoEncoder(FrameFoundation):
    """What both generations share: the last hidden state of a model of transformers."""

    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Normalised pixels (n, 3, h, w) to tokens (n, 1+p, d), or (n, 1+4+p, d) in DINOv3."""
        found: torch.Tensor = self.backbone(pixels).last_hidden_state
        return found


class Dinov2Encoder(_DinoEncoder):
    """DINOv2 of transformers: tokens are CLS, then patches."""

    @staticmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The model of transformers."""
        model: nn.Module = transformers().Dinov2Model(_v2_shape(spec, config))
        return model

    @staticmethod
    def recognises(state: State) -> str | None:
        """By the position table of 37 x 37 patches, and its width."""
        table = _first(state, "pos_embed", "embeddings.position_embeddings")
        if table is None or table.ndim != 3 or table.shape[1] != 1370:
            return None
        registers = {"register_tokens", "embeddings.register_tokens"} & set(state)
        return None if registers else _V2_BY_WIDTH.get(table.shape[2])

    @staticmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """From Meta's or the Hub's names."""
        kind = transformers().Dinov2Model
        return from_published_names(kind, _v2_shape(spec, config), dinov2_hub_names(state))


class Dinov3Encoder(_DinoEncoder):
    """DINOv3 of transformers: tokens are CLS, four registers, then patches."""

    prefix = 5

    @staticmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The model of transformers."""
        model: nn.Module = transformers().DINOv3ViTModel(_v3_shape(spec, config))
        return model

    @staticmethod
    def recognises(state: State) -> str | None:
        """By four registers without a position table, and their width."""
        registers = _first(state, "storage_tokens", "embeddings.register_tokens")
        tables = {"pos_embed", "embeddings.position_embeddings"} & set(state)
        if registers is None or tables or registers.shape[-2] != 4:
            return None
        return _V3_BY_WIDTH.get(registers.shape[-1])

    @staticmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """From Meta's or the Hub's names."""
        kind = transformers().DINOv3ViTModel
        return from_published_names(kind, _v3_shape(spec, config), dinov3_hub_names(state))


def _v2(letter: str, name: str, width: int, depth: int, tensors: int) -> Spec:
    return Spec(
        name=f"dinov2-{letter}",
        title=f"DINOv2 ViT-{letter}/14",
        build=Dinov2Encoder,
        shape={"swiglu": letter == "g"},
        width=width,
        patch=14,
        depth=depth,
        tensors=tensors,
        origin=Origin(
            source=f"huggingface.co/facebook/dinov2-{name}",
            file=f"model.safetensors, or dinov2_vit{letter}14_pretrain.pth",
            licence="Apache-2.0",
        ),
        reference_pooling="mean",
    )


def _v3(letter: str, width: int, depth: int, digits: str, tensors: int) -> Spec:
    name = f"dinov3_vit{letter}16_pretrain_lvd1689m-{digits}.pth"
    return Spec(
        name=f"dinov3-{letter}",
        title=f"DINOv3 ViT-{letter.upper()}/16",
        build=Dinov3Encoder,
        width=width,
        patch=16,
        depth=depth,
        tensors=tensors,
        origin=Origin(
            source=f"huggingface.co/facebook/dinov3-vit{letter}16-pretrain-lvd1689m (gated)",
            file=f"model.safetensors, or {name}",
            licence="DINOv3 License",
        ),
    )


SPECS = (
    _v2("s", "small", 384, 12, 223),
    _v2("b", "base", 768, 12, 223),
    _v2("l", "large", 1024, 24, 439),
    _v2("g", "giant", 1536, 40, 807),
    _v3("s", 384, 12, "08c60483", 211),
    _v3("b", 768, 12, "73cec8be", 211),
    _v3("l", 1024, 24, "8aa4cbdd", 415),
)
