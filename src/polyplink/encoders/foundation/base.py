"""What foundation encoders of frames and of clips have in common."""

from abc import abstractmethod

import torch
from torch import nn

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.config import FoundationConfig
from polyplink.encoders.encoder import Encoder
from polyplink.encoders.foundation.spec import Spec, State


class Foundation(Encoder):
    """A pre-trained model of others, built from its record and a settled configuration."""

    config: FoundationConfig

    def __init__(self, spec: Spec, config: FoundationConfig) -> None:
        super().__init__()
        self.spec = spec
        settled = spec.settle(config)
        self.config = settled
        self.pooling = settled.pooling or "cls"
        self.size = settled.size or spec.size
        self.width = spec.width * (2 if self.pooling == "cat" else 1)
        self.backbone = self.network(spec, settled)
        self.keep_pixel_scale(settled.mean or spec.mean, settled.std or spec.std)

    @staticmethod
    @abstractmethod
    def network(spec: Spec, config: FoundationConfig) -> nn.Module:
        """The library's module, with random values."""

    @staticmethod
    @abstractmethod
    def recognises(state: State) -> str | None:
        """Name of the family's model that published tensors are of; None for none."""

    @staticmethod
    @abstractmethod
    def library_names(spec: Spec, config: FoundationConfig, state: State) -> State:
        """Published tensors under the names of the library's module."""

    def check_pixels(self, frames: torch.Tensor) -> None:
        """Refuse crops (..., h, w, 3) of another size than it is fed with.

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
