"""What tracking is scored from: sums of a procedure that add up over procedures, and the figures.

Source: HOTA (Luiten et al., IJCV 2021), IDF1 (Ristani et al. 2016), MOTA (CLEAR, Bernardin and
Stiefelhagen 2008), with the conventions of TrackEval 1.3.0: HOTA's parts are means over 19
thresholds of IoU, 0.05 to 0.95; sequences are combined by adding counts, not by averaging.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

ALPHAS = np.arange(0.05, 0.99, 0.05)  # 19
THRESHOLD = 0.5  # IoU from which identity and CLEAR call two boxes one
EPS = float(np.finfo("float").eps)
FIGURES = (
    "HOTA",
    "DetA",
    "AssA",
    "AssPr",
    "AssRe",
    "LocA",
    "IDF1",
    "IDP",
    "IDR",
    "IDSW",
    "MOTA",
)
NEEDS_TRUTH = "no true box"

Form = Literal["table", "general"]


@dataclass(frozen=True)
class TrackingCounts:
    """Sums over the boxes of one procedure or of several.

    A leading axis may hold resamples, or settings.

    Attributes:
        true: True boxes (...,).
        found: Found boxes (...,).
        tp: Matched pairs at every threshold (..., 19).
        ass_a: Sum over matched pairs of their tracks' association score (..., 19).
        ass_pr: Sum of their association precision (..., 19).
        ass_re: Sum of their association recall (..., 19).
        loc: Sum of their IoU (..., 19).
        idtp: Boxes matched under the best one-to-one matching of whole tracks (...,).
        clear_tp: Boxes matched frame by frame at IoU 0.5 (...,).
        switches: Matched boxes of a polyp whose track is another than at its last match (...,).
    """

    true: Reals
    found: Reals
    tp: Reals
    ass_a: Reals
    ass_pr: Reals
    ass_re: Reals
    loc: Reals
    idtp: Reals
    clear_tp: Reals
    switches: Reals

    @classmethod
    def weighted(cls, counts: Sequence[Self], weights: npt.ArrayLike) -> Self:
        """Add procedures up, each as often as it was drawn.

        Args:
            counts: One per procedure (p of them).
            weights: How often each is taken, (p,) or (r, p).
        """
        w = np.asarray(weights, dtype=np.float64)
        names = [field.name for field in fields(cls)]
        return cls(**{n: w @ np.stack([np.asarray(getattr(c, n)) for c in counts]) for n in names})

    @classmethod
    def total(cls, counts: Iterable[Self]) -> Self:
        """Add procedures up, as TrackEval combines sequences.

        One after the other, so that settings side by side get the very bits that each gets alone.
        """
        sums: dict[str, Reals] = {}
        for one in counts:
            for field in fields(cls):
                value = getattr(one, field.name)
                sums[field.name] = sums[field.name] + value if field.name in sums else value
        return cls(**sums)

    def take(self, rows: npt.ArrayLike) -> Self:
        """Some entries of the leading axis, in that order."""
        at = np.asarray(rows)
        return type(self)(**{field.name: getattr(self, field.name)[at] for field in fields(self)})


def association_sums(table: Reals, true: Reals, found: Reals) -> tuple[Reals, Reals, Reals]:
    """Sums over matched pairs of association accuracy, precision and recall.

    Cell by cell, row after row, so that empty cells change no bit (`sum` adds in pairs).

    Args:
        table: Matched pairs of every true and found track (..., g, t).
        true: Boxes of every true track (g,), at least one.
        found: Boxes of every found track (t,), at least one.

    Returns:
        Three sums (...,).
    """
    either = true[:, None] + found[None, :] - table
    squares = table * table
    wholes = (np.maximum(1, either), np.maximum(1, found), np.maximum(1, true)[:, None])
    accuracy, precision, recall = (
        (squares / whole).reshape(*table.shape[:-2], -1).cumsum(axis=-1)[..., -1]
        for whole in wholes
    )
    return accuracy, precision, recall


def tracking_figures(counts: TrackingCounts) -> dict[str, Reals]:
    """The figures from the sums; NaN where there is no true box (TrackEval says 0 there).

    Returns:
        `FIGURES`, each (...,).
    """
    c = counts
    true, found = np.asarray(c.true)[..., None], np.asarray(c.found)[..., None]
    det = c.tp / np.maximum(1, true + found - c.tp)  # (..., 19)
    matched = np.maximum(1, c.tp)
    ass = c.ass_a / matched
    figures = {
        "HOTA": np.sqrt(det * ass).mean(axis=-1),
        "DetA": det.mean(axis=-1),
        "AssA": ass.mean(axis=-1),
        "AssPr": (c.ass_pr / matched).mean(axis=-1),
        "AssRe": (c.ass_re / matched).mean(axis=-1),
        "LocA": (np.maximum(1e-10, c.loc) / np.maximum(1e-10, c.tp)).mean(axis=-1),
        "IDF1": c.idtp / np.maximum(1, (c.true + c.found) / 2),
        "IDP": c.idtp / np.maximum(1, c.found),
        "IDR": c.idtp / np.maximum(1, c.true),
        "IDSW": np.asarray(c.switches, dtype=np.float64),
        "MOTA": (2 * c.clear_tp - c.found - c.switches) / np.maximum(1, c.true),
    }
    return {name: np.where(np.asarray(c.true) > 0, v, np.nan) for name, v in figures.items()}
