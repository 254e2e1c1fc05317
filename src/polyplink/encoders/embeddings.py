"""The embeddings table: one vector per tracklet, with where it came from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data import write_table


@dataclass(frozen=True)
class Embeddings:
    """Vectors of tracklets.

    Attributes:
        tracklet_ids: n names, unique.
        vectors: (n, d) float32, as the encoder gave them (not normalised).
        weights_id: Id of the weights they came from.
        crops_id: Key of the prepared crops they came from.
    """

    tracklet_ids: Sequence[str]
    vectors: np.ndarray
    weights_id: str
    crops_id: str


def write_embeddings(path: Path, embeddings: Embeddings) -> None:
    """Write a Parquet table (tracklet_id, vector, weights_id, crops_id), whole or not at all."""
    vectors = np.ascontiguousarray(embeddings.vectors, dtype=np.float32)
    d = vectors.shape[1]
    table = pl.DataFrame(
        {
            "tracklet_id": list(embeddings.tracklet_ids),
            "vector": pl.Series(vectors.reshape(-1)).reshape((-1, d)),
            "weights_id": [embeddings.weights_id] * len(embeddings.tracklet_ids),
            "crops_id": [embeddings.crops_id] * len(embeddings.tracklet_ids),
        },
        schema_overrides={
            "tracklet_id": pl.String,
            "vector": pl.Array(pl.Float32, d),
            "weights_id": pl.String,
            "crops_id": pl.String,
        },
    )
    write_table(path, table)


def read_embeddings(path: Path) -> Embeddings:
    """Read what `write_embeddings` wrote.

    Raises:
        PolyplinkError: If the file is missing or unreadable, lacks a column, repeats a tracklet,
            or mixes vectors of several encoders or crops.
    """
    if not path.is_file():
        raise PolyplinkError(f"no embeddings at {path}", "run `polyplink embed`")
    try:
        table = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise PolyplinkError(
            f"{path} cannot be read ({first_line(error)})", f"remove {path} and embed again"
        ) from None
    for column in ("tracklet_id", "vector", "weights_id", "crops_id"):
        if column not in table.columns:
            raise PolyplinkError(f"{path} has no column {column}", "embed again")
    twice = table["tracklet_id"].is_duplicated().arg_true()
    if twice.len():
        name = table["tracklet_id"][int(twice[0])]
        raise PolyplinkError(f"{path}: tracklet {name!r} occurs twice", "keep one row of it")
    for column in ("weights_id", "crops_id"):
        if table[column].n_unique() > 1:
            raise PolyplinkError(
                f"{path} mixes several {column}", "vectors compare only within one: embed again"
            )
    vectors = table["vector"].to_numpy()  # n d
    ids = table["tracklet_id"].to_list()
    source = (table["weights_id"][0], table["crops_id"][0]) if ids else ("", "")
    return Embeddings(ids, vectors.astype(np.float32), *source)
