"""From link probabilities to polyps: a partition of the tracklets with a low cost.

A partition costs `price` for each of its polyps and, for each pair of tracklets of one polyp, the
probability that the two show different polyps, less a tolerance:

    cost(partition) = price * polyps + sum of (tolerance - p_ij) over pairs i < j of one polyp.

The price balances few wrong links (low) against few polyps (high): it is the number of expected
wrong pairs that one polyp less is worth. At a price above the tolerance, polyps of one view each
are always merged. This is correlation clustering (Bansal, Blum and Chawla 2004) with a price for
clusters. Pair costs are linear in the probability, not logarithmic, because the metrics count wrong
pairs. Greedy merging gives one sequence of merges for all prices; moves of single tracklets and
merges of polyps then improve each partition until none lowers the cost. This is repeated from
sequences with noise on the pair costs, and the best partition is returned. It is nearly always the
cheapest that many more repetitions find (for 94 to 99 % of partitions of up to 100 tracklets).
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import checked_square
from polyplink.core.arrays import Floats
from polyplink.core.compiled import njit
from polyplink.core.errors import PolyplinkError

Labels = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]
Pairs = Sequence[tuple[int, int]]

TOLERANCE = 0.9  # by default; chosen on simulated procedures, where 0.8 to 1 differ little
PRICES = tuple(np.geomspace(0.1, 60.0, 33).tolist())  # of a polyp, to choose from
NEVER = 1e6  # cost of a pair that certainly shows two polyps
STARTS, NOISE = 32, 0.3  # partitions to improve; noise on the pair costs for all but the first
NOISY_COSTS = 320_000  # pair costs of all starts together: above 100 tracklets, starts are fewer
MOST = 6000  # tracklets: the tables of pairs take about 8 bytes x 6 x n^2, 1.7 GB


def partition_cost(
    P: npt.ArrayLike,
    labels: npt.ArrayLike,
    price: float,
    weights: Floats | None = None,
    tolerance: float = TOLERANCE,
) -> float:
    """The cost of a partition, as defined at the top of this file.

    Args:
        P: Probability that two tracklets show the same polyp (n, n); 0 means never.
        labels: Polyp of every tracklet (n,).
        price: Price of a polyp.
        weights: Number of tracklets that each row stands for (n,); None for one each.
        tolerance: Probability from which a link lowers the cost.
    """
    names = np.asarray(labels)
    together = np.triu(names[:, None] == names[None, :], k=1)
    costs = pair_costs(checked_square(P), weights, tolerance)
    return float(price * np.unique(names).size + costs[together].sum())


def pair_costs(P: Floats, weights: Floats | None = None, tolerance: float = TOLERANCE) -> Floats:
    """Costs (n, n) of having two tracklets in one polyp, 0 on the diagonal."""
    costs = np.where(P == 0, NEVER, tolerance - P)
    if weights is not None:
        costs *= np.outer(weights, weights)
    np.fill_diagonal(costs, 0.0)
    return np.asarray(costs)


def partition(
    P: npt.ArrayLike,
    prices: npt.ArrayLike,
    must: Pairs = (),
    cannot: Pairs = (),
    *,
    weights: Floats | None = None,
    tolerance: float = TOLERANCE,
) -> Labels:
    """Find a partition of low cost for every price.

    Args:
        P: Probability that two tracklets show the same polyp (n, n), symmetric; 0 means never.
        prices: Price of a polyp (m,), 0 or more.
        must: Pairs of rows that show the same polyp; they override P.
        cannot: Pairs of rows that show different polyps.
        weights: Number of tracklets that each row stands for (n,); None for one each.
        tolerance: Probability from which a link lowers the cost.

    Returns:
        Polyp of every tracklet under every price (m, n), int32, from 0 without gaps, in the order
        of the polyps' first tracklets.

    Raises:
        PolyplinkError: If P is not a square of finite numbers or has more than `MOST` rows, a price
            is negative, a pair refers to no row, or the constraints contradict each other.

    Example:
        >>> P = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.1], [0.2, 0.1, 1.0]])
        >>> partition(P, [0.5, 2.0])
        array([[0, 0, 1],
               [0, 0, 0]], dtype=int32)
    """
    check_tracklet_count(max(np.asarray(P).shape, default=0))
    S = checked_square(P)
    n, all_prices = len(S), np.atleast_1d(np.asarray(prices, dtype=np.float64))
    if not (all_prices >= 0).all():
        raise PolyplinkError(f"the price of a polyp is {all_prices.min():g}", "give 0 or more")
    groups = constraint_groups(n, must, cannot)
    costs = pair_costs((S + S.T) / 2, weights, tolerance)
    for i, j in must:
        costs[i, j] = costs[j, i] = 0.0
    for i, j in cannot:
        costs[i, j] = costs[j, i] = NEVER
    if must:  # the cost of two groups is the sum over their tracklets
        member = np.eye(groups.max() + 1)[groups]  # (n, g)
        costs = member.T @ costs @ member
        np.fill_diagonal(costs, 0.0)
    n_units = len(costs)
    starts = min(max(NOISY_COSTS // max(n_units, 1) ** 2, 1), STARTS)
    best_labels = np.zeros((all_prices.size, n_units), np.int64)
    lowest_costs = np.full(all_prices.size, np.inf)
    for noise in _noise(starts, n_units):
        merges, merge_costs = _merge(costs + noise)
        for row, price in enumerate(all_prices):
            labels = _cut(merges, merge_costs, price)
            cost = _improve(costs, price, labels)
            if cost < lowest_costs[row] - 1e-9:
                best_labels[row], lowest_costs[row] = labels, cost
    partitions = np.empty((all_prices.size, n), np.int32)
    for row, labels in enumerate(best_labels):
        _, first, codes = np.unique(labels[groups], return_index=True, return_inverse=True)
        partitions[row] = np.argsort(np.argsort(first))[codes]
    return partitions


def check_tracklet_count(n: int) -> None:
    """Refuse to link more than `MOST` tracklets: their tables of pairs may not fit in memory.

    Raises:
        PolyplinkError: If there are more.
    """
    if n > MOST:
        raise PolyplinkError(
            f"{n} tracklets in one procedure; links are computed for up to {MOST}",
            "leave out short ones with a greater --min-seconds or --min-length, or split the "
            "recording",
        )


@lru_cache(maxsize=4)  # 2.6 MB each up to 565 tracklets: a procedure is partitioned again and again
def _noise(starts: int, n: int) -> Floats:
    """Noise that each start adds to the costs (starts, n, n), symmetric; none at the first."""
    noise = np.zeros((starts, n, n))
    if starts > 1:
        drawn = np.random.default_rng(0).normal(0.0, NOISE, noise.shape)
        noise[1:] = np.triu(drawn, k=1)[1:]
    return np.asarray(noise + noise.swapaxes(1, 2))


def constraint_groups(n: int, must: Pairs, cannot: Pairs) -> Counts:
    """Group of every tracklet (n,); tracklets that must show one polyp form a group.

    Raises:
        PolyplinkError: If a pair refers to no row, or the constraints contradict each other.
    """
    for i, j in (*must, *cannot):
        if not (0 <= i < n) or not (0 <= j < n) or i == j:
            raise PolyplinkError(
                f"a constraint names tracklets {i} and {j} of {n}",
                "name two different rows, from 0",
            )
    groups = np.arange(n)
    for i, j in must:
        groups[groups == groups[j]] = groups[i]
    groups = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    for i, j in cannot:
        if groups[i] == groups[j]:
            raise PolyplinkError(
                f"tracklets {i} and {j} must show two polyps, and by other constraints one",
                "remove one of these constraints",
            )
    return groups


@njit()
def _merge(  # noqa: PLR0912
    costs: Floats,
) -> tuple[Counts, Floats]:
    """Merge the two clusters with the lowest cost of their pairs, until one cluster remains.

    Returns:
        Merged clusters (n - 1, 2), each identified by one of its tracklets, the second merged into
        the first; and the costs of the merges (n - 1,).
    """
    n = costs.shape[0]
    cluster_costs = costs.copy()  # of two remaining clusters, the sum over their pairs
    alive = np.ones(n, np.bool_)
    nearest, smallest = np.zeros(n, np.int64), np.full(n, np.inf)
    for i in range(n):
        for j in range(n):
            if j != i and cluster_costs[i, j] < smallest[i]:
                nearest[i], smallest[i] = j, cluster_costs[i, j]
    merges, merge_costs = np.zeros((max(n - 1, 0), 2), np.int64), np.zeros(max(n - 1, 0))
    for step in range(n - 1):
        i, lowest = -1, np.inf
        for k in range(n):
            if alive[k] and smallest[k] < lowest:
                i, lowest = k, smallest[k]
        j = nearest[i]
        merges[step, 0], merges[step, 1], merge_costs[step] = i, j, lowest
        alive[j] = False
        smallest[i] = np.inf
        for k in range(n):
            if alive[k] and k != i:
                cluster_costs[i, k] += cluster_costs[j, k]
                cluster_costs[k, i] = cluster_costs[i, k]
                if cluster_costs[i, k] < smallest[i]:
                    nearest[i], smallest[i] = k, cluster_costs[i, k]
        for k in range(n):
            if not alive[k] or k == i:
                continue
            if nearest[k] == i or nearest[k] == j:  # its nearest has changed: search again
                smallest[k] = np.inf
                for m in range(n):
                    if alive[m] and m != k and cluster_costs[k, m] < smallest[k]:
                        nearest[k], smallest[k] = m, cluster_costs[k, m]
            elif cluster_costs[k, i] < smallest[k]:
                nearest[k], smallest[k] = i, cluster_costs[k, i]
    return merges, merge_costs


@njit()
def _cut(merges: Counts, merge_costs: Floats, price: float) -> Counts:
    """Clusters (n,) after all merges before the first one that costs the price or more."""
    n = merges.shape[0] + 1
    labels = np.arange(n)
    for step in range(n - 1):
        if merge_costs[step] >= price:
            break
        for k in range(n):
            if labels[k] == merges[step, 1]:
                labels[k] = merges[step, 0]
    return labels


@njit()
def _improve(  # noqa: PLR0912
    costs: Floats, price: float, labels: Counts
) -> float:
    """Move tracklets and merge clusters in place while this lowers the cost; return the cost."""
    n = costs.shape[0]
    size = np.zeros(n, np.int64)
    for i in range(n):
        size[labels[i]] += 1
    cluster_costs = np.zeros(n)  # cost of a tracklet's pairs with each cluster
    changed = True
    while changed:
        changed = False
        for i in range(n):
            cluster_costs[:] = 0.0
            for j in range(n):
                cluster_costs[labels[j]] += costs[i, j]
            current = labels[i]
            size[current] -= 1
            best, lowest = current, cluster_costs[current] + (price if size[current] == 0 else 0.0)
            empty = current if size[current] == 0 else -1
            for k in range(n):
                if size[k] == 0:
                    if empty < 0:
                        empty = k
                elif cluster_costs[k] < lowest - 1e-12:
                    best, lowest = k, cluster_costs[k]
            if price < lowest - 1e-12:  # cheapest as a polyp by itself
                best = empty
            changed |= best != current
            labels[i] = best
            size[best] += 1
        between = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                between[labels[i], labels[j]] += costs[i, j]
        first, second, lowest_merge = -1, -1, price - 1e-9
        for i in range(n):
            if size[i] > 0:
                for j in range(i):
                    if size[j] > 0 and between[i, j] < lowest_merge:
                        first, second, lowest_merge = i, j, between[i, j]
        if first >= 0:
            for k in range(n):
                if labels[k] == second:
                    labels[k] = first
            size[first] += size[second]
            size[second] = 0
            changed = True
    total = 0.0
    for i in range(n):
        total += price * (size[i] > 0)
        for j in range(i):
            if labels[i] == labels[j]:
                total += costs[i, j]
    return total
