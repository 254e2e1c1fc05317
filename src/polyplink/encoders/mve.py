"""The multi-view encoder: a transformer on what a single-frame encoder projected."""

from collections.abc import Sequence

import torch
from torch import nn

from polyplink.encoders.config import MveConfig
from polyplink.encoders.encoder import FrameWise, Tokens
from polyplink.encoders.frames import build_frame_encoder, to_pixels
from polyplink.encoders.tracklet import attend, transformer_layers, two_layers


class MveEncoder(FrameWise):
    """Frames through backbone and head, a transformer with a CLS token, a linear layer.

    Intrator et al. 2023; trained by TPC too (Parolari et al. 2025). No positional encoding. The
    linear layer is part of the encoder: the vectors that are compared are after it.
    """

    def __init__(self, config: MveConfig) -> None:
        super().__init__()
        self.config = config
        self.width = config.projector_out
        self.backbone, features = build_frame_encoder(config.frame_encoder, config.frame_weights)
        self.frame_head = two_layers(features, config.frame_hidden, config.width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.transformer = transformer_layers(config)
        self.head = nn.Linear(config.width, config.projector_out)
        self.keep_pixel_scale(config.mean, config.std)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to what the single-frame encoder gives (n, width)."""
        pixels = to_pixels(frames, self.mean, self.std)  # n 3 h w
        projected: torch.Tensor = self.frame_head(self.backbone(pixels))  # n width
        return projected

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame features (n, width) to tokens (b, d) and (n, d), after the linear layer."""
        tokens = attend(self.transformer, self.cls_token, features, lengths)
        return Tokens(tracklet=self.head(tokens.tracklet), frames=self.head(tokens.frames))
