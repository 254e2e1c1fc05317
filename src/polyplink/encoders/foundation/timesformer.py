"""EndoFM and EndoFM-LV: a TimeSformer with divided attention (med-air/Endo-FM, EndoFM-LV)."""

import re
from typing import Any

import torch
from torch import nn

from polyplink.encoders.config import REFERENCE_MEAN, REFERENCE_STD, FoundationConfig
from polyplink.encoders.foundation.base import (
    ClipFoundation,
    ClipTokens,
    Origin,
    Spec,
    State,
    transformers,
)

# Published names and those of transformers. The temporal parts come first: the patterns of the
# spatial parts match them too.
_NAMES = (
    (r"^cls_token$", "embeddings.cls_token"),
    (r"^pos_embed$", "embeddings.position_embeddings"),
    (r"^time_embed$", "embeddings.time_embeddings"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embeddings.projection."),
    (r"^norm\.", "layernorm."),
    (r"^blocks\.", "encoder.layer."),
    (r"\.temporal_norm1\.", ".temporal_layernorm."),
    (r"\.temporal_attn\.qkv\.", ".temporal_attention.attention.qkv."),
    (r"\.temporal_attn\.proj\.", ".temporal_attention.output.dense."),
    (r"\.temporal_fc\.", ".temporal_dense."),
    (r"\.norm1\.", ".layernorm_before."),
    (r"\.attn\.qkv\.", ".attention.attention.qkv."),
    (r"\.attn\.proj\.", ".attention.output.dense."),
    (r"\.norm2\.", ".layernorm_after."),
    (r"\.mlp\.fc1\.", ".intermediate.dense."),
    (r"\.mlp\.fc2\.", ".output.dense."),
)
_BY_FRAMES = {8: "endofm", 32: "endofm-lv"}  # length of the time table


def library_name(name: str) -> str:
    """Rename a published tensor to its name in transformers; shapes are the same."""
    for pattern, new in _NAMES:
        name = re.sub(pattern, new, name)
    return name


class TimesformerEncoder(ClipFoundation):
    """A TimeSformer for clips of any length.

    The time table is resampled to the clip's length by nearest neighbour, as in the original.
    """

    @staticmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The TimeSformer of transformers with the time table of the pre-training."""
        library = transformers()
        shape = library.TimesformerConfig(
            image_size=224,  # of the position table, which is resampled for other image sizes
            patch_size=spec.patch,
            num_frames=spec.shape["frames"],
            num_hidden_layers=config.depth or spec.depth,
            layer_norm_eps=1e-6,
            qkv_bias=True,
            attention_type="divided_space_time",
        )
        model: nn.Module = library.TimesformerModel(shape)
        return model

    @staticmethod
    def recognises(state: State) -> str | None:
        """By the time table: 8 rows or 32."""
        table = state.get("time_embed")
        return None if table is None or table.ndim != 3 else _BY_FRAMES.get(table.shape[1])

    @staticmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """Names change, values do not."""
        return {library_name(name): tensor for name, tensor in state.items()}

    def tokens(self, pixels: torch.Tensor) -> ClipTokens:
        """Normalised pixels (b, t, 3, h, w) to tokens."""
        b, t, _, height, _ = pixels.shape
        # All layers share this object and reshape by it, not by the shape of their input
        # (huggingface/transformers issue 38027).
        shape: Any = self.backbone.config
        shape.num_frames, shape.image_size = t, height
        found = self.backbone(pixels).last_hidden_state  # b 1+p*t d, patch by patch
        patches = found[:, 1:].view(b, -1, t, found.shape[2]).transpose(1, 2)  # b t p d
        return ClipTokens(patches, found[:, 0])


def _spec(name: str, title: str, frames: int, origin: Origin) -> Spec:
    return Spec(
        name=name,
        title=title,
        build=TimesformerEncoder,
        shape={"frames": frames},
        width=768,
        patch=16,
        tensors=247,
        origin=origin,
        mean=REFERENCE_MEAN,
        std=REFERENCE_STD,
        clip=frames,
    )


SPECS = (
    _spec(
        "endofm",
        "Endo-FM",
        8,
        Origin(
            source="Google Drive id 1H7B91Ewm4QkZRsnUk1Bn0IQch5P8C7Xl (github.com/med-air/Endo-FM)",
            file="endo_fm.pth",
            licence="Apache-2.0 (of the repository; none is stated for the weights)",
            sha256="6fc7a64a044f1eff3b7f9eb233df37a3607735848d534364f12c2aebad1aea70",
            saw=("Colonoscopic", "SUN", "SUN-SEG", "ldpolyp", "Hyper-Kvasir",
                 "Kvasir-Capsule", "CholecTriplet"),
        ),
    ),
    _spec(
        "endofm-lv",
        "EndoFM-LV",
        32,
        Origin(
            source="the SharePoint link in github.com/med-air/EndoFM-LV",
            file="endofm_lv.pth",
            licence="Apache-2.0 (of the repository; none is stated for the weights)",
        ),
    ),
)  # fmt: skip
