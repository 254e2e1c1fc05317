"""Foundation encoders that look at single frames."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import nn

from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.encoder import FrameWise, Tokens
from polyplink.encoders.foundation.pooling import pool
from polyplink.encoders.foundation.spec import Spec, State
from polyplink.encoders.frames import to_pixels
from polyplink.encoders.sfe import mean_over_frames
from polyplink.errors import PolyplinkError


def check_pixels(name: str, frames: torch.Tensor, size: int) -> None:
    """Refuse crops (..., h, w, 3) of another size than an encoder is fed with.

    Raises:
        PolyplinkError: Naming both sizes.
    """
    height, width = frames.shape[-3:-1]
    PolyplinkError.unless(
        height == width == size,
        f"{name} is set to images of {size} pixels, and these crops have {width} x {height}",
        f"prepare them with prepare.size={size}",
    )


class FrameFoundation(FrameWise):
    """A pre-trained model of single frames: pooled tokens, then the mean over frames."""

    prefix = 1  # tokens before the first patch

    def __init__(self, spec: Spec, config: FoundationConfig) -> None:
        super().__init__()
        self.spec = spec
        settled = spec.settle(config)
        self.config = settled
        self.pooling = settled.pooling or "cls"
        self.size = settled.size or spec.size
        self.width = spec.width * (2 if self.pooling == "cat" else 1)
        self.backbone = self.network(spec, settled)
        self.keep_pixel_scale(settled.mean or spec.mean, settled.std or spec.std)

    @staticmethod
    @abstractmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The library's module, with random values."""

    @staticmethod
    @abstractmethod
    def recognises(state: State) -> str | None:
        """Name of the family's model that published tensors are of; None for none."""

    @staticmethod
    @abstractmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """Published tensors under the names of the library's module."""

    @abstractmethod
    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Scaled pixels (n, 3, h, w) to tokens (n, p, d), after the last norm."""

    def pooled(self, pixels: torch.Tensor) -> torch.Tensor:
        """Scaled pixels (n, 3, h, w) to frame vectors (n, d)."""
        # The reference counts registers among the patches; "own" does not.
        own = getattr(self.config, "preset", "own") == "own"
        return pool(self.tokens(pixels), self.pooling, self.prefix if own else 1)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame vectors (n, d)."""
        check_pixels(self.spec.name, frames, self.size)
        return self.pooled(to_pixels(frames, self.mean, self.std))

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame vectors (n, d) to tokens: the tracklet's is the mean of its frames."""
        return Tokens(tracklet=mean_over_frames(features, lengths), frames=features)
