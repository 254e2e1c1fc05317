"""Pairs of frames of one tracklet: the batches of SFE (Intrator et al. 2023)."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri

from polyplink.core.errors import PolyplinkError
from polyplink.learn.bags import chosen, pairs
from polyplink.learn.drawn import Drawn
from polyplink.learn.fragment_set import FragmentSet


def gaussian_partner(
    place: np.ndarray, count: np.ndarray, deviation: float, rng: np.random.Generator
) -> np.ndarray:
    """Another place of the same row, at a distance drawn from a rounded, truncated Gaussian.

    P(j) is proportional to the Gaussian's mass on [j - i - 1/2, j - i + 1/2], over all j != i
    within the row. Drawn by the inverse of its cumulative sum, in closed form.

    Args:
        place: (b,) int i, from 0 to count - 1.
        count: (b,) int, places of each row; 1 has no other, and gives i itself.
        deviation: Standard deviation in places, above 0.
        rng: Source of randomness.

    Returns:
        (b,) int64.
    """
    left, right = place, count - 1 - place  # how far one can go to either side
    nearest = ndtr(-0.5 / deviation)
    below, above = (
        np.maximum(nearest - ndtr(-(side + 0.5) / deviation), 0.0) for side in (left, right)
    )
    # A deviation so small that no mass is left takes the neighbour there is.
    below, above = (
        np.where(below + above > 0, mass, (side > 0).astype(float))
        for mass, side in ((below, left), (above, right))
    )
    goes_left = rng.random(len(place)) * (below + above) < below
    most = np.where(goes_left, left, right)
    tail = ndtr(-(most + 0.5) / deviation)
    drawn = tail + rng.random(len(place)) * (nearest - tail)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.rint(-ndtri(drawn) * deviation)
    distance = np.where(np.isfinite(distance), distance, 1)
    distance = np.minimum(np.maximum(distance, 1), most).astype(np.int64)
    return np.asarray(np.where(goes_left, place - distance, place + distance))


def uniform_partner(
    place: np.ndarray, count: np.ndarray, reach: int, rng: np.random.Generator
) -> np.ndarray:
    """Another place of the same row, evenly among those at most `reach` away.

    Args:
        place: (b,) int i, from 0 to count - 1.
        count: (b,) int, places of each row; 1 has no other, and gives i itself.
        reach: Largest distance, at least 1.
        rng: Source of randomness.

    Returns:
        (b,) int64.
    """
    low = np.maximum(place - reach, 0)
    others = np.minimum(place + reach, count - 1) - low  # how many there are
    drawn = low + np.floor(rng.random(len(place)) * others).astype(np.int64)
    return np.asarray(np.where(others > 0, drawn + (drawn >= place), place))


@dataclass(frozen=True)
class FramePairs:
    """Two frames of one tracklet are a pair.

    An epoch: every fragment gives the first frame of one pair, once, in a shuffled order; with
    `fragment_length` 1 every crop does. The other frame is drawn from the whole tracklet. Views
    are single frames.

    Attributes:
        kind: Tells these bags from the others in a recipe's plain values.
        distance: "gaussian" or "uniform" distance in time between the two.
        deviation: Standard deviation of the Gaussian, in frames.
        window: Largest distance of the uniform draw, in frames.
    """

    kind: Literal["frame_pairs"] = "frame_pairs"
    distance: Literal["gaussian", "uniform"] = "gaussian"
    deviation: float = 30.0
    window: int = 30

    def __post_init__(self) -> None:
        PolyplinkError.unless(
            0.0 < self.deviation < math.inf,
            f"bags.deviation is {self.deviation}",
            "give one above 0",
        )
        PolyplinkError.unless(
            self.window >= 1, f"bags.window is {self.window}", "give 1 or more frames"
        )

    def draw(
        self, data: FragmentSet, progress: float, size: int, rng: np.random.Generator
    ) -> Drawn:
        """The pairs of an epoch (see `BagSampler`)."""
        n, length = data.rows.shape
        first = data.rows[np.arange(n), rng.integers(length, size=n)]  # n
        owner = data.tracklet_of[first]  # n
        start, count = data.tracklets.first[owner], data.tracklets.count[owner]
        place = first - start
        if self.distance == "gaussian":
            other = gaussian_partner(place, count, self.deviation / data.stride, rng)
        else:
            reach = max(self.window // data.stride, 1)
            other = uniform_partner(place, count, reach, rng)
        clips = np.stack([first, start + other], axis=1).reshape(-1, 1)  # 2n 1
        return Drawn(clips, chosen(pairs(count > 1), rng.permutation(n)))

    def watch(self, data: FragmentSet, tau: float, size: int, rng: np.random.Generator) -> Drawn:
        """Pairs drawn as in training (see `BagSampler`)."""
        return self.draw(data, 0.0, size, rng)
