"""Foundation encoders that look at a clip at once."""

from abc import abstractmethod
from dataclasses import dataclass

import torch

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.encoder import ClipWise, Tokens
from polyplink.encoders.foundation.base import Foundation
from polyplink.encoders.foundation.windows import clip_starts
from polyplink.encoders.frames import to_pixels


@dataclass(frozen=True)
class ClipTokens:
    """Tokens of b clips of t frames with p patches each, after the last norm.

    Attributes:
        patches: (b, t, p, d); models that join neighbouring frames repeat their tokens.
        cls: (b, d), or None where the model has no such token.
    """

    patches: torch.Tensor
    cls: torch.Tensor | None


class ClipFoundation(Foundation, ClipWise):
    """A pre-trained model of clips: pooled tokens, then the mean over a tracklet's clips."""

    @property
    def clip(self) -> int:
        """Frames looked at together; 0 for a whole tracklet at once."""
        return self.config.clip or 0

    @abstractmethod
    def tokens(self, pixels: torch.Tensor) -> ClipTokens:
        """Scaled pixels (b, t, 3, h, w) to tokens."""

    def pooled(self, pixels: torch.Tensor) -> Tokens:
        """Scaled pixels (b, t, 3, h, w) to vectors of the clips (b, d) and frames (b*t, d).

        A frame has no cls token of its own: its vector is the mean of its patches, with the
        clip's cls token beside it under "cat".
        """
        found = self.tokens(pixels)
        b, t, p, d = found.patches.shape
        frames = found.patches.mean(dim=2)  # b t d
        patchmean = frames.mean(dim=1)  # b d
        if found.cls is None or self.pooling == "patchmean":
            return Tokens(patchmean, frames.reshape(b * t, d))
        if self.pooling == "cls":
            return Tokens(found.cls, frames.reshape(b * t, d))
        if self.pooling == "mean":  # over all tokens, cls included
            mean = (found.cls + t * p * patchmean) / (1 + t * p)
            return Tokens(mean, frames.reshape(b * t, d))
        beside = torch.cat([found.cls[:, None].expand(b, t, d), frames], dim=2)  # b t 2d
        return Tokens(torch.cat([found.cls, patchmean], dim=1), beside.reshape(b * t, 2 * d))

    def encode_clips(self, clips: torch.Tensor) -> Tokens:
        """Crops uint8 (b, t, h, w, 3) to tokens; longer tracklets in clips that are averaged."""
        b, t = clips.shape[:2]
        self.check_pixels(clips)
        self._check_frames(t)
        size = min(self.clip or t, t)
        vectors: list[torch.Tensor] = []
        frames, seen = clips.new_zeros(()), clips.new_zeros(t, dtype=torch.float32)
        for start in clip_starts(t, self.clip):
            part = clips[:, start : start + size].reshape(b * size, *clips.shape[2:])
            pixels = to_pixels(part, self.mean, self.std)
            tokens = self.pooled(pixels.view(b, size, *pixels.shape[1:]))
            vectors.append(tokens.tracklet)
            each = tokens.frames.view(b, size, -1)  # b s d
            if frames.ndim == 0:
                frames = each.new_zeros(b, t, each.shape[2])
            frames = frames.index_add(1, _range(start, size, clips.device), each)
            seen[start : start + size] += 1
        mean = torch.stack(vectors).mean(dim=0)  # b d
        return Tokens(mean, (frames / seen[:, None].to(frames.dtype)).flatten(0, 1))

    def _check_frames(self, frames: int) -> None:
        least = self.spec.least_frames
        PolyplinkError.unless(
            frames >= least,
            f"{self.spec.name} takes clips of {least} frames or more, and a tracklet has {frames}",
            "prepare with a smaller prepare.stride or a greater prepare.min_length",
        )


def _range(start: int, size: int, device: torch.device) -> torch.Tensor:
    return torch.arange(start, start + size, device=device)
