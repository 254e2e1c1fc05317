"""Boxes given by their edges, and the rows around them, joined to a data set.

For sets with edges in pixels and one size for each procedure. Edges are kept as written: nothing
is rounded, and a box that reaches beyond the image is cut at its border.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from polyplink.data.faults import Faults
from polyplink.data.tables import DETECTIONS, POLYPS, PROCEDURES, DataSet, Schema

Edges = tuple[float, float, float, float]  # left, top, right, bottom, pixels


class EdgeBox(NamedTuple):
    """One box by its edges, in pixels, and where it was read (a file, for messages)."""

    procedure_id: str
    frame: int
    polyp_id: str | None
    image: str | None
    where: str
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class ProcedureRow:
    """One row of the table procedures; see `PROCEDURES`."""

    procedure_id: str
    dataset: str
    patient: str
    n_frames: int
    width: int
    height: int
    source: str
    fps: float | None = None
    age: int | None = None
    sex: str | None = None
    brand: str | None = None


@dataclass(frozen=True)
class PolypRow:
    """One row of the table polyps; see `POLYPS`."""

    polyp_id: str
    procedure_id: str
    size_mm: float | None = None
    histology: str | None = None
    histology_class: str | None = None
    location: str | None = None
    morphology: str | None = None


def join_edges(
    boxes: Sequence[EdgeBox],
    procedures: Sequence[ProcedureRow],
    polyps: Sequence[PolypRow],
    splits: Mapping[str, list[str]],
    faults: Faults,
) -> DataSet:
    """Check boxes against their procedure's size and join all to a data set.

    Args:
        boxes: In any order; those of a frame keep theirs.
        procedures: One for every procedure that a box names.
        polyps: Those that boxes name, and any other.
        splits: Part -> procedure ids; parts without procedures are left away.
        faults: Told of boxes that cannot be used (not finite, outside, of no area) and of those
            that are cut at the border.

    Raises:
        PolyplinkError: If strict, at the first such box.
    """
    sizes = {row.procedure_id: (row.width, row.height) for row in procedures}
    xywh, usable = edges_to_xywh(boxes, [sizes[box.procedure_id] for box in boxes], faults)
    kept = [boxes[i] for i in np.flatnonzero(usable).tolist()]
    detections = _table(DETECTIONS, kept, ("procedure_id", "frame", "polyp_id", "image"))
    detections = detections.with_columns(
        pl.Series(column, xywh[usable, i].astype(np.float32)) for i, column in enumerate("xywh")
    )
    return DataSet.of(
        detections,
        _table(PROCEDURES, procedures, [field.name for field in fields(ProcedureRow)]),
        _table(POLYPS, polyps, [field.name for field in fields(PolypRow)]),
        {part: ids for part, ids in splits.items() if ids},
    )


def _table(
    schema: Schema, rows: Sequence[EdgeBox | ProcedureRow | PolypRow], columns: Sequence[str]
) -> pl.DataFrame:
    return pl.DataFrame(
        {name: [getattr(row, name) for row in rows] for name in columns},
        schema={name: schema[name].dtype for name in columns},
    )


def edges_to_xywh(
    boxes: Sequence[EdgeBox], sizes: Sequence[tuple[int, int]], faults: Faults
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Turn edges into corner and size, cut at the image's border, and find those of use.

    Args:
        boxes: n boxes.
        sizes: Width and height of the image of each.
        faults: Told of what is cut and of what is of no use.

    Returns:
        n x 4: x, y, w, h, with w = right - left and h = bottom - top (no 1 is added); and which
        of the n can be used.

    Raises:
        PolyplinkError: If strict, at the first box of no use.
    """
    edges = np.array([box[5:] for box in boxes], dtype=np.float64).reshape(-1, 4)  # n x 4
    limits = np.tile(np.array(sizes, dtype=np.float64).reshape(-1, 2), 2)  # n x 4
    finite: NDArray[np.bool_] = np.all(np.isfinite(edges), axis=1)  # n
    clipped = np.clip(np.where(np.isfinite(edges), edges, 0.0), 0.0, limits)  # n x 4
    flat: NDArray[np.bool_] = np.any(~(edges[:, 2:] > edges[:, :2]), axis=1)  # n
    outside: NDArray[np.bool_] = np.any(clipped[:, 2:] <= clipped[:, :2], axis=1)  # n
    for i in np.flatnonzero(~finite | flat | outside).tolist():
        kind = "wholly outside the image"
        if flat[i]:
            kind = "of no area"
        if not finite[i]:
            kind = "with an edge that is not finite"
        faults.fault(f"box {kind}", _describe(boxes[i]), "correct the box or take it out")
    usable = finite & ~flat & ~outside
    for i in np.flatnonzero(usable & np.any(clipped != edges, axis=1)).tolist():
        faults.warn("box that reaches beyond the image, cut at its border", _describe(boxes[i]))
    return np.hstack([clipped[:, :2], clipped[:, 2:] - clipped[:, :2]]), usable


def _describe(box: EdgeBox) -> str:
    return f"{box.where} ({box.left:g}, {box.top:g}, {box.right:g}, {box.bottom:g})"
