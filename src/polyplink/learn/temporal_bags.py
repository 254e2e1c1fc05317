"""Bags from time only (NTSSL 2.1): neighbours in time are assumed to show the anchor's polyp."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from polyplink.core.errors import PolyplinkError
from polyplink.core.ranges import AT_LEAST_ONE, Ranged
from polyplink.learn.bags import Bags, EpochBags, shuffled
from polyplink.learn.fragment_set import FragmentSet
from polyplink.learn.ranks import draw_ranks, neighbour_at


def _with_ranks(
    procedures: np.ndarray, positions: np.ndarray, ranks: np.ndarray, valid: np.ndarray
) -> Bags:
    """Bags from ranks given in the order of the fragments."""
    n = len(positions)
    order = np.lexsort((positions, procedures))
    grouped = procedures[order]
    start = np.searchsorted(grouped, grouped, side="left")
    stop = np.searchsorted(grouped, grouped, side="right")
    safe = np.where(valid, ranks, 1)[order]
    # A single fragment has no neighbour: its own row is a placeholder, which stays masked.
    alone = (stop - start == 1)[:, None]
    found = neighbour_at(positions[order], start, stop, np.where(alone, 0, safe))
    members = np.empty((n, 1 + ranks.shape[1]), np.int64)
    members[:, 0] = np.arange(n)
    members[order, 1:] = order[found]
    return Bags(members, np.column_stack([np.ones(n, bool), valid]), ranks)


def _candidates(procedures: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(procedures, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse] - 1)


def sampled_bags(
    procedures: np.ndarray, positions: np.ndarray, k: int, tau: float, rng: np.random.Generator
) -> Bags:
    """Bags by exponential rank sampling (NTSSL 2.1), O(n K) in time and memory.

    Args:
        procedures: (n,) procedure of each fragment, integers or names.
        positions: (n,) position in time, normalised to the procedure's annotated span.
        k: Members beside the anchor.
        tau: Temperature of the ranks (see `cosine_tau`).
        rng: Source of randomness.

    Returns:
        Bags; a procedure with fewer than K candidates gives bags with masked members.
    """
    ranks, valid = draw_ranks(_candidates(procedures), k, tau, rng)
    return _with_ranks(procedures, positions, ranks, valid)


def nearest_bags(procedures: np.ndarray, positions: np.ndarray, k: int) -> Bags:
    """Bags of the K nearest in time (the ablation without sampling, NTSSL table 2)."""
    candidates = _candidates(procedures)
    ranks = np.broadcast_to(np.arange(1, k + 1), (len(positions), k)).copy()
    return _with_ranks(procedures, positions, ranks, ranks <= candidates[:, None])


def cosine_tau(progress: float, tau_min: float, tau_max: float) -> float:
    """Temperature of the rank sampling at a point of the training (NTSSL 2.1, "Curriculum").

    Args:
        progress: c in [0, 1]: epoch / number of epochs, as in the reference, so that the last
            epoch stays below 1.
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
class TemporalBags(Ranged, prefix="bags"):
    """How bags are drawn from time (NTSSL 2.1).

    An epoch: every fragment is the anchor of one bag; the order is shuffled over the whole set.

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
        PolyplinkError.unless(
            0.0 < self.tau_min <= self.tau_max < math.inf,
            f"bags.tau_min is {self.tau_min} and bags.tau_max {self.tau_max}",
            "give 0 < tau_min <= tau_max",
        )

    def _bags(self, data: FragmentSet, tau: float, rng: np.random.Generator) -> Bags:
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

        In the order of time a batch would hold neighbours, and half of its negatives would show
        the anchor's polyp: the loss would hardly tell a good encoder from a bad one.
        """
        return EpochBags(data.rows, shuffled(self._bags(data, tau, rng), rng))
