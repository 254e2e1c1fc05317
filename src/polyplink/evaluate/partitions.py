"""The distinct partitions among many clusterings: most settings of a grid cut alike.

What does not depend on the numbers of clusters is computed once for each of them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from polyplink.core.compiled import njit

Labels = npt.NDArray[np.integer]
Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Partitions:
    """s clusterings of the same n tracklets, p of them distinct.

    Attributes:
        labels: The distinct ones (p, n), in the order in which they come first; clusters are
            numbered from 0 in the order of their first tracklets.
        of: Which of them each clustering is (s,).
    """

    labels: Codes
    of: Ints


@njit()
def renumber(labels: Labels, codes: Codes, new: Codes) -> int:
    """Number clusters by their first tracklets: labels (n,) to codes (n,); return how many.

    new (m,) must be -1 for every label, and is left so.
    """
    count = 0
    for i in range(labels.size):
        if new[labels[i]] < 0:
            new[labels[i]] = count
            count += 1
        codes[i] = new[labels[i]]
    for i in range(labels.size):
        new[labels[i]] = -1
    return count


@njit()
def _place(codes: Codes, table: Ints, kept: Codes) -> int:
    """Where codes (n,) belong in a hash table of rows of kept (p, n); -1 there: not kept yet."""
    key = np.uint64(1469598103934665603)
    for i in range(codes.size):
        key = (key ^ np.uint64(codes[i])) * np.uint64(1099511628211)
        key ^= key >> np.uint64(29)
    at = int(np.int64(key % np.uint64(table.size)))
    while table[at] >= 0:
        row, i = table[at], 0
        while i < codes.size and kept[row, i] == codes[i]:
            i += 1
        if i == codes.size:
            break
        at = at + 1 if at + 1 < table.size else 0
    return at


@njit()
def _sort_out(labels: Labels, most: int, kept: Codes, of: Ints) -> int:
    """Fill kept (s, n) from its start and of (s,); return how many are kept."""
    table = np.full(2 * of.size + 1, -1)
    new = np.full(most, -1, np.int32)
    count = 0
    for s in range(of.size):
        renumber(labels[s], kept[count], new)
        at = _place(kept[count], table, kept)
        if table[at] < 0:
            table[at] = count
            count += 1
        of[s] = table[at]
    return count


def partitions(labels: Labels) -> Partitions:
    """Find the distinct ones of clusterings (s, n), labels being 0 or more."""
    every = np.ascontiguousarray(labels)
    kept = np.empty(every.shape, dtype=np.int32)
    of = np.empty(len(every), dtype=np.int64)
    count = _sort_out(every, int(every.max(initial=0)) + 1, kept, of)
    return Partitions(kept[:count].copy(), of)
