"""Link probabilities, and the decisions that most need a review.

Clustering assigns tracklets to polyps but gives no probabilities. Here the probability that
two tracklets show one polyp is a logistic regression of their visual similarity and distance in
time, fitted on procedures with known polyps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from polyplink.core.errors import PolyplinkError

Reals = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Calibration:
    """A fitted logistic regression, as plain numbers.

    Attributes:
        intercept: Log-odds at visual similarity 0 and distance in time 0.
        per_visual: Change of the log-odds over the whole range of V.
        per_gap: Change of the log-odds over the whole procedure.
        pairs: Pairs it was fitted on.
        positives: How many of them show one polyp.
    """

    intercept: float
    per_visual: float
    per_gap: float
    pairs: int
    positives: int

    def probability(self, V: npt.ArrayLike, gaps: npt.ArrayLike) -> Reals:
        """Probability that two tracklets show one polyp.

        Args:
            V: Visual similarities, of any shape, such as (n, n).
            gaps: Distances in time |p_i - p_j|, of the same shape.

        Returns:
            Probabilities of that shape; the diagonal of a matrix means nothing.
        """
        return np.asarray(
            expit(
                self.intercept + self.per_visual * np.asarray(V) + self.per_gap * np.asarray(gaps)
            )
        )


LabelledPairs = tuple[Reals, Reals, npt.NDArray[np.bool_]]
"""Pairs of tracklets with known polyps: V (m,), distance in time (m,), one polyp (m,)."""


def labelled_pairs(V: Reals, gaps: Reals, polyps: Sequence[str | None]) -> LabelledPairs:
    """The pairs i < j of one procedure whose two polyps are both known.

    Args:
        V: Visual similarities (n, n).
        gaps: Distances in time (n, n), see `time_gaps`.
        polyps: Polyp of every tracklet (n,), None where unknown.

    Raises:
        PolyplinkError: If the three are not of the same tracklets.
    """
    names = np.asarray(polyps, dtype=object)
    if V.shape != (names.size, names.size) or gaps.shape != V.shape:
        raise PolyplinkError(
            f"similarities {V.shape}, gaps {gaps.shape} and {names.size} polyps do not match",
            "give all three for the same tracklets",
        )
    known = np.flatnonzero([name is not None for name in names])
    i, j = (known[side] for side in np.triu_indices(known.size, k=1))
    return V[i, j], gaps[i, j], np.asarray(names[i] == names[j], dtype=np.bool_)


def fit_calibration(procedures: Sequence[LabelledPairs]) -> Calibration | str:
    """Fit the probability of one polyp on the pairs of labelled procedures.

    L2-penalised logistic regression (C = 1) without balancing, so that probabilities carry the
    true rate of links.

    Args:
        procedures: The pairs of each procedure, see `labelled_pairs`.

    Returns:
        The calibration; or the reason why there is none, if all pairs show one polyp, or none does.
    """
    visual, gap, same = (
        np.concatenate([np.zeros(0), *(pairs[side] for pairs in procedures)]) for side in range(3)
    )
    if not same.any():
        return f"none of {same.size} labelled pairs shows one polyp"
    if same.all():
        return f"all {same.size} labelled pairs show one polyp"
    # Imported when used: it takes a second, and most readers of this room do not fit.
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    model = LogisticRegression(C=1.0).fit(np.column_stack([visual, gap]), same)
    return Calibration(
        intercept=float(model.intercept_[0]),
        per_visual=float(model.coef_[0, 0]),
        per_gap=float(model.coef_[0, 1]),
        pairs=int(same.size),
        positives=int(same.sum()),
    )


def link_scores(labels: Labels, P: Reals | None) -> Reals:
    """Confidence of the assignment of every tracklet, in [0, 1].

    Args:
        labels: Cluster of every tracklet (n,).
        P: Probability that two tracklets show one polyp (n, n), or None without a calibration.

    Returns:
        (n,): for a tracklet with mates the mean P to its mates; for one alone, 1 minus its
        largest P to any other (1 if there is no other). NaN everywhere without a calibration.
    """
    n = labels.size
    if P is None:
        return np.full(n, np.nan)
    mates = (labels[:, None] == labels[None, :]) & ~np.eye(n, dtype=bool)  # (n, n)
    many = mates.sum(axis=1)  # (n,)
    mean = np.where(mates, P, 0.0).sum(axis=1) / np.maximum(many, 1)
    largest = np.where(np.eye(n, dtype=bool), 0.0, P).max(axis=1, initial=0.0)
    return np.asarray(np.where(many > 0, mean, 1.0 - largest))


@dataclass(frozen=True)
class Doubt:
    """A decision worth a look: do `members` and `others` show one polyp?

    Attributes:
        members: Rows of the tracklets on one side: one tracklet of a cluster, or a cluster.
        others: Rows of the tracklets on the other side: its mates, or another cluster.
        joined: What the clusterer decided.
        probability: Mean probability that they do.
    """

    members: tuple[int, ...]
    others: tuple[int, ...]
    joined: bool
    probability: float

    @property
    def doubt(self) -> float:
        """Probability that the decision is wrong."""
        return 1.0 - self.probability if self.joined else self.probability


def uncertain(labels: Labels, P: Reals | None, most: int = 10) -> list[Doubt]:
    """The decisions most likely to be wrong, the worst first.

    Two kinds are compared: a tracklet's place among its mates, doubtful when its mean P to them
    is low, and the separation of two clusters, doubtful when their mean P is high.

    Args:
        labels: Cluster of every tracklet (n,).
        P: Probability that two tracklets show one polyp (n, n), or None without a calibration.
        most: How many to return at most.

    Returns:
        The uncertain decisions, by decreasing `doubt`, then by rows; none without a calibration.
    """
    if P is None:
        return []
    clusters = [tuple(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)]
    doubts = []
    for cluster in clusters:
        # In a pair each is the other's only mate: one question, not two.
        for i in cluster[:1] if len(cluster) == 2 else cluster:
            if mates := tuple(j for j in cluster if j != i):
                doubts.append(Doubt((i,), mates, True, float(P[i, list(mates)].mean())))
    for a, b in combinations(clusters, 2):
        doubts.append(Doubt(a, b, False, float(P[np.ix_(a, b)].mean())))
    doubts.sort(key=lambda doubt: (-doubt.doubt, doubt.members, doubt.others))
    return doubts[:most]
