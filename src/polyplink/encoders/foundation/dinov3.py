"""DINOv3 S, B and L (facebookresearch/dinov3)."""

from typing import Any

import torch
from torch import nn

from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.foundation.frame import FrameFoundation
from polyplink.encoders.foundation.library import from_published_names, renamed, transformers
from polyplink.encoders.foundation.spec import Origin, Spec, State

_BY_WIDTH = {384: "dinov3-s", 768: "dinov3-b", 1024: "dinov3-l"}
_NAMES = (
    (r"^cls_token$", "embeddings.cls_token"),
    (r"^mask_token$", "embeddings.mask_token"),
    (r"^storage_tokens$", "embeddings.register_tokens"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings."),
    (r"^blocks\.", "layer."),
    (r"\.attn\.proj\.", ".attention.o_proj."),
    (r"\.ls([12])\.gamma$", r".layer_scale\1.lambda1"),
    (r"\.mlp\.fc1\.", ".mlp.up_proj."),
    (r"\.mlp\.fc2\.", ".mlp.down_proj."),
)
_COMPUTED = ("bias_mask", "rope_embed.periods")  # the library works them out itself
_QKV = tuple(f".attention.{part}_proj." for part in "qkv")


def hub_names(state: State) -> dict[str, torch.Tensor]:
    """Tensors of a .pth file of Meta under the names of the Hub; those of the Hub as they are."""
    kept = {name: tensor for name, tensor in state.items() if not name.endswith(_COMPUTED)}
    found = renamed(kept, _NAMES, _QKV)
    for name in renamed({name: kept[name] for name in kept if "qkv.bias" in name}, _NAMES, _QKV):
        if name.endswith(f"{_QKV[1]}bias"):  # keys have none
            del found[name]
    if "embeddings.mask_token" in found:
        found["embeddings.mask_token"] = found["embeddings.mask_token"].reshape(1, 1, -1)
    return found


def _shape(spec: Spec, config: FoundationConfig) -> Any:
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
        pos_embed_rescale=None,  # else positions are random in training
    )


class Dinov3Encoder(FrameFoundation):
    """The library's DINOv3: tokens are cls, four registers, then patches."""

    prefix = 5

    @staticmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The library's model."""
        model: nn.Module = transformers().DINOv3ViTModel(_shape(spec, config))
        return model

    @staticmethod
    def recognises(state: State) -> str | None:
        """By four registers without a position table, and their width."""
        names = ("storage_tokens", "embeddings.register_tokens")
        registers = next((state[name] for name in names if name in state), None)
        tables = {"pos_embed", "embeddings.position_embeddings"} & set(state)
        if registers is None or tables or registers.shape[-2] != 4:
            return None
        return _BY_WIDTH.get(registers.shape[-1])

    @staticmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """From either published layout."""
        kind = transformers().DINOv3ViTModel
        return from_published_names(kind, _shape(spec, config), hub_names(state))

    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Scaled pixels (n, 3, h, w) to tokens (n, 1+4+p, d)."""
        found: torch.Tensor = self.backbone(pixels).last_hidden_state
        return found


def _spec(letter: str, width: int, depth: int, digits: str, tensors: int) -> Spec:
    name = f"dinov3_vit{letter}16_pretrain_lvd1689m-{digits}.pth"
    return Spec(
        name=f"dinov3-{letter}",
        title=f"DINOv3 ViT-{letter.upper()}/16",
        build=Dinov3Encoder,
        shape={},
        width=width,
        patch=16,
        depth=depth,
        tensors=tensors,
        origin=Origin(
            source=f"huggingface.co/facebook/dinov3-vit{letter}16-pretrain-lvd1689m (gated)",
            file=f"model.safetensors, or {name}",
            licence="DINOv3 License",
        ),
        reference_pooling="cls",
    )


SPECS = (
    _spec("s", 384, 12, "08c60483", 211),
    _spec("b", 768, 12, "73cec8be", 211),
    _spec("l", 1024, 24, "8aa4cbdd", 415),
)
