"""Configurations of encoders: plain values, stored with the weights.

Each kind of encoder has its own class, discriminated by `kind` in a record (`core.parts.ENCODERS`).
A record without `kind` dates from when there was only the transformer.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from polyplink.core.errors import PolyplinkError
from polyplink.core.parts import ENCODERS
from polyplink.core.ranges import AT_LEAST_ONE, NOT_NEGATIVE, SHARE, Range, Ranged

REFERENCE_MEAN = (0.45, 0.45, 0.45)
REFERENCE_STD = (0.225, 0.225, 0.225)
RESNET = "timm:resnet50.tv2_in1k"

LARGEST_SIZE = 4096  # pixels of the images that an encoder is fed

Triple = tuple[float, float, float]


class _PixelScale(Ranged, prefix="encoder"):
    """Checks the ranges of the fields, and each channel's mean and standard deviation."""

    mean: Triple | None
    std: Triple | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mean is not None and not all(map(math.isfinite, self.mean)):
            raise PolyplinkError(f"encoder.mean is {self.mean}", "give numbers")
        if self.std is not None and not all(0.0 < value < math.inf for value in self.std):
            raise PolyplinkError(f"encoder.std is {self.std}", "give values above 0")


@dataclass(frozen=True)
class _FramesConfig(_PixelScale):
    """Common fields of the encoders that polyplink trains: a backbone that reads each frame.

    Attributes:
        frame_encoder: Backbone of single frames, "timm:" and a model name of timm.
        frame_weights: Safetensors file with the backbone's pre-trained weights under timm's
            names, or None to start from random values.
        mean: Mean per channel, subtracted from pixels in [0, 1].
        std: Standard deviation per channel, by which pixels are then divided. The reference uses
            mean 0.45 and std 0.225 for every encoder, in training and evaluation; so does this.
        least_brightness: Mean of a crop's pixels, in [0, 1], to which darker crops are brightened
            before the backbone (`encoder.to_pixels`); 0 for none.
        least_contrast: Standard deviation of a crop's pixels, in [0, 1], to which contrast is then
            raised where it is lower; 0 for none.
        projector_out: Output width of the projector.
        tone: Weight of the crops' whitened colours next to the vector (`adapt.ToneEncoder`); 0 for
            none.
        whiten: Whether features of frames are whitened (`adapt.WhitenedEncoder`).
    """

    frame_encoder: str = RESNET
    frame_weights: Path | None = None
    mean: Triple = REFERENCE_MEAN
    std: Triple = REFERENCE_STD
    least_brightness: Annotated[float, SHARE] = 0.0
    least_contrast: Annotated[float, SHARE] = 0.0
    projector_out: Annotated[int, AT_LEAST_ONE] = 128
    tone: Annotated[float, NOT_NEGATIVE] = 0.0
    whiten: bool = False


@dataclass(frozen=True)
class _TransformerConfig(_FramesConfig):
    """Common fields of the encoders with a transformer over the frames of a tracklet.

    Attributes:
        width: Width d of the tokens.
        layers: Number of transformer encoder layers.
        heads: Number of attention heads.
        feedforward: Width of the feed-forward layers.
        dropout: Dropout in the transformer.
    """

    width: Annotated[int, AT_LEAST_ONE] = 256
    layers: Annotated[int, AT_LEAST_ONE] = 3
    heads: Annotated[int, AT_LEAST_ONE] = 8
    feedforward: Annotated[int, AT_LEAST_ONE] = 1024
    dropout: Annotated[float, Range(0, 1, below=True)] = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads != 0:
            raise PolyplinkError(
                f"encoder.width {self.width} is not a multiple of encoder.heads {self.heads}",
                "set another with --set encoder.heads=N",
            )


@dataclass(frozen=True)
class EncoderConfig(_TransformerConfig):
    """The tracklet encoder of NTSSL (paper, 3 "Implementation Details") and its predecessors.

    Its fields are those of `_FramesConfig` and `_TransformerConfig`, and:

    Attributes:
        projector_hidden: Hidden width of the projector, which only the loss uses.
        kind: Discriminates the classes of encoders.
    """

    projector_hidden: Annotated[int, AT_LEAST_ONE] = 256
    kind: Literal["transformer"] = "transformer"


@dataclass(frozen=True)
class SfeConfig(_FramesConfig):
    """The single-frame encoder (Intrator et al. 2023): a backbone and a head of two layers.

    Its fields are those of `_FramesConfig`, the projector being its head, and:

    Attributes:
        vector: A tracklet's vector is the mean over its frames of the backbone's output
            ("features", 2048 wide, as in NTSSL's code), or of the head's output ("projected", as in
            the predecessor).
        projector_hidden: Hidden width of the head.
        stages: Numbers, from 0, of the backbone's stages with mean feature maps that make up a
            frame's features (`build.StageMeans`); empty for the backbone's own output.
        rings: Radii, in halves of the crop's side, of circles about the crop's centre; the rings
            between them have separate means. Empty for the mean over the whole map.
        kind: Discriminates the classes of encoders.
    """

    vector: Literal["features", "projected"] = "features"
    stages: tuple[int, ...] = ()
    rings: tuple[float, ...] = ()
    projector_hidden: Annotated[int, AT_LEAST_ONE] = 2048
    kind: Literal["sfe"] = "sfe"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.stages)) != len(self.stages) or min(self.stages, default=0) < 0:
            raise PolyplinkError(
                f"encoder.stages is {list(self.stages)}", "give numbers from 0, each once"
            )
        if not all(low < high for low, high in pairwise((0.0, *self.rings, math.sqrt(2)))):
            raise PolyplinkError(
                f"encoder.rings is {list(self.rings)}",
                "give radii above 0 and below 1.41 (the corners), in increasing order",
            )
        if self.rings and not self.stages:
            raise PolyplinkError(
                "encoder.rings divides the feature maps of stages, and encoder.stages is empty",
                "give encoder.stages too, or leave encoder.rings out",
            )


@dataclass(frozen=True)
class MveConfig(_TransformerConfig):
    """The multi-view encoder (Intrator et al. 2023), which TPC trains too.

    The transformer reads the head's output of a single-frame encoder, `width` wide; the tracklet's
    vector is the CLS token after a linear layer to `projector_out`. Its fields are those of
    `_FramesConfig` and `_TransformerConfig`, and:

    Attributes:
        frame_hidden: Hidden width of the single-frame encoder's head.
        kind: Discriminates the classes of encoders.
    """

    frame_hidden: Annotated[int, AT_LEAST_ONE] = 2048
    width: Annotated[int, AT_LEAST_ONE] = 128
    feedforward: Annotated[int, AT_LEAST_ONE] = 2048
    kind: Literal["mve"] = "mve"


@dataclass(frozen=True)
class FoundationConfig(_PixelScale):
    """A published pre-trained encoder (docs/how-to/backbone-weights.md).

    None stands for the value of the preset, which is stored with the weights.

    Attributes:
        model: Name of the model, e.g. "endofm"; `polyplink weights list` shows all.
        preset: Input of the model: "own" is that of its pre-training; "reference" that of every
            encoder in NTSSL's code: 224 pixels, mean 0.45, standard deviation 0.225, whole
            tracklets.
        frame_weights: Name in the store or file that `polyplink weights add` wrote, or None to
            start from random values.
        pooling: Pooling of tokens to the vector: the "cls" token, the "mean" of all tokens, the
            mean of patches ("patchmean"), or the concatenation of cls and patchmean ("cat").
        size: Width and height of the input images, pixels.
        mean: Mean per channel, subtracted from pixels in [0, 1].
        std: Standard deviation per channel, by which pixels are then divided.
        clip: Number of frames of a clip; longer tracklets are split into clips with averaged
            vectors. 0 for the whole tracklet. Image models ignore it.
        positions: Position encoding of V-JEPA 2 at sizes other than 256: "correct", or as in the
            "paper".
        depth: Number of blocks to keep, from the first; None for all (smaller ones are for tests).
        projector_hidden: Hidden width of the projector, which only the loss uses.
        projector_out: Output width of the projector.
        least_brightness: Brightness to which crops are corrected, see `EncoderConfig`.
        least_contrast: Contrast to which crops are corrected, see `EncoderConfig`.
        tone: Weight of the crops' whitened colours next to the vector, see `EncoderConfig`.
        whiten: Whether features of frames are whitened, see `EncoderConfig`.
        kind: Discriminates the classes of encoders.
    """

    model: str = "endofm"
    preset: Literal["own", "reference"] = "own"
    frame_weights: Path | None = None
    pooling: Literal["cls", "mean", "patchmean", "cat"] | None = None
    size: Annotated[int | None, Range(1, LARGEST_SIZE)] = None
    mean: Triple | None = None
    std: Triple | None = None
    clip: Annotated[int | None, NOT_NEGATIVE] = None
    positions: Literal["correct", "paper"] | None = None
    depth: Annotated[int | None, AT_LEAST_ONE] = None
    projector_hidden: Annotated[int, AT_LEAST_ONE] = 256
    projector_out: Annotated[int, AT_LEAST_ONE] = 128
    least_brightness: Annotated[float, SHARE] = 0.0
    least_contrast: Annotated[float, SHARE] = 0.0
    tone: Annotated[float, NOT_NEGATIVE] = 0.0
    whiten: bool = False
    kind: Literal["foundation"] = "foundation"


AnyEncoderConfig = Annotated[Any, ENCODERS.of_kind("transformer")]
"""Any encoder's configuration, discriminated by `kind`; without it, a transformer's."""
