"""What every way of drawing bags gives for an epoch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from polyplink.learn.bags import Bags
from polyplink.learn.fragment_set import FragmentSet


@dataclass(frozen=True)
class Drawn:
    """The bags of an epoch, in the order in which they are learnt from.

    Attributes:
        clips: (c, s) int64, rows of the crops of every view that a bag may hold.
        bags: Bags whose members are rows of `clips`.
        figures: Columns that they add to the history (tau, alpha).
    """

    clips: np.ndarray
    bags: Bags
    figures: Mapping[str, float] = field(default_factory=dict)


class BagSampler(Protocol):
    """A way of drawing bags: fields of a recipe that know how to draw."""

    def draw(
        self, data: FragmentSet, progress: float, size: int, rng: np.random.Generator
    ) -> Drawn:
        """The bags of an epoch.

        Args:
            data: What to draw from.
            progress: Epoch over epochs, in [0, 1).
            size: Bags that a batch will hold.
            rng: Source of randomness; the same state gives the same epoch.
        """
        ...

    def watch(self, data: FragmentSet, tau: float, size: int, rng: np.random.Generator) -> Drawn:
        """The bags that validate, as hard in the first epoch as in the last.

        Args:
            data: The held-out procedures.
            tau: Temperature of their ranks, where the bags come from time.
            size: Bags that a batch will hold.
            rng: Source of randomness.
        """
        ...
