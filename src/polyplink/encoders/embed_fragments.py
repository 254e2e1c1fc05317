"""One vector per fragment: tracklets cut into samples of a fixed number of crops."""

from collections.abc import Callable

import numpy as np
import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.encoders.embed import Embedder
from polyplink.encoders.embeddings import Embeddings
from polyplink.tracklets import Prepared
from polyplink.tracklets.fragments import crop_rows

AT_ONCE = 64  # fragments whose crops are in memory together: 64 x 8 x 232 px are 80 MB


def fragment_table(prepared: Prepared, length: int) -> pl.DataFrame:
    """Fragments of `length` crops and a name for each: its tracklet's, "#" and its number.

    Raises:
        PolyplinkError: If no tracklet is that long.
    """
    table = prepared.fragments(length)
    if table.is_empty():
        raise PolyplinkError(
            f"no tracklet has {length} crops, so there is no fragment of {length}",
            "give shorter fragments, or procedures with longer tracklets",
        )
    names = prepared.tracklets["tracklet_id"].gather(table["tracklet"])
    number = pl.int_range(pl.len()).over("tracklet")
    return table.with_columns(names, number=number).with_columns(
        fragment_id=pl.format("{}#{}", "tracklet_id", "number")
    )


def embed_fragments(
    prepared: Prepared,
    embedder: Embedder,
    weights_id: str,
    length: int,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Embeddings:
    """Embed every fragment of a prepared part.

    Args:
        prepared: Tracklets and their crops.
        embedder: What turns packed crops into vectors.
        weights_id: Name of the embedder, kept with the vectors.
        length: Crops in a fragment.
        progress: Called with (fragments done, fragments in all).

    Returns:
        Vectors in the order of `fragment_table`, under its names.

    Raises:
        PolyplinkError: If there is no fragment, or a vector is not finite.
    """
    table = fragment_table(prepared, length)
    parts: list[np.ndarray] = []
    for (procedure_id,), rows in table.group_by("procedure_id", maintain_order=True):
        crops = prepared.crops(str(procedure_id))
        places = crop_rows(rows, length)  # fragments length
        for start in range(0, len(places), AT_ONCE):
            block = places[start : start + AT_ONCE]
            packed = np.asarray(crops[block.reshape(-1)])  # (fragments length) h w 3
            parts.append(embedder(packed, [length] * len(block)))
            if progress is not None:
                progress(sum(map(len, parts)), table.height)
    vectors = np.concatenate(parts)  # n d
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        name = table["fragment_id"][int(broken[0])]
        raise PolyplinkError(
            f"the vector of fragment {name} is not finite", "the weights are broken: train again"
        )
    return Embeddings(table["fragment_id"].to_list(), vectors, weights_id, prepared.key)
