"""What every encoder is: crops of tracklets in, tokens out.

There are two families. A `FrameWise` encoder looks at frames one by one and then gathers those of
a tracklet; frames of all tracklets go through its backbone packed, without padding. A `ClipWise`
encoder looks at a clip at once; tracklets of one length go together.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from polyplink.encoders.config import AnyEncoderConfig

_compute_again = partial(checkpoint, use_reentrant=False)


@dataclass(frozen=True)
class Tokens:
    """What an encoder gives for a batch of b tracklets with n frames together.

    Attributes:
        tracklet: (b, d), one vector per tracklet.
        frames: (n, d), one vector per frame, packed in the order the frames came.
    """

    tracklet: torch.Tensor
    frames: torch.Tensor


class Encoder(nn.Module, ABC):
    """Crops of tracklets to vectors.

    Attributes:
        config: What it was built from.
        width: Width d of its vectors.
        backbone: The network that looks at pixels.
    """

    config: AnyEncoderConfig
    width: int
    backbone: nn.Module
    mean: torch.Tensor
    std: torch.Tensor

    def keep_pixel_scale(self, mean: Sequence[float], std: Sequence[float]) -> None:
        """Hold the scale of pixels inside the model: nobody can feed it otherwise scaled ones."""
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1), persistent=False)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.mean.device

    def checkpointing(self, on: bool) -> None:
        """Keep no activations of the backbone's blocks and compute them again for gradients.

        Gradients stay the same. BatchNorm layers that learn see each batch twice, so that their
        running statistics follow faster.
        """
        switch: Any = getattr(self.backbone, "set_grad_checkpointing", None)
        if switch is not None:  # timm's way
            switch(on)
        parts: list[Any] = list(self.backbone.modules())
        for part in parts:
            if hasattr(part, "gradient_checkpointing"):  # that of transformers
                part.gradient_checkpointing = on
                part._gradient_checkpointing_func = _compute_again

    def train(self, mode: bool = True) -> "Encoder":
        """Switch dropout and BatchNorm; a BatchNorm that does not learn stays as it is."""
        super().train(mode)
        for module in self.modules():
            frozen = not any(p.requires_grad for p in module.parameters(recurse=False))
            if isinstance(module, _BatchNorm) and module.affine and frozen:
                module.eval()
        return self

    @abstractmethod
    def forward(self, frames: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Crops uint8 (n, h, w, 3), packed, of tracklets of `lengths` frames to their tokens."""


class FrameWise(Encoder):
    """An encoder that looks at frames one by one, then at the frames of a tracklet together."""

    @abstractmethod
    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame features (n, f)."""

    @abstractmethod
    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame features to tokens.

        Args:
            features: (n, f), the frames of all tracklets one after the other.
            lengths: Frames of each of the b tracklets, at least 1, summing to n.

        Returns:
            Tokens of the batch.
        """

    def forward(self, frames: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Crops uint8 (n, h, w, 3), packed, of tracklets of `lengths` frames to their tokens."""
        return self.aggregate(self.encode_frames(frames), lengths)


class ClipWise(Encoder):
    """An encoder that looks at a clip of a tracklet at once."""

    @abstractmethod
    def encode_clips(self, clips: torch.Tensor) -> Tokens:
        """Crops uint8 (b, t, h, w, 3) of b tracklets of t frames each to their tokens."""

    def forward(self, frames: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Crops uint8 (n, h, w, 3), packed, of tracklets of `lengths` frames to their tokens."""
        parts = torch.split(frames, list(lengths))
        tracklets: list[torch.Tensor] = [frames.new_empty(0)] * len(lengths)
        vectors = list(tracklets)
        for t in sorted(set(lengths)):
            group = [i for i, length in enumerate(lengths) if length == t]
            tokens = self.encode_clips(torch.stack([parts[i] for i in group]))
            each = tokens.frames.view(len(group), t, -1)  # b t d
            for row, index in enumerate(group):
                tracklets[index], vectors[index] = tokens.tracklet[row], each[row]
        return Tokens(torch.stack(tracklets), torch.cat(vectors))
