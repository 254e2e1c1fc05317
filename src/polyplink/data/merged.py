"""Several data sets made one: tables below one another, nothing renamed, nothing copied.

Ids are never changed, not even to tell two apart: the published parts, the leakage guard and the
renderer know procedures by them.
"""

from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.data.adenoma_maps import Maps
from polyplink.data.overlaps import known_overlap
from polyplink.data.tables import DataSet


def merge(sets: Sequence[tuple[Path, DataSet]], adenoma: Maps | None = None) -> DataSet:
    """Put data sets below one another, in the order given.

    Sources become absolute, so that images stay where they are and are found from anywhere.
    Parts of one name (`train`) become one part.

    Args:
        sets: At least one: the folder, which relative sources are relative to, and its data set.
        adenoma: Which words of histology are adenoma; None for what the sets say.

    Raises:
        PolyplinkError: If two hold a procedure or polyp of the same id, naming it and both
            folders, or their maps differ.
    """
    for key in ("procedure_id", "polyp_id"):
        _refuse_clash(sets, key)
    splits: dict[str, list[str]] = {}
    for _, data in sets:
        for part, ids in data.splits.items():
            splits[part] = splits.get(part, []) + list(ids)
    return DataSet.of(
        pl.concat(data.detections for _, data in sets),
        pl.concat(_absolute(folder, data.procedures) for folder, data in sets),
        pl.concat(data.polyps for _, data in sets),
        splits,
        adenoma=_joined(sets) if adenoma is None else adenoma,
    )


def overlaps(data: DataSet) -> list[str]:
    """What the sets of a merged one are known to share, one line for each pair."""
    names = data.procedures["dataset"].unique(maintain_order=True)
    return [
        f"{a} and {b} overlap: {why}"
        for a, b in combinations(names, 2)
        if (why := known_overlap(a, b))
    ]


def _refuse_clash(sets: Sequence[tuple[Path, DataSet]], key: str) -> None:
    owners: dict[str, Path] = {}
    for folder, data in sets:
        table = data.procedures if key == "procedure_id" else data.polyps
        for name in table[key]:
            if name in owners:
                raise PolyplinkError(
                    f"{key} {name!r} is in {owners[name]} and in {folder}",
                    "leave one of the folders out, or import one under other ids",
                )
        owners |= dict.fromkeys(table[key], folder)


def _absolute(folder: Path, procedures: pl.DataFrame) -> pl.DataFrame:
    """Sources as seen from anywhere; an absolute one stays as it is."""
    sources = [str((folder / source).resolve()) for source in procedures["source"]]
    return procedures.with_columns(source=pl.Series(sources, dtype=pl.String))


def _joined(sets: Sequence[tuple[Path, DataSet]]) -> Maps:
    """The one map that all sets have."""
    for (first, before), (folder, data) in pairwise(sets):
        if data.adenoma != before.adenoma:
            raise PolyplinkError(
                f"{first} and {folder} disagree on which words of histology are adenoma",
                "say it for all with --histology-map",
            )
    return sets[0][1].adenoma
