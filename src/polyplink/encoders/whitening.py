"""Whitening: features made uncorrelated and of equal variance, over crops or over views of a polyp.

The largest variation in the features of a network trained on other images is shared by all crops of
a colonoscopy. Whitening over crops, without labels, gives the remaining variation equal weight;
whitening over the views of each polyp suppresses the differences between views of the same polyp.
See docs/explanation/whitening.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from torch.nn.functional import normalize

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.encoder import Encoder, FrameWise, Tokens, WrappedEncoder

SHRINKAGE = 1e-2  # times the largest variance of features, added to all variances
WITHIN_SHRINKAGE = 1e-2  # times the mean variance within a polyp, added to all variances
FEATURE_BUFFERS = ("features_mean", "features_map")


def fit_whitening(values: torch.Tensor, shrinkage: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Fit a map that makes values (n, t) uncorrelated and, up to shrinkage, of equal variance.

    Returns:
        The mean (t,), and the map (t, t) of values minus the mean.

    Example:
        >>> values = torch.tensor([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 5.0]])
        >>> mean, whitening = fit_whitening(values, 0.0)
        >>> torch.cov(((values - mean) @ whitening).T).round(decimals=3).abs().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    x = values.double()
    mean, spread = x.mean(dim=0), x.std(dim=0, correction=0) + 1e-6
    variances, axes = torch.linalg.eigh(torch.cov(((x - mean) / spread).T))
    scale = (variances.clamp(min=0.0) + shrinkage * variances.max()).rsqrt()
    return mean.float(), (axes * scale / spread[:, None]).float()


def fit_within(
    polyps: Iterable[torch.Tensor], shrinkage: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fit a map that makes differences within a polyp uncorrelated and of equal variance.

    Within-class covariance normalisation (Hatch, Kajarekar and Stolcke, Interspeech 2006).

    Args:
        polyps: Values (v, t) of the views of each polyp.
        shrinkage: Share of the mean variance that is added to every variance.

    Returns:
        The mean (t,) of all views, and the map (t, t) of values minus the mean.

    Example:
        >>> pairs = torch.tensor([[[0.0, 0.0], [2.0, 1.0]], [[9.0, 9.0], [10.0, 7.0]]])
        >>> _, within = fit_within(pairs, 0.0)
        >>> differences = (pairs - pairs.mean(dim=1, keepdim=True)).flatten(0, 1) @ within
        >>> (differences.T @ differences / 4).round(decimals=3).abs().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    views = [values.double() for values in polyps]
    mean = torch.cat(views).mean(dim=0)
    differences = torch.cat([values - values.mean(dim=0) for values in views])  # n t
    variances, axes = torch.linalg.eigh(differences.T @ differences / len(differences))
    scale = (variances.clamp(min=0.0) + shrinkage * variances.mean()).rsqrt()
    return mean.float(), (axes * scale).float()


class WhitenedEncoder(WrappedEncoder):
    """A frame-wise encoder with whitened features of frames, of length 1.

    A tracklet's vector is the mean over its frames of whitened features of length 1.

    Args:
        encoder: An encoder that averages the features of a tracklet's frames.

    Raises:
        PolyplinkError: If the encoder reads clips, or has a transformer over frames.
    """

    features_mean: torch.Tensor
    features_map: torch.Tensor

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        PolyplinkError.unless(
            isinstance(encoder, FrameWise) and type(encoder).aggregate is FrameWise.aggregate,
            "whitening is for encoders that average a tracklet's frames, but this one reads clips "
            "or has a transformer",
            "leave encoder.whiten (--whiten) off, or give --tone",
        )
        assert isinstance(encoder, FrameWise)
        self.encoder, self.width = encoder, encoder.width
        self.config = replace(encoder.config, whiten=True)
        self.register_buffer("features_mean", torch.zeros(self.width))
        self.register_buffer("features_map", torch.eye(self.width))

    @torch.no_grad()
    def fit(self, batches: Iterable[torch.Tensor]) -> WhitenedEncoder:
        """Fit the whitening to crops uint8 (n, h, w, 3) in batches; no labels are needed."""
        features = torch.cat(list(self._unit_features(batches)))
        return self._take(*fit_whitening(features, SHRINKAGE))

    @torch.no_grad()
    def fit_within(self, polyps: Iterable[torch.Tensor]) -> WhitenedEncoder:
        """Fit the whitening to the views uint8 (v, h, w, 3) of each polyp, see `fit_within`."""
        return self._take(*fit_within(self._unit_features(polyps), WITHIN_SHRINKAGE))

    def _unit_features(self, batches: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
        self.encoder.eval()
        for batch in batches:
            yield normalize(self.encode_frames(batch).float(), dim=1)

    def _take(self, mean: torch.Tensor, features_map: torch.Tensor) -> WhitenedEncoder:
        self.features_mean.copy_(mean)
        self.features_map.copy_(features_map)
        return self

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to the encoder's features (n, f)."""
        return self.encoder.encode_frames(frames)

    def _whitened(self, features: torch.Tensor) -> torch.Tensor:
        # In bf16 the product would lose the small differences that are scaled up.
        with torch.autocast(features.device.type, enabled=False):
            centred = normalize(features.float(), dim=1) - self.features_mean
            return normalize(centred @ self.features_map, dim=1).to(features.dtype)

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Features of frames (n, f) to tokens: whitened, and their mean per tracklet."""
        return super().aggregate(self._whitened(features), lengths)

    def pool_packed(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The tracklets' vectors of `aggregate`, in a form that can be exported."""
        return super().pool_packed(self._whitened(features), lengths)
