"""Bags: which fragments are taken to show the anchor's polyp, from time alone (NTSSL 2.1)."""

from dataclasses import dataclass

import numpy as np

from polyplink.learn.ranks import draw_ranks, neighbour_at


@dataclass(frozen=True)
class Bags:
    """One bag for every fragment as anchor.

    Attributes:
        members: (n, 1 + K) int64 rows of the fragments; column 0 is the anchor, row i its bag.
        valid: (n, 1 + K) bool; False where a procedure had fewer than K other fragments (the
            member is then without meaning). Column 0 is always True.
        ranks: (n, K) int64 rank in time of every drawn member, from 1.
    """

    members: np.ndarray
    valid: np.ndarray
    ranks: np.ndarray


def _with_ranks(
    procedures: np.ndarray, positions: np.ndarray, ranks: np.ndarray, valid: np.ndarray
) -> Bags:
    """Bags from ranks given in the order of the fragments."""
    n = len(positions)
    order = np.lexsort((positions, procedures))
    grouped = procedures[order]
    start = np.searchsorted(grouped, grouped, side="left")
    stop = np.searchsorted(grouped, grouped, side="right")
    safe = np.where(valid, ranks, 1)[order]
    # A lone fragment has no rank 1; it is its own stand-in and stays masked.
    alone = (stop - start == 1)[:, None]
    found = neighbour_at(positions[order], start, stop, np.where(alone, 0, safe))
    members = np.empty((n, 1 + ranks.shape[1]), np.int64)
    members[:, 0] = np.arange(n)
    members[order, 1:] = order[found]
    return Bags(members, np.column_stack([np.ones(n, bool), valid]), ranks)


def _candidates(procedures: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(procedures, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse] - 1)


def sampled_bags(
    procedures: np.ndarray, positions: np.ndarray, k: int, tau: float, rng: np.random.Generator
) -> Bags:
    """Bags by exponential rank sampling (NTSSL 2.1), O(n K) in time and memory.

    Args:
        procedures: (n,) procedure of each fragment, integers or names.
        positions: (n,) position in time, normalised to the procedure's annotated span.
        k: Members beside the anchor.
        tau: Temperature of the ranks (see `curriculum.cosine_tau`).
        rng: Source of randomness.

    Returns:
        Bags; a procedure with fewer than K candidates gives masked bags of what there is.
    """
    ranks, valid = draw_ranks(_candidates(procedures), k, tau, rng)
    return _with_ranks(procedures, positions, ranks, valid)


def nearest_bags(procedures: np.ndarray, positions: np.ndarray, k: int) -> Bags:
    """Bags of the K nearest in time (the ablation without sampling, NTSSL table 2)."""
    candidates = _candidates(procedures)
    ranks = np.broadcast_to(np.arange(1, k + 1), (len(positions), k)).copy()
    return _with_ranks(procedures, positions, ranks, ranks <= candidates[:, None])


def purity(bags: Bags, polyps: np.ndarray) -> float:
    """Share of bags in which all members show the anchor's polyp (NTSSL figure 2, right).

    Args:
        bags: The bags, in any order.
        polyps: (n,) integer code of each fragment's polyp.

    Returns:
        In [0, 1]; NaN for no bags.
    """
    if not len(bags.members):
        return float("nan")
    shown = polyps[bags.members]  # b 1+K
    same = shown == shown[:, :1]  # b 1+K
    return float((same | ~bags.valid).all(axis=1).mean())


def shuffled(bags: Bags, rng: np.random.Generator) -> Bags:
    """The same bags in another order."""
    return chosen(bags, rng.permutation(len(bags.members)))


def chosen(bags: Bags, rows: np.ndarray) -> Bags:
    """Some of the bags, in the order of `rows`."""
    return Bags(bags.members[rows], bags.valid[rows], bags.ranks[rows])


def pairs(second: np.ndarray) -> Bags:
    """Bags of two views that lie one after the other: of clips 2 i and 2 i + 1, for every i.

    Args:
        second: (b,) bool, whether the pair has a second view.
    """
    members = np.arange(2 * len(second)).reshape(-1, 2)
    valid = np.column_stack([np.ones(len(second), bool), second])
    return Bags(members, valid, np.zeros((len(second), 1), np.int64))
