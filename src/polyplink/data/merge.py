"""Merge data sets by concatenation; nothing is renamed and no image is copied.

Ids are never changed, not even to resolve a conflict: the published parts, the leakage guard and
the renderer identify procedures by them.
"""

from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError
from polyplink.core.text import many
from polyplink.data.tables import DataSet, absolute_sources
from polyplink.data.vocabulary import Maps, known_overlap


def overlaps(data: DataSet) -> list[str]:
    """Known overlaps of the sets of a merged data set, one line per pair."""
    lines = []
    for a, b in combinations(data.procedures["dataset"].unique(maintain_order=True), 2):
        reason = known_overlap(a, b)
        if reason is not None:
            lines.append(f"{a} and {b} overlap: {reason}")
    return lines


def patients_of_several_sets(data: DataSet) -> list[str]:
    """Patients of several sets of a merged data set, one line if there are any."""
    sets = data.procedures.group_by("patient", maintain_order=True).agg(
        pl.col("dataset").unique(maintain_order=True)
    )
    shared = sets.filter(pl.col("dataset").list.len() > 1)
    if shared.is_empty():
        return []
    patient, names = shared.row(0)
    return [
        f"{many(shared.height, 'patient')} of the same name in several data sets (first: {patient} "
        f"in {' and '.join(names)}), treated as different: if they are the same, import both with "
        "the same --dataset"
    ]


def merge(sets: Sequence[tuple[Path, DataSet]], adenoma: Maps | None = None) -> DataSet:
    """Concatenate data sets in the order of `sets`.

    Sources become absolute paths, so that images stay in place and can be read from anywhere.
    Parts with the same name (`train`) are joined.

    Args:
        sets: At least one pair of a folder, which relative sources are relative to, and its data
            set.
        adenoma: Map of histology terms to adenoma; None for the map of the data sets.

    Raises:
        PolyplinkError: If two data sets contain the same id of a procedure or polyp (the message
            names both folders), or their maps differ.
    """
    # No id and no meaning of a term in two data sets.
    for table, key in (("procedures", "procedure_id"), ("polyps", "polyp_id")):
        owners: dict[str, Path] = {}
        for folder, data in sets:
            for name in getattr(data, table)[key]:
                if name in owners:
                    raise PolyplinkError(
                        f"{key} {name!r} is in {owners[name]} and in {folder}",
                        "leave one of the folders out, or import one under other ids",
                    )
            owners |= dict.fromkeys(getattr(data, table)[key], folder)
    for (folder, data), (after_folder, after) in pairwise(sets):
        if adenoma is None and data.adenoma != after.adenoma:
            raise PolyplinkError(
                f"{folder} and {after_folder} disagree on which histology terms are adenoma",
                "state the map for all with --histology-map",
            )

    # The tables, one after the other, with sources that hold in any folder.
    splits: dict[str, list[str]] = {}
    procedures = []
    for folder, data in sets:
        for part, ids in data.splits.items():
            splits.setdefault(part, []).extend(ids)
        procedures.append(absolute_sources(data.procedures, folder))
    return DataSet.of(
        pl.concat(data.detections for _, data in sets),
        pl.concat(procedures),
        pl.concat(data.polyps for _, data in sets),
        splits,
        adenoma=sets[0][1].adenoma if adenoma is None else adenoma,
    )
