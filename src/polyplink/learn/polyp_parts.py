"""Pairs that grow harder: the curriculum of TPC (Parolari et al., ISBI 2025)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from polyplink.core.errors import PolyplinkError
from polyplink.learn.bags import pairs
from polyplink.learn.drawn import Drawn
from polyplink.learn.fragment_set import FragmentSet, Tracklets
from polyplink.learn.tracklet_parts import check_stride, draw_tracklets, one_part, two_parts


def linear_alpha(progress: float, first: float, last: float) -> float:
    """Share of pairs from one tracklet at a point of the training: a straight line.

    Args:
        progress: Epoch over epochs, in [0, 1).
        first: Share at 0.
        last: Share at 1.
    """
    return first + (last - first) * progress


def siblings(tracklets: Tracklets, owner: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Another tracklet of the same known polyp, evenly among them; itself where there is none.

    Args:
        tracklets: The t tracklets.
        owner: (b,) int, rows of them.
        rng: Source of randomness.

    Returns:
        (b,) int64, rows of them.
    """
    alone = -1 - np.arange(len(tracklets.known))
    polyp = np.where(tracklets.known, tracklets.polyps, alone)  # t
    order = np.argsort(polyp, kind="stable")  # t
    start = np.searchsorted(polyp[order], polyp[owner], side="left")  # b
    stop = np.searchsorted(polyp[order], polyp[owner], side="right")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    others = stop - start - 1
    drawn = start + np.floor(rng.random(len(owner)) * others).astype(np.int64)
    drawn = drawn + (drawn >= place[owner])  # skips the tracklet itself
    return np.asarray(np.where(others > 0, order[np.minimum(drawn, stop - 1)], owner))


@dataclass(frozen=True)
class PolypParts:
    """As `TrackletParts`, but a growing share of pairs is of two tracklets of the polyp.

    With probability alpha a pair comes from one tracklet, else one part from each of two
    tracklets of its polyp; alpha falls in a straight line over the epochs. A tracklet whose
    polyp is unknown or has no other gives both parts itself. An epoch is that of
    `TrackletParts`.

    Attributes:
        kind: Tells these bags from the others in a recipe's plain values.
        longest: Largest stride within a part, in crops.
        alpha_first: Share of pairs from one tracklet at the start.
        alpha_last: Share at the end.
    """

    kind: Literal["polyp_parts"] = "polyp_parts"
    longest: int = 4
    alpha_first: float = 1.0
    alpha_last: float = 0.0

    def __post_init__(self) -> None:
        check_stride(self.longest)
        for name in ("alpha_first", "alpha_last"):
            value = getattr(self, name)
            PolyplinkError.unless(
                0.0 <= value <= 1.0, f"bags.{name} is {value}", "give one from 0 to 1"
            )

    def draw(
        self, data: FragmentSet, progress: float, size: int, rng: np.random.Generator
    ) -> Drawn:
        """The pairs of an epoch (see `BagSampler`)."""
        return self._at(linear_alpha(progress, self.alpha_first, self.alpha_last), data, rng)

    def _at(self, alpha: float, data: FragmentSet, rng: np.random.Generator) -> Drawn:
        n, length = data.rows.shape
        tracklets = data.tracklets
        owner = draw_tracklets(tracklets.count, n, rng)  # n
        other = np.where(rng.random(n) < alpha, owner, siblings(tracklets, owner, rng))
        both = two_parts(tracklets.count[owner], length, self.longest, rng)  # n 2 s
        apart = np.stack(
            [one_part(tracklets.count[t], length, self.longest, rng) for t in (owner, other)],
            axis=1,
        )  # n 2 s
        same = owner == other
        places = np.where(same[:, None, None], both, apart)
        first = np.stack([tracklets.first[owner], tracklets.first[other]], axis=1)  # n 2
        clips = (first[:, :, None] + places).reshape(-1, length)
        return Drawn(clips, pairs(~same | (tracklets.count[owner] > 1)), {"alpha": alpha})

    def watch(self, data: FragmentSet, tau: float, size: int, rng: np.random.Generator) -> Drawn:
        """Half of the pairs from one tracklet, in every epoch (see `BagSampler`)."""
        return self._at(0.5, data, rng)
