"""Tone: the distribution of colours in a crop and in its middle, appended to a vector.

Tone consists of quantiles of three colour channels, over a whole crop and over its middle, which is
mostly polyp. They are strongly correlated, because light changes all of them. Whitening, fitted on
crops without labels, removes the variation that most crops share and keeps the difference between a
polyp and the mucosa around it. See docs/explanation/tone.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch.nn.functional import normalize

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.encoder import Encoder, FrameWise, Tokens, WrappedEncoder
from polyplink.encoders.whitening import fit_whitening

QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
TONES = 6 * len(QUANTILES)  # of three channels, over two regions
MIDDLE = 6  # 1 / MIDDLE of each side is left out on either side of the middle
PIXELS = 64  # per side at most: larger crops are subsampled
SHRINKAGE = 1e-3  # times the largest variance, added to all variances
TONE_BUFFERS = ("tone_mean", "tone_map")


def tone_statistics(crops: torch.Tensor) -> torch.Tensor:
    """Quantiles of log R/G, log G/B and log RGB of crops.

    Args:
        crops: uint8 (n, h, w, 3).

    Returns:
        float32 (n, `TONES`): five rising quantiles, each of three channels; first over the whole
        crop, then over its middle.

    Example:
        >>> grey = torch.full((1, 8, 8, 3), 99, dtype=torch.uint8)
        >>> tone_statistics(grey)[0, :3].exp().round().tolist()
        [1.0, 1.0, 1000000.0]
    """
    h, w = crops.shape[1:3]
    logs = torch.log1p(crops[:, :: -(-h // PIXELS), :: -(-w // PIXELS)].float())  # n h w 3
    red, green, blue = logs.unbind(dim=3)
    channels = torch.stack([red - green, green - blue, red + green + blue], dim=3)
    h, w = channels.shape[1:3]
    middle = channels[:, h // MIDDLE : h - h // MIDDLE, w // MIDDLE : w - w // MIDDLE]
    statistics = []
    for region in (channels, middle):
        rising = region.flatten(1, 2).sort(dim=1).values  # n p 3
        last = rising.shape[1] - 1
        statistics += [rising[:, int(share * last + 0.5)] for share in QUANTILES]
    return torch.cat(statistics, dim=1)


class ToneEncoder(WrappedEncoder):
    """A frame-wise encoder with the tone of the crops appended to its vectors.

    A tracklet's vector is the encoder's vector, scaled to length 1, followed by the mean of its
    frames' whitened tones, scaled to length `weight`: the cosine of two vectors is the mean of both
    cosines, weighted 1 to weight squared.

    Args:
        encoder: The encoder.
        weight: Length of the tone part, above 0.

    Raises:
        PolyplinkError: If the encoder reads clips.
    """

    tone_mean: torch.Tensor
    tone_map: torch.Tensor

    def __init__(self, encoder: Encoder, weight: float) -> None:
        super().__init__()
        PolyplinkError.unless(
            isinstance(encoder, FrameWise),
            "tone is a property of single frames, and the encoder reads clips",
            "leave encoder.tone (--tone) at 0",
        )
        assert isinstance(encoder, FrameWise)
        self.encoder, self.weight = encoder, weight
        self.config = replace(encoder.config, tone=weight)
        self.width = encoder.width + TONES
        self.register_buffer("tone_mean", torch.zeros(TONES))
        self.register_buffer("tone_map", torch.eye(TONES))

    def fit(self, batches: Iterable[torch.Tensor]) -> ToneEncoder:
        """Fit the whitening to crops uint8 (n, h, w, 3) in batches; no labels are needed."""
        statistics = torch.cat([tone_statistics(batch) for batch in batches])
        for name, value in zip(TONE_BUFFERS, fit_whitening(statistics, SHRINKAGE), strict=True):
            getattr(self, name).copy_(value)
        return self

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to the encoder's features and the tones, (n, f + `TONES`)."""
        tones = tone_statistics(frames) - self.tone_mean
        # No matrix product, which would lose small differences in bf16 that are then scaled up.
        tones = normalize((tones[:, :, None] * self.tone_map).sum(dim=1), dim=1)
        features = self.encoder.encode_frames(frames)
        return torch.cat([features, tones.to(features.dtype)], dim=1)

    def _joined(self, vectors: torch.Tensor, tones: torch.Tensor) -> torch.Tensor:
        parts = [normalize(vectors, dim=1), self.weight * normalize(tones, dim=1)]
        return torch.cat(parts, dim=1)

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Features and tones of frames to the encoder's tokens with tones appended."""
        vectors, tones = features[:, :-TONES], features[:, -TONES:]
        tokens, mean = self.encoder.aggregate(vectors, lengths), super().aggregate(tones, lengths)
        return Tokens(
            self._joined(tokens.tracklet, mean.tracklet), self._joined(tokens.frames, tones)
        )

    def pool_packed(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The tracklets' vectors of `aggregate`, in a form that can be exported."""
        vectors = self.encoder.pool_packed(features[:, :-TONES], lengths)
        return self._joined(vectors, super().pool_packed(features[:, -TONES:], lengths))
