"""The looks of a procedure: how many at each polyp and each pair, and how long they are."""

import itertools
from dataclasses import dataclass

import numpy as np

from polyplink.simulate.course.laws import Counts, draw_long, look_lengths
from polyplink.simulate.specs import PairSpec, Preset, ProcedureSpec

Range = tuple[int, int]
Kind = tuple[Range, Range]  # how many, and how long


@dataclass(frozen=True)
class Lengths:
    """Frames of every look, in random order.

    Attributes:
        own: For every polyp, its looks that show it alone.
        pairs: For every pair of the specification, the looks that show both.
    """

    own: tuple[Counts, ...]
    pairs: tuple[Counts, ...]


def draw_lengths(rng: np.random.Generator, spec: ProcedureSpec, preset: Preset) -> Lengths:
    """Draw the looks of a procedure.

    Args:
        rng: Where they come from.
        spec: The procedure.
        preset: By which laws.

    Returns:
        Looks whose frames sum up, for every polyp, to its visible frames (those of its pairs
        counted for both).
    """
    shared = np.zeros(len(spec.polyps), np.int64)
    for pair in spec.pairs:
        shared[[pair.first, pair.second]] += pair.frames
    alone = [
        max(polyp.visible_frames - int(both), 0)
        for polyp, both in zip(spec.polyps, shared, strict=True)
    ]
    if preset.published_looks:
        return _published(rng, spec, alone)
    pairs = tuple(
        compose(rng, pair.frames, ((1, 2), preset.long_frames), ((0, 0), preset.short_frames))
        for pair in spec.pairs
    )
    return Lengths(tuple(_ranged(rng, preset, frames) for frames in alone), pairs)


def _published(rng: np.random.Generator, spec: ProcedureSpec, alone: list[int]) -> Lengths:
    """A polyp's number of long looks follows from all its frames; pairs get their part of it."""
    long = [draw_long(rng, polyp.visible_frames) for polyp in spec.polyps]
    pairs = []
    for pair in spec.pairs:
        share = _pair_long(spec, pair, long)
        pairs.append(look_lengths(rng, pair.frames, share))
        for polyp in (pair.first, pair.second):
            long[polyp] = max(long[polyp] - share, 1)
    own = tuple(look_lengths(rng, frames, n) for frames, n in zip(alone, long, strict=True))
    return Lengths(own, tuple(pairs))


def _pair_long(spec: ProcedureSpec, pair: PairSpec, long: list[int]) -> int:
    """Long looks at both: as dense as those at the less often seen."""
    shares = [
        pair.frames * long[polyp] / spec.polyps[polyp].visible_frames
        for polyp in (pair.first, pair.second)
    ]
    return max(round(min(shares)), 1)


def _ranged(rng: np.random.Generator, preset: Preset, frames: int) -> Counts:
    return compose(
        rng,
        frames,
        (preset.long_views, preset.long_frames),
        (preset.short_views, preset.short_frames),
    )


def compose(rng: np.random.Generator, total: int, long: Kind, short: Kind) -> Counts:
    """Split frames into looks, long and short ones, whose numbers and lengths lie in ranges.

    Args:
        rng: Where they come from.
        total: Frames to split.
        long: Ranges of the number of long looks and of the frames of one.
        short: The same of short looks.

    Returns:
        (n,) frames of each look in random order, that sum up to the total. A total that no
        numbers in the ranges can give is split evenly into looks of about the right length.
    """
    (least, most), (short_least, short_most) = long[1], short[1]
    fits = [
        (n, k)
        for n, k in itertools.product(_numbers(long[0]), _numbers(short[0]))
        if n * least + k * short_least <= total <= n * most + k * short_most
    ]
    if not total:
        return np.zeros(0, np.int64)
    if not fits:
        looks = max(round(2 * total / (least + most)), 1)
        return np.diff(np.arange(looks + 1) * total // looks)
    numbers = fits[rng.integers(len(fits))]
    low = np.repeat([least, short_least], numbers)
    high = np.repeat([most, short_most], numbers)
    return rng.permutation(_bounded(rng, total, low, high))


def _numbers(views: Range) -> range:
    return range(views[0], views[1] + 1)


def _bounded(rng: np.random.Generator, total: int, low: Counts, high: Counts) -> Counts:
    """Whole numbers (n,) within bounds that sum up to a total within theirs."""
    lengths = rng.integers(low, high, endpoint=True)
    for index in rng.permutation(len(lengths)):
        wanted = lengths[index] + total - lengths.sum()
        lengths[index] = np.clip(wanted, low[index], high[index])
    return lengths
