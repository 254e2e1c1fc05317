"""Tracklets to vectors: the encoder of NTSSL."""

from collections.abc import Sequence

import torch
from torch import nn

from polyplink.encoders.config import EncoderConfig, MveConfig
from polyplink.encoders.encoder import FrameWise, Tokens
from polyplink.encoders.frames import build_frame_encoder, to_pixels


def transformer_layers(config: EncoderConfig | MveConfig) -> nn.TransformerEncoder:
    """Post-norm encoder layers with ReLU, as torch builds them by default."""
    layer = nn.TransformerEncoderLayer(
        config.width, config.heads, config.feedforward, config.dropout, batch_first=True
    )
    return nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)


def attend(
    transformer: nn.TransformerEncoder,
    cls_token: torch.Tensor,
    features: torch.Tensor,
    lengths: Sequence[int],
) -> Tokens:
    """A transformer with a token in front over the frames of each tracklet.

    Args:
        transformer: Layers of width d, batch first.
        cls_token: (1, 1, d).
        features: (n, d), the frames of all tracklets one after the other.
        lengths: Frames of each of the b tracklets, at least 1, summing to n.

    Returns:
        The token in front per tracklet, and the tokens of the frames.
    """
    b, d = len(lengths), features.shape[1]
    cls = cls_token.to(features.dtype).expand(b, 1, d)  # b 1 d
    if len(set(lengths)) == 1:  # fixed shapes: nothing to pad, mask or wait for
        tokens = transformer(torch.cat([cls, features.view(b, -1, d)], dim=1))
        return Tokens(tracklet=tokens[:, 0], frames=tokens[:, 1:].reshape(-1, d))
    steps = torch.arange(max(lengths))  # s
    real = (steps[None, :] < torch.tensor(lengths)[:, None]).to(features.device)  # b s
    padded = features.new_zeros(b, len(steps), d)  # b s d
    padded[real] = features
    mask = torch.cat([real.new_zeros(b, 1), ~real], dim=1)  # b 1+s, True = ignore
    tokens = transformer(torch.cat([cls, padded], dim=1), src_key_padding_mask=mask)
    return Tokens(tracklet=tokens[:, 0], frames=tokens[:, 1:][real])


class TrackletEncoder(FrameWise):
    """A backbone on every frame, then a transformer with a CLS token over the tracklet.

    NTSSL 3, "Implementation Details", after its predecessors: backbone, linear to `width`, a
    learnable token in front (zeros at first), post-norm transformer layers with ReLU, no
    positional encoding: the encoder is blind to the order of frames. Frames of all tracklets go
    through the backbone packed, without padding; only the transformer sees a mask.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.width = config.width
        self.backbone, features = build_frame_encoder(config.frame_encoder, config.frame_weights)
        self.adapter = nn.Linear(features, config.width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.transformer = transformer_layers(config)
        self.keep_pixel_scale(config.mean, config.std)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame features (n, d), before the transformer."""
        pixels = to_pixels(frames, self.mean, self.std)  # n 3 h w
        features: torch.Tensor = self.adapter(self.backbone(pixels))  # n d
        return features

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame features (n, d) to tokens: see `attend`."""
        return attend(self.transformer, self.cls_token, features, lengths)


def two_layers(width: int, hidden: int, out: int) -> nn.Sequential:
    """Width -> hidden, ReLU -> out."""
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))


class Projector(nn.Sequential):
    """width -> hidden, ReLU -> out: used for the loss only, dropped afterwards (SimCLR)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(*two_layers(config.width, config.projector_hidden, config.projector_out))
