"""Owners: which procedure's polyp each box shows, as numbers that loops can count with."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from polyplink.core.compiled import njit

Numbers = npt.NDArray[np.uint32]  # as polars counts rows: they need no cast there
Hashes = npt.NDArray[np.uint64]

NAMES = ("procedure_id", "polyp_id")


@dataclass(frozen=True)
class Owners:
    """Pairs of a procedure and a polyp; a procedure's boxes of no known polyp have one owner.

    Attributes:
        number: (d,) the owner of each box, numbered by the first of its boxes.
        names: procedure_id and polyp_id of each of the o owners.
        place: (o,) place of each owner by procedure, then polyp, both as text, null last.
        procedure: (o,) place of its procedure among the procedures.
    """

    number: Numbers
    names: pl.DataFrame
    place: npt.NDArray[np.int64]
    procedure: npt.NDArray[np.int64]


def owners_of(detections: pl.DataFrame) -> Owners:
    """Number the owners of boxes.

    Names are compared by 64-bit hashes, and then once with what they were found equal to, so that
    names of one hash cannot be confused. Nothing is sorted but the owners.

    Args:
        detections: A table with procedure_id and polyp_id, in any order; d rows.

    Returns:
        The owners, and whose each box is.
    """
    given = detections.select(NAMES)
    for seed in itertools.count():
        number, first = _numbered(given, seed)
        names = given[first]
        if names[number].equals(given):
            break
    order = names.select(pl.arg_sort_by(*NAMES, nulls_last=True)).to_series().to_numpy()  # o
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    procedure = names["procedure_id"].rank("dense").to_numpy().astype(np.int64)  # o
    return Owners(number, names, place, procedure)


def column_of(table: pl.DataFrame, name: str) -> npt.NDArray[Any]:
    """A column of numbers (d,), not copied where it lies in one piece.

    Read-only in any case, so that loops are compiled for one type of array.
    """
    values = table[name].to_numpy()
    values.flags.writeable = False
    return values


def _numbered(names: pl.DataFrame, seed: int) -> tuple[Numbers, Numbers]:
    """Number of each row's pair of hashes (d,), and the first row of each number (o,)."""
    hashes = names.select(pl.all().hash(seed))
    procedure, polyp = (column_of(hashes, name) for name in NAMES)  # d
    # Large, so that few meet in a slot; zeros that nobody touches take no memory.
    slots = np.zeros(1 << (2 * len(names)).bit_length(), dtype=np.uint32)
    number, first = np.empty(len(names), dtype=np.uint32), np.empty(len(names), dtype=np.uint32)
    return number, first[: _number(procedure, polyp, slots, number, first)]


@njit()
def _number(
    procedure: Hashes, polyp: Hashes, slots: Numbers, number: Numbers, first: Numbers
) -> int:
    """Fill in `number` and `first` (d,), and tell how many owners there are.

    procedure and polyp are (d,); `slots` is a hash table of 0 (free) or an owner plus 1, its
    length a power of two above d.
    """
    owners, mask = 0, np.uint64(slots.size - 1)
    for k in range(number.size):
        slot = (procedure[k] + np.uint64(3) * polyp[k]) & mask
        while slots[slot]:
            other = first[slots[slot] - 1]
            if procedure[other] == procedure[k] and polyp[other] == polyp[k]:
                break
            slot = (slot + np.uint64(1)) & mask
        if not slots[slot]:
            first[owners] = k
            owners += 1
            slots[slot] = owners
        number[k] = slots[slot] - 1
    return owners
