"""The single-frame encoder: the mean over a tracklet's frames."""

from collections.abc import Sequence

import torch

from polyplink.encoders.config import SfeConfig
from polyplink.encoders.encoder import FrameWise, Tokens
from polyplink.encoders.frames import build_frame_encoder, to_pixels
from polyplink.encoders.tracklet import two_layers


def mean_over_frames(features: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
    """Means of packed frames.

    Args:
        features: (n, d), the frames of all tracklets one after the other.
        lengths: Frames of each of the b tracklets, at least 1, summing to n.

    Returns:
        (b, d).
    """
    return torch.stack([part.mean(dim=0) for part in torch.split(features, list(lengths))])


class SfeEncoder(FrameWise):
    """A backbone on every frame; a tracklet is the mean of its frames (Intrator et al. 2023).

    With `vector` "projected" the head 2048 -> 2048, ReLU -> 128 is part of the encoder, as in the
    first program; with "features" it serves the loss alone (`build_projector`), as in NTSSL's.
    """

    def __init__(self, config: SfeConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone, features = build_frame_encoder(config.frame_encoder, config.frame_weights)
        projected = config.vector == "projected"
        self.head = (
            two_layers(features, config.projector_hidden, config.projector_out)
            if projected
            else torch.nn.Identity()
        )
        self.width = config.projector_out if projected else features
        self.keep_pixel_scale(config.mean, config.std)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame vectors (n, d)."""
        pixels = to_pixels(frames, self.mean, self.std)  # n 3 h w
        vectors: torch.Tensor = self.head(self.backbone(pixels))  # n d
        return vectors

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame vectors (n, d) to tokens: the tracklet's is the mean of its frames."""
        return Tokens(tracklet=mean_over_frames(features, lengths), frames=features)
