"""Settings of the clusterers and the grids they are searched on.

Source: Parolari et al., temporally-aware polyp counting, section 3 (the paper's grids; the grids
in its program differ).
"""

from dataclasses import dataclass
from itertools import product
from typing import Protocol

import numpy as np
import numpy.typing as npt

from polyplink.associate.affinity import propagate
from polyplink.associate.similarity import Reals, combine, temporal
from polyplink.associate.threshold import threshold_components

Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Clustering:
    """The clusters of one procedure.

    Attributes:
        labels: Cluster of every tracklet (n,), int32, from 0 without gaps.
        converged: Whether the algorithm settled before its limit of rounds.
    """

    labels: Labels
    converged: bool


class Setting(Protocol):
    """A clusterer with its parameters chosen."""

    def cluster(self, V: Reals, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n) and positions (n,) in [0, 1]."""
        ...


@dataclass(frozen=True)
class TemporalAP:
    """Affinity propagation on S = alpha V + (1 - alpha) T; alpha = 1 is AP on V alone.

    Attributes:
        alpha: Share of the visual similarity, in [0, 1].
        gamma: Penalty on distance in time.
        preference: How much a tracklet wants to be a cluster's exemplar.
    """

    alpha: float
    gamma: float
    preference: float

    def similarity(self, V: Reals, positions: npt.ArrayLike) -> Reals:
        """S (n, n) from V (n, n) and positions (n,)."""
        return combine(V, temporal(positions, self.gamma), self.alpha)

    def cluster(self, V: Reals, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n) and positions (n,) in [0, 1]."""
        labels, converged = propagate(self.similarity(V, positions), [self.preference])
        return Clustering(labels[0], bool(converged[0]))


@dataclass(frozen=True)
class Threshold:
    """Connected components of V >= value; time is not used.

    Attributes:
        value: The similarity from which two tracklets are linked.
    """

    value: float

    def cluster(self, V: Reals, positions: npt.ArrayLike) -> Clustering:
        """Cluster one procedure from V (n, n); positions are not read."""
        return Clustering(threshold_components(V, [self.value])[0], True)


@dataclass(frozen=True)
class Grid:
    """The parameters to search.

    Attributes:
        alphas: For temporal affinity propagation, as are the next two.
        gammas: Penalties on distance in time.
        preferences: Preferences.
        thresholds: For the threshold clusterer.
    """

    alphas: tuple[float, ...] = ()
    gammas: tuple[float, ...] = ()
    preferences: tuple[float, ...] = ()
    thresholds: tuple[float, ...] = ()

    def temporal_ap(self) -> tuple[TemporalAP, ...]:
        """Every affinity propagation, preferences changing fastest, then gammas, then alphas."""
        return tuple(
            TemporalAP(alpha, gamma, preference)
            for alpha, gamma, preference in product(self.alphas, self.gammas, self.preferences)
        )

    def threshold(self) -> tuple[Threshold, ...]:
        """Every threshold."""
        return tuple(Threshold(value) for value in self.thresholds)

    def settings(self) -> tuple[Setting, ...]:
        """All of them in the order of the rows of a sweep: affinity propagation, thresholds."""
        return (*self.temporal_ap(), *self.threshold())


def _steps(numbers: npt.NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(numbers.tolist())


def paper_grid() -> Grid:
    """The paper's grids: 21 x 34 x 41 = 29,274 affinity propagations and 101 thresholds."""
    # Divided, not multiplied: 3 * 0.1 is not 0.3.
    return Grid(
        alphas=_steps(np.arange(21) / 20),
        gammas=_steps(np.concatenate([np.arange(1, 10) / 10, 1 + 0.375 * np.arange(25)])),
        preferences=_steps(-5 + np.arange(41) / 4),
        thresholds=_steps(np.arange(101) / 100),
    )


def demo_grid() -> Grid:
    """A coarse grid for a first look: 5 x 5 x 13 = 325 affinity propagations, 51 thresholds.

    Preferences lie between -5 and 1: above 1, the largest similarity, every tracklet is alone.
    """
    return Grid(
        alphas=_steps(np.arange(5) / 4),
        gammas=(0.3, 0.9, 2.5, 5.5, 10.0),
        preferences=(-5.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 0.85, 0.9, 0.95, 1.25),
        thresholds=_steps(np.arange(51) / 50),
    )
