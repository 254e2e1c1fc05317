"""Foundation encoders that look at single frames."""

from abc import abstractmethod
from collections.abc import Sequence

import torch

from polyplink.encoders.encoder import FrameWise, Tokens
from polyplink.encoders.foundation.base import Foundation
from polyplink.encoders.foundation.pooling import pool
from polyplink.encoders.frames import to_pixels
from polyplink.encoders.sfe import mean_over_frames


class FrameFoundation(Foundation, FrameWise):
    """A pre-trained model of single frames: pooled tokens, then the mean over frames."""

    prefix = 1  # tokens before the first patch

    @abstractmethod
    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Scaled pixels (n, 3, h, w) to tokens (n, p, d), after the last norm."""

    def pooled(self, pixels: torch.Tensor) -> torch.Tensor:
        """Scaled pixels (n, 3, h, w) to frame vectors (n, d)."""
        # The reference counts registers among the patches; "own" does not.
        own = self.config.preset == "own"
        return pool(self.tokens(pixels), self.pooling, self.prefix if own else 1)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame vectors (n, d)."""
        self.check_pixels(frames)
        return self.pooled(to_pixels(frames, self.mean, self.std))

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame vectors (n, d) to tokens: the tracklet's is the mean of its frames."""
        return Tokens(tracklet=mean_over_frames(features, lengths), frames=features)
