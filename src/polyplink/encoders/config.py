"""What an encoder is made of, as plain values that travel with its weights."""

from dataclasses import dataclass
from pathlib import Path

from polyplink.errors import PolyplinkError

REFERENCE_MEAN = (0.45, 0.45, 0.45)
REFERENCE_STD = (0.225, 0.225, 0.225)


@dataclass(frozen=True)
class EncoderConfig:
    """The tracklet encoder of NTSSL (paper, 3 "Implementation Details").

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
    """

    frame_encoder: str = "timm:resnet50.tv2_in1k"
    frame_weights: Path | None = None
    width: int = 256
    layers: int = 3
    heads: int = 8
    feedforward: int = 1024
    dropout: float = 0.1
    mean: tuple[float, float, float] = REFERENCE_MEAN
    std: tuple[float, float, float] = REFERENCE_STD
    projector_hidden: int = 256
    projector_out: int = 128

    def __post_init__(self) -> None:
        sizes = ("width", "layers", "heads", "feedforward", "projector_hidden", "projector_out")
        for name in sizes:
            value = getattr(self, name)
            PolyplinkError.unless(value >= 1, f"encoder.{name} is {value}", "give 1 or more")
        PolyplinkError.unless(
            self.width % self.heads == 0,
            f"encoder.width {self.width} is no multiple of encoder.heads {self.heads}",
            "change one of them",
        )
        PolyplinkError.unless(
            0.0 <= self.dropout < 1.0, f"encoder.dropout is {self.dropout}", "give one in [0, 1)"
        )
        PolyplinkError.unless(
            min(self.std) > 0.0, f"encoder.std is {self.std}", "give values above 0"
        )
