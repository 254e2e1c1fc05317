"""Vectors of fragments, computed once and kept beside the crops."""

from contextlib import suppress

from polyplink.core.artefacts import content_key
from polyplink.core.errors import PolyplinkError
from polyplink.encoders import (
    Embedder,
    Embeddings,
    embed_fragments,
    read_embeddings,
    write_embeddings,
)
from polyplink.jobs.progress import Progress, counter, silent
from polyplink.tracklets import Prepared


def kept_fragments(
    prepared: Prepared,
    embedder: Embedder,
    key: str,
    length: int,
    *,
    progress: Progress = silent,
) -> Embeddings:
    """Embed the fragments of a prepared part, or find them embedded.

    Args:
        prepared: Tracklets and their crops.
        embedder: What turns packed crops into vectors.
        key: Names the weights and the kind of device, whose last digits differ.
        length: Crops in a fragment.
        progress: Told of fragments.

    Raises:
        PolyplinkError: If there is no fragment, or a vector is not finite.
    """
    name = f"fragments{length}-{key}-{content_key(prepared.procedures)}.parquet"
    path = prepared.folder / "embeddings" / name
    if path.is_file():
        with suppress(PolyplinkError):  # what cannot be read is made again
            return read_embeddings(path)
    stage = counter(progress, f"embed fragments of {length}")
    found = embed_fragments(prepared, embedder, key, length, progress=stage)
    write_embeddings(path, found)
    return found
