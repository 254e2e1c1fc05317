"""Pairs of parts of tracklets: the batches of MVE (Intrator et al. 2023)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from polyplink.core.errors import PolyplinkError
from polyplink.learn.bags import pairs
from polyplink.learn.drawn import Drawn
from polyplink.learn.fragment_set import FragmentSet


def draw_strides(
    count: np.ndarray, length: int, parts: int, longest: int, rng: np.random.Generator
) -> np.ndarray:
    """A stride for every draw, q with P(q) proportional to q among those that fit.

    The papers say that longer strides are likelier, not by how much.

    Args:
        count: (b,) int, crops to cut `parts` parts from, one after the other.
        length: Crops in a part.
        parts: 1 or 2.
        longest: Largest stride.
        rng: Source of randomness.

    Returns:
        (b,) int64 from 1 to `longest`; 0 where not even stride 1 fits.
    """
    strides = np.arange(1, longest + 1)  # q
    span = strides * (length - 1) + 1
    fits = parts * span[None, :] <= count[:, None]  # b q
    bound = np.cumsum(strides * fits, axis=1)  # b q
    target = rng.random((len(count), 1)) * bound[:, -1:]
    drawn = 1 + (bound <= target).sum(axis=1)
    return np.asarray(np.where(fits[:, 0], drawn, 0))


def one_part(count: np.ndarray, length: int, longest: int, rng: np.random.Generator) -> np.ndarray:
    """One part of each tracklet: (b, length) int64, places from 0 to count - 1.

    Where a tracklet is shorter than a part, all of it, its last crop repeated.
    """
    stride = draw_strides(count, length, 1, longest, rng)
    step = np.maximum(stride, 1)
    slack = np.maximum(count - (step * (length - 1) + 1), 0)
    start = np.floor(rng.random(len(count)) * (slack + 1)).astype(np.int64)
    places = start[:, None] + step[:, None] * np.arange(length)  # b s
    return np.asarray(np.minimum(places, count[:, None] - 1))


def two_parts(count: np.ndarray, length: int, longest: int, rng: np.random.Generator) -> np.ndarray:
    """Two parts of each tracklet that share no crop, the earlier first.

    Both have one stride and lie evenly among all ways to place them. Where a tracklet is shorter
    than two parts at stride 1, they are its halves, the last crop of each repeated.

    Args:
        count: (b,) int, crops of each tracklet; at least 2, or both parts are its one crop.
        length: Crops in a part.
        longest: Largest stride, in crops.
        rng: Source of randomness.

    Returns:
        (b, 2, length) int64, places from 0 to count - 1.
    """
    stride = draw_strides(count, length, 2, longest, rng)
    whole = stride > 0
    step = np.maximum(stride, 1)[:, None, None]
    span = step[:, 0, 0] * (length - 1) + 1
    slack = np.maximum(count - 2 * span, 0)
    # Two cuts among slack + 1 places, in order: of slack + 2 places two different ones.
    u = np.floor(rng.random(len(count)) * (slack + 2)).astype(np.int64)
    v = np.floor(rng.random(len(count)) * (slack + 1)).astype(np.int64)
    v = v + (v >= u)
    low, high = np.minimum(u, v), np.maximum(u, v) - 1
    half = count // 2
    start = np.stack([np.where(whole, low, 0), np.where(whole, high + span, half)], axis=1)  # b 2
    last = np.stack([np.where(whole, count, half), count], axis=1) - 1  # b 2
    last = np.maximum(last, start)
    places = start[:, :, None] + step * np.arange(length)  # b 2 s
    return np.asarray(np.minimum(places, last[:, :, None]))


def draw_tracklets(count: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw n tracklets in proportion to the square root of their length.

    Systematically, from one random number: each comes as often as it should, rounded down or
    up; the order is shuffled.

    Args:
        count: (t,) int, crops of each.
        n: How many to draw.
        rng: Source of randomness.

    Returns:
        (n,) int64.
    """
    bound = np.cumsum(np.sqrt(count))
    target = (np.arange(n) + rng.random()) / max(n, 1) * bound[-1]
    drawn = np.minimum(np.searchsorted(bound, target, side="right"), len(count) - 1)
    return np.asarray(rng.permutation(drawn))


def check_stride(longest: int) -> None:
    """Refuse a largest stride below 1.

    Raises:
        PolyplinkError: Naming the field of the recipe.
    """
    PolyplinkError.unless(longest >= 1, f"bags.longest is {longest}", "give 1 or more crops")


@dataclass(frozen=True)
class TrackletParts:
    """Two parts of one tracklet that share no frame are a pair.

    An epoch: as many pairs as there are fragments, from tracklets drawn in proportion to the
    square root of their length; each comes as often as it should, rounded down or up. A part is
    `fragment_length` crops.

    Attributes:
        kind: Tells these bags from the others in a recipe's plain values.
        longest: Largest stride within a part, in crops (prepare with stride 1 for frames).
    """

    kind: Literal["tracklet_parts"] = "tracklet_parts"
    longest: int = 4

    def __post_init__(self) -> None:
        check_stride(self.longest)

    def draw(
        self, data: FragmentSet, progress: float, size: int, rng: np.random.Generator
    ) -> Drawn:
        """The pairs of an epoch (see `BagSampler`)."""
        n, length = data.rows.shape
        owner = draw_tracklets(data.tracklets.count, n, rng)  # n
        count = data.tracklets.count[owner]
        places = two_parts(count, length, self.longest, rng)  # n 2 s
        clips = data.tracklets.first[owner][:, None, None] + places
        return Drawn(clips.reshape(-1, length), pairs(count > 1))

    def watch(self, data: FragmentSet, tau: float, size: int, rng: np.random.Generator) -> Drawn:
        """Pairs drawn as in training (see `BagSampler`)."""
        return self.draw(data, 0.0, size, rng)
