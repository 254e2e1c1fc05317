"""The verb `embed`: turn every tracklet into a vector."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option, echo

from polyplink.app.request import Data, Device, Progress, Result, Weights, Workers, silent

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
    workers: Workers = 2


@dataclass(frozen=True)
class Embedded(Result):
    """Vectors of tracklets, in the order of the tracklets table.

    Attributes:
        encoded: The part of the data set with its vectors.
        path: The file that holds the vectors.
    """

    encoded: "Encoded"
    path: Path

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
        }

    def print_text(self) -> None:
        """Print the file and the shape."""
        echo("{out}: {tracklets} vectors of {width}".format(**self.as_dict()))


def embed_data(request: EmbedRequest, progress: Progress = silent) -> Embedded:
    """Turn every tracklet into a vector.

    The vectors are kept in a file beside the crops, where other verbs find them; `out` is a copy.

    Raises:
        PolyplinkError: If the weights, the data folder or an image is at fault.
    """
    from polyplink.app.encoded import encode, load_named
    from polyplink.encoders import write_embeddings

    encoder = load_named(request.weights, request.device)
    encoded = encode(
        [encoder], request.data, request.part, workers=request.workers, progress=progress
    )
    if request.out is not None:
        write_embeddings(request.out, encoded.embeddings[encoder.name])
    return Embedded(encoded, request.out or encoded.files[encoder.name])
