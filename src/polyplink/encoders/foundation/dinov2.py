"""DINOv2 S, B, L and g (facebookresearch/dinov2)."""

from typing import Any

import torch
from torch import nn

from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.foundation.frame import FrameFoundation
from polyplink.encoders.foundation.library import from_published_names, renamed, transformers
from polyplink.encoders.foundation.spec import Origin, Spec, State

_BY_WIDTH = {384: "dinov2-s", 768: "dinov2-b", 1024: "dinov2-l", 1536: "dinov2-g"}
# Names of Meta's own files and those of the Hub.
_NAMES = (
    (r"^cls_token$", "embeddings.cls_token"),
    (r"^mask_token$", "embeddings.mask_token"),
    (r"^pos_embed$", "embeddings.position_embeddings"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"^norm\.", "layernorm."),
    (r"^blocks\.", "encoder.layer."),
    (r"\.attn\.proj\.", ".attention.output.dense."),
    (r"\.ls([12])\.gamma$", r".layer_scale\1.lambda1"),
    (r"\.mlp\.w12\.", ".mlp.weights_in."),
    (r"\.mlp\.w3\.", ".mlp.weights_out."),
)
_QKV = tuple(f".attention.attention.{part}." for part in ("query", "key", "value"))


def hub_names(state: State) -> dict[str, torch.Tensor]:
    """Tensors of a .pth file of Meta under the names of the Hub; those of the Hub as they are."""
    return renamed(state, _NAMES, _QKV)


def _shape(spec: Spec, config: FoundationConfig) -> Any:
    return transformers().Dinov2Config(
        hidden_size=spec.width,
        num_attention_heads=spec.width // 64,
        num_hidden_layers=config.depth or spec.depth,
        use_swiglu_ffn=spec.shape["swiglu"],
        image_size=518,  # of the position table; other images resample it
        patch_size=spec.patch,
        layer_norm_eps=1e-6,
    )


class Dinov2Encoder(FrameFoundation):
    """The library's DINOv2: tokens are cls, then patches."""

    @staticmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The library's model."""
        model: nn.Module = transformers().Dinov2Model(_shape(spec, config))
        return model

    @staticmethod
    def recognises(state: State) -> str | None:
        """By the position table of 37 x 37 patches, and its width."""
        names = ("pos_embed", "embeddings.position_embeddings")
        table = next((state[name] for name in names if name in state), None)
        if table is None or table.ndim != 3 or table.shape[1] != 1370:
            return None
        registers = {"register_tokens", "embeddings.register_tokens"} & set(state)
        return None if registers else _BY_WIDTH.get(table.shape[2])

    @staticmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """From either published layout."""
        kind = transformers().Dinov2Model
        return from_published_names(kind, _shape(spec, config), hub_names(state))

    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Scaled pixels (n, 3, h, w) to tokens (n, 1+p, d)."""
        found: torch.Tensor = self.backbone(pixels).last_hidden_state
        return found


def _spec(letter: str, name: str, width: int, depth: int, tensors: int) -> Spec:
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


SPECS = (
    _spec("s", "small", 384, 12, 223),
    _spec("b", "base", 768, 12, 223),
    _spec("l", "large", 1024, 24, 439),
    _spec("g", "giant", 1536, 40, 807),
)
