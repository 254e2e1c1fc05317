"""Ranks in time: sampling them, and finding the fragment at a rank.

Both are linear in what they return, O(n K) for n anchors and K ranks each: no matrix of all pairs
is built.
"""

import numpy as np

from polyplink.core.errors import PolyplinkError


def draw_ranks(
    candidates: np.ndarray, k: int, tau: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw K distinct ranks for every anchor, P(r) proportional to exp(-r / tau).

    NTSSL 2.1, "Bag Construction". Drawn one after the other without replacement from the
    truncated geometric distribution over the ranks that are left, which is what Gumbel top-k
    gives, in closed form: between the ranks already drawn lie at most K + 1 runs of free ranks;
    a run is chosen by its mass, then a rank within it by the inverse of its cumulative sum.
    Masses are relative to the first free rank, so that a small tau loses no precision.

    Args:
        candidates: (n,) int, how many ranks 1..C each anchor may draw from; may be below k.
        k: Ranks to draw.
        tau: Temperature, above 0, in ranks.
        rng: Source of randomness.

    Returns:
        ranks (n, k) int64, from 1, in the order drawn, and valid (n, k) bool, False where an
        anchor had no rank left (its rank is then without meaning).

    Raises:
        PolyplinkError: If tau is not above 0.
    """
    PolyplinkError.unless(0.0 < tau < np.inf, f"tau is {tau}", "give one above 0")
    n = len(candidates)
    last = candidates.astype(np.int64)  # n
    drawn = np.empty((n, 0), np.int64)
    for _ in range(k):
        taken = np.sort(drawn, axis=1)  # n t; the exhausted hold C+1, which borders no run
        low = np.concatenate([np.ones((n, 1), np.int64), taken + 1], axis=1)  # n t+1
        high = np.concatenate([taken - 1, last[:, None]], axis=1)
        size = np.maximum(np.minimum(high, last[:, None]) - low + 1, 0)
        first = np.where(size > 0, low, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
        start = np.exp(-np.where(size > 0, low - first, 0) / tau)
        mass = np.where(size > 0, start * -np.expm1(-size / tau), 0.0)  # n t+1
        bound = np.cumsum(mass, axis=1)
        target = rng.random((n, 1)) * bound[:, -1:]
        run = np.minimum((bound <= target).sum(axis=1, keepdims=True), size.shape[1] - 1)
        picked = [np.take_along_axis(x, run, axis=1)[:, 0] for x in (low, size)]
        step = rng.random(n) * -np.expm1(-picked[1] / tau)
        offset = np.floor(-tau * np.log1p(-step)).astype(np.int64)
        rank = picked[0] + np.clip(offset, 0, np.maximum(picked[1] - 1, 0))
        exhausted = bound[:, -1] <= 0
        drawn = np.column_stack([drawn, np.where(exhausted, last + 1, rank)])
    return drawn, drawn <= last[:, None]


def neighbour_at(
    positions: np.ndarray, start: np.ndarray, stop: np.ndarray, ranks: np.ndarray
) -> np.ndarray:
    """The neighbour in time at a rank, by bisection instead of sorting distances.

    Args:
        positions: (n,) float, ascending within each procedure.
        start: (n,) int, first row of each anchor's procedure.
        stop: (n,) int, one past its last row.
        ranks: (n, k) int, from 1 to the number of other rows of the procedure. Rank 1 is the
            nearest by |p_j - p_i|; of two equally near the earlier one comes first, and of rows
            at one position the one closer in order.

    Returns:
        (n, k) int64, rows of `positions`.
    """
    row = np.arange(len(positions))[:, None]  # n 1
    here = positions[:, None]
    left, right = row - start[:, None], stop[:, None] - 1 - row  # neighbours on either side
    # The first r neighbours are l on the left and r - l on the right: find l in [low, high].
    low, high = np.maximum(ranks - right, 0), np.minimum(ranks, left)
    ceiling = high.copy()
    top = len(positions) - 1

    def to_left(count: np.ndarray) -> np.ndarray:
        return np.asarray(here - positions[np.maximum(row - count, 0)])

    def to_right(count: np.ndarray) -> np.ndarray:
        return np.asarray(positions[np.minimum(row + count, top)] - here)

    while np.any(low < high):
        middle = (low + high) // 2
        enough = (middle == ceiling) | (to_right(ranks - middle) < to_left(middle + 1))
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle + 1)
    on_right = ranks - low
    ends_left = (on_right == 0) | ((low > 0) & (to_right(on_right) < to_left(low)))
    return np.asarray(np.where(ends_left, row - low, row + on_right))
