"""Splits: the one of REAL-Colon that the counting papers use, as a rule; one by patient.

Source: thesis, list of the leave-one-out videos; TA (arXiv 2507.02493) and NTSSL (arXiv
2605.12320) train on the same 27 procedures and evaluate on the same 19.
"""

import hashlib
import re
from collections.abc import Collection, Iterable

import polars as pl

LAST_TRAIN = 8  # the highest number inside a study that is training

_NAME = re.compile(r"\d{3}-(\d{3})")


def split_by_rule(
    procedure_ids: Iterable[str], with_lesion: Collection[str]
) -> dict[str, list[str]]:
    """Split procedures named `SSS-VVV` (study, number).

    Args:
        procedure_ids: Names of the procedures.
        with_lesion: Those of them that have a lesion.

    Returns:
        `train` (a lesion, VVV up to 008), `eval` (a lesion, VVV from 009) and `negative` (no
        lesion), in the given order; a part without procedures is absent. A name that is not
        `SSS-VVV` has no number to go by and is in no part.
    """
    parts: dict[str, list[str]] = {"train": [], "eval": [], "negative": []}
    for procedure_id in procedure_ids:
        if name := _NAME.fullmatch(procedure_id):
            seen = "train" if int(name.group(1)) <= LAST_TRAIN else "eval"
            parts[seen if procedure_id in with_lesion else "negative"].append(procedure_id)
    return {part: ids for part, ids in parts.items() if ids}


def split_by_patient(
    procedures: pl.DataFrame, polyps: pl.DataFrame, *, share: float = 0.7, seed: int = 0
) -> tuple[list[str], list[str]]:
    """Split procedures in two by their number of polyps; no patient is in both.

    Patients come in an order drawn from their names and the seed, and go to the first side as
    long as it stays within its share.

    Args:
        procedures: The table.
        polyps: The table; polyps of other procedures do not count.
        share: Of the polyps, for the first side.
        seed: Another one, another split.

    Returns:
        Procedure ids of the two sides, in the table's order.
    """
    counts = dict(polyps.group_by("procedure_id").len().iter_rows())
    weights: dict[str, int] = {}
    rows = procedures.select("procedure_id", "dataset", "patient").rows()
    for procedure, dataset, patient in rows:
        key = f"{dataset}/{patient}"
        weights[key] = weights.get(key, 0) + counts.get(procedure, 0)
    order = sorted(weights, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())
    room = round(share * sum(weights.values()))
    first = set()
    for patient in order:
        if weights[patient] <= room:
            first.add(patient)
            room -= weights[patient]
    sides: tuple[list[str], list[str]] = ([], [])
    for procedure, dataset, patient in rows:
        sides[f"{dataset}/{patient}" not in first].append(procedure)
    return sides
