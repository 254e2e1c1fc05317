"""Foundation encoders built by timm.

EndoViT is a ViT-B/16 pre-trained as a masked autoencoder (DominikBatic/EndoViT); SurgeNetXL is a
CAFormer-S18 with plain ReLU (TimJaspers0801/SurgeNet).
"""

import re

import torch
from torch import nn

from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.encoder import timm
from polyplink.encoders.foundation.base import FrameFoundation, Origin, Spec, State

_DECODER = ("mask_token", "decoder")  # of the autoencoder, not of the encoder


class EndoVitEncoder(FrameFoundation):
    """timm's ViT-B/16 without its classifier; published names and shapes are timm's."""

    @staticmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The ViT of timm."""
        model: nn.Module = timm().create_model(
            "vit_base_patch16_224",
            pretrained=False,
            num_classes=0,
            depth=config.depth or spec.depth,
        )
        return model

    @staticmethod
    def recognises(state: State) -> str | None:
        """By the autoencoder's decoder and the size of the position table."""
        table = state.get("pos_embed")
        fits = table is not None and tuple(table.shape) == (1, 197, 768)
        return "endovit" if fits and "decoder_embed.weight" in state else None

    @staticmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """All but the decoder; nothing is renamed."""
        return {name: value for name, value in state.items() if not name.startswith(_DECODER)}

    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Normalised pixels (n, 3, 224, 224) to tokens (n, 197, 768)."""
        found: torch.Tensor = self.backbone.forward_features(pixels)  # type: ignore[operator]
        return found


_NAMES = (
    (r"^downsample_layers\.0\.conv\.", "stem.conv."),
    (r"^downsample_layers\.0\.post_norm\.", "stem.norm."),
    (r"^downsample_layers\.(\d+)\.pre_norm\.", r"stages.\1.downsample.norm."),
    (r"^downsample_layers\.(\d+)\.conv\.", r"stages.\1.downsample.conv."),
    (r"^stages\.(\d+)\.(\d+)\.", r"stages.\1.blocks.\2."),
    (r"^norm\.", "head.norm."),
)
# In the convolutional stages timm implements linear layers as 1 x 1 convolutions.
_POINTWISE = re.compile(
    r"^stages\.[01]\.blocks\.\d+\.(token_mixer\.pwconv[12]|mlp\.fc[12])\.weight"
)


def library_name(name: str) -> str:
    """Rename a published tensor of SurgeNet to its name in timm."""
    for pattern, new in _NAMES:
        name, changed = re.subn(pattern, new, name)
        if changed:
            break
    return name


class SurgeNetEncoder(FrameFoundation):
    """timm's CAFormer-S18 with ReLU in place of StarReLU, in token mixers and MLPs.

    Stock `caformer_s18` loads these weights too, except for 48 tensors of its StarReLU, and then
    gives wrong vectors: hence the strict check of all 152 tensors.
    """

    @staticmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The CAFormer of timm."""
        model: nn.Module = timm().create_model(
            "caformer_s18",
            pretrained=False,
            num_classes=0,
            mlp_act=nn.ReLU,
            act1_layer=nn.ReLU,  # of the token mixers
        )
        return model

    @staticmethod
    def recognises(state: State) -> str | None:
        """By names of MetaFormer and the width of its stem."""
        stem = state.get("downsample_layers.0.conv.weight")
        fits = stem is not None and stem.shape[0] == 64 and "stages.3.2.norm1.weight" in state
        return "surgenet" if fits else None

    @staticmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """Renamed, and reshaped where timm has a convolution for a linear layer."""
        renamed = {}
        for old, tensor in state.items():
            name = library_name(old)
            linear = tensor.ndim == 2 and _POINTWISE.match(name)
            renamed[name] = tensor[:, :, None, None] if linear else tensor
        return renamed

    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Normalised pixels (n, 3, h, w) to one token (n, 1, 512): mean over space, then norm."""
        found: torch.Tensor = self.backbone(pixels)
        return found[:, None]


SPECS = (
    Spec(
        name="endovit",
        title="EndoViT",
        build=EndoVitEncoder,
        width=768,
        patch=16,
        tensors=150,
        origin=Origin(
            source="huggingface.co/egeozsoy/EndoViT",
            file="pytorch_model.bin",
            licence="Apache-2.0 (of the model card; the repository has no licence file)",
            saw=("Cholec80", "CholecT45", "CholecSeg8k"),
        ),
        only_size=True,
        mean=(0.3464, 0.2280, 0.2228),
        std=(0.2520, 0.2128, 0.2093),
    ),
    Spec(
        name="surgenet",
        title="SurgeNetXL",
        build=SurgeNetEncoder,
        width=512,
        patch=32,  # strides 4, 8, 16, 32
        tensors=152,
        origin=Origin(
            source="huggingface.co/TimJaspersTue/SurgeNetModels",
            file="SurgeNetXL_checkpoint_epoch0050_teacher.pth",
            licence="CC-BY-NC-SA-4.0 (not for commercial use)",
        ),
        pooling=("mean",),
        reference_pooling="mean",
        depth=18,
    ),
)
