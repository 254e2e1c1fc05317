"""Affinity propagation: many preferences at a time, with scikit-learn's results.

Source: Frey and Dueck, Clustering by passing messages between data points, Science 2007. Noise,
stopping rule and refinement follow `sklearn.cluster.AffinityPropagation` (1.9) step by step, so
that the partitions are equal. Messages of four preferences are computed in one SIMD register, on
the few entries that matter, see `few_entries`.
"""

import numpy as np
import numpy.typing as npt
from numba import config

from polyplink.associate.affinity.few_entries import CONTENDERS, Mask, few
from polyplink.associate.affinity.rounds import settle_few
from polyplink.associate.affinity.simd import LANES
from polyplink.associate.similarity import Reals, checked_square
from polyplink.core.compiled import njit
from polyplink.core.errors import PolyplinkError

Labels = npt.NDArray[np.int32]
Order = npt.NDArray[np.int64]

SEED = 42  # of the noise: `random_state` in the code of temporally-aware counting


@njit()
def _nearest(S: Reals, exemplars: Order, choice: Order) -> None:
    """Index in `exemplars` of each row's most similar one (n,); exemplars choose themselves."""
    for i in range(choice.size):
        choice[i] = 0
        for k, exemplar in enumerate(exemplars):
            if S[i, exemplar] > S[i, exemplars[choice[i]]]:
                choice[i] = k
    for k, exemplar in enumerate(exemplars):
        choice[exemplar] = k


@njit()
def _refine(S: Reals, exemplars: Order, choice: Order) -> None:
    """Make the member most similar to all of its cluster the exemplar, and assign once more."""
    _nearest(S, exemplars, choice)
    sums = np.empty(choice.size)
    for k in range(exemplars.size):
        for j in range(choice.size):
            sums[j] = 0.0
        for i in range(choice.size):
            if choice[i] == k:
                for j in range(choice.size):
                    sums[j] += S[i, j]
        best = -1
        for j in range(choice.size):
            if choice[j] == k and (best < 0 or sums[j] > sums[best]):
                best = j
        exemplars[k] = best
    _nearest(S, exemplars, choice)


@njit()
def _assign(S: Reals, diagonals: Reals, is_exemplar: Mask, labels: Labels) -> None:
    """Refine the exemplars of each run and number its clusters by the order of their exemplars.

    Writes labels (runs, n); the diagonals (runs, n) are written into S (n, n).
    """
    runs, n = labels.shape
    exemplars, choice, number = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for run in range(runs):
        size = 0
        for k in range(n):
            S[k, k], number[k] = diagonals[run, k], -1
            if is_exemplar[run, k]:
                exemplars[size] = k
                size += 1
        if size == 0:  # each is its own cluster
            for k in range(n):
                labels[run, k] = k
            continue
        _refine(S, exemplars[:size], choice)
        for k in range(size):
            number[exemplars[k]] = 0
        count = 0
        for k in range(n):
            if number[k] == 0:
                number[k] = count
                count += 1
        for k in range(n):
            labels[run, k] = number[exemplars[choice[k]]]


def _run(S: Reals, diagonals: Reals, labels: Labels, converged: Mask) -> None:
    """Cluster S (n, n) under every diagonal (p, n), into labels (p, n) and converged (p,)."""
    order, room = np.argsort(-S, axis=1), CONTENDERS
    messages = few(S, order, room)
    is_exemplar, settled = np.zeros((LANES, len(S)), np.bool_), np.zeros(LANES, np.bool_)
    for start in range(0, len(labels), LANES):
        runs = np.arange(start, start + LANES).clip(max=len(labels) - 1)  # the last is repeated
        by_lane = np.ascontiguousarray(diagonals[runs].T).ravel()
        while not settle_few(messages, by_lane, is_exemplar, settled):
            room *= 2
            messages = few(S, order, room)
        part = slice(start, min(start + LANES, len(labels)))
        converged[part] = settled[: part.stop - start]
        _assign(S, diagonals[part], is_exemplar, labels[part])


def tie_noise(n: int) -> Reals:
    """scikit-learn's noise (n, n) for breaking ties, before it is scaled to the last bit."""
    return np.random.RandomState(SEED).standard_normal((n, n))


def with_noise(S: Reals, preferences: Reals, noise: Reals | None = None) -> tuple[Reals, Reals]:
    """Break ties as scikit-learn does: with noise in the last bit, from a fixed seed.

    Args:
        S: Similarities (n, n).
        preferences: Preferences (p,).
        noise: `tie_noise(n)`, if it was computed before.

    Returns:
        The similarities (n, n), and a diagonal for every preference (p, n).
    """
    noise = tie_noise(len(S)) if noise is None else noise
    real = np.finfo(np.float64)
    columns = preferences[:, None]
    diagonals = columns + (real.eps * columns + real.tiny * 100) * np.diag(noise)
    return S + (real.eps * S + real.tiny * 100) * noise, diagonals


def propagate(
    S: npt.ArrayLike, preferences: npt.ArrayLike, noise: Reals | None = None
) -> tuple[Labels, Mask]:
    """Affinity propagation of one procedure under many preferences.

    The damping is 0.9; a run converges after 50 rounds without change and stops after 500. Without
    an exemplar, scikit-learn labels every sample -1 (which counting would treat as one polyp); here
    every tracklet becomes its own cluster and `converged` is False. If a run stops with exemplars
    but without convergence, the labels are scikit-learn's and `converged` is False. If all
    similarities are equal there is no unique solution; as in scikit-learn, all tracklets form one
    cluster, or each its own if the preference is larger than the similarity.

    Args:
        S: Similarities (n, n); the diagonal is not read.
        preferences: Preferences (p,); a larger one gives more clusters.
        noise: `tie_noise(n)`, to share it between calls for the same number of tracklets.

    Returns:
        Labels (p, n), int32, from 0 without gaps in the order of the exemplars; converged (p,).

    Raises:
        PolyplinkError: If S is not square or is empty, a value is not finite, or NUMBA_DISABLE_JIT
            is set.
    """
    similarity = checked_square(S)  # a copy: noise is added to it
    all_preferences = np.atleast_1d(np.asarray(preferences, dtype=np.float64))
    if not np.isfinite(all_preferences).all():
        raise PolyplinkError("a preference is not finite", "give finite preferences")
    if getattr(config, "DISABLE_JIT", 0):
        raise PolyplinkError(
            "affinity propagation only runs compiled, but NUMBA_DISABLE_JIT is set",
            "unset NUMBA_DISABLE_JIT",
        )
    n, p = similarity.shape[0], all_preferences.size
    labels = np.zeros((p, n), dtype=np.int32)
    converged = np.ones(p, dtype=np.bool_)
    if n == 1:
        return labels, converged
    np.fill_diagonal(similarity, similarity[0, 1])
    lowest, highest = similarity.min(), similarity.max()
    if lowest == highest:
        labels[all_preferences > highest] = np.arange(n)
        return labels, converged
    noisy, diagonals = with_noise(similarity, all_preferences, noise)
    np.fill_diagonal(noisy, -np.inf)
    # Under a preference above every similarity all are exemplars from round 1: no run is needed.
    alone = (diagonals > noisy.max(axis=1)).all(axis=1)
    labels[alone] = np.arange(n)
    run_rows = np.flatnonzero(~alone)
    if run_rows.size:
        run_labels, run_converged = labels[run_rows], converged[run_rows]
        _run(noisy, diagonals[run_rows], run_labels, run_converged)
        labels[run_rows], converged[run_rows] = run_labels, run_converged
    return labels, converged
