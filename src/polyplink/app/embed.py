"""The verb `embed`: turn every tracklet into a vector."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, echo

from polyplink.app.request import (
    Data,
    Device,
    Precision,
    Progress,
    Result,
    Weights,
    Workers,
    mean_aps_text,
    silent,
)

if TYPE_CHECKING:
    from polyplink.app.encoded import Encoded
    from polyplink.encoders import Embeddings


@dataclass(frozen=True)
class EmbedRequest:
    """What to embed, and by which weights."""

    weights: Weights
    data: Data
    out: Annotated[Path | None, Option("--out", "-o", help="Parquet file to write.")] = None
    part: Annotated[str | None, Option(help="Part of the data set; all by default.")] = None
    device: Device = "auto"
    precision: Precision = None
    workers: Workers = 2


@dataclass(frozen=True)
class Embedded(Result):
    """Vectors of tracklets, in the order of the tracklets table.

    Attributes:
        encoded: The part of the data set with its vectors.
        path: The file that holds the vectors.
        mean_ap: Retrieval mAP by precision on a sample, if bf16 was asked for.
    """

    encoded: "Encoded"
    path: Path
    mean_ap: Mapping[str, float] = field(default_factory=dict)

    @property
    def embeddings(self) -> "Embeddings":
        """The vectors with the names of their tracklets."""
        return self.encoded.embeddings[self.encoded.first.name]

    def as_dict(self) -> dict[str, Any]:
        """The file, the shape of the vectors, and the ids of weights and crops."""
        n, d = self.embeddings.vectors.shape
        return {
            "out": str(self.path),
            "tracklets": n,
            "width": d,
            "weights": self.embeddings.weights_id,
            "crops": self.embeddings.crops_id,
            "precision": self.encoded.first.precision,
            "mAP": dict(self.mean_ap),
        }

    def print_text(self) -> None:
        """Print the file and the shape."""
        echo("{out}: {tracklets} vectors of {width}".format(**self.as_dict()))
        if self.mean_ap:
            echo(mean_aps_text(self.mean_ap))


def embed_data(request: EmbedRequest, progress: Progress = silent) -> Embedded:
    """Turn every tracklet into a vector.

    The vectors are kept in a file beside the crops, where other verbs find them; `out` is a copy.
    If bf16 is asked for, the mAP of a sample of the tracklets in float32 is measured besides.

    Raises:
        PolyplinkError: If the weights, the data folder or an image is at fault.
    """
    from polyplink.app.encoded import encode, load_named, precision_effect
    from polyplink.encoders import write_embeddings

    encoder = load_named(request.weights, request.device, precision=request.precision)
    encoded = encode(
        [encoder], request.data, request.part, workers=request.workers, progress=progress
    )
    mean_ap = {}
    if request.precision == "bf16":  # its effect is measured, float32 being the reference
        plain = load_named(request.weights, request.device, precision="float32")
        mean_ap = precision_effect(encoded.prepared, [plain, encoder])
    if request.out is not None:
        write_embeddings(request.out, encoded.embeddings[encoder.name])
    return Embedded(encoded, request.out or encoded.files[encoder.name], mean_ap)
