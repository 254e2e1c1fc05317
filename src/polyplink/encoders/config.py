"""Configurations of encoders: plain values, stored with the weights.

Each kind of encoder has its own class, discriminated by `kind` in a record. A record without it
was written when there was only one kind, the transformer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from polyplink.core.errors import PolyplinkError

REFERENCE_MEAN = (0.45, 0.45, 0.45)
REFERENCE_STD = (0.225, 0.225, 0.225)
RESNET = "timm:resnet50.tv2_in1k"

Triple = tuple[float, float, float]


def _at_least_one(config: Any, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        PolyplinkError.unless(
            value is None or value >= 1, f"encoder.{name} is {value}", "give 1 or more"
        )


def _check_std(std: Triple | None) -> None:
    PolyplinkError.unless(
        std is None or min(std) > 0.0, f"encoder.std is {std}", "give values above 0"
    )


def _check_transformer(config: "EncoderConfig | MveConfig") -> None:
    _at_least_one(config, "width", "layers", "heads", "feedforward", "projector_out")
    PolyplinkError.unless(
        config.width % config.heads == 0,
        f"encoder.width {config.width} is no multiple of encoder.heads {config.heads}",
        "change one of them",
    )
    PolyplinkError.unless(
        0.0 <= config.dropout < 1.0, f"encoder.dropout is {config.dropout}", "give one in [0, 1)"
    )


@dataclass(frozen=True)
class EncoderConfig:
    """The tracklet encoder of NTSSL (paper, 3 "Implementation Details") and its predecessors.

    Attributes:
        frame_encoder: Backbone of single frames, "timm:" and a model name of timm.
        frame_weights: Safetensors file with the backbone's pre-trained weights under timm's
            names, or None to start from random values.
        width: Width d of tokens and of the tracklet's vector.
        layers: Transformer encoder layers.
        heads: Attention heads.
        feedforward: Width of the feed-forward parts.
        dropout: Dropout in the transformer.
        mean: Per channel, subtracted from pixels in [0, 1].
        std: Per channel, divides what is left. The reference uses 0.45 and 0.225 for every
            encoder; training and evaluation here use the same.
        projector_hidden: Hidden width of the projector (used by the loss alone).
        projector_out: Output width of the projector.
        kind: Discriminates the classes of encoders.
    """

    frame_encoder: str = RESNET
    frame_weights: Path | None = None
    width: int = 256
    layers: int = 3
    heads: int = 8
    feedforward: int = 1024
    dropout: float = 0.1
    mean: Triple = REFERENCE_MEAN
    std: Triple = REFERENCE_STD
    projector_hidden: int = 256
    projector_out: int = 128
    kind: Literal["transformer"] = "transformer"

    def __post_init__(self) -> None:
        _check_transformer(self)
        _at_least_one(self, "projector_hidden")
        _check_std(self.std)


@dataclass(frozen=True)
class SfeConfig:
    """The single-frame encoder (Intrator et al. 2023): a backbone and a head of two layers.

    Attributes:
        frame_encoder: Backbone of single frames, "timm:" and a model name of timm.
        frame_weights: As in `EncoderConfig`.
        vector: A tracklet's vector is the mean over its frames of the backbone's "features" (as
            in NTSSL's program, 2048 wide), or of what the head "projected" (as the predecessor).
        mean: Per channel, subtracted from pixels in [0, 1].
        std: Per channel, divides what is left.
        projector_hidden: Hidden width of the head.
        projector_out: Output width of the head.
        kind: Discriminates the classes of encoders.
    """

    frame_encoder: str = RESNET
    frame_weights: Path | None = None
    vector: Literal["features", "projected"] = "features"
    mean: Triple = REFERENCE_MEAN
    std: Triple = REFERENCE_STD
    projector_hidden: int = 2048
    projector_out: int = 128
    kind: Literal["sfe"] = "sfe"

    def __post_init__(self) -> None:
        _at_least_one(self, "projector_hidden", "projector_out")
        _check_std(self.std)


@dataclass(frozen=True)
class MveConfig:
    """The multi-view encoder (Intrator et al. 2023), which TPC trains too.

    The transformer reads what the head of a single-frame encoder gives; the tracklet's vector is
    its CLS token after a linear layer.

    Attributes:
        frame_encoder: Backbone of single frames, "timm:" and a model name of timm.
        frame_weights: As in `EncoderConfig`.
        frame_hidden: Hidden width of the single-frame encoder's head.
        width: Width of its output, hence of the transformer.
        layers: Transformer encoder layers.
        heads: Attention heads.
        feedforward: Width of the feed-forward parts.
        dropout: Dropout in the transformer.
        mean: Per channel, subtracted from pixels in [0, 1].
        std: Per channel, divides what is left.
        projector_out: Output width of the linear layer: width of the tracklet's vector.
        kind: Discriminates the classes of encoders.
    """

    frame_encoder: str = RESNET
    frame_weights: Path | None = None
    frame_hidden: int = 2048
    width: int = 128
    layers: int = 3
    heads: int = 8
    feedforward: int = 2048
    dropout: float = 0.1
    mean: Triple = REFERENCE_MEAN
    std: Triple = REFERENCE_STD
    projector_out: int = 128
    kind: Literal["mve"] = "mve"

    def __post_init__(self) -> None:
        _check_transformer(self)
        _at_least_one(self, "frame_hidden")
        _check_std(self.std)


@dataclass(frozen=True)
class FoundationConfig:
    """A published pre-trained encoder (docs/how-to/encoders.md).

    None stands for the value of the preset, which is stored with the weights.

    Attributes:
        model: Its name, e.g. "endofm"; `polyplink weights list` shows all.
        preset: "own" feeds it as it was pre-trained; "reference" as NTSSL's program feeds every
            encoder: 224 pixels, mean 0.45, standard deviation 0.225, whole tracklets.
        frame_weights: Name in the store or file that `polyplink weights add` wrote, or None to
            start from random values.
        pooling: What of the tokens becomes the vector: the "cls" token, the "mean" of all, the
            "patchmean" of patches alone, or "cat", the concatenation of cls and patchmean.
        size: Width and height of the images it is fed, pixels.
        mean: Per channel, subtracted from pixels in [0, 1].
        std: Per channel, divides what is left.
        clip: Frames of a clip; longer tracklets are split into clips that are averaged.
            0 for the whole tracklet. Image models ignore it.
        positions: Of V-JEPA 2 at other sizes than 256: "correct", or as the "paper" ran it.
        depth: Blocks to keep, from the first; None for all (a smaller one is for tests).
        projector_hidden: Hidden width of the projector (used by the loss alone).
        projector_out: Output width of the projector.
        kind: Discriminates the classes of encoders.
    """

    model: str = "endofm"
    preset: Literal["own", "reference"] = "own"
    frame_weights: Path | None = None
    pooling: Literal["cls", "mean", "patchmean", "cat"] | None = None
    size: int | None = None
    mean: Triple | None = None
    std: Triple | None = None
    clip: int | None = None
    positions: Literal["correct", "paper"] | None = None
    depth: int | None = None
    projector_hidden: int = 256
    projector_out: int = 128
    kind: Literal["foundation"] = "foundation"

    def __post_init__(self) -> None:
        _at_least_one(self, "size", "depth", "projector_hidden", "projector_out")
        PolyplinkError.unless(
            self.clip is None or self.clip >= 0, f"encoder.clip is {self.clip}", "give 0 or more"
        )
        _check_std(self.std)


def _kind_of(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("kind", "transformer"))
    return str(getattr(value, "kind", "transformer"))


AnyEncoderConfig = Annotated[
    Annotated[EncoderConfig, Tag("transformer")]
    | Annotated[SfeConfig, Tag("sfe")]
    | Annotated[MveConfig, Tag("mve")]
    | Annotated[FoundationConfig, Tag("foundation")],
    Discriminator(_kind_of),
]
"""Any encoder's configuration; pydantic tells which by `kind`."""
