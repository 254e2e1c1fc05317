"""Affinity propagation: many preferences at a time, with scikit-learn's results.

Source: Frey and Dueck, Clustering by passing messages between data points, Science 2007, as in
`sklearn.cluster.AffinityPropagation` (1.9): its noise, its stopping rule and its refinement, step
by step, so that the partitions are equal. What is different is the order of the work: one pass
over the rows does the availabilities of the last round and the responsibilities of this one, so
that each matrix is read once per round. From `LARGE` tracklets on only the few entries that matter
are followed, with the same messages, see `affinity_few`.
"""

import numba
import numpy as np
import numpy.typing as npt

from polyplink.associate.affinity_few import (
    CONVERGENCE_ITER,
    DAMPING,
    MAX_ITER,
    Mask,
    few,
    settle_few,
)
from polyplink.associate.similarity import Reals, checked_square
from polyplink.errors import PolyplinkError

Labels = npt.NDArray[np.int32]

LARGE = 48  # tracklets from which few entries are followed; below, all are as fast


# Neither decorator allows reassociation: every sum is taken in scikit-learn's order, so that the
# messages are equal to the bit. A maximum is the same in any order.
@numba.njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _top_two(v: Reals, high: Reals, low: Reals) -> tuple[float, float]:
    """Largest and second largest of v (n,), n > 1; equal when the largest occurs twice.

    The row is folded in halves, element by element, which the compiler turns into vector
    instructions; a running maximum it does not. high and low (n,) are room.
    """
    width = (v.size + 1) // 2
    high[width - 1], low[width - 1] = v[width - 1], -np.inf  # has no partner if n is odd
    for k in range(v.size - width):
        x, y = v[k], v[width + k]
        high[k] = x if x > y else y
        low[k] = y if x > y else x
    while width > 1:
        half = (width + 1) // 2
        for k in range(width - half):
            x, y = high[k], high[half + k]
            p, q = low[k], low[half + k]
            next_low = p if p > q else q
            loser = y if x > y else x
            high[k] = x if x > y else y
            low[k] = next_low if next_low > loser else loser
        width = half
    return high[0], low[0]


@numba.njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _pass_messages(S: Reals, A: Reals, R: Reals, support: Reals, room: Reals) -> None:
    """One round: A from the last round's R and its column sums `support`; then R and its sums.

    S, A and R are (n, n); support is (n,); room (4, n).
    """
    n = S.shape[0]
    keep, take = DAMPING, 1 - DAMPING
    v, new_support = room[0], room[3]
    new_support[:] = 0.0
    for i in range(n):
        s_row, a_row, r_row = S[i], A[i], R[i]
        self_availability = a_row[i] * keep - (r_row[i] - support[i]) * take
        for k in range(n):
            r = r_row[k] if r_row[k] > 0.0 else 0.0
            short = r - support[k]
            short = short if short > 0.0 else 0.0
            a_row[k] = a_row[k] * keep - short * take
            v[k] = a_row[k] + s_row[k]
        a_row[i] = self_availability
        v[i] = self_availability + s_row[i]
        first, second = _top_two(v, room[1], room[2])
        own = new_support[i]
        for k in range(n):
            rival = second if v[k] == first else first
            r_row[k] = r_row[k] * keep + (s_row[k] - rival) * take
            new_support[k] += r_row[k] if r_row[k] > 0.0 else 0.0
        new_support[i] = own + r_row[i]
    support[:] = new_support


@numba.njit(cache=True, nogil=True)
def _mark_exemplars(A: Reals, R: Reals, support: Reals, is_exemplar: Mask) -> bool:
    """Mark k where a(k, k) + r(k, k) > 0 after this round; return whether a mark changed."""
    changed = False
    for k in range(support.size):
        a = A[k, k] * DAMPING - (R[k, k] - support[k]) * (1 - DAMPING)
        mark = a + R[k, k] > 0
        if mark != is_exemplar[k]:
            changed = True
        is_exemplar[k] = mark
    return changed


@numba.njit(cache=True, nogil=True)
def _nearest(S: Reals, exemplars: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Index into `exemplars` of each row's most similar one; an exemplar is its own."""
    n = S.shape[0]
    choice = np.zeros(n, np.int64)
    for i in range(n):
        for k, exemplar in enumerate(exemplars):
            if S[i, exemplar] > S[i, exemplars[choice[i]]]:
                choice[i] = k
    for own in range(exemplars.size):
        choice[exemplars[own]] = own
    return choice


@numba.njit(cache=True, nogil=True)
def assign(S: Reals, exemplars: npt.NDArray[np.int64], labels: Labels) -> None:
    """Refine the exemplars once and number the clusters by the order of their exemplars."""
    choice = _nearest(S, exemplars)
    for k in range(exemplars.size):
        members = np.flatnonzero(choice == k)
        sums = np.zeros(members.size)
        for i in members:
            for j in range(members.size):
                sums[j] += S[i, members[j]]
        exemplars[k] = members[np.argmax(sums)]
    choice = _nearest(S, exemplars)
    rank = np.empty(exemplars.size, np.int32)
    for place, cluster in enumerate(np.argsort(exemplars)):
        rank[cluster] = place
    labels[:] = rank[choice]


@numba.njit(cache=True, nogil=True)
def _rules_alone(S: Reals) -> bool:
    """Whether every row prefers itself to every other: then all are exemplars from round 1 on."""
    for i in range(S.shape[0]):
        for k in range(S.shape[0]):
            if k != i and S[i, k] >= S[i, i]:
                return False
    return True


@numba.njit(cache=True, nogil=True)
def settle(S: Reals, A: Reals, R: Reals, is_exemplar: Mask) -> bool:
    """Pass messages on S (n, n), preferences on its diagonal, until the exemplars (n,) settle.

    A and R (n, n) are room. Returns whether they settled within `MAX_ITER` rounds.
    """
    n = S.shape[0]
    A[:] = 0.0
    R[:] = 0.0
    support, room = np.zeros(n), np.empty((4, n))
    is_exemplar[:] = False
    unchanged = 0
    for iteration in range(MAX_ITER):
        _pass_messages(S, A, R, support, room)
        changed = _mark_exemplars(A, R, support, is_exemplar)
        unchanged = 1 if changed else unchanged + 1
        if iteration >= CONVERGENCE_ITER and unchanged >= CONVERGENCE_ITER and is_exemplar.any():
            return True
    return False


@numba.njit(cache=True, nogil=True)
def _run_all(S: Reals, diagonals: Reals, labels: Labels, converged: Mask) -> None:
    """Cluster S (n, n) under every diagonal (p, n), into labels (p, n) and converged (p,)."""
    n = S.shape[0]
    large = n >= LARGE
    room = 0 if large else n
    A, R = np.empty((room, room)), np.empty((room, room))
    messages = few(S if large else S[:1, :1])
    is_exemplar = np.zeros(n, np.bool_)
    for p in range(diagonals.shape[0]):
        for k in range(n):
            S[k, k] = diagonals[p, k]
        labels[p] = np.arange(n)
        converged[p] = True
        if _rules_alone(S):
            continue
        if large:
            converged[p] = settle_few(messages, diagonals[p], is_exemplar)
        else:
            converged[p] = settle(S, A, R, is_exemplar)
        exemplars = np.flatnonzero(is_exemplar)
        if exemplars.size:
            assign(S, exemplars, labels[p])


def with_noise(S: Reals, preferences: Reals) -> tuple[Reals, Reals]:
    """scikit-learn's way to break ties: noise in the last bit, from a fixed seed.

    Args:
        S: Similarities (n, n).
        preferences: Preferences (p,).

    Returns:
        The similarities (n, n), and a diagonal for every preference (p, n).
    """
    noise = np.random.RandomState(0).standard_normal(S.shape)
    real = np.finfo(np.float64)
    own = preferences[:, None]
    diagonals = own + (real.eps * own + real.tiny * 100) * np.diag(noise)
    return S + (real.eps * S + real.tiny * 100) * noise, diagonals


def propagate(S: npt.ArrayLike, preferences: npt.ArrayLike) -> tuple[Labels, Mask]:
    """Affinity propagation of one procedure under many preferences.

    Damping 0.9, at most 500 rounds, 50 without change. Where scikit-learn finds no exemplar and
    labels every sample -1 (which a counter would take for one polyp), every tracklet stands alone
    and `converged` is False. Where it stops without convergence but with exemplars, the labels
    are those and `converged` is False. If all similarities are equal there is no unique answer;
    as in scikit-learn, all are one cluster, or all alone when the preference is larger.

    Args:
        S: Similarities (n, n); the diagonal is not read.
        preferences: Preferences (p,): how much a tracklet wants to be an exemplar.

    Returns:
        Labels (p, n), int32, from 0 without gaps in the order of the exemplars; converged (p,).

    Raises:
        PolyplinkError: If S is not square, is empty, or a value is not finite.
    """
    similarity = checked_square(S)  # a copy: noise is added to it
    wanted = np.atleast_1d(np.asarray(preferences, dtype=np.float64))
    if not np.isfinite(wanted).all():
        raise PolyplinkError("a preference is not finite", "give finite preferences")
    n, p = similarity.shape[0], wanted.size
    labels = np.zeros((p, n), dtype=np.int32)
    converged = np.ones(p, dtype=np.bool_)
    others = similarity[~np.eye(n, dtype=bool)]
    if n == 1:
        return labels, converged
    if (others == others[0]).all():
        labels[wanted > others[0]] = np.arange(n)
        return labels, converged
    noisy, diagonals = with_noise(similarity, wanted)
    _run_all(noisy, diagonals, labels, converged)
    return labels, converged
