"""The verb `embed`: turn every tracklet into a vector."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

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


@dataclass(frozen=True)
class EmbedRequest:
    """What to embed, and with which weights."""

    weights: Weights
    data: Data
    out: Annotated[Path | None, Option("--out", "-o", help="Parquet file to write.")] = None
    part: Annotated[str | None, Option(help="Part of the data set; all by default.")] = None
    device: Device = "auto"
    precision: Precision = None
    workers: Workers = 2


def embed_data(request: EmbedRequest, progress: Progress = silent) -> "Result[Encoded]":
    """Turn every tracklet into a vector.

    The vectors are cached in the prepared folder, where other verbs find them; `out` is a copy.
    With bf16, the mAP of a sample of the tracklets is also measured in float32.

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
    found = encoded.embeddings[encoder.name]
    if request.out is not None:
        write_embeddings(request.out, found)
    n, d = found.vectors.shape
    counts = {
        "out": str(request.out or encoded.files[encoder.name]),
        "tracklets": n,
        "width": d,
        "weights": found.weights_id,
        "crops": found.crops_id,
        "precision": encoder.precision,
        "mAP": mean_ap,
    }
    shown = ["{out}: {tracklets} vectors of {width}".format(**counts)]
    return Result(encoded, counts, [*shown, *([mean_aps_text(mean_ap)] if mean_ap else [])])
