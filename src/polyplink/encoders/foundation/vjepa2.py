"""V-JEPA 2 ViT-L (facebookresearch/vjepa2)."""

from typing import Any

import torch
from torch import nn

from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.foundation.base import (
    ClipFoundation,
    ClipTokens,
    Origin,
    Spec,
    State,
    from_published_names,
    renamed,
    transformers,
)

_TUBELET = 2  # frames of one token
_NAMES = (
    (r"^patch_embed\.proj\.", "encoder.embeddings.patch_embeddings.proj."),
    (r"^blocks\.", "encoder.layer."),
    (r"\.attn\.proj\.", ".attention.proj."),
    (r"^norm\.", "encoder.layernorm."),
)
_QKV = tuple(f".attention.{part}." for part in ("query", "key", "value"))


def hub_names(state: State) -> dict[str, torch.Tensor]:
    """Rename the tensors of Meta's file to the Hub's names; the Hub's own stay."""
    # The table is unused, and only the pre-training needs the predictor.
    kept = {
        name: tensor
        for name, tensor in state.items()
        if name != "pos_embed" and not name.startswith("predictor.")
    }
    return renamed(kept, _NAMES, _QKV)


def _shape(spec: Spec, config: FoundationConfig) -> Any:
    # transformers computes positions from this number, not from the images. NTSSL's program left
    # it at 256 for other sizes, where it is wrong: positions="paper" repeats that.
    grid = spec.size if config.positions == "paper" else config.size
    return transformers().VJEPA2Config(
        crop_size=grid, num_hidden_layers=config.depth or spec.depth, pred_num_hidden_layers=1
    )


class Vjepa2Encoder(ClipFoundation):
    """The encoder of V-JEPA 2 without its predictor; two frames make a token.

    The last frame of an odd number is ignored, as in the published code.
    """

    @staticmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The encoder of transformers."""
        model: nn.Module = transformers().VJEPA2Model(_shape(spec, config)).encoder
        return model

    @staticmethod
    def recognises(state: State) -> str | None:
        """By patches of two frames, 1024 wide."""
        names = ("patch_embed.proj.weight", "encoder.embeddings.patch_embeddings.proj.weight")
        patches = next((state[name] for name in names if name in state), None)
        fits = patches is not None and tuple(patches.shape) == (1024, 3, _TUBELET, 16, 16)
        return "vjepa2-l" if fits else None

    @staticmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """From Meta's or the Hub's names; the predictor is left out."""
        kind = transformers().VJEPA2Model
        found = from_published_names(kind, _shape(spec, config), hub_names(state))
        return {
            name.removeprefix("encoder."): tensor
            for name, tensor in found.items()
            if not name.startswith("predictor.")
        }

    def tokens(self, pixels: torch.Tensor) -> ClipTokens:
        """Normalised pixels (b, t, 3, h, w) to tokens; both frames of a pair get the same."""
        b, t, _, height, width = pixels.shape
        found = self.backbone(pixels).last_hidden_state  # b p*(t//2) d, time first
        patches = (height // self.spec.patch) * (width // self.spec.patch)
        pairs = found.view(b, t // _TUBELET, patches, found.shape[2])
        frames = torch.arange(t, device=pixels.device) // _TUBELET
        return ClipTokens(pairs[:, frames.clamp(max=t // _TUBELET - 1)], None)


SPECS = (
    Spec(
        name="vjepa2-l",
        title="V-JEPA 2 ViT-L",
        build=Vjepa2Encoder,
        width=1024,
        patch=16,
        depth=24,
        tensors=388,
        origin=Origin(
            source="huggingface.co/facebook/vjepa2-vitl-fpc64-256",
            file="model.safetensors, or vitl.pt of dl.fbaipublicfiles.com/vjepa2",
            licence="MIT (of the repository; see the model card)",
        ),
        pooling=("mean",),
        reference_pooling="mean",
        size=256,
        clip=64,
        least_frames=_TUBELET,
    ),
)
