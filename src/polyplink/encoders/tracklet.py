"""Tracklets to vectors: the encoder of NTSSL."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from polyplink.encoders.config import EncoderConfig
from polyplink.encoders.frames import build_frame_encoder, to_pixels


@dataclass(frozen=True)
class Tokens:
    """What a tracklet encoder gives for a batch of b tracklets with n frames together.

    Attributes:
        tracklet: (b, d), one vector per tracklet: the CLS token.
        frames: (n, d), one vector per frame, packed in the order the frames came.
    """

    tracklet: torch.Tensor
    frames: torch.Tensor


class TrackletEncoder(nn.Module):
    """A backbone on every frame, then a transformer with a CLS token over the tracklet.

    NTSSL 3, "Implementation Details", after its predecessors: backbone, linear to `width`, a
    learnable token in front (zeros at first), post-norm transformer layers with ReLU, no
    positional encoding: the encoder is blind to the order of frames. Frames of all tracklets go
    through the backbone packed, without padding; only the transformer sees a mask.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone, features = build_frame_encoder(config.frame_encoder, config.frame_weights)
        self.adapter = nn.Linear(features, config.width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, config.width))
        layer = nn.TransformerEncoderLayer(
            config.width, config.heads, config.feedforward, config.dropout, batch_first=True
        )
        self.transformer = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)
        # Pixels belong to the model: whoever loads it cannot feed it otherwise scaled ones.
        self.register_buffer("mean", torch.tensor(config.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(3, 1, 1), persistent=False)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame features (n, d), before the transformer."""
        pixels = to_pixels(frames, self.mean, self.std)  # n 3 h w
        features: torch.Tensor = self.adapter(self.backbone(pixels))  # n d
        return features

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame features to tokens.

        Args:
            features: (n, d), the frames of all tracklets one after the other.
            lengths: Frames of each of the b tracklets, at least 1, summing to n.

        Returns:
            Tokens of the batch.
        """
        b, d = len(lengths), features.shape[1]
        cls = self.cls_token.to(features.dtype).expand(b, 1, d)  # b 1 d
        if len(set(lengths)) == 1:  # fixed shapes: nothing to pad, mask or wait for
            tokens = self.transformer(torch.cat([cls, features.view(b, -1, d)], dim=1))
            return Tokens(tracklet=tokens[:, 0], frames=tokens[:, 1:].reshape(-1, d))
        steps = torch.arange(max(lengths))  # s
        real = (steps[None, :] < torch.tensor(lengths)[:, None]).to(features.device)  # b s
        padded = features.new_zeros(b, len(steps), d)  # b s d
        padded[real] = features
        mask = torch.cat([real.new_zeros(b, 1), ~real], dim=1)  # b 1+s, True = ignore
        tokens = self.transformer(torch.cat([cls, padded], dim=1), src_key_padding_mask=mask)
        return Tokens(tracklet=tokens[:, 0], frames=tokens[:, 1:][real])

    def forward(self, frames: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Crops uint8 (n, h, w, 3) of tracklets of `lengths` frames to their tokens."""
        return self.aggregate(self.encode_frames(frames), lengths)


class Projector(nn.Sequential):
    """width -> hidden, ReLU -> out: used for the loss only, dropped afterwards (SimCLR)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(
            nn.Linear(config.width, config.projector_hidden),
            nn.ReLU(),
            nn.Linear(config.projector_hidden, config.projector_out),
        )
