"""EndoViT: a ViT-B/16 pre-trained as a masked autoencoder (DominikBatic/EndoViT)."""

import importlib

import torch
from torch import nn

from polyplink.core._torchvision import heal_torchvision
from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.foundation.frame import FrameFoundation
from polyplink.encoders.foundation.spec import Origin, Spec, State

_DECODER = ("mask_token", "decoder")  # of the autoencoder: not part of the encoder


class EndoVitEncoder(FrameFoundation):
    """timm's ViT-B/16 without its classifier: names and shapes are the published ones."""

    @staticmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The library's ViT."""
        heal_torchvision()
        timm = importlib.import_module("timm")
        model: nn.Module = timm.create_model(
            "vit_base_patch16_224",
            pretrained=False,
            num_classes=0,
            depth=config.depth or spec.depth,
        )
        return model

    @staticmethod
    def recognises(state: State) -> str | None:
        """By the decoder of the autoencoder, beside a fixed position table."""
        table = state.get("pos_embed")
        fits = table is not None and tuple(table.shape) == (1, 197, 768)
        return "endovit" if fits and "decoder_embed.weight" in state else None

    @staticmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """The decoder is left out; nothing is renamed."""
        return {name: value for name, value in state.items() if not name.startswith(_DECODER)}

    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Scaled pixels (n, 3, 224, 224) to tokens (n, 197, 768)."""
        found: torch.Tensor = self.backbone.forward_features(pixels)  # type: ignore[operator]
        return found


SPECS = (
    Spec(
        name="endovit",
        title="EndoViT",
        build=EndoVitEncoder,
        shape={},
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
)
