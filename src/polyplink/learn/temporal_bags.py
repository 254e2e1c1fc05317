"""Bags from time alone, as fields of a recipe (NTSSL 2.1)."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from polyplink.core.errors import PolyplinkError
from polyplink.learn.bags import Bags, nearest_bags, sampled_bags, shuffled
from polyplink.learn.curriculum import cosine_tau
from polyplink.learn.drawn import Drawn
from polyplink.learn.fragment_set import FragmentSet


@dataclass(frozen=True)
class TemporalBags:
    """How bags are drawn from time (NTSSL 2.1).

    An epoch: every fragment anchors one bag, once, in an order shuffled over the whole set.

    Attributes:
        kind: Tells these bags from the others in a recipe's plain values.
        k: Members beside the anchor.
        sampling: "exponential" ranks, or the k "nearest" (an ablation).
        tau_min: Temperature in ranks at the start of the curriculum.
        tau_max: Temperature at its end; equal to tau_min for a fixed temperature.
    """

    kind: Literal["temporal"] = "temporal"
    k: int = 4
    sampling: Literal["exponential", "nearest"] = "exponential"
    tau_min: float = 0.3
    tau_max: float = 12.0

    def __post_init__(self) -> None:
        PolyplinkError.unless(self.k >= 1, f"bags.k is {self.k}", "give 1 or more")
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
    ) -> Drawn:
        """The bags of an epoch at the curriculum's temperature (see `BagSampler`)."""
        tau = cosine_tau(progress, self.tau_min, self.tau_max)
        return Drawn(data.rows, shuffled(self._bags(data, tau, rng), rng), {"tau": tau})

    def watch(self, data: FragmentSet, tau: float, size: int, rng: np.random.Generator) -> Drawn:
        """Bags at a fixed temperature (see `BagSampler`)."""
        return Drawn(data.rows, self._bags(data, tau, rng))
