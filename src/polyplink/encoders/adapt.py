"""Parts of an encoder fitted to crops without labels: whitening, tint, tone, BatchNorm statistics.

The largest variation in the features of a network trained on other images is shared by all crops of
a colonoscopy. Whitening over crops, without labels, gives the remaining variation equal weight;
whitening over the views of each polyp suppresses the differences between views of the same polyp.
See docs/explanation/whitening.md.

Polyps on mucosa that a dye or narrow-band light turns blue or green resemble each other more than
views of one polyp in white light do: the colour moves the features of all of them the same way.
Whitening within polyps therefore also fits how the mean feature depends on the tint of a crop, and
subtracts it.

Tone consists of quantiles of three colour channels, over a whole crop and over its middle, which is
mostly polyp. They are strongly correlated, because light changes all of them. Whitening removes the
variation that most crops share and keeps the difference between a polyp and the mucosa around it.
See docs/explanation/our-methods.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize
from torch.nn.modules.batchnorm import _BatchNorm

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.config import AnyEncoderConfig
from polyplink.encoders.encoder import Encoder, FrameWise, Tokens, subsampled

SHRINKAGE = 1e-2  # times the largest variance of features, added to all variances
WITHIN_SHRINKAGE = 1e-2  # times the mean variance within a polyp, added to all variances
TINT_KNOTS = (0.7, 0.9)  # green over red; 0.53 to 0.75 in nine of ten views in white light
TINT_SHRINKAGE = 1.0  # added to the sums of squared tints
FEATURE_BUFFERS = ("features_mean", "features_map", "tint_slopes")

QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
TONES = 6 * len(QUANTILES)  # of three channels, over two regions
MIDDLE = 6  # 1 / MIDDLE of each side is left out on either side of the middle
TONE_SHRINKAGE = 1e-3  # times the largest variance of tones, added to all variances
TONE_BUFFERS = ("tone_mean", "tone_map")
CROPS, BATCH = 4096, 128  # crops for the statistics, and crops in a batch


def fit_whitening(values: torch.Tensor, shrinkage: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Fit a map that makes values (n, t) uncorrelated and, up to shrinkage, of equal variance.

    Returns:
        The mean (t,), and the map (t, t) of values minus the mean.

    Raises:
        PolyplinkError: If all values are equal.

    Example:
        >>> values = torch.tensor([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 5.0]])
        >>> mean, whitening = fit_whitening(values, 0.0)
        >>> torch.cov(((values - mean) @ whitening).T).round(decimals=3).abs().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    if torch.equal(values, values[:1].expand_as(values)):
        raise PolyplinkError(
            "there is one crop, or all crops are equal: too few to fit whitening or tone to",
            "give more crops",
        )
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

    Raises:
        PolyplinkError: If no polyp has two views.

    Example:
        >>> pairs = torch.tensor([[[0.0, 0.0], [2.0, 1.0]], [[9.0, 9.0], [10.0, 7.0]]])
        >>> _, within = fit_within(pairs, 0.0)
        >>> differences = (pairs - pairs.mean(dim=1, keepdim=True)).flatten(0, 1) @ within
        >>> (differences.T @ differences / 4).round(decimals=3).abs().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    views = [values.double() for values in polyps]
    if all(len(values) < 2 for values in views):
        raise PolyplinkError(
            "no polyp has two views to fit whitening to",
            "give stills with larger polyps, or whiten without --in-motion",
        )
    mean = torch.cat(views).mean(dim=0)
    differences = torch.cat([values - values.mean(dim=0) for values in views])  # n t
    variances, axes = torch.linalg.eigh(differences.T @ differences / len(differences))
    scale = (variances.clamp(min=0.0) + shrinkage * variances.mean()).rsqrt()
    return mean.float(), (axes * scale).float()


def tints_of(crops: torch.Tensor) -> torch.Tensor:
    """How much greener crops are than mucosa in white light.

    Args:
        crops: uint8 (n, h, w, 3).

    Returns:
        float32 (n, 2): by how much the logarithm of mean green over mean red exceeds that of each
        of `TINT_KNOTS`; 0 below.

    Example:
        >>> white_light, dyed = torch.tensor([[180, 110, 80], [60, 110, 130]], dtype=torch.uint8)
        >>> tints_of(torch.stack([white_light, dyed])[:, None, None]).round(decimals=2)
        tensor([[0.0000, 0.0000],
                [0.9600, 0.7000]])
    """
    means = subsampled(crops).float().mean(dim=(1, 2)) + 1  # n 3
    knots = torch.tensor(TINT_KNOTS, device=crops.device)
    return ((means[:, 1] / means[:, 0])[:, None] / knots).log().clamp(min=0)


def fit_tint(features: torch.Tensor, tints: torch.Tensor) -> torch.Tensor:
    """Fit how features depend on the tint, by ridge regression without a constant.

    Args:
        features: Features minus their mean (n, f).
        tints: Tints (n, k), see `tints_of`.

    Returns:
        Slopes (k, f): the mean of features of a tint, minus the mean of all, is tint @ slopes.
    """
    x, y = tints.double(), features.double()
    penalty = TINT_SHRINKAGE * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    slopes: torch.Tensor = torch.linalg.solve(x.T @ x + penalty, x.T @ y).float()
    return slopes


class WrappedEncoder(FrameWise):
    """A wrapper of a frame-wise encoder that adds a part fitted to crops."""

    encoder: FrameWise

    @property
    def backbone(self) -> nn.Module:  # type: ignore[override]
        """The network that reads pixels."""
        return self.encoder.backbone

    @property
    def device(self) -> torch.device:
        """The device of its tensors."""
        return self.encoder.device


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
    tint_slopes: torch.Tensor

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        if not isinstance(encoder, FrameWise) or type(encoder).aggregate is not FrameWise.aggregate:
            raise PolyplinkError(
                "whitening is for encoders that average a tracklet's frames, but this one reads "
                "clips or has a transformer",
                "leave encoder.whiten (--whiten) off, or give --tone",
            )
        assert isinstance(encoder, FrameWise)
        self.encoder, self.width = encoder, encoder.width
        self.config = replace(encoder.config, whiten=True)
        self.register_buffer("features_mean", torch.zeros(self.width))
        self.register_buffer("features_map", torch.eye(self.width))
        self.register_buffer("tint_slopes", torch.zeros(len(TINT_KNOTS), self.width))

    @torch.no_grad()
    def fit(self, batches: Iterable[torch.Tensor]) -> WhitenedEncoder:
        """Fit the whitening to crops uint8 (n, h, w, 3) in batches; no labels are needed."""
        features = torch.cat([self.unit_features(batch) for batch in batches])
        mean, features_map = fit_whitening(features, SHRINKAGE)
        return self._take(mean, features_map, torch.zeros_like(self.tint_slopes))

    @torch.no_grad()
    def fit_within(self, polyps: Iterable[torch.Tensor]) -> WhitenedEncoder:
        """Fit whitening and tint to the views uint8 (v, h, w, 3) of each polyp."""
        features, tints = [], []
        for views in polyps:
            features.append(self.unit_features(views))
            tints.append(tints_of(views))
        mean, features_map = fit_within(features, WITHIN_SHRINKAGE)
        slopes = fit_tint(torch.cat(features) - mean, torch.cat(tints))
        return self._take(mean, features_map, slopes)

    def unit_features(self, crops: torch.Tensor) -> torch.Tensor:
        """Features (n, f) of length 1 of crops uint8 (n, h, w, 3)."""
        self.encoder.eval()
        return normalize(self.encoder.encode_frames(crops).float(), dim=1)

    def _take(
        self, mean: torch.Tensor, features_map: torch.Tensor, slopes: torch.Tensor
    ) -> WhitenedEncoder:
        """Use a fitted mean (f,), map (f, f) and slopes (k, f)."""
        self.features_mean.copy_(mean)
        self.features_map.copy_(features_map)
        self.tint_slopes.copy_(slopes)
        return self

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to the encoder's features and the tints, (n, f + k)."""
        features = self.encoder.encode_frames(frames)
        return torch.cat([features, tints_of(frames).to(features.dtype)], dim=1)

    def _whiten(self, features: torch.Tensor) -> torch.Tensor:
        """Features and tints (n, f + k) of frames to features, whitened and of length 1."""
        # In bf16 the product would lose the small differences that are scaled up.
        with torch.autocast(features.device.type, enabled=False):
            units = normalize(features[:, : self.width].float(), dim=1)
            mean = self.features_mean + features[:, self.width :].float() @ self.tint_slopes
            return normalize((units - mean) @ self.features_map, dim=1).to(features.dtype)

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Features of frames (n, f) to tokens: whitened, and their mean per tracklet."""
        return super().aggregate(self._whiten(features), lengths)

    def pool_packed(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The tracklets' vectors of `aggregate`, in a form that can be exported."""
        return super().pool_packed(self._whiten(features), lengths)


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
    logs = torch.log1p(subsampled(crops).float())  # n h w 3
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
        if not isinstance(encoder, FrameWise):
            raise PolyplinkError(
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
        mean, tone_map = fit_whitening(statistics, TONE_SHRINKAGE)
        self.tone_mean.copy_(mean)
        self.tone_map.copy_(tone_map)
        return self

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to the encoder's features and the tones, (n, f + `TONES`)."""
        tones = tone_statistics(frames) - self.tone_mean
        # No matrix product, which would lose small differences in bf16 that are then scaled up.
        tones = normalize((tones[:, :, None] * self.tone_map).sum(dim=1), dim=1)
        features = self.encoder.encode_frames(frames)
        return torch.cat([features, tones.to(features.dtype)], dim=1)

    def _join(self, vectors: torch.Tensor, tones: torch.Tensor) -> torch.Tensor:
        """Vectors of length 1, followed by tones of length `weight`: (n, d + `TONES`)."""
        parts = [normalize(vectors, dim=1), self.weight * normalize(tones, dim=1)]
        return torch.cat(parts, dim=1)

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Features and tones of frames to the encoder's tokens with tones appended."""
        vectors, tones = features[:, :-TONES], features[:, -TONES:]
        tokens, mean = self.encoder.aggregate(vectors, lengths), super().aggregate(tones, lengths)
        return Tokens(self._join(tokens.tracklet, mean.tracklet), self._join(tokens.frames, tones))

    def pool_packed(self, features: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The tracklets' vectors of `aggregate`, in a form that can be exported."""
        vectors = self.encoder.pool_packed(features[:, :-TONES], lengths)
        return self._join(vectors, super().pool_packed(features[:, -TONES:], lengths))


def batches(crops: np.ndarray, device: torch.device) -> Iterator[torch.Tensor]:
    """Crops (n, h, w, 3) uint8 in batches of almost equal size, at most `BATCH`, on a device."""
    n_batches = -(-len(crops) // BATCH)
    starts = [len(crops) * number // n_batches for number in range(n_batches)]
    for start, end in pairwise([*starts, len(crops)]):
        yield torch.from_numpy(crops[start:end]).to(device)


def fitted_to_crops(encoder: Encoder, crops: np.ndarray, tone: float, whiten: bool) -> Encoder:
    """Add whitening and tone to an encoder, fitted to crops without labels.

    Args:
        encoder: The encoder; if it already has these parts, they are replaced.
        crops: uint8 (n, h, w, 3).
        tone: Weight of the tone, see `ToneEncoder`; 0 for none.
        whiten: Whether to whiten features, see `WhitenedEncoder`.
    """
    device, encoder = encoder.device, unwrap_encoder(encoder)
    if whiten:
        encoder = WhitenedEncoder(encoder).to(device).fit(batches(crops, device))
    if tone:
        encoder = ToneEncoder(encoder, tone).to(device).fit(batches(crops, device))
    return encoder.eval()


def wrap_encoder(encoder: Encoder, config: AnyEncoderConfig) -> Encoder:
    """The encoder with the tone and whitening layers of a configuration, not yet fitted."""
    encoder = WhitenedEncoder(encoder) if config.whiten else encoder
    return ToneEncoder(encoder, config.tone) if config.tone else encoder


def unwrap_encoder(encoder: Encoder) -> Encoder:
    """The encoder without whitening and tone."""
    while isinstance(encoder, WrappedEncoder):
        encoder = encoder.encoder
    return encoder


def set_light_correction(encoder: Encoder, **fields: float) -> None:
    """Change the correction of crops in an encoder's configuration, see `to_pixels`.

    Args:
        encoder: The encoder.
        fields: Values of `least_brightness` and `least_contrast`; others stay as they are.

    Raises:
        PolyplinkError: If the encoder is a plugin's whose configuration has no such fields.
    """
    config = encoder.config
    if not all(hasattr(config, name) for name in fields):
        raise PolyplinkError(
            f"encoder {config.kind!r} has no fields {' and '.join(fields)} to record them",
            "add them to its configuration, as `SfeConfig` has them, or leave the options out",
        )
    for part in encoder.modules():
        if isinstance(part, Encoder):  # the encoder, and those that whitening and tone wrap
            part.config = replace(part.config, **fields)


def unwrapped_tensors(
    state: Mapping[str, torch.Tensor], config: AnyEncoderConfig
) -> dict[str, torch.Tensor]:
    """The tensors of an encoder without those of whitening and tone, each of which wraps it once.

    Args:
        state: The tensors by name.
        config: The configuration of the encoder that they are of.
    """
    for is_wrapped in (getattr(config, "tone", 0.0), getattr(config, "whiten", False)):
        if is_wrapped:
            state = {name.removeprefix("encoder."): value for name, value in state.items()}
    fitted = (*TONE_BUFFERS, *FEATURE_BUFFERS)
    return {name: value for name, value in state.items() if name not in fitted}


def batch_norms(encoder: Encoder) -> list[_BatchNorm]:
    """The BatchNorm layers of an encoder."""
    return [layer for layer in encoder.modules() if isinstance(layer, _BatchNorm)]


def adapt_statistics(encoder: FrameWise, batches: Iterable[torch.Tensor]) -> int:
    """Replace the statistics of BatchNorm layers by those of other crops, without labels.

    Adaptive batch normalisation (Li et al., arXiv 1603.04779): mean and variance of every layer are
    computed on the new crops; no parameter changes.

    Args:
        encoder: The encoder, changed in place and set to evaluation mode.
        batches: Crops uint8 (n, h, w, 3) on the encoder's device.

    Returns:
        The number of BatchNorm layers; with 0, nothing was changed.
    """
    layers = batch_norms(encoder.eval())
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the mean over all batches
        layer.train()
    with torch.no_grad():
        for crops in batches if layers else ():
            encoder.encode_frames(crops)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    encoder.eval()
    return len(layers)
