"""Encoders as functions from the crops of tracklets to their vectors, on arrays of numpy.

BatchNorm of encoders with final weights is folded into the convolutions before it: in evaluation
mode it multiplies each channel by a constant and adds another one, which both can be merged into
the weights and the bias of the convolution. On a CPU, where memory traffic takes most of the time,
this saves a pass over every feature map: two stages of MobileNetV2 take 0.6 of the time.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from polyplink.encoders.device import default_precision, memory_suffices, precision
from polyplink.encoders.encoder import Encoder, FrameWise, Tokens

Embedder = Callable[[np.ndarray, Sequence[int]], np.ndarray]
"""Crops uint8 (n, h, w, 3) of tracklets of the given lengths, packed, to vectors (b, d)."""

FRAMES_PER_PASS = 256  # frames that pass through the backbone together
PIXELS_PER_PASS = 16 * 224 * 224  # the same on a CPU, pixels of crops
MOST_TOKENS = 8192  # tokens, including padding, that are aggregated together
CLOSE = 1e-5  # largest difference of folded features, as a share of the largest feature


def length_groups(
    lengths: Sequence[int], max_tokens: int, *, beside: int = 0, equal: bool = False
) -> list[list[int]]:
    """Group tracklets of similar length, so that padded batches contain little padding.

    Args:
        lengths: Number of frames of each tracklet.
        max_tokens: Upper bound of (tracklets in a group) x (beside + longest); a tracklet that
            exceeds it forms a group by itself.
        beside: Number of tokens of a tracklet in addition to its frames.
        equal: Group only tracklets of equal length.

    Returns:
        Lists of indices into `lengths`, every index once.
    """
    groups: list[list[int]] = []
    for index in np.argsort(lengths, kind="stable").tolist():
        tokens = beside + lengths[index]  # ascending, so the newest is the longest
        fits = groups and tokens * (len(groups[-1]) + 1) <= max_tokens
        if fits and not (equal and lengths[groups[-1][0]] != lengths[index]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


class NetworkEmbedder:
    """An encoder as an `Embedder`.

    Frames of frame-wise encoders pass through the backbone packed; clip-wise encoders take batches
    of tracklets of equal length.

    Args:
        encoder: The encoder; it is set to evaluation mode.
        compute: Precision, "float32" or "bf16"; None for the default of its device.
        frozen: Whether the encoder's weights will not change. Then, on a CPU in float32, a faster
            copy is used (`fold_batch_norms`).
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        compute: str | None = None,
        frozen: bool = False,
    ) -> None:
        self.encoder = encoder.eval()
        self.compute = compute
        self._quick: FrameWise | None = None  # built at the first crops
        precise = (compute or default_precision(encoder.device)) == "float32"
        self._folds = frozen and encoder.device.type == "cpu" and precise

    @property
    def width(self) -> int:
        """Width d of the vectors."""
        return self.encoder.width

    @torch.inference_mode()
    def __call__(self, crops: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        """Crops uint8 (n, h, w, 3), packed, to vectors float32 (b, d)."""
        encoder = self.encoder
        vectors = np.empty((len(lengths), encoder.width), np.float32)
        with precision(encoder.device, self.compute), memory_suffices(encoder.device):
            if isinstance(encoder, FrameWise):
                groups = self._aggregate_features(encoder, crops, lengths)
            else:
                groups = self._encode_clips(crops, lengths)
            for rows, tokens in groups:
                vectors[rows] = tokens.tracklet.float().cpu().numpy()
        return vectors

    def _aggregate_features(
        self, encoder: FrameWise, crops: np.ndarray, lengths: Sequence[int]
    ) -> Iterator[tuple[list[int], Tokens]]:
        """Groups of tracklets of similar length, and their tokens, by a frame-wise encoder."""
        features = torch.split(self._features(encoder, crops), list(lengths))  # s f each
        for group in length_groups(lengths, MOST_TOKENS, beside=1):
            packed = torch.cat([features[i] for i in group])
            yield group, encoder.aggregate(packed, [lengths[i] for i in group])

    def _encode_clips(
        self, crops: np.ndarray, lengths: Sequence[int]
    ) -> Iterator[tuple[list[int], Tokens]]:
        """Groups of tracklets of equal length, and their tokens, by a clip-wise encoder."""
        clips = np.split(crops, np.cumsum(lengths)[:-1])  # s h w 3 each
        for group in length_groups(lengths, FRAMES_PER_PASS, equal=True):
            packed = self._tensor(np.concatenate([clips[i] for i in group]))
            yield group, self.encoder(packed, [lengths[i] for i in group])

    @torch.inference_mode()
    def frames(self, crops: np.ndarray) -> np.ndarray:
        """Process crops uint8 (n, h, w, 3) before their tracklets end, for `tracklets`.

        Returns:
            Features float32 (n, f); the crops themselves for an encoder of clips.
        """
        if not isinstance(self.encoder, FrameWise):
            return crops
        with precision(self.encoder.device, self.compute), memory_suffices(self.encoder.device):
            features: np.ndarray = self._features(self.encoder, crops).float().cpu().numpy()
        return features

    @torch.inference_mode()
    def tracklets(self, features: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
        """Vectors float32 (b, d) of tracklets of some lengths, from the results of `frames`."""
        if not isinstance(self.encoder, FrameWise):
            return self(features, lengths)
        device = self.encoder.device
        with precision(device, self.compute), memory_suffices(device):
            tokens = self.encoder.aggregate(torch.from_numpy(features).to(device), lengths)
            vectors: np.ndarray = tokens.tracklet.float().cpu().numpy()
        return vectors

    def _features(self, encoder: FrameWise, crops: np.ndarray) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame features (n, f), in blocks of frames."""
        if self._folds:
            self._quick = self._quick or fold_batch_norms(encoder, crops.shape[1])
            encoder = self._quick
        step = FRAMES_PER_PASS
        if encoder.device.type == "cpu":  # larger blocks would only cost memory traffic
            step = max(min(step, PIXELS_PER_PASS // (crops.shape[1] * crops.shape[2])), 1)
        edges = range(0, len(crops), step)
        blocks = (self._tensor(crops[at : at + step]) for at in edges)
        return torch.cat([encoder.encode_frames(block) for block in blocks])

    def _tensor(self, crops: np.ndarray) -> torch.Tensor:
        """Crops on the encoder's device."""
        # Copied, because torch needs writable memory and the memory map is read-only.
        return torch.from_numpy(np.array(crops)).to(self.encoder.device)


def colour_histogram(crops: np.ndarray, lengths: Sequence[int], *, bins: int = 8) -> np.ndarray:
    """A baseline without learning: the joint RGB histogram of all pixels of a tracklet.

    Args:
        crops: uint8 (n, h, w, 3), packed.
        lengths: Number of frames of each of the b tracklets.
        bins: Number of bins per channel.

    Returns:
        float32 (b, bins^3); every row sums to 1.

    Example:
        >>> colour_histogram(np.zeros((3, 4, 4, 3), np.uint8), [2, 1], bins=2)[:, 0]
        array([1., 1.], dtype=float32)
    """
    histograms = np.empty((len(lengths), bins**3), np.float32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    for row, (a, b) in enumerate(pairwise(starts)):
        cells = (np.asarray(crops[a:b], dtype=np.int64) * bins) >> 8  # s h w 3
        flat = (cells[..., 0] * bins + cells[..., 1]) * bins + cells[..., 2]
        counts = np.bincount(flat.ravel(), minlength=bins**3)
        histograms[row] = counts / counts.sum()
    return histograms


def fold_batch_norms(encoder: FrameWise, side: int) -> FrameWise:
    """A copy of an encoder, for evaluation only, with BatchNorm layers folded into convolutions.

    Pairs of convolution and BatchNorm are observed while crops pass through the encoder, so that
    the order of execution counts, not the order of definition.

    Args:
        encoder: The encoder, in evaluation mode; it is not changed.
        side: Width and height of its crops, pixels.

    Returns:
        The copy; the encoder itself if nothing can be folded, or if the copy's features of random
        crops differ from the encoder's by more than `CLOSE`.

    Example:
        >>> from polyplink.encoders.build import build_encoder
        >>> from polyplink.encoders.config import SfeConfig
        >>> encoder = build_encoder(SfeConfig(frame_encoder="timm:test_resnet")).eval()
        >>> def norms(encoder):
        ...     return sum(isinstance(layer, nn.BatchNorm2d) for layer in encoder.modules())
        >>> norms(encoder), norms(fold_batch_norms(encoder, 32))
        (15, 0)
    """
    generator = torch.Generator().manual_seed(0)
    crops = torch.randint(0, 256, (1, side, side, 3), generator=generator, dtype=torch.uint8)
    with torch.no_grad():
        pairs, expected = _pairs(encoder, crops)
        if not pairs:
            return encoder
        folded_encoder = deepcopy(encoder)
        for convolution, norm in pairs.items():
            layer = folded_encoder.get_submodule(norm)
            assert isinstance(layer, nn.BatchNorm2d)
            fused = fuse_conv_bn_eval(folded_encoder.get_submodule(convolution), layer)  # type: ignore[type-var]
            folded_encoder.set_submodule(convolution, fused)
            # timm's norms contain their activation.
            folded_encoder.set_submodule(norm, getattr(layer, "act", nn.Identity()))
        difference = (folded_encoder.encode_frames(crops) - expected).abs().max()
    return folded_encoder if float(difference) <= CLOSE * float(expected.abs().max()) else encoder


def _pairs(encoder: FrameWise, crops: torch.Tensor) -> tuple[dict[str, str], torch.Tensor]:
    """Names of convolutions and of the BatchNorm layers that read their output; and the features.

    Both layers of a pair are used only once, and their weights are plain parameters.
    """
    names = {module: name for name, module in encoder.named_modules()}
    # By the id of the output; the tensors are stored, so that no id is used again.
    producers = dict[int, tuple[nn.Module, torch.Tensor]]()
    read = list[tuple[nn.Module, nn.Module]]()
    uses = Counter[nn.Module]()

    def after(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        """Record what a layer reads: the output of a convolution, or something else."""
        uses[module] += 1
        if isinstance(module, nn.Conv2d):
            producers[id(output)] = module, output
        elif id(inputs[0]) in producers:
            read.append((producers[id(inputs[0])][0], module))

    layers = [layer for layer in names if isinstance(layer, nn.Conv2d | nn.BatchNorm2d)]
    hooks = [layer.register_forward_hook(after) for layer in layers]
    try:
        features = encoder.encode_frames(crops)
    finally:
        for hook in hooks:
            hook.remove()
    used_once = (pair for pair in read if all(uses[layer] == 1 for layer in pair))
    return {
        names[convolution]: names[norm]
        for convolution, norm in used_once
        if "weight" in convolution._parameters and getattr(norm, "running_mean", None) is not None
    }, features
