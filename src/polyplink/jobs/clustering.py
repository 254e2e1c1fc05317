"""The procedures of an embedded data set, as the association sees them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from polyplink.associate import VisualForm, visual
from polyplink.core.errors import PolyplinkError
from polyplink.encoders import Embeddings
from polyplink.tracklets import Prepared


@dataclass(frozen=True)
class Scene:
    """One procedure's tracklets, ready to be associated.

    Attributes:
        procedure_id: Its name.
        table: Its rows of the tracklets table, n of them.
        V: Visual similarity (n, n), in [0, 1].
        positions: First frames in the procedure's annotated span (n,), in [0, 1].
    """

    procedure_id: str
    table: pl.DataFrame
    V: np.ndarray
    positions: np.ndarray

    @property
    def polyps(self) -> list[str | None]:
        """True polyp of every tracklet, None where unknown."""
        return self.table["polyp_id"].to_list()


def scenes(
    prepared: Prepared,
    embeddings: Embeddings,
    form: VisualForm,
    procedures: Sequence[str] | None = None,
) -> list[Scene]:
    """Join tracklets and vectors, procedure by procedure.

    Args:
        prepared: The tracklets.
        embeddings: Vectors of (at least) these tracklets.
        form: Form of the visual similarity.
        procedures: Only these, in this order; None for all of `prepared`. Procedures without
            tracklets are left out.

    Raises:
        PolyplinkError: If a tracklet has no vector.
    """
    row = {name: i for i, name in enumerate(embeddings.tracklet_ids)}
    found = []
    for procedure_id in prepared.procedures if procedures is None else procedures:
        table = prepared.tracklets.filter(pl.col("procedure_id") == procedure_id)
        if table.is_empty():
            continue
        missing = [name for name in table["tracklet_id"] if name not in row]
        if missing:
            raise PolyplinkError(f"tracklet {missing[0]} has no vector", "embed the data set again")
        vectors = embeddings.vectors[[row[name] for name in table["tracklet_id"]]]  # n d
        found.append(
            Scene(procedure_id, table, visual(vectors, form), table["position"].to_numpy())
        )
    return found
