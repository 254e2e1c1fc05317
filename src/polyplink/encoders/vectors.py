"""Vectors of tracklets and their tables, without importing torch."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.tables import read_table, write_table


@dataclass(frozen=True)
class Embeddings:
    """Vectors of tracklets.

    Attributes:
        tracklet_ids: n unique ids.
        vectors: (n, d) float32, the encoder's output (not normalised).
        weights_id: Id of the weights.
        crops_id: Key of the crops, of a procedure or of a whole prepared data set.
    """

    tracklet_ids: Sequence[str] = field(repr=False)
    vectors: np.ndarray = field(repr=False)
    weights_id: str
    crops_id: str


def write_embeddings(path: Path, embeddings: Embeddings) -> None:
    """Write a Parquet table (tracklet_id, vector, weights_id, crops_id) atomically."""
    vectors = np.ascontiguousarray(embeddings.vectors, dtype=np.float32)
    d = vectors.shape[1]
    table = pl.DataFrame(
        {
            "tracklet_id": list(embeddings.tracklet_ids),
            "vector": pl.Series(vectors.reshape(-1)).reshape((-1, d)),
        },
        {"tracklet_id": pl.String, "vector": pl.Array(pl.Float32, d)},
    )
    weights_id, crops_id = pl.lit(embeddings.weights_id), pl.lit(embeddings.crops_id)
    write_table(path, table.with_columns(weights_id=weights_id, crops_id=crops_id))


def read_embeddings(path: Path, hint: str = "embed again") -> Embeddings:
    """Read a table of `write_embeddings`.

    Args:
        path: The file.
        hint: How to fix a broken file.

    Raises:
        PolyplinkError: If the file is missing or unreadable, lacks a column, repeats a tracklet,
            or mixes vectors of several encoders or crops.
    """
    if not path.is_file():
        raise PolyplinkError(f"no embeddings at {path}", hint)
    table = read_table(path, hint)
    for column in ("tracklet_id", "vector", "weights_id", "crops_id"):
        if column not in table.columns:
            raise PolyplinkError(f"{path} has no column {column}", hint)
    if table["tracklet_id"].dtype != pl.String:
        raise PolyplinkError(f"{path}: tracklet_id is not text", hint)
    repeated = table["tracklet_id"].is_duplicated().arg_true()
    if repeated.len():
        name = table["tracklet_id"][int(repeated[0])]
        raise PolyplinkError(f"{path}: tracklet {name!r} occurs twice", "keep one row of it")
    for column in ("weights_id", "crops_id"):
        if table[column].n_unique() > 1:
            raise PolyplinkError(
                f"{path} mixes several {column}", f"vectors are only comparable within one: {hint}"
            )
    vectors: np.ndarray = np.zeros(0)
    with suppress(TypeError, ValueError, pl.exceptions.PolarsError):
        vectors = table["vector"].to_numpy().astype(np.float32)  # n d
    PolyplinkError.unless(vectors.ndim == 2, f"{path} holds no vectors of one length", hint)
    ids = table["tracklet_id"].to_list()
    source = (table["weights_id"][0], table["crops_id"][0]) if ids else ("", "")
    return Embeddings(ids, vectors, *source)
