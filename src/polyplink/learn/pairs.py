"""Pairs of views of one tracklet or polyp: the batches of SFE, MVE and TPC."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from polyplink.core.ranges import AT_LEAST_ONE, POSITIVE, SHARE, Ranged
from polyplink.learn.bags import BagSampler, EpochBags, bags_at, pair_bags
from polyplink.learn.fragment_set import FragmentSet, Tracklets


def gaussian_partner(
    place: np.ndarray, count: np.ndarray, deviation: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw another index of each sequence, at a rounded Gaussian distance, truncated to its ends.

    P(j) is proportional to the Gaussian's mass on [j - i - 1/2, j - i + 1/2], for all j != i in
    the sequence. It is drawn by the inverse of the cumulative sum, in closed form.

    Args:
        place: (b,) int, the index i of the first frame, from 0 to count - 1.
        count: (b,) int, length of each sequence; for length 1 the result is i.
        deviation: Standard deviation in indices, above 0.
        rng: Source of randomness.

    Returns:
        (b,) int64, the index j of the second frame.
    """
    from scipy.special import ndtr, ndtri  # noqa: PLC0415 - slow to import

    left, right = place, count - 1 - place  # indices on either side
    nearest_mass = ndtr(-0.5 / deviation)

    # A side, by its mass. If the deviation is so small that no mass remains, a side that exists.
    mass_left = np.maximum(nearest_mass - ndtr(-(left + 0.5) / deviation), 0.0)
    mass_right = np.maximum(nearest_mass - ndtr(-(right + 0.5) / deviation), 0.0)
    has_mass = mass_left + mass_right > 0
    mass_left = np.where(has_mass, mass_left, (left > 0).astype(float))
    mass_right = np.where(has_mass, mass_right, (right > 0).astype(float))
    goes_left = rng.random(len(place)) * (mass_left + mass_right) < mass_left

    # A distance on this side.
    longest = np.where(goes_left, left, right)
    farthest_mass = ndtr(-(longest + 0.5) / deviation)
    drawn_mass = farthest_mass + rng.random(len(place)) * (nearest_mass - farthest_mass)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.rint(-ndtri(drawn_mass) * deviation)
    distance = np.where(np.isfinite(distance), distance, 1)
    distance = np.minimum(np.maximum(distance, 1), longest).astype(np.int64)
    return np.asarray(np.where(goes_left, place - distance, place + distance))


def uniform_partner(
    place: np.ndarray, count: np.ndarray, reach: int, rng: np.random.Generator
) -> np.ndarray:
    """As `gaussian_partner`, but uniformly drawn from the indices at most `reach` away."""
    low = np.maximum(place - reach, 0)
    n_others = np.minimum(place + reach, count - 1) - low
    drawn = low + np.floor(rng.random(len(place)) * n_others).astype(np.int64)
    return np.asarray(np.where(n_others > 0, drawn + (drawn >= place), place))


@dataclass(frozen=True)
class FramePairs(Ranged, BagSampler, prefix="bags"):
    """Pairs of frames of one tracklet.

    In an epoch every fragment gives the first frame of one pair, in shuffled order; with
    `fragment_length` 1 these are all crops. The other frame is drawn from the whole tracklet. Views
    are single frames.

    Attributes:
        kind: Discriminates the ways of drawing bags in a recipe's JSON.
        distance: Distribution of the time between the two frames, "gaussian" or "uniform".
        deviation: Standard deviation of the Gaussian, in frames.
        window: Largest distance of the uniform draw, in frames.
    """

    kind: Literal["frame_pairs"] = "frame_pairs"
    distance: Literal["gaussian", "uniform"] = "gaussian"
    deviation: Annotated[float, POSITIVE] = 30.0
    window: Annotated[int, AT_LEAST_ONE] = 30

    def draw(
        self, data: FragmentSet, progress: float, size: int, rng: np.random.Generator
    ) -> EpochBags:
        """The pairs of an epoch (see `BagSampler`)."""
        n, length = data.rows.shape
        first = data.rows[np.arange(n), rng.integers(length, size=n)]  # n
        owner = data.tracklet_of[first]  # n
        start, count = data.tracklets.first[owner], data.tracklets.count[owner]
        place = first - start
        if self.distance == "gaussian":
            partner = gaussian_partner(place, count, self.deviation / data.stride, rng)
        else:
            reach = max(self.window // data.stride, 1)
            partner = uniform_partner(place, count, reach, rng)
        clips = np.stack([first, start + partner], axis=1).reshape(-1, 1)  # 2n 1
        return EpochBags(clips, bags_at(pair_bags(count > 1), rng.permutation(n)))


def draw_strides(
    n_crops: np.ndarray, length: int, weights: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Sample a stride q per row among those with q x length below `n_crops`.

    Args:
        n_crops: (b,) int, crops from which a part may be cut.
        length: Crops in a part.
        weights: (longest,) P(q) is proportional to weights[q - 1] for the strides that fit.
        rng: Source of randomness.

    Returns:
        (b,) int64 from 1 to `longest`; 0 where not even stride 1 fits.
    """
    strides = np.arange(1, len(weights) + 1)  # q
    fits = length * strides < n_crops[:, None]  # b q
    bound = np.cumsum(weights * fits, axis=1)  # b q
    target = rng.random((len(n_crops), 1)) * bound[:, -1:]
    return np.asarray(np.where(fits[:, 0], 1 + (bound <= target).sum(axis=1), 0))


def _draw_below(bound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Uniform (b,) int64 from 0 to bound - 1; 0 where `bound` is below 1."""
    return np.asarray(np.floor(rng.random(len(bound)) * np.maximum(bound, 1)).astype(np.int64))


def one_part(count: np.ndarray, length: int, longest: int, rng: np.random.Generator) -> np.ndarray:
    """Cut one part from each tracklet: (b, length) int64, crop indices from 0 to count - 1.

    As in TPC's program for pairs from two tracklets: the strides that fit (`draw_strides`) are
    equally likely, and the first index is uniform below count - length x stride. If no stride fits,
    the part is the start of the tracklet; in a shorter tracklet the last crop is repeated.
    """
    stride = draw_strides(count, length, np.ones(longest), rng)
    start = np.where(stride > 0, _draw_below(count - length * stride, rng), 0)
    places = start[:, None] + np.maximum(stride, 1)[:, None] * np.arange(length)  # b s
    return np.asarray(np.minimum(places, count[:, None] - 1))


def two_parts(count: np.ndarray, length: int, longest: int, rng: np.random.Generator) -> np.ndarray:
    """Cut two parts that share no crop from each tracklet, the earlier first.

    As in TPC's program: with m = count // 2, both parts have the same stride, drawn with
    probability proportional to the stride among those that fit m (`draw_strides`). The first part
    begins uniformly below m - length x stride; the gap between the parts is uniform below the same
    bound. If no stride fits, the parts are the halves of the tracklet; in a shorter half the last
    crop is repeated.

    Args:
        count: (b,) int, crops of each tracklet; if 1, both parts are this crop.
        length: Crops in a part.
        longest: Largest stride, in crops.
        rng: Source of randomness.

    Returns:
        (b, 2, length) int64, crop indices from 0 to count - 1.
    """
    half = count // 2
    stride = draw_strides(half, length, np.arange(1.0, longest + 1), rng)
    fits = stride > 0
    n_starts = half - length * stride
    first = _draw_below(n_starts, rng)
    second = first + length * stride + _draw_below(n_starts, rng)
    start = np.where(fits, [first, second], [np.zeros_like(half), half]).T  # b 2
    last = np.stack([np.where(fits, count, half), count], axis=1) - 1  # b 2
    step = np.maximum(stride, 1)[:, None, None]
    places = start[:, :, None] + step * np.arange(length)  # b 2 s
    return np.asarray(np.minimum(places, np.maximum(last, start)[:, :, None]))


def _polyp_codes(tracklets: Tracklets) -> np.ndarray:
    """A code (t,) from 0 for each tracklet's polyp; each unknown polyp has a unique code."""
    alone = -1 - np.arange(len(tracklets.labelled))
    polyps = np.where(tracklets.labelled, tracklets.polyps, alone)
    return np.unique(polyps, return_inverse=True)[1].astype(np.int64)


def draw_polyps(polyps: int, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw codes (n,) of polyps uniformly; those of each batch of `size` differ.

    If a batch is larger than the number of polyps, polyps repeat as evenly as possible.
    """
    rounds = -(-size // polyps)
    batches = []
    for _ in range(-(-n // size)):
        orders = [rng.permutation(polyps) for _ in range(rounds)]
        batches.append(np.concatenate(orders)[:size])
    return np.concatenate(batches)[:n]


def draw_of_polyps(
    tracklets: Tracklets,
    codes: np.ndarray,
    rng: np.random.Generator,
    avoided: np.ndarray | None = None,
) -> np.ndarray:
    """Draw a tracklet of each polyp, in proportion to the square root of its number of crops.

    Args:
        tracklets: All tracklets.
        codes: (b,) codes of the polyps, see `_polyp_codes`.
        rng: Source of randomness.
        avoided: (b,) a tracklet of each polyp that is not drawn unless it is the only one.

    Returns:
        (b,) int64 rows of tracklets.
    """
    # All tracklets on a line, each as long as its mass, those of a polyp side by side.
    owner = _polyp_codes(tracklets)
    order = np.argsort(owner, kind="stable")  # t
    mass = np.sqrt(tracklets.count[order])
    end = np.cumsum(mass)
    start = np.searchsorted(owner[order], codes, side="left")  # b
    stop = np.searchsorted(owner[order], codes, side="right")

    # A point of each polyp's part of the line; from the avoided tracklet on, points are shifted
    # behind it.
    low, high = end[start] - mass[start], end[stop - 1]
    if avoided is None:
        target = low + rng.random(len(codes)) * (high - low)
    else:
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        skip = place[avoided]
        target = low + rng.random(len(codes)) * (high - low - mass[skip])
        target = np.where(target >= end[skip] - mass[skip], target + mass[skip], target)

    # The tracklet at this point; rounding may still have drawn the avoided one.
    drawn = np.clip(np.searchsorted(end, target, side="right"), start, stop - 1)
    if avoided is not None:
        neighbour = np.where(skip + 1 < stop, skip + 1, np.maximum(skip - 1, start))
        drawn = np.where(drawn == skip, neighbour, drawn)
    return np.asarray(order[drawn])


def draw_tracklets(tracklets: Tracklets, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows (n,) of tracklets; polyps of a batch of `size` differ (as MVE's and TPC's code)."""
    polyps = int(_polyp_codes(tracklets).max()) + 1
    return draw_of_polyps(tracklets, draw_polyps(polyps, n, size, rng), rng)


def siblings(tracklets: Tracklets, owner: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw, for tracklets `owner` (b,), rows (b,) of other tracklets of the same known polyps.

    They are drawn as in `draw_of_polyps`; a polyp with a single tracklet gives this tracklet.
    """
    return draw_of_polyps(tracklets, _polyp_codes(tracklets)[owner], rng, owner)


@dataclass(frozen=True)
class TrackletParts(Ranged, BagSampler, prefix="bags"):
    """Pairs of parts of one tracklet that share no frame.

    An epoch has as many pairs as there are fragments. The pairs of a batch are of different polyps,
    drawn uniformly; the tracklet of each polyp is drawn in proportion to the square root of its
    length. A tracklet of an unknown polyp counts as a polyp. A part has `fragment_length` crops.

    Attributes:
        kind: Discriminates the ways of drawing bags in a recipe's JSON.
        longest: Largest stride within a part, in crops (prepare with stride 1 for frames).
    """

    kind: Literal["tracklet_parts"] = "tracklet_parts"
    longest: Annotated[int, AT_LEAST_ONE] = 4

    def draw(
        self, data: FragmentSet, progress: float, size: int, rng: np.random.Generator
    ) -> EpochBags:
        """The pairs of an epoch (see `BagSampler`)."""
        n, length = data.rows.shape
        owner = draw_tracklets(data.tracklets, n, size, rng)  # n
        count = data.tracklets.count[owner]
        places = two_parts(count, length, self.longest, rng)  # n 2 s
        clips = data.tracklets.first[owner][:, None, None] + places
        return EpochBags(clips.reshape(-1, length), pair_bags(count > 1))


@dataclass(frozen=True)
class PolypParts(Ranged, BagSampler, prefix="bags"):
    """As `TrackletParts`, with a growing share of pairs from two tracklets of the polyp.

    With probability alpha both parts are from one tracklet, otherwise they are from two tracklets
    of one polyp; alpha decreases linearly over the epochs. If the polyp is unknown or has no other
    tracklet, both parts are from one tracklet.

    Attributes:
        kind: Discriminates the ways of drawing bags in a recipe's JSON.
        longest: Largest stride within a part, in crops.
        alpha_first: Share of pairs from one tracklet at the start.
        alpha_last: Share at the end.
    """

    kind: Literal["polyp_parts"] = "polyp_parts"
    longest: Annotated[int, AT_LEAST_ONE] = 4
    alpha_first: Annotated[float, SHARE] = 1.0
    alpha_last: Annotated[float, SHARE] = 0.0

    def draw(
        self, data: FragmentSet, progress: float, size: int, rng: np.random.Generator
    ) -> EpochBags:
        """The pairs of an epoch (see `BagSampler`)."""
        alpha = self.alpha_first + (self.alpha_last - self.alpha_first) * progress
        return self._draw_pairs(alpha, data, size, rng)

    def _draw_pairs(
        self, alpha: float, data: FragmentSet, size: int, rng: np.random.Generator
    ) -> EpochBags:
        """The pairs of an epoch with a share `alpha` from one tracklet."""
        n, length = data.rows.shape
        tracklets = data.tracklets
        owner = draw_tracklets(tracklets, n, size, rng)  # n
        second = np.where(rng.random(n) < alpha, owner, siblings(tracklets, owner, rng))
        parts_of_one = two_parts(tracklets.count[owner], length, self.longest, rng)  # n 2 s
        part_of_owner = one_part(tracklets.count[owner], length, self.longest, rng)
        part_of_second = one_part(tracklets.count[second], length, self.longest, rng)
        parts_of_two = np.stack([part_of_owner, part_of_second], axis=1)  # n 2 s
        one_tracklet = owner == second
        places = np.where(one_tracklet[:, None, None], parts_of_one, parts_of_two)
        first = np.stack([tracklets.first[owner], tracklets.first[second]], axis=1)  # n 2
        clips = (first[:, :, None] + places).reshape(-1, length)
        has_second_view = ~one_tracklet | (tracklets.count[owner] > 1)
        return EpochBags(clips, pair_bags(has_second_view), {"alpha": alpha})

    def draw_validation(
        self, data: FragmentSet, tau: float, size: int, rng: np.random.Generator
    ) -> EpochBags:
        """Half of the pairs from one tracklet, in every epoch (see `BagSampler`)."""
        return self._draw_pairs(0.5, data, size, rng)
