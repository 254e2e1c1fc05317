"""The views of data folders, for an index."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from polyplink.associate.identities import recorded_point
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Progress, silent
from polyplink.counting.link import screen, vectors_of
from polyplink.data.origin import read_origin
from polyplink.encoders.encode import encode
from polyplink.encoders.load import NamedEncoder
from polyplink.scale.index import Block, view_rows
from polyplink.tracklets.settings import with_options


def views_of(
    folders: Iterable[Path],
    encoder: NamedEncoder,
    index: Path,
    indexed_keys: dict[str, str],
    *,
    keep_alarms: bool = False,
    tracklets: Mapping[str, Any] | None = None,
    workers: int = 2,
    progress: Progress = silent,
) -> Iterator[Block]:
    """Rows and vectors of each data folder, without those of procedures already indexed.

    Args:
        folders: The data folders.
        encoder: The encoder of the index.
        index: Folder of the index.
        indexed_keys: Procedure -> key of its crops; the procedures of each folder are added.
        keep_alarms: Whether views that the encoder's record rejects as false alarms are included.
        tracklets: How boxes become tracklets, see `with_options`.
        workers: Processes that cut crops.
        progress: Called for crops and tracklets.

    Raises:
        PolyplinkError: If a procedure is indexed with other boxes or settings, or is in two of the
            folders with different ones.
    """
    point = recorded_point(encoder.record.operating).for_purpose("count")
    for folder in folders:
        settings = with_options(encoder.record.prepare, tracklets or {}, read_origin(folder))
        of_folder = replace(encoder, prepare=settings)
        encoded = encode([of_folder], folder, workers=workers, progress=progress)
        embeddings = encoded.embeddings[encoder.name]
        screened = screen(encoded.prepared, embeddings, point, keep_alarms=keep_alarms).prepared
        table, vectors = view_rows(screened, index), vectors_of(screened, embeddings)
        # Of all procedures: without a view now, one may be in the index with views of other boxes.
        keys = {name: screened.keys[name] for name in screened.procedures}
        changed = sorted(name for name, key in keys.items() if indexed_keys.get(name, key) != key)
        if changed:
            raise PolyplinkError(
                f"procedure {min(changed)} of {folder} is in the index with other "
                "boxes or settings",
                "build the index again; procedures of one name belong in different indexes",
            )
        new = table.select(~pl.col("procedure_id").is_in(list(indexed_keys))).to_series()
        indexed_keys |= keys
        yield table.filter(new), vectors[new.to_numpy()]
