"""How wide the 90 % interval of a count must be, fitted on procedures with known polyps.

Split conformal prediction (Vovk et al. 2005) over a ladder of intervals, each within the next: the
counts while the price of a polyp varies by a growing factor, then those counts and one, two ...
polyps more on either side. The rung is the lowest that holds the true number in 90 % of the
procedures, and of others like them.

Procedures of one price are not alike: where links are clear, the counts do not vary with the price,
and the interval is a single number. Such intervals are read as certainty. They are widened by a
polyp on either side, unless the procedures show with 90 % confidence that at most one of ten is
wrong: none of 22, for example, or one of 38.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr

from polyplink.associate.identities import SPREADS, count_intervals

COVERED = 0.9  # of procedures, by the intervals of their counts

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FittedInterval:
    """The interval of counts, as the operating point carries it.

    Attributes:
        spread: Factor of the price.
        margin: Polyps beyond it, on either side.
        lone: Polyps that a single number is widened by, on either side: 0 or 1.
        held: Share of the procedures whose interval holds the true number, each by an interval
            that was fitted on the others.
    """

    spread: float
    margin: int
    lone: int
    held: float


@dataclass(frozen=True)
class Coverage:
    """How often the intervals of counts hold the true number.

    Attributes:
        procedures: Procedures with an interval and a known number of polyps.
        held: Those whose interval holds it.
        single: Those whose interval is a single number.
        single_wrong: Those of them that are wrong.

    Example:
        >>> print(Coverage.of([(2, 2, 3), (1, 2, 2), (4, 4, 4)]))
        90 % intervals hold the true number in 2 of 3 procedures; of 2 single numbers 1 is wrong
    """

    procedures: int
    held: int
    single: int
    single_wrong: int

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int]]) -> Self:
        """Over rows of the true number, and the lowest and highest of the interval."""
        single = [(true, low) for true, low, high in rows if low == high]
        held = sum(low <= true <= high for true, low, high in rows)
        return cls(len(rows), held, len(single), sum(true != low for true, low in single))

    def __str__(self) -> str:
        held = f"90 % intervals hold the true number in {self.held} of {self.procedures} procedures"
        if not self.single:
            return held
        verb = "is" if self.single_wrong == 1 else "are"
        return f"{held}; of {self.single} single numbers {self.single_wrong} {verb} wrong"


def fit_interval(
    links: Sequence[npt.NDArray[np.float64]], polyps: Sequence[int], price: float
) -> FittedInterval | None:
    """The narrowest interval that holds the true number in 90 % of procedures.

    Args:
        links: Link probabilities (n, n) of each procedure, by a model that has not seen it.
        polyps: True number of polyps of each.
        price: Price of a polyp.

    Returns:
        The interval; None where there are so few procedures that none is known to suffice.
    """
    rank = math.ceil(COVERED * (len(links) + 1))
    if rank > len(links):
        return None
    ends = [count_intervals(P, price, SPREADS) for P in links]
    low = np.array([bound for bound, _ in ends], dtype=np.int64)  # procedures, rungs
    high = np.array([bound for _, bound in ends], dtype=np.int64)
    true = np.asarray(polyps, dtype=np.int64)[:, None]
    furthest = int(np.maximum(low[:, -1:] - true, true - high[:, -1:]).max(initial=0))
    margins = np.arange(1, max(furthest, 1) + 1)
    low = np.concatenate([low, np.maximum(low[:, -1:] - margins, 0)], axis=1)
    high = np.concatenate([high, high[:, -1:] + margins], axis=1)
    holds, single = (low <= true) & (true <= high), low == high
    rung = _rung(holds)
    without_each = [np.arange(len(true)) != i for i in range(len(true))]
    covered = np.mean(
        [holds[i, _rung(holds[without_one])] for i, without_one in enumerate(without_each)]
    )
    margin = max(rung + 1 - len(SPREADS), 0)
    n_single, n_wrong = int(single[:, rung].sum()), int((single & ~holds)[:, rung].sum())
    # A one-sided interval of Clopper and Pearson (1934): so few errors in so many single numbers
    # are unlikely where more than one in ten is wrong.
    lone = int(bdtr(n_wrong, n_single, 1 - COVERED) > 1 - COVERED)
    spread = float(SPREADS[min(rung, len(SPREADS) - 1)])
    return FittedInterval(spread, margin, lone, float(covered))


def _rung(holds: Flags) -> int:
    """The lowest rung that suffices; holds (p, r) never turns false again along the rungs."""
    p, rungs = holds.shape
    rank = min(math.ceil(COVERED * (p + 1)), p)
    needed = np.where(holds.any(axis=1), holds.argmax(axis=1), rungs - 1)
    return int(np.sort(needed)[rank - 1])
