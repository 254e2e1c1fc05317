"""Checkpoints of the papers' own programs, and how their tensors are called here."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from polyplink.encoders.config import EncoderConfig, MveConfig
from polyplink.encoders.foundation.spec import Origin
from polyplink.tracklets import PrepareSettings

State = Mapping[str, torch.Tensor]
_PLAIN = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))  # pixels in [0, 1], as these programs feed them


@dataclass(frozen=True)
class Reference:
    """A checkpoint of a paper's program.

    Attributes:
        name: What it is called here.
        title: What it is called elsewhere.
        encoder: The encoder that it fits.
        prepare: The crops that it was trained on.
        names: Patterns of published names and the names here, in order.
        dropped: Prefixes of what is no part of the encoder: heads that the loss alone uses.
        tensors: Tensors of the file, those dropped included; None where not known.
        mark: Whether tensors are of this kind.
        origin: Where the file is to be had.
    """

    name: str
    title: str
    encoder: EncoderConfig | MveConfig
    prepare: PrepareSettings
    names: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    tensors: int | None
    mark: Callable[[State], bool]
    origin: Origin

    def library_names(self, state: State) -> dict[str, torch.Tensor]:
        """The encoder's tensors under the names here; what has none keeps its own."""
        renamed = {}
        for old, tensor in state.items():
            if old.startswith(self.dropped):
                continue
            name = old
            for pattern, new in self.names:
                name, changed = re.subn(pattern, new, name)
                if changed:
                    break
            renamed[name] = tensor
        return renamed


_NO_LICENCE = "none stated: ask the authors"

HMVE = Reference(
    name="hmve",
    title="NTSSL's tracklet encoder (HMVE)",
    encoder=EncoderConfig(),
    prepare=PrepareSettings(),
    names=(
        (r"^mve\.sfe\.backbone\.", "backbone."),
        (r"^mve\.encoder\.layers\.", "transformer.layers."),
        (r"^mve\.", ""),
    ),
    dropped=("projector.",),
    tensors=361,
    mark=lambda state: "mve.cls_token" in state,
    origin=Origin(
        source="Google Drive id 13Hif63XdPX1jsMuaW-NA-5gn_rqAZ9Oz",
        file="the Lightning checkpoint",
        licence=_NO_LICENCE,
    ),
)
TA = Reference(
    name="ta",
    title="the encoder of temporally aware counting",
    encoder=EncoderConfig(
        width=128,
        feedforward=2048,
        projector_hidden=128,
        mean=_PLAIN[0],
        std=_PLAIN[1],
    ),
    prepare=PrepareSettings(),
    names=(
        (r"^sfe\.backbone\.resnet\.", "backbone."),
        (r"^transformer_encoder\.", "transformer."),
    ),
    dropped=("sfe.head.", "head."),
    tensors=None,
    mark=lambda state: "sfe.backbone.resnet.conv1.weight" in state,
    origin=Origin(source="not published", file="a checkpoint of your own", licence=_NO_LICENCE),
)
TPC = Reference(
    name="tpc",
    title="the multi-view encoder of Intrator et al. and TPC",
    encoder=MveConfig(mean=_PLAIN[0], std=_PLAIN[1]),
    prepare=PrepareSettings(crop_factor=1.0),
    names=(
        (r"^sfe\.backbone\.backbone\.", "backbone."),
        (r"^sfe\.(?:backbone\.)?head\.", "frame_head."),
        (r"^transformer_encoder\.", "transformer."),
        (r"^head\.0\.", "head."),
    ),
    dropped=(),
    tensors=None,
    mark=lambda state: "sfe.backbone.backbone.conv1.weight" in state,
    origin=Origin(source="not published", file="a checkpoint of your own", licence=_NO_LICENCE),
)
REFERENCES: dict[str, Reference] = {one.name: one for one in (HMVE, TA, TPC)}
