"""How often and for how long a polyp is seen: laws that agree with what is published.

Anchored: the number of long tracklets. Its law is fitted to the frames with a box of REAL-Colon
(Biffi et al., Scientific Data 2024, 11:539) and the fragmentation without clustering of the 19
evaluation procedures, 20.74 +- 20.78 (arXiv 2507.02493); the 736 long tracklets that the results
of arXiv 2605.12320 imply confirm it. More than 400 tracklets in 003-013 are a remark in the
program of arXiv 2502.10054. Free, because nobody published them: the shapes of lengths and gaps.
"""

import math

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

LONG = 30  # frames from which a tracklet counts in evaluation
FACTOR, EXPONENT = 0.0118, 0.9  # number of long tracklets of a polyp = FACTOR * frames ** EXPONENT
FEWEST = 2  # long tracklets of a polyp: each needs another one to be matched with
NOISE, STEADY = 0.25, 8  # log noise of that number; it shrinks when more than STEADY are expected
SHORT_PER_LONG = (4.8, 5.1)
SHORT_FRAMES = (5.0, 1.0)  # median and log-sigma of a short tracklet, below LONG
SHORT_SHARE = 0.4  # of the frames that long tracklets do not need, at most, are short ones'
SIGMA = 1.2  # of the log of what a long tracklet has beyond LONG frames: about 1 for the whole

FLICKER = (3.0, 0.7, 15)  # frames: median, log-sigma, largest
SECONDS = (2.0, 0.8, 30.0)  # seconds: median, log-sigma, largest
FLICKER_SHARE = 0.8  # of the gaps within a visit


def expected_long(frames: int) -> float:
    """Long tracklets to be expected of a polyp with so many frames with a box."""
    return FACTOR * math.exp(EXPONENT * math.log(frames)) if frames else 0.0


def draw_long(rng: np.random.Generator, frames: int) -> int:
    """Draw the number of long tracklets of a polyp.

    The noise shrinks with the number, so that the sum over a data set is steady although one
    procedure (004-013) makes most of its spread.

    Args:
        rng: Where it comes from.
        frames: Frames with a box.

    Returns:
        At least `FEWEST`, unless there are too few frames for that many.
    """
    expected = expected_long(frames)
    sigma = NOISE * min(1.0, STEADY / max(expected, 1.0))
    count = round(expected * rng.lognormal(-(sigma**2) / 2, sigma))
    return min(max(count, FEWEST), frames // LONG)


def short_lengths(rng: np.random.Generator, long: int, most: float) -> Counts:
    """Draw the short tracklets that come with a number of long ones.

    Args:
        rng: Where they come from.
        long: Number of long tracklets.
        most: Frames that they may have in all.

    Returns:
        (n,) frames, each 1 to `LONG` - 1.
    """
    count = round(rng.uniform(*SHORT_PER_LONG) * long)
    median, sigma = SHORT_FRAMES
    lengths = np.clip(np.round(rng.lognormal(math.log(median), sigma, count)), 1, LONG - 1)
    return lengths[np.cumsum(lengths) <= most].astype(np.int64)


def long_lengths(rng: np.random.Generator, long: int, total: int) -> Counts:
    """Draw long tracklets of so many frames in all.

    Args:
        rng: Where they come from.
        long: Their number, n, at least 1.
        total: Frames in all, at least n * `LONG`.

    Returns:
        (n,) frames, each `LONG` or more, that sum up to the total.
    """
    excess = rng.lognormal(0, SIGMA, long)
    ends = np.round((total - LONG * long) * np.cumsum(excess) / excess.sum())
    lengths: Counts = LONG + np.diff(ends, prepend=0.0).astype(np.int64)
    return lengths


def look_lengths(rng: np.random.Generator, frames: int, long: int) -> Counts:
    """Split the frames in which a polyp is seen into looks, in random order.

    Args:
        rng: Where they come from.
        frames: Frames with a box.
        long: Number of looks of `LONG` frames or more; fewer where the frames do not suffice.

    Returns:
        (n,) frames of each look, that sum up to `frames`; empty for 0 frames.
    """
    long = min(long, frames // LONG)
    if not long:
        return np.array([frames] if frames else [], np.int64)
    short = short_lengths(rng, long, SHORT_SHARE * (frames - LONG * long))
    lengths = np.concatenate([short, long_lengths(rng, long, frames - int(short.sum()))])
    return rng.permutation(lengths)


def flicker_gaps(rng: np.random.Generator, count: int) -> Counts:
    """Frames (n,) between looks that a flicker of the box parts: 1 to 15."""
    median, sigma, largest = FLICKER
    gaps = np.clip(np.round(rng.lognormal(math.log(median), sigma, count)), 1, largest)
    return gaps.astype(np.int64)


def second_gaps(rng: np.random.Generator, count: int, fps: float) -> Counts:
    """Frames (n,) between looks when a polyp is lost and found again within seconds."""
    median, sigma, largest = SECONDS
    seconds = np.minimum(rng.lognormal(math.log(median), sigma, count), largest)
    return np.maximum(np.round(fps * seconds), 1).astype(np.int64)


def mean_gap(fps: float) -> float:
    """Frames between looks of one visit, on average."""
    flicker, seconds = (law[0] * math.exp(law[1] ** 2 / 2) for law in (FLICKER, SECONDS))
    return FLICKER_SHARE * flicker + (1 - FLICKER_SHARE) * seconds * fps
