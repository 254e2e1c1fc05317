"""Foundation encoders: models that others pre-trained, behind one interface.

A `Spec` describes one published model: its architecture, its preprocessing and where to get its
weights. Its class is a `FrameFoundation` (an image model whose frame vectors are averaged) or a
`ClipFoundation` (a video model whose clip vectors are averaged). Each family of models is one
file beside this one; `catalogue` lists them all.
"""

import importlib
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Literal

import torch
from torch import nn

from polyplink.core._torchvision import heal_torchvision
from polyplink.core.errors import PolyplinkError
from polyplink.encoders.config import REFERENCE_MEAN, REFERENCE_STD, FoundationConfig, Triple
from polyplink.encoders.encoder import ClipWise, Encoder, FrameWise, Tokens, mean_over_frames

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
REFERENCE_SIZE = 224

Pooling = Literal["cls", "mean", "patchmean", "cat"]
State = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Origin:
    """Where to get weights, and what is known about them.

    Attributes:
        source: Where to get the file.
        file: Its name there.
        licence: Of the weights.
        sha256: Of the file, or its first digits, where known; else empty.
        saw: Public data sets it was pre-trained on, by their usual names.
    """

    source: str
    file: str
    licence: str
    sha256: str = ""
    saw: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spec:
    """A published model.

    Attributes:
        name: Its name in polyplink.
        title: Its published name.
        build: The encoder class of its family.
        shape: Sizes that its family needs to build it.
        width: Width of its tokens.
        patch: Width of a patch in pixels: image sizes are its multiples.
        tensors: Number of tensors of the whole model, once loaded.
        origin: Where to get its weights.
        pooling: Supported poolings, the default first.
        reference_pooling: What NTSSL's program uses, as far as known.
        size: Default width and height of its images, pixels.
        only_size: Whether it takes no other size.
        mean: Per-channel mean of its pre-training.
        std: Per-channel standard deviation of its pre-training.
        clip: Frames of a clip; 1 for image models.
        least_frames: Fewest frames of a clip.
        depth: Number of its blocks.
    """

    name: str
    title: str
    build: "type[Foundation]"
    width: int
    patch: int
    tensors: int
    origin: Origin
    shape: Mapping[str, Any] = field(default_factory=dict)
    pooling: tuple[Pooling, ...] = ("cls", "mean", "patchmean", "cat")
    reference_pooling: Pooling = "cls"
    size: int = 224
    only_size: bool = False
    mean: Triple = IMAGENET_MEAN
    std: Triple = IMAGENET_STD
    clip: int = 1
    least_frames: int = 1
    depth: int = 12

    def settle(self, config: FoundationConfig) -> FoundationConfig:
        """Replace every None of a configuration by the value of its preset.

        Raises:
            PolyplinkError: If the model does not support the image size, clip or pooling.
        """
        own = config.preset == "own"
        size = config.size or (self.size if own else REFERENCE_SIZE)
        clip = config.clip if config.clip is not None else (self.clip if own else 0)
        pooling = config.pooling or (self.pooling[0] if own else self.reference_pooling)
        nearest = max(round(size / self.patch), 1) * self.patch
        PolyplinkError.unless(
            size == self.size or not self.only_size,
            f"{self.name} takes images of {self.size} pixels alone, not {size}",
            f"set encoder.size={self.size} and prepare.size={self.size}",
        )
        PolyplinkError.unless(
            size % self.patch == 0,
            f"{self.name} cuts images into patches of {self.patch} pixels, and {size} is no "
            "multiple of that",
            f"set encoder.size={nearest} and prepare.size={nearest}",
        )
        PolyplinkError.unless(
            clip == 0 or clip >= self.least_frames,
            f"{self.name} takes clips of {self.least_frames} frames or more, not {clip}",
            f"set encoder.clip={self.clip}",
        )
        PolyplinkError.unless(
            pooling in self.pooling,
            f"{self.name} has no pooling {pooling!r}",
            f"set encoder.pooling to one of: {', '.join(self.pooling)}",
        )
        return replace(
            config,
            pooling=pooling,
            size=size,
            mean=config.mean or (self.mean if own else REFERENCE_MEAN),
            std=config.std or (self.std if own else REFERENCE_STD),
            clip=clip,
            positions=config.positions or ("correct" if own else "paper"),
        )


class Foundation(Encoder):
    """A published model as an encoder.

    A family implements `network`, `recognises`, `library_names` and, in its subclass of
    `FrameFoundation` or `ClipFoundation`, `tokens`.
    """

    config: FoundationConfig

    def __init__(self, spec: Spec, config: FoundationConfig) -> None:
        super().__init__()
        self.spec = spec
        self.config = config = spec.settle(config)
        self.pooling = config.pooling or "cls"
        self.size = config.size or spec.size
        self.width = spec.width * (2 if self.pooling == "cat" else 1)
        self.backbone = self.network(spec, config)
        self.keep_pixel_scale(config.mean or spec.mean, config.std or spec.std)

    @staticmethod
    @abstractmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The module of timm or transformers, randomly initialised."""

    @staticmethod
    @abstractmethod
    def recognises(state: State) -> str | None:
        """Name of the model of this family that published tensors belong to, or None."""

    @staticmethod
    @abstractmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """Published tensors renamed to the state dict of `network`."""

    def check_pixels(self, frames: torch.Tensor) -> None:
        """Refuse crops (..., h, w, 3) that are not of the configured size.

        Raises:
            PolyplinkError: Naming both sizes.
        """
        height, width = frames.shape[-3:-1]
        size = self.size
        PolyplinkError.unless(
            height == width == size,
            f"{self.spec.name} is set to images of {size} pixels, "
            f"and these crops have {width} x {height}",
            f"prepare them with prepare.size={size}",
        )


def pool(tokens: torch.Tensor, pooling: Pooling, prefix: int = 1) -> torch.Tensor:
    """Pool the tokens of each image into one vector.

    Args:
        tokens: (n, p, d): the CLS token, further non-patch tokens (registers) if any, patches.
        pooling: "cls" is token 0; "mean" the mean of all tokens; "patchmean" that of the
            patches; "cat" the concatenation of cls and patchmean.
        prefix: Number of tokens before the first patch.

    Returns:
        (n, d), or (n, 2d) for "cat".
    """
    if pooling == "mean":
        return tokens.mean(dim=1)
    if pooling == "cls":
        return tokens[:, 0]
    patches = tokens[:, prefix:].mean(dim=1)  # n d
    return patches if pooling == "patchmean" else torch.cat([tokens[:, 0], patches], dim=1)


class FrameFoundation(Foundation, FrameWise):
    """An image model: a tracklet's vector is the mean of the pooled tokens of its frames."""

    prefix = 1  # tokens before the first patch

    @abstractmethod
    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Normalised pixels (n, 3, h, w) to tokens (n, p, d), after the last norm."""

    def pooled(self, pixels: torch.Tensor) -> torch.Tensor:
        """Normalised pixels (n, 3, h, w) to frame vectors (n, d)."""
        # NTSSL's program counts registers among the patches; the "own" preset does not.
        prefix = self.prefix if self.config.preset == "own" else 1
        return pool(self.tokens(pixels), self.pooling, prefix)

    def encode_frames(self, frames: torch.Tensor) -> torch.Tensor:
        """Crops uint8 (n, h, w, 3) to frame vectors (n, d)."""
        self.check_pixels(frames)
        return self.pooled(self.normalised(frames))

    def aggregate(self, features: torch.Tensor, lengths: Sequence[int]) -> Tokens:
        """Frame vectors (n, d) to tokens: the tracklet's is the mean of its frames."""
        return Tokens(tracklet=mean_over_frames(features, lengths), frames=features)


@dataclass(frozen=True)
class ClipTokens:
    """Tokens of b clips of t frames with p patches each, after the last norm.

    Attributes:
        patches: (b, t, p, d); models that merge neighbouring frames repeat their tokens.
        cls: (b, d), or None if the model has no CLS token.
    """

    patches: torch.Tensor
    cls: torch.Tensor | None


def clip_starts(frames: int, clip: int) -> list[int]:
    """First frames of the clips that cover a tracklet.

    As few clips as cover every frame, evenly spaced; neighbours overlap if `clip` does not
    divide `frames`. Every clip has exactly min(clip, frames) frames.

    Args:
        frames: Frames of the tracklet, at least 1.
        clip: Frames of a clip; 0 for the whole tracklet.

    Example:
        >>> clip_starts(10, 4)
        [0, 3, 6]
    """
    if clip == 0 or frames <= clip:
        return [0]
    count = -(-frames // clip)
    return [round(i * (frames - clip) / (count - 1)) for i in range(count)]


class ClipFoundation(Foundation, ClipWise):
    """A video model: a tracklet's vector is the mean of the pooled tokens of its clips."""

    @abstractmethod
    def tokens(self, pixels: torch.Tensor) -> ClipTokens:
        """Normalised pixels (b, t, 3, h, w) to tokens."""

    def pooled(self, pixels: torch.Tensor) -> Tokens:
        """Normalised pixels (b, t, 3, h, w) to clip vectors (b, d) and frame vectors (b*t, d).

        A frame has no CLS token of its own: its vector is the mean of its patches, under "cat"
        preceded by the CLS token of the clip.
        """
        found = self.tokens(pixels)
        b, t, p, d = found.patches.shape
        frames = found.patches.mean(dim=2)  # b t d
        patchmean = frames.mean(dim=1)  # b d
        if found.cls is None or self.pooling == "patchmean":
            return Tokens(patchmean, frames.reshape(b * t, d))
        if self.pooling == "cls":
            return Tokens(found.cls, frames.reshape(b * t, d))
        if self.pooling == "mean":  # over all tokens, CLS included
            mean = (found.cls + t * p * patchmean) / (1 + t * p)
            return Tokens(mean, frames.reshape(b * t, d))
        both = torch.cat([found.cls[:, None].expand(b, t, d), frames], dim=2)  # b t 2d
        return Tokens(torch.cat([found.cls, patchmean], dim=1), both.reshape(b * t, 2 * d))

    def encode_clips(self, clips: torch.Tensor) -> Tokens:
        """Crops uint8 (b, t, h, w, 3) to tokens; a long tracklet is split into clips, averaged."""
        b, t = clips.shape[:2]
        self.check_pixels(clips)
        least = self.spec.least_frames
        PolyplinkError.unless(
            t >= least,
            f"{self.spec.name} takes clips of {least} frames or more, and a tracklet has {t}",
            "prepare with a smaller prepare.stride or a greater prepare.min_length",
        )
        clip = self.config.clip or 0
        size = min(clip or t, t)
        vectors: list[torch.Tensor] = []
        frames, seen = clips.new_zeros(()), clips.new_zeros(t, dtype=torch.float32)
        for start in clip_starts(t, clip):
            part = clips[:, start : start + size].reshape(b * size, *clips.shape[2:])
            pixels = self.normalised(part)
            tokens = self.pooled(pixels.view(b, size, *pixels.shape[1:]))
            vectors.append(tokens.tracklet)
            each = tokens.frames.view(b, size, -1)  # b s d
            if frames.ndim == 0:
                frames = each.new_zeros(b, t, each.shape[2])
            # A frame of several overlapping clips gets the mean of its vectors.
            at = torch.arange(start, start + size, device=clips.device)
            frames = frames.index_add(1, at, each)
            seen[start : start + size] += 1
        mean = torch.stack(vectors).mean(dim=0)  # b d
        return Tokens(mean, (frames / seen[:, None].to(frames.dtype)).flatten(0, 1))


def transformers() -> ModuleType:
    """The transformers package, imported on first use: it takes seconds.

    Raises:
        PolyplinkError: If it is not installed.
    """
    heal_torchvision()
    try:
        module = importlib.import_module("transformers")
    except ImportError:
        raise PolyplinkError(
            "this encoder needs transformers, which is not installed",
            "pip install 'polyplink[foundation]'",
        ) from None
    module.utils.logging.disable_progress_bar()
    return module


def from_published_names(kind: type[nn.Module], config: Any, state: State) -> State:
    """Rename tensors from the Hub's names to those of the installed transformers.

    transformers 5 renamed its modules; its own loader knows the mapping.

    Args:
        kind: A model class of transformers.
        config: Its configuration.
        state: Tensors under the Hub's names.

    Returns:
        Tensors under the library's names. Tensors that the loader did not use keep their names
        and tensors that it missed are absent, so that a strict check finds both.
    """
    model, report = kind.from_pretrained(  # type: ignore[attr-defined]
        None, config=config, state_dict=dict(state), output_loading_info=True, dtype=torch.float32
    )
    taken: dict[str, torch.Tensor] = model.state_dict()
    for name in report["missing_keys"]:
        taken.pop(name, None)
    return taken | {name: state[name] for name in report["unexpected_keys"] if name in state}


def renamed(
    state: State, names: Sequence[tuple[str, str]], qkv: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Rename tensors of Meta's vision transformers to the Hub's names.

    Args:
        state: Tensors; those under the Hub's names already stay as they are.
        names: (pattern, replacement) pairs, all applied to every name in this order.
        qkv: Replacements of ".attn.qkv." for query, key and value: the fused projection (3d, ...)
            is split into three (d, ...).
    """
    found = {}
    for old, tensor in state.items():
        name = old
        for pattern, new in names:
            name = re.sub(pattern, new, name)
        if ".attn.qkv." in name:
            for part, rows in zip(qkv, torch.chunk(tensor, 3), strict=True):
                found[name.replace(".attn.qkv.", part)] = rows
        else:
            found[name] = tensor
    return found
