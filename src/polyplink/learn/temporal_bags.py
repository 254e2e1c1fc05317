"""Bags from time only (NTSSL 2.1): neighbours in time are assumed to show the anchor's polyp.

Time and memory are O(n K) for n anchors and K ranks each, both to sample ranks and to look up the
fragment at a rank: no matrix of all pairs is built.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from polyplink.core.errors import PolyplinkError
from polyplink.core.ranges import AT_LEAST_ONE, Ranged
from polyplink.learn.bags import Bags, BagSampler, EpochBags, shuffled
from polyplink.learn.fragment_set import FragmentSet


def draw_ranks(
    candidates: np.ndarray, k: int, tau: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw K distinct ranks for every anchor, P(r) proportional to exp(-r / tau).

    NTSSL 2.1, "Bag Construction". Ranks are drawn sequentially without replacement from the
    truncated geometric distribution over the remaining ranks, which is equivalent to Gumbel top-k.
    The draw is in closed form: between the ranks already drawn there are at most K + 1 runs of free
    ranks; a run is chosen by its mass, then a rank within it by the inverse of its cumulative sum.
    Masses are relative to the first free rank, so that a small tau loses no precision.

    Args:
        candidates: (n,) int, the number C of ranks 1..C that each anchor may draw; may be below k.
        k: Ranks to draw.
        tau: Temperature, above 0, in ranks.
        rng: Source of randomness.

    Returns:
        ranks (n, k) int64, from 1, in the order drawn, and valid (n, k) bool, False where an
        anchor had no rank left (the entry of `ranks` is then meaningless).

    Raises:
        PolyplinkError: If tau is not above 0.
    """
    if not (0.0 < tau < np.inf):
        raise PolyplinkError(f"tau is {tau}", "give one above 0")
    n = len(candidates)
    last = candidates.astype(np.int64)  # n
    drawn = np.empty((n, 0), np.int64)
    for _ in range(k):
        # The runs of free ranks between those already drawn: first rank and length.
        drawn_ranks = np.sort(drawn, axis=1)  # n t; C+1 for anchors without ranks left
        low = np.concatenate([np.ones((n, 1), np.int64), drawn_ranks + 1], axis=1)  # n t+1
        high = np.concatenate([drawn_ranks - 1, last[:, None]], axis=1)
        size = np.maximum(np.minimum(high, last[:, None]) - low + 1, 0)

        # A run, by its mass.
        first = np.where(size > 0, low, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
        start = np.exp(-np.where(size > 0, low - first, 0) / tau)
        mass = np.where(size > 0, start * -np.expm1(-size / tau), 0.0)  # n t+1
        bound = np.cumsum(mass, axis=1)
        target = rng.random((n, 1)) * bound[:, -1:]
        run = np.minimum((bound <= target).sum(axis=1, keepdims=True), size.shape[1] - 1)

        # A rank of the run.
        run_first = np.take_along_axis(low, run, axis=1)[:, 0]
        run_size = np.take_along_axis(size, run, axis=1)[:, 0]
        step = rng.random(n) * -np.expm1(-run_size / tau)
        offset = np.floor(-tau * np.log1p(-step)).astype(np.int64)
        rank = run_first + np.clip(offset, 0, np.maximum(run_size - 1, 0))
        exhausted = bound[:, -1] <= 0
        drawn = np.column_stack([drawn, np.where(exhausted, last + 1, rank)])
    return drawn, drawn <= last[:, None]


def neighbour_at(
    positions: np.ndarray, start: np.ndarray, stop: np.ndarray, ranks: np.ndarray
) -> np.ndarray:
    """The neighbour in time at each rank, by bisection instead of sorting distances.

    Args:
        positions: (n,) float, ascending within each procedure.
        start: (n,) int, first row of each anchor's procedure.
        stop: (n,) int, one past its last row.
        ranks: (n, k) int, from 1 to the number of other rows of the procedure. Rank 1 is the
            nearest by |p_j - p_i|; of two equally near neighbours the earlier comes first, and of
            rows with equal positions the one closer in order.

    Returns:
        (n, k) int64, rows of `positions`.
    """
    row = np.arange(len(positions))[:, None]  # n 1
    position = positions[:, None]
    left, right = row - start[:, None], stop[:, None] - 1 - row  # neighbours on either side
    # The first r neighbours are l on the left and r - l on the right: find l in [low, high].
    low, high = np.maximum(ranks - right, 0), np.minimum(ranks, left)
    ceiling = high.copy()
    top = len(positions) - 1

    def to_left(count: np.ndarray) -> np.ndarray:
        return np.asarray(position - positions[np.maximum(row - count, 0)])

    def to_right(count: np.ndarray) -> np.ndarray:
        return np.asarray(positions[np.minimum(row + count, top)] - position)

    while np.any(low < high):
        middle = (low + high) // 2
        enough = (middle == ceiling) | (to_right(ranks - middle) < to_left(middle + 1))
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle + 1)
    on_right = ranks - low
    ends_left = (on_right == 0) | ((low > 0) & (to_right(on_right) < to_left(low)))
    return np.asarray(np.where(ends_left, row - low, row + on_right))


def _bags_at_ranks(
    procedures: np.ndarray, positions: np.ndarray, ranks: np.ndarray, valid: np.ndarray
) -> Bags:
    """Bags of the neighbours at some ranks; the rows of `ranks` are in the fragments' order."""
    n = len(positions)
    order = np.lexsort((positions, procedures))
    grouped = procedures[order]
    start = np.searchsorted(grouped, grouped, side="left")
    stop = np.searchsorted(grouped, grouped, side="right")
    safe = np.where(valid, ranks, 1)[order]
    # A single fragment has no neighbour: the row itself is a placeholder and stays masked.
    alone = (stop - start == 1)[:, None]
    neighbours = neighbour_at(positions[order], start, stop, np.where(alone, 0, safe))
    members = np.empty((n, 1 + ranks.shape[1]), np.int64)
    members[:, 0] = np.arange(n)
    members[order, 1:] = order[neighbours]
    return Bags(members, np.column_stack([np.ones(n, bool), valid]), ranks)


def _candidates(procedures: np.ndarray) -> np.ndarray:
    """Number (n,) of other fragments in the procedure of each of n fragments."""
    _, inverse, counts = np.unique(procedures, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse] - 1)


def sampled_bags(
    procedures: np.ndarray, positions: np.ndarray, k: int, tau: float, rng: np.random.Generator
) -> Bags:
    """Bags by exponential rank sampling (NTSSL 2.1), O(n K) in time and memory.

    Args:
        procedures: (n,) procedure of each fragment, integers or names.
        positions: (n,) position in time, normalised to the procedure's annotated span.
        k: Members in addition to the anchor.
        tau: Temperature of the ranks (see `cosine_tau`).
        rng: Source of randomness.

    Returns:
        Bags; a procedure with fewer than K candidates gives bags with masked members.
    """
    ranks, valid = draw_ranks(_candidates(procedures), k, tau, rng)
    return _bags_at_ranks(procedures, positions, ranks, valid)


def nearest_bags(procedures: np.ndarray, positions: np.ndarray, k: int) -> Bags:
    """Bags of the K nearest in time (the ablation without sampling, NTSSL table 2)."""
    candidates = _candidates(procedures)
    ranks = np.broadcast_to(np.arange(1, k + 1), (len(positions), k)).copy()
    return _bags_at_ranks(procedures, positions, ranks, ranks <= candidates[:, None])


def cosine_tau(progress: float, tau_min: float, tau_max: float) -> float:
    """Temperature of the rank sampling at a point of the training (NTSSL 2.1, "Curriculum").

    Args:
        progress: c in [0, 1]: epoch / number of epochs, as in the reference; below 1 even in the
            last epoch.
        tau_min: Temperature at c = 0, in ranks.
        tau_max: Temperature at c = 1, in ranks.

    Returns:
        tau_min + (1 - cos(pi c)) / 2 (tau_max - tau_min).

    Example:
        >>> [round(cosine_tau(c, 0.3, 12.0), 2) for c in (0.0, 0.5, 1.0)]
        [0.3, 6.15, 12.0]
    """
    return tau_min + (1.0 - math.cos(math.pi * progress)) / 2.0 * (tau_max - tau_min)


@dataclass(frozen=True)
class TemporalBags(Ranged, BagSampler, prefix="bags"):
    """How bags are drawn from time (NTSSL 2.1).

    In an epoch every fragment is the anchor of one bag; the order is shuffled over the whole set.

    Attributes:
        kind: Discriminates the ways of drawing bags in a recipe's JSON.
        k: Members in addition to the anchor.
        sampling: "exponential" ranks, or the k "nearest" (an ablation).
        tau_min: Temperature in ranks at the start of the curriculum.
        tau_max: Temperature at its end; equal to tau_min for a fixed temperature.
    """

    kind: Literal["temporal"] = "temporal"
    k: Annotated[int, AT_LEAST_ONE] = 4
    sampling: Literal["exponential", "nearest"] = "exponential"
    tau_min: float = 0.3
    tau_max: float = 12.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0.0 < self.tau_min <= self.tau_max < math.inf):
            raise PolyplinkError(
                f"bags.tau_min is {self.tau_min} and bags.tau_max {self.tau_max}",
                "give 0 < tau_min <= tau_max",
            )

    def _bags(self, data: FragmentSet, tau: float, rng: np.random.Generator) -> Bags:
        """A bag for each fragment, in the fragments' order."""
        if self.sampling == "nearest":
            return nearest_bags(data.procedures, data.positions, self.k)
        return sampled_bags(data.procedures, data.positions, self.k, tau, rng)

    def draw(
        self, data: FragmentSet, progress: float, size: int, rng: np.random.Generator
    ) -> EpochBags:
        """The bags of an epoch at the curriculum's temperature (see `BagSampler`)."""
        tau = cosine_tau(progress, self.tau_min, self.tau_max)
        return EpochBags(data.rows, shuffled(self._bags(data, tau, rng), rng), {"tau": tau})

    def draw_validation(
        self, data: FragmentSet, tau: float, size: int, rng: np.random.Generator
    ) -> EpochBags:
        """Bags at a fixed temperature, shuffled as in training (see `BagSampler`).

        In temporal order a batch would hold neighbours, and half of its negatives would show the
        anchor's polyp: the loss would barely distinguish a good encoder from a bad one.
        """
        return EpochBags(data.rows, shuffled(self._bags(data, tau, rng), rng))
