"""Descriptions of published models, and the library that builds most of them.

A `Spec` describes one published model: its architecture, its preprocessing, how to recognise its
file and where to get it. `catalogue` lists all models; `foundation` turns them into encoders.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal

from polyplink.core.errors import PolyplinkError, extras_installed
from polyplink.core.lazy_torch import heal_torchvision, torch
from polyplink.encoders.config import REFERENCE_MEAN, REFERENCE_STD, FoundationConfig, Triple

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
REFERENCE_SIZE = 224
HEADS = r"^(head|dino_head|ibot_head)\."  # used in pre-training, not part of the backbone

Pooling = Literal["cls", "mean", "patchmean", "cat"]
State = Mapping[str, "torch.Tensor"]


def _has_mark(state: State, mark: Mapping[str, tuple[int, ...] | None]) -> bool:
    """Whether tensors have all names of a mark, in its shapes (None: any)."""
    for name, shape in mark.items():
        if name not in state or (shape is not None and tuple(state[name].shape) != shape):
            return False
    return True


@dataclass(frozen=True, kw_only=True)
class Published:
    """Published weights: where to get their file, how to recognise and how to rename its tensors.

    Attributes:
        name: Name in polyplink.
        title: Published name.
        source: Where to get the file.
        file: Name of the file at the source.
        licence: Licence of the weights.
        sha256: SHA-256 of the file, or its first digits; empty if unknown.
        saw: Public data sets of the training, by their usual names.
        marks: The file is recognised if it has all tensors of one mark, name -> shape (None: any).
        lacks: Names of tensors that the file must not have.
        dropped: Pattern of the names of tensors outside the encoder; empty for none.
        names: (pattern, replacement) pairs, all applied to every name in this order.
        fused: Split ".attn.qkv." (3d, ...) into ".attn.q.", ".attn.k." and ".attn.v." (d, ...)
            before renaming.
    """

    name: str
    title: str
    source: str
    file: str
    licence: str
    sha256: str = ""
    saw: tuple[str, ...] = ()
    marks: Sequence[Mapping[str, tuple[int, ...] | None]]
    lacks: tuple[str, ...] = ()
    dropped: str = ""
    names: tuple[tuple[str, str], ...] = ()
    fused: bool = False

    def recognises(self, state: State) -> bool:
        """Whether tensors have one of the marks, and none that the file must not have."""
        if any(name in state for name in self.lacks):
            return False
        return any(_has_mark(state, mark) for mark in self.marks)

    def renamed(self, state: State) -> dict[str, torch.Tensor]:
        """Rename published tensors; names without a matching pattern stay."""
        parts: dict[str, torch.Tensor] = {}
        for name, tensor in state.items():
            if self.fused and ".attn.qkv." in name:
                for part, rows in zip("qkv", torch.chunk(tensor, 3), strict=True):
                    parts[name.replace(".qkv.", f".{part}.")] = rows
            else:
                parts[name] = tensor
        renamed = {}
        for old, tensor in parts.items():
            if not (self.dropped and re.search(self.dropped, old)):
                name = old
                for pattern, new in self.names:
                    name = re.sub(pattern, new, name)
                renamed[name] = tensor
        return renamed


@dataclass(frozen=True, kw_only=True)
class Spec(Published):
    """A published model.

    Attributes:
        network: Builds the module for a configuration, with random values.
        part: Attribute of the module that is the encoder; empty for the whole module.
        hub: Whether `renamed` returns the Hub's names, which transformers then translates.
        tokens: Applies the encoder to normalised pixels. For an image model: (n, 3, h, w) to tokens
            (n, p, d) after the last norm. For a video model: (b, t, 3, h, w) to patches
            (b, g, p, d) of g frames, or groups of neighbouring frames that the model merges, and
            the CLS tokens (b, d) or None.
        width: Width of the tokens.
        patch: Width of a patch in pixels, of which image sizes are multiples.
        prefix: Number of tokens before the first patch.
        pooling: Supported poolings, the default first.
        reference_pooling: Pooling in NTSSL's code, as far as known.
        size: Default width and height of images, pixels.
        only_size: Whether no other size is supported.
        mean: Per-channel mean of the pre-training.
        std: Per-channel standard deviation of the pre-training.
        clip: Number of frames of a clip; 1 for image models.
        least_frames: Smallest number of frames of a clip.
        depth: Number of blocks.
    """

    dropped: str = HEADS
    network: Callable[[Spec, FoundationConfig], torch.nn.Module]
    part: str = ""
    hub: bool = False
    tokens: Callable[[Any, torch.Tensor], Any]
    width: int
    patch: int
    prefix: int = 1
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
        positions: Literal["correct", "paper"]
        if config.preset == "own":
            size, clip, pooling = self.size, self.clip, self.pooling[0]
            mean, std, positions = self.mean, self.std, "correct"
        else:
            size, clip, pooling = REFERENCE_SIZE, 0, self.reference_pooling
            mean, std, positions = REFERENCE_MEAN, REFERENCE_STD, "paper"
        size = config.size or size
        clip = clip if config.clip is None else config.clip
        pooling = config.pooling or pooling
        nearest = max(round(size / self.patch), 1) * self.patch
        if size != self.size and self.only_size:
            raise PolyplinkError(
                f"{self.name} only takes images of {self.size} pixels, not {size}",
                _size_hint(self.size),
            )
        if size % self.patch != 0:
            raise PolyplinkError(
                f"{self.name} cuts images into patches of {self.patch} pixels, and {size} is not a "
                "multiple of that",
                _size_hint(nearest),
            )
        if clip != 0 and clip < self.least_frames:
            raise PolyplinkError(
                f"{self.name} takes clips of {self.least_frames} frames or more, not {clip}",
                f"give --set encoder.clip={self.clip}",
            )
        if pooling not in self.pooling:
            raise PolyplinkError(
                f"{self.name} has no pooling {pooling!r}",
                f"give --set encoder.pooling=NAME, one of: {', '.join(self.pooling)}",
            )
        return replace(
            config,
            pooling=pooling,
            size=size,
            mean=config.mean or mean,
            std=config.std or std,
            clip=clip,
            positions=config.positions or positions,
        )

    def library_names(self, config: FoundationConfig, state: State) -> State:
        """Published tensors with the names and shapes of the encoder's state dict.

        Shapes differ if a library uses another layer for the same operation, such as a 1 x 1
        convolution for a linear layer.
        """
        tensors = self.renamed(state)
        with torch.device("meta"):
            network: Any = self.network(self, config)
        for name, expected in network.state_dict().items():
            if name in tensors and tensors[name].squeeze().shape == expected.squeeze().shape:
                tensors[name] = tensors[name].reshape(expected.shape)
        if self.hub:
            tensors = dict(from_published_names(type(network), network.config, tensors))
        if not self.part:
            return tensors
        return {name.removeprefix(f"{self.part}."): tensor for name, tensor in tensors.items()}


def _size_hint(size: int) -> str:
    """How to set the image size, in `weights` and in `train`."""
    return f"give --size {size}, or --set encoder.size={size} --set prepare.size={size} to train"


def transformers() -> ModuleType:
    """The transformers package, imported on first use: it takes seconds.

    Raises:
        PolyplinkError: If the package is not installed.
    """
    heal_torchvision()
    with extras_installed("this encoder"):
        module = importlib.import_module("transformers")
    module.utils.logging.disable_progress_bar()
    return module


def from_published_names(kind: type[torch.nn.Module], config: Any, state: State) -> State:
    """Rename tensors from the Hub's names to those of the installed transformers.

    transformers 5 renamed its modules; the mapping is part of its loader.

    Args:
        kind: A model class of transformers.
        config: Its configuration.
        state: Tensors with the Hub's names.

    Returns:
        Tensors with the library's names. Tensors that the loader did not use keep their names and
        missing tensors stay absent, so that a strict check reports both.
    """
    model, report = kind.from_pretrained(  # type: ignore[attr-defined]
        None, config=config, state_dict=dict(state), output_loading_info=True, dtype=torch.float32
    )
    tensors: dict[str, torch.Tensor] = model.state_dict()
    for name in report["missing_keys"]:
        tensors.pop(name, None)
    return tensors | {name: state[name] for name in report["unexpected_keys"] if name in state}
