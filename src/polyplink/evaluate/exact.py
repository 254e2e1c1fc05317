"""Cosines one by one, in double precision: where a block of them would hold few that are wanted."""

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import DIGITS
from polyplink.core.compiled import njit

Reals = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

SCALE = 10.0**DIGITS


# Sums may be taken in any order: in vectors. The order is the same for all pairs.
@njit(error_model="numpy", fastmath={"reassoc"})
def _dot(a: Reals, b: Reals) -> float:
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@njit(error_model="numpy")
def exact_cosine(a: Reals, b: Reals) -> float:
    """Cosine of two rows (d,) of length 1, rounded so that equal ones are equal."""
    return float(np.rint(_dot(a, b) * SCALE) / SCALE)


@njit(error_model="numpy")
def own_cosines(rows: Reals, stop: Codes) -> Reals:
    """Cosines (p,) of every row with those after it in its group, row by row.

    Args:
        rows: Rows of length 1 (n, d), those of a group side by side.
        stop: One past the last row of each row's group (n,).
    """
    pairs = 0
    for i in range(len(rows)):
        pairs += stop[i] - i - 1
    found = np.empty(pairs)
    place = 0
    for i in range(len(rows)):
        for j in range(i + 1, stop[i]):
            found[place] = exact_cosine(rows[i], rows[j])
            place += 1
    return found
