"""Drawing the bags of an epoch, against the matrix of all pairs."""

from collections.abc import Callable

import numpy as np

from polyplink.bench.harness import BenchResult, against, best_of, growth, most_memory
from polyplink.learn.bags import Bags
from polyplink.learn.temporal_bags import sampled_bags

FRAGMENTS = 7_000  # of 27 procedures, as REAL-Colon's training part gives
PROCEDURES = 27
K, TAU = 4, 6.0


def synthetic_fragments(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Procedure (n,) and position (n,) of fragments, spread evenly over the procedures."""
    rng = np.random.default_rng(0)
    return np.arange(size) % PROCEDURES, rng.random(size)


def matrix_bags(procedures: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The rival: all distances, sorted row by row, and Gumbel top-k over all ranks.

    Returns:
        (n, n) int, every row's others of its procedure by distance, then the rest.
    """
    distance = np.abs(positions[:, None] - positions[None, :])  # n n
    distance[procedures[:, None] != procedures[None, :]] = np.inf
    np.fill_diagonal(distance, np.inf)
    order = np.argsort(distance, axis=1, kind="stable")  # n n
    ranks = np.arange(1, len(positions) + 1)
    noise = np.random.default_rng(0).gumbel(size=distance.shape)
    score = np.where(np.isfinite(distance), noise - ranks[None, :] / TAU, -np.inf)
    np.argpartition(-score, K, axis=1)[:, :K]
    return order


def _ours(procedures: np.ndarray, positions: np.ndarray) -> Bags:
    return sampled_bags(procedures, positions, K, TAU, np.random.default_rng(0))


def _call(size: int) -> Callable[[], object]:
    fragments = synthetic_fragments(size)
    return lambda: _ours(*fragments)


def run(size: int = FRAGMENTS) -> BenchResult:
    """Measure `sampled_bags`; size is fragments, at least 8.

    The rival works as the papers' program does. Draws are random in both; what is compared is who
    holds each drawn rank.
    """
    procedures, positions = synthetic_fragments(size)
    orders: list[np.ndarray] = []
    rival_s = best_of(lambda: orders.append(matrix_bags(procedures, positions)), 1)
    bags = _ours(procedures, positions)
    drawn = bags.valid[:, 1:]
    expected = np.take_along_axis(orders[0], np.where(drawn, bags.ranks, 1) - 1, axis=1)
    return against(
        "bags",
        "all distances, argsort, Gumbel top-k",
        size,
        ours_s=best_of(lambda: _ours(procedures, positions), 5),
        rival_s=rival_s,
        exponent=growth(_call, size, 5),
        equal=bool((bags.members[:, 1:][drawn] == expected[drawn]).all()),
        peak_mb=most_memory(_call(size)),
    )
