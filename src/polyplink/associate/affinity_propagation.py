"""Affinity propagation: many preferences at a time, with scikit-learn's results.

Source: Frey and Dueck, Clustering by passing messages between data points, Science 2007. Noise,
stopping rule and refinement follow `sklearn.cluster.AffinityPropagation` (1.9) step by step, so
that the partitions are equal.

An entry (i, k) has the similarity s, the availability a, the responsibility r and the value a + s.
A round needs only the best two values of each row i, and the support of each column k: the sum of
its positive responsibilities, with that of k itself. So messages are computed only for the active
entries, the most similar ones of a row, and equal those of a full computation to the last bit:

- An entry is inactive while s is at most the second best value of its row and r is at most 0.
- Its value is none of the best two, as a is never positive: the value is at most s.
- It adds nothing to a support: r moves towards s minus the best value, which is at most 0.
- It becomes active as soon as s is above the second best value. Its messages are then computed for
  the rounds that it missed, from the best values and supports of these rounds.
"""

import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import checked_square
from polyplink.core.arrays import Floats
from polyplink.core.compiled import njit
from polyplink.core.errors import PolyplinkError

Labels = npt.NDArray[np.int32]
Order = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Columns = npt.NDArray[np.int32]

SEED = 42  # of the noise: `random_state` in the code of temporally-aware counting
DAMPING = 0.9
MAX_ITER = 500
CONVERGENCE_ITER = 50


_kernel = njit(error_model="numpy", fastmath={"nnan", "nsz"})  # no message is NaN


@_kernel
def _availability(a: float, r: float, support: float) -> float:
    """The availability after a round, from the messages before it and the column's support."""
    return a * DAMPING - max(max(r, 0.0) - support, 0.0) * (1 - DAMPING)


@_kernel
def _responsibility(r: float, s: float, rival: float) -> float:
    """The responsibility after a round, from the one before it and the best other value."""
    return r * DAMPING + (s - rival) * (1 - DAMPING)


@_kernel
def _best_two(first: float, second: float, value: float) -> tuple[float, float]:
    """The best two of two values in descending order and a third one."""
    return max(first, value), max(second, min(first, value))


@_kernel
def _mark(own_a: Floats, own_r: Floats, support: Floats, is_exemplar: Mask) -> tuple[bool, bool]:
    """Mark the exemplars after a round; returns whether marks changed, and whether there are any.

    Args:
        own_a: Availability of each entry of the diagonal in this round (n,).
        own_r: Its responsibility after the round (n,).
        support: Support of each column after the round (n,).
        is_exemplar: The marks (n,), which are updated.
    """
    changed, any_exemplar = False, False
    for k in range(own_a.size):
        availability = own_a[k] * DAMPING - (own_r[k] - support[k]) * (1 - DAMPING)
        marked = availability + own_r[k] > 0
        changed, any_exemplar = changed or marked != is_exemplar[k], any_exemplar or marked
        is_exemplar[k] = marked
    return changed, any_exemplar


@_kernel
def settle(  # noqa: PLR0912, PLR0917 - a call for every row would take longer
    S: Floats,
    column: Columns,
    diagonal: Floats,
    is_exemplar: Mask,
    a: Floats,
    r: Floats,
    n_computed: Columns,
    supports: Floats,
    best: Floats,
) -> bool:
    """Pass messages until the exemplars have not changed for 50 rounds.

    Args:
        S: Similarities (n, n), each row in descending order, its diagonal (-inf) last.
        column: Columns (n, n) of S.
        diagonal: Preferences (n,), with noise.
        is_exemplar: Output: the exemplars (n,).
        a: Room for the availabilities (n, n) of entries, in the order of S.
        r: Room for their responsibilities (n, n).
        n_computed: Room for the number of rounds for which the messages of an inactive entry are
            computed (n, n), in the order of S.
        supports: Room for the support of each column before a round (n, rounds).
        best: Room for the best value of each row in a round (n, rounds).

    Returns:
        Whether the exemplars settled.
    """
    n = diagonal.size
    for i in range(n):
        is_exemplar[i] = False
        for j in range(n):
            a[i, j] = r[i, j] = n_computed[i, j] = 0
    own_a, own_r = np.zeros(n), np.zeros(n)  # messages of the diagonal
    support, next_support = np.empty(n), np.zeros(n)
    n_active, value = np.zeros(n, np.int64), np.empty(n)  # the active entries of a row come first
    unchanged = 0
    for t in range(MAX_ITER):
        for k in range(n):
            support[k] = supports[k, t] = next_support[k]
            next_support[k] = 0.0
        for i in range(n):
            # Availabilities of the active entries, and the best two values of the row.
            count = n_active[i]
            own_a[i] = own_a[i] * DAMPING - (own_r[i] - support[i]) * (1 - DAMPING)
            own_value = own_a[i] + diagonal[i]
            for j in range(count):
                a[i, j] = _availability(a[i, j], r[i, j], support[column[i, j]])
                value[j] = a[i, j] + S[i, j]
            first, second = own_value, -np.inf
            for j in range(count):
                first, second = _best_two(first, second, value[j])
            # Activate the entries that may have one of these values.
            while count < n - 1 and S[i, count] > second:
                k, s = column[i, count], S[i, count]
                new_a, new_r = a[i, count], r[i, count]
                for missed in range(n_computed[i, count], t):
                    new_a = _availability(new_a, 0.0, supports[k, missed])
                    new_r = _responsibility(new_r, s, best[i, missed])
                new_a = _availability(new_a, 0.0, support[k])
                a[i, count], r[i, count], value[count] = new_a, new_r, new_a + s
                first, second = _best_two(first, second, value[count])
                count += 1
            best[i, t] = first
            # Responsibilities, and the supports of the next round. The rival of the best value is
            # the second best, which is equal if two values are the best.
            for j in range(count):
                rival = second if value[j] == first else first
                r[i, j] = _responsibility(r[i, j], S[i, j], rival)
            for j in range(count):
                if r[i, j] > 0:
                    next_support[column[i, j]] += r[i, j]
            rival = second if own_value == first else first
            own_r[i] = _responsibility(own_r[i], diagonal[i], rival)
            next_support[i] += own_r[i]
            # Deactivate the least similar entries; not in every round, as many come back.
            while t % 8 == 0 and count > 0 and S[i, count - 1] <= second and r[i, count - 1] <= 0:
                count -= 1
                n_computed[i, count] = t + 1
            n_active[i] = count
        changed, any_exemplar = _mark(own_a, own_r, next_support, is_exemplar)
        unchanged = 1 if changed else unchanged + 1
        if t >= CONVERGENCE_ITER and unchanged >= CONVERGENCE_ITER and any_exemplar:
            return True
    return False


@_kernel
def _exemplars(
    S: Floats, column: Columns, diagonals: Floats, is_exemplar: Mask, converged: Mask
) -> None:
    """The exemplars (p, n) under each diagonal (p, n), and whether they converged (p,)."""
    n = diagonals.shape[1]
    a, r, n_computed = np.empty((n, n)), np.empty((n, n)), np.empty((n, n), np.int32)
    supports, best = np.empty((n, MAX_ITER)), np.empty((n, MAX_ITER))
    for run in range(len(diagonals)):
        diagonal, marks = diagonals[run], is_exemplar[run]
        converged[run] = settle(S, column, diagonal, marks, a, r, n_computed, supports, best)


@njit()
def _nearest(S: Floats, exemplars: Order, choice: Order) -> None:
    """Index in `exemplars` of each row's most similar one (n,); exemplars choose themselves."""
    for i in range(choice.size):
        choice[i] = 0
        for k, exemplar in enumerate(exemplars):
            if S[i, exemplar] > S[i, exemplars[choice[i]]]:
                choice[i] = k
    for k, exemplar in enumerate(exemplars):
        choice[exemplar] = k


@njit()
def _refine(S: Floats, exemplars: Order, choice: Order) -> None:
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
def _assign(S: Floats, is_exemplar: Mask, labels: Labels) -> None:
    """Refine the exemplars (n,) and number the clusters by the order of their exemplars.

    Args:
        S: Similarities (n, n) with the preferences.
        is_exemplar: The exemplars (n,).
        labels: Output (n,).
    """
    n, size = labels.size, 0
    exemplars, choice, number = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(n):
        number[k] = -1
        if is_exemplar[k]:
            exemplars[size] = k
            size += 1
    if size == 0:  # each is its own cluster
        for k in range(n):
            labels[k] = k
        return
    _refine(S, exemplars[:size], choice)
    for k in range(size):
        number[exemplars[k]] = 0
    count = 0
    for k in range(n):
        if number[k] == 0:
            number[k] = count
            count += 1
    for k in range(n):
        labels[k] = number[exemplars[choice[k]]]


def with_noise(S: Floats, preferences: Floats) -> tuple[Floats, Floats]:
    """Break ties as scikit-learn does: with noise in the last bit, from a fixed seed.

    Args:
        S: Similarities (n, n).
        preferences: Preferences (p,).

    Returns:
        The similarities (n, n), and a diagonal for every preference (p, n).
    """
    noise = np.random.RandomState(SEED).standard_normal(S.shape)
    real = np.finfo(np.float64)
    columns = preferences[:, None]
    diagonals = columns + (real.eps * columns + real.tiny * 100) * np.diag(noise)
    return S + (real.eps * S + real.tiny * 100) * noise, diagonals


def propagate(S: npt.ArrayLike, preferences: npt.ArrayLike) -> tuple[Labels, Mask]:
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

    Returns:
        Labels (p, n), int32, from 0 without gaps in the order of the exemplars; converged (p,).

    Raises:
        PolyplinkError: If S is not square or is empty, or a value is not finite.
    """
    similarity = checked_square(S)  # a copy: noise is added to it
    all_preferences = np.atleast_1d(np.asarray(preferences, dtype=np.float64))
    if not np.isfinite(all_preferences).all():
        raise PolyplinkError("a preference is not finite", "give finite preferences")
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
    noisy, diagonals = with_noise(similarity, all_preferences)
    np.fill_diagonal(noisy, -np.inf)
    # Under a preference above every similarity all are exemplars from round 1: no run is needed.
    all_exemplars = (diagonals > noisy.max(axis=1)).all(axis=1)
    labels[all_exemplars] = np.arange(n)
    # Each row in descending order.
    column = np.argsort(-noisy, axis=1).astype(np.int32)
    in_order = np.take_along_axis(noisy, column, axis=1)
    runs = np.flatnonzero(~all_exemplars)
    is_exemplar, has_converged = np.empty((len(runs), n), np.bool_), np.empty(len(runs), np.bool_)
    _exemplars(in_order, column, diagonals[runs], is_exemplar, has_converged)
    for run, exemplars in zip(runs, is_exemplar, strict=True):
        np.fill_diagonal(noisy, diagonals[run])
        _assign(noisy, exemplars, labels[run])
    converged[runs] = has_converged
    return labels, converged
