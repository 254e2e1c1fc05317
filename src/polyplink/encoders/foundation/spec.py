"""What is known of a published encoder: how to build it, feed it, find it and name it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.config import REFERENCE_MEAN, REFERENCE_STD, FoundationConfig, Triple
from polyplink.encoders.foundation.pooling import Pooling

if TYPE_CHECKING:
    from polyplink.encoders.foundation.base import Foundation

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
REFERENCE_SIZE = 224

State = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Origin:
    """Where weights are to be had, and what is known of them.

    Attributes:
        source: Where to get the file.
        file: Its name there.
        licence: Of the weights.
        sha256: Of the file, or its first digits, where known; else empty.
        saw: Data sets it was pre-trained on, as far as they are public, by their usual names.
    """

    source: str
    file: str
    licence: str
    sha256: str = ""
    saw: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spec:
    """A published encoder.

    Attributes:
        name: What it is called here.
        title: What it is called elsewhere.
        build: Class of encoder that holds it.
        shape: Sizes that its family needs to build it.
        width: Width of its tokens.
        patch: Width of a patch in pixels: image sizes are its multiples.
        tensors: Tensors of the whole model, once loaded.
        origin: Where its weights are to be had.
        pooling: Poolings that make sense, the usual one first.
        reference_pooling: What NTSSL's program uses, as far as known.
        size: Image size it is fed with by default.
        only_size: Whether it takes no other.
        mean: Mean of its pre-training.
        std: Standard deviation of its pre-training.
        clip: Frames it looks at together; 1 for models of single frames.
        least_frames: Fewest frames of a clip.
    """

    name: str
    title: str
    build: "type[Foundation]"
    shape: Mapping[str, Any]
    width: int
    patch: int
    tensors: int
    origin: Origin
    pooling: tuple[Pooling, ...] = ("cls", "mean", "patchmean", "cat")
    reference_pooling: Pooling = "cls"
    size: int = 224
    only_size: bool = False
    mean: Triple = IMAGENET_MEAN
    std: Triple = IMAGENET_STD
    clip: int = 1
    least_frames: int = 1
    depth: int = field(default=12)

    def settle(self, config: FoundationConfig) -> FoundationConfig:
        """Fill in what the configuration leaves to the preset.

        Raises:
            PolyplinkError: If an image size or a pooling is not the model's.
        """
        own = config.preset == "own"
        settled = replace(
            config,
            pooling=config.pooling or (self.pooling[0] if own else self.reference_pooling),
            size=config.size or (self.size if own else REFERENCE_SIZE),
            mean=config.mean or (self.mean if own else REFERENCE_MEAN),
            std=config.std or (self.std if own else REFERENCE_STD),
            clip=config.clip if config.clip is not None else (self.clip if own else 0),
            positions=config.positions or ("correct" if own else "paper"),
        )
        self._check_size(settled.size or 0)
        self._check_frames(settled.clip or 0)
        PolyplinkError.unless(
            settled.pooling in self.pooling,
            f"{self.name} has no pooling {settled.pooling!r}",
            f"set encoder.pooling to one of: {', '.join(self.pooling)}",
        )
        return settled

    def _check_size(self, size: int) -> None:
        if self.only_size:
            PolyplinkError.unless(
                size == self.size,
                f"{self.name} takes images of {self.size} pixels alone, not {size}",
                f"set encoder.size={self.size} and prepare.size={self.size}",
            )
        near = max(round(size / self.patch), 1) * self.patch
        PolyplinkError.unless(
            size % self.patch == 0,
            f"{self.name} cuts images into patches of {self.patch} pixels, and {size} is no "
            "multiple of that",
            f"set encoder.size={near} and prepare.size={near}",
        )

    def _check_frames(self, clip: int) -> None:
        PolyplinkError.unless(
            clip == 0 or clip >= self.least_frames,
            f"{self.name} takes clips of {self.least_frames} frames or more, not {clip}",
            f"set encoder.clip={self.clip}",
        )

    def network(self, config: FoundationConfig) -> nn.Module:
        """The library's module, with random values."""
        return self.build.network(self, config)
