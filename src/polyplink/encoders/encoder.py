"""The interface of all encoders: crops of tracklets in, tokens out.

There are two kinds. A `FrameWise` encoder encodes single frames and then aggregates those of a
tracklet; the frames of all tracklets pass through its backbone packed, without padding. A
`ClipWise` encoder encodes whole clips; tracklets of equal length form a batch.
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

_checkpointed = partial(checkpoint, use_reentrant=False)

PIXELS = 64  # per side at most for statistics of crops: larger ones are subsampled
MOST_GAIN = 4.0  # of brightness, and of contrast: more would show little but noise


def to_pixels(
    frames: torch.Tensor,
    mean: torch.Tensor,
    std: torch.Tensor,
    least_brightness: float = 0.0,
    least_contrast: float = 0.0,
) -> torch.Tensor:
    """Normalise crops for a backbone: scale to [0, 1], subtract the mean, divide by the std.

    Args:
        frames: uint8 (n, h, w, 3), or float (n, h, w, 3) already in [0, 1].
        mean: (3, 1, 1).
        std: (3, 1, 1).
        least_brightness: Mean of a crop's pixels, in [0, 1], to which the pixels of a darker crop
            are multiplied, by `MOST_GAIN` at most, before normalisation.
        least_contrast: Standard deviation of a crop's pixels of all channels, in [0, 1], to which
            the differences to their mean are then multiplied where they are less, by `MOST_GAIN` at
            most. Pixels that exceed 1 or fall below 0 become 1 or 0.

    Returns:
        float32 (n, 3, h, w) in channels_last layout, like the crops in memory.

    Example:
        >>> grey = torch.full((3, 1, 1), 0.5)
        >>> to_pixels(torch.full((1, 2, 2, 3), 255, dtype=torch.uint8), grey, grey).unique()
        tensor([1.])
        >>> to_pixels(torch.full((1, 2, 2, 3), 0.1), grey, grey, least_brightness=0.25).unique()
        tensor([-0.5000])
    """
    corrects = least_brightness > 0 or least_contrast > 0
    if frames.dtype != torch.uint8:
        if corrects:
            factor, offset = light_correction(frames, least_brightness, least_contrast)
            frames = (frames * factor[..., None] + offset[..., None]).clamp(0.0, 1.0)
        return (frames.permute(0, 3, 1, 2) - mean) / std  # n 3 h w
    # Over whole rows, because an inner loop over three channels is too short; in place, because
    # memory traffic takes most of the time.
    width = frames.shape[2]
    rows = frames.flatten(2).float().div_(255.0)  # n h 3w, a copy
    if corrects:
        factor, offset = light_correction(rows.view(frames.shape), least_brightness, least_contrast)
        rows = rows.mul_(factor).add_(offset).clamp_(0.0, 1.0)
    rows = rows.sub_(mean.flatten().repeat(width)).div_(std.flatten().repeat(width))
    return rows.view(frames.shape).permute(0, 3, 1, 2)  # n 3 h w, a view


def subsampled(crops: torch.Tensor) -> torch.Tensor:
    """Every k-th pixel of crops (n, h, w, 3), so that at most `PIXELS` per side remain."""
    h, w = crops.shape[1:3]
    return crops[:, :: -(-h // PIXELS), :: -(-w // PIXELS)]


def light_correction(
    crops: torch.Tensor, least_brightness: float, least_contrast: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Factor and offset (n, 1, 1) of the pixels in [0, 1] of crops (n, h, w, 3), see `to_pixels`.

    They are 1 and 0 for crops that are bright enough and have enough contrast.
    """
    pixels = subsampled(crops).flatten(1)  # n values
    mean = pixels.mean(dim=1)  # n
    deviation = (pixels - mean[:, None]).square().mean(dim=1).sqrt()  # n
    gain = (least_brightness / mean.clamp(min=1e-6)).clamp(1.0, MOST_GAIN)
    stretch = (least_contrast / (gain * deviation).clamp(min=1e-6)).clamp(1.0, MOST_GAIN)
    factor, offset = gain * stretch, gain * mean * (1 - stretch)
    return factor[:, None, None], offset[:, None, None]


@dataclass(frozen=True)
class Tokens:
    """The output of an encoder for b tracklets of n frames in total.

    Attributes:
        tracklet: (b, d), one vector per tracklet.
        frames: (n, d), one vector per frame, in the order of the packed frames.
    """

    tracklet: torch.Tensor
    frames: torch.Tensor


class Encoder(nn.Module, ABC):
    """Crops of tracklets to vectors.

    Attributes:
        config: Configuration of the encoder.
        width: Width d of its vectors.
        backbone: The network that reads pixels.
    """

    config: AnyEncoderConfig
    width: int
    backbone: nn.Module
    mean: torch.Tensor
    std: torch.Tensor

    def keep_pixel_scale(self, mean: Sequence[float], std: Sequence[float]) -> None:
        """Store the normalisation of pixels in the model, so that every caller uses the same."""
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1), persistent=False)

    def normalised(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to normalised pixels (n, 3, h, w), see `to_pixels`.

        Brightness and contrast are corrected if the configuration has these fields.
        """
        brightness = getattr(self.config, "least_brightness", 0.0)
        contrast = getattr(self.config, "least_contrast", 0.0)
        return to_pixels(frames, self.mean, self.std, brightness, contrast)

    @property
    def device(self) -> torch.device:
        """The device of its tensors."""
        return self.mean.device

    def checkpointing(self, on: bool) -> None:
        """Switch gradient checkpointing of the backbone's blocks: less memory, more time.

        Gradients do not change. Trainable BatchNorm layers see each batch twice, so their running
        statistics adapt faster.
        """
        switch: Any = getattr(self.backbone, "set_grad_checkpointing", None)
        if switch is not None:  # timm
            switch(on)
        parts: list[Any] = list(self.backbone.modules())
        for part in parts:
            if hasattr(part, "gradient_checkpointing"):  # transformers
                part.gradient_checkpointing = on
                part._gradient_checkpointing_func = _checkpointed

    def train(self, mode: bool = True) -> "Encoder":
        """Set training mode; a frozen BatchNorm stays in evaluation mode."""
        super().train(mode)
        for module in self.modules():
            frozen = not any(p.requires_grad for p in module.parameters(recurse=False))
            if isinstance(module, _BatchNorm) and module.affine and frozen:
                module.eval()
        return self

    @abstractmethod
    def forward(self, frames: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Crops uint8 (n, h, w, 3), packed, of tracklets of `lengths` frames to their tokens."""


def owners(features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The tracklet (n,) of each of n packed frames, from the lengths (b,) of the tracklets."""
    row = torch.arange(features.shape[0])[:, None]  # n 1
    return (row >= lengths.cumsum(0)[None]).sum(dim=1)  # n


class FrameWise(Encoder):
    """An encoder of single frames that aggregates their features per tracklet."""

    @abstractmethod
    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame features (n, f)."""

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame features to tokens: by default a tracklet's vector is the mean of its frames.

        Args:
            features: (n, f), the frames of all tracklets one after the other.
            lengths: Frames of each of the b tracklets, at least 1, summing to n.
        """
        parts = torch.split(features, list(lengths))
        return Tokens(torch.stack([part.mean(dim=0) for part in parts]), features)

    def pool_packed(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The tracklets' vectors of `aggregate`, for any lengths, in a form that can be exported.

        There is no loop and no shape that depends on values.

        Args:
            features: (n, f).
            lengths: (b,) int64.

        Returns:
            (b, d).
        """
        member = owners(features, lengths)[None] == torch.arange(lengths.shape[0])[:, None]  # b n
        return member.to(features.dtype) @ features / lengths[:, None]

    def forward(self, frames: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Crops uint8 (n, h, w, 3), packed, of tracklets of `lengths` frames to their tokens."""
        return self.aggregate(self.encode_frames(frames), lengths)


class ClipWise(Encoder):
    """An encoder of whole clips."""

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
            by_frame = tokens.frames.view(len(group), t, -1)  # b t d
            for row, index in enumerate(group):
                tracklets[index], vectors[index] = tokens.tracklet[row], by_frame[row]
        return Tokens(torch.stack(tracklets), torch.cat(vectors))
