"""Cut tracklets that show two polyps: the table of the parts, and the vectors of the parts."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from polyplink.core.artefacts import KEY_DIGITS
from polyplink.core.errors import PolyplinkError
from polyplink.counting.result import Count
from polyplink.encoders.encode import Embeddings, read_embeddings, write_embeddings
from polyplink.models.shipped import models
from polyplink.tracklets.box_runs import add_positions
from polyplink.tracklets.prepare import Prepared
from polyplink.tracklets.sampling import part_of_tracklet

if TYPE_CHECKING:
    from polyplink.encoders.embed import Embedder

FILE = "vectors-of-parts.parquet"


def cut_rows(
    table: pl.DataFrame, cuts: Mapping[str, Sequence[int]], prepared: Prepared
) -> pl.DataFrame:
    """Cut tracklets at frames; parts begin at a crop, so that no crop belongs to two parts.

    Args:
        table: Tracklets of one procedure (`Prepared.tracklets`).
        cuts: Tracklet -> first frames of its later parts, which are frames of crops.
        prepared: The prepared data set of the tracklets.

    Returns:
        The table with `whole` (the tracklet that was cut) and `skipped` (crops of it before the
        part). First parts keep their rows and names; later ones follow, named TRACKLET@FRAME.
    """
    table = table.with_columns(whole="tracklet_id", skipped=pl.lit(0, pl.Int32))
    rows, later = list[dict[str, Any]](), list[dict[str, Any]]()
    stride, frames = prepared.settings.stride, prepared.detections["frame"]
    for row in table.iter_rows(named=True):
        if not cuts.get(row["whole"]):
            rows.append(row)
            continue
        crop_frames = frames[row["offset"] : row["offset"] + row["n"] : stride].to_numpy()
        starts = np.searchsorted(crop_frames, cuts[row["whole"]])
        edges = [0, *sorted({int(k) for k in starts if 0 < k < row["n_crops"]}), row["n_crops"]]
        for first, last in pairwise(edges):
            part = part_of_tracklet(row, frames, first, last, stride) | {"skipped": first}
            if first:
                part["tracklet_id"] = f"{row['whole']}@{part['first_frame']}"
            (later if first else rows).append(part)
    if not later:
        return table
    parts = pl.DataFrame(rows + later, schema=table.schema)
    return add_positions(parts, prepared.spans)


def weights_of(count: Count, out: Path) -> Path:
    """The weights of a count: a shipped encoder wherever it is installed, or the file it names.

    Args:
        count: The count.
        out: Its folder.
    """
    shipped = [m.path for m in models() if count.weights.startswith(m.sha256[:KEY_DIGITS])]
    return shipped[0] if shipped else out / count.weights_file


class PartVectors:
    """Vectors of parts of tracklets, embedded from their crops once and stored beside the count.

    Args:
        out: The counted folder.
        count: The count, which names the weights.
        prepared: The prepared data set that was counted.
    """

    def __init__(self, out: Path, count: Count, prepared: Prepared) -> None:
        self.path, self.count, self.prepared = out / FILE, count, prepared
        self.weights = weights_of(count, out)

    @cached_property
    def _stored_vectors(self) -> dict[str, np.ndarray]:
        """Vectors by part; none of an earlier count by other weights or of other crops."""
        if not self.path.is_file():
            return {}
        embeddings = read_embeddings(self.path)
        if (embeddings.weights_id, embeddings.crops_id) != (self.count.weights, self.prepared.key):
            return {}
        return dict(zip(embeddings.tracklet_ids, embeddings.vectors, strict=True))

    @cached_property
    def _embedder(self) -> "Embedder":
        from polyplink.encoders.load import load_named  # noqa: PLC0415 - torch is heavy

        encoder = load_named(self.weights, "cpu")
        if not self.count.weights.startswith(encoder.key):
            raise PolyplinkError(f"{self.weights} are not the weights of the count", "count again")
        return encoder.embedder

    def of(self, row: Mapping[str, Any]) -> np.ndarray:
        """The vector (d,) of a part, a row of `cut_rows`.

        Raises:
            PolyplinkError: If the weights of the count, or the crops, are missing.
        """
        first, n = int(row["crop_first"]), int(row["n_crops"])
        name = f"{row['whole']}#{first}+{n}"
        if name not in self._stored_vectors:
            crops = self.prepared.crops(row["procedure_id"])[first : first + n]
            self._stored_vectors[name] = self._embedder(np.array(crops), [n])[0].astype(np.float32)
            vectors, source = np.stack(list(self._stored_vectors.values())), self.count.weights
            write_embeddings(
                self.path, Embeddings([*self._stored_vectors], vectors, source, self.prepared.key)
            )
        return self._stored_vectors[name]
