"""SurgeNet and SurgeNetXL: a CAFormer-S18 with plain ReLU (TimJaspers0801/SurgeNet)."""

import importlib
import re

import torch
from torch import nn

from polyplink.core._torchvision import heal_torchvision
from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.foundation.frame import FrameFoundation
from polyplink.encoders.foundation.spec import Origin, Spec, State

_NAMES = (
    (r"^downsample_layers\.0\.conv\.", "stem.conv."),
    (r"^downsample_layers\.0\.post_norm\.", "stem.norm."),
    (r"^downsample_layers\.(\d+)\.pre_norm\.", r"stages.\1.downsample.norm."),
    (r"^downsample_layers\.(\d+)\.conv\.", r"stages.\1.downsample.conv."),
    (r"^stages\.(\d+)\.(\d+)\.", r"stages.\1.blocks.\2."),
    (r"^norm\.", "head.norm."),
)
# Convolutional stages: the library writes their linear layers as convolutions of one pixel.
_POINTWISE = re.compile(
    r"^stages\.[01]\.blocks\.\d+\.(token_mixer\.pwconv[12]|mlp\.fc[12])\.weight"
)


def library_name(name: str) -> str:
    """The library's name of a published tensor."""
    for pattern, new in _NAMES:
        name, changed = re.subn(pattern, new, name)
        if changed:
            break
    return name


class SurgeNetEncoder(FrameFoundation):
    """timm's CAFormer-S18, with ReLU in place of StarReLU in both kinds of layers.

    Stock `caformer_s18` takes these weights too, but for 48 tensors of its StarReLU, and then
    gives wrong vectors: hence the strict check of all 152.
    """

    @staticmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The library's CAFormer."""
        heal_torchvision()
        timm = importlib.import_module("timm")
        model: nn.Module = timm.create_model(
            "caformer_s18",
            pretrained=False,
            num_classes=0,
            mlp_act=nn.ReLU,
            act1_layer=nn.ReLU,  # handed on to the token mixers
        )
        return model

    @staticmethod
    def recognises(state: State) -> str | None:
        """By the names of MetaFormer, and its first width."""
        stem = state.get("downsample_layers.0.conv.weight")
        fits = stem is not None and stem.shape[0] == 64 and "stages.3.2.norm1.weight" in state
        return "surgenet" if fits else None

    @staticmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """Renamed, and reshaped where the library has a convolution for a linear layer."""
        renamed = {}
        for old, tensor in state.items():
            name = library_name(old)
            linear = tensor.ndim == 2 and _POINTWISE.match(name)
            renamed[name] = tensor[:, :, None, None] if linear else tensor
        return renamed

    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Scaled pixels (n, 3, h, w) to one token (n, 1, 512): mean over space, then norm."""
        found: torch.Tensor = self.backbone(pixels)
        return found[:, None]


SPECS = (
    Spec(
        name="surgenet",
        title="SurgeNetXL",
        build=SurgeNetEncoder,
        shape={},
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
