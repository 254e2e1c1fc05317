"""Affinity propagation on the few entries that matter, with the messages of all, to the bit.

Two facts make most of a large matrix idle. As long as r(i, k) has never been above 0, a(i, k) is
the same number for every such row i of column k, reached by the same steps: one vector `common`
holds it. And r(i, k) is only asked for its sign until it is above 0 or k is the best choice of
row i. So an entry is followed, with its own a and r, only from then on; its r until then is
computed from the row's best values, all kept, step by step as the plain kernel would have. Whether
r may be above 0 follows from a closed form, (1 - 0.9^t) s(i, k) minus a smoothed best value, whose
rounding is far smaller than the `DOUBT` that is left for it.

The best two values of a row come from the followed entries and from those blocks of columns whose
largest similarity and largest `common` could beat them.
"""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from polyplink.associate.similarity import Reals

Mask = npt.NDArray[np.bool_]
Columns = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.uint64]
Index = int | np.uint64

DAMPING = 0.9
MAX_ITER = 500
CONVERGENCE_ITER = 50
BLOCK = 8  # columns of a block
DOUBT = 1e-9  # of the largest value of a row: how near to 0 a responsibility is followed

GROWN = 1.0 - DAMPING ** np.arange(1.0, MAX_ITER + 1.0)  # a constant input's share after rounds

# Unsigned indices: numba checks others for counting from the end, which hinders vector loops.
U = np.uint64
ROUND = {"nnan", "nsz"}  # no reassociation: sums are taken in scikit-learn's order


class Few(NamedTuple):
    """Messages of a run on n tracklets.

    Attributes:
        idle: Similarities (n, blocks * BLOCK) of entries not followed; -inf for all others.
        peaks: The largest of each block of `idle` (n, blocks).
        s: Similarities of the followed entries (n, n), row by row in the order they came.
        a: Their availabilities (n, n).
        r: Their responsibilities (n, n).
        column: Their columns (n, n).
        followed: How many a row follows (n,).
        best: Best value of every row in every round (n, rounds).
        common: Availability of entries not followed, by column (blocks * BLOCK,).
        common_peaks: The largest of each block of `common` (blocks,).
        support: Column sums of the last round's positive responsibilities (n,).
        own_a: Availability of every tracklet to itself (n,).
        own_r: Responsibility of every tracklet for itself (n,).
        peak: The largest of each row of `idle` (n,).
        smooth: Best values of every row, damped as the messages are (n,).
        scale: The largest absolute value that a row has met (n,).
    """

    idle: Reals
    peaks: Reals
    s: Reals
    a: Reals
    r: Reals
    column: Columns
    followed: Counts
    best: Reals
    common: Reals
    common_peaks: Reals
    support: Reals
    own_a: Reals
    own_r: Reals
    peak: Reals
    smooth: Reals
    scale: Reals


@numba.njit(cache=True, nogil=True, fastmath=ROUND, error_model="numpy", forceinline=True)
def _largest(v: Reals, start: Index, stop: Index) -> float:
    """Largest of v[start:stop]."""
    most = v[start]
    for k in range(start, stop):
        most = v[k] if v[k] > most else most
    return float(most)


@numba.njit(cache=True, nogil=True, fastmath=ROUND, error_model="numpy", forceinline=True)
def _peak(m: Reals, i: Index, start: Index, stop: Index) -> float:
    """Largest of m[i, start:stop]."""
    most = m[i, start]
    for k in range(start, stop):
        most = m[i, k] if m[i, k] > most else most
    return float(most)


@numba.njit(cache=True, nogil=True, fastmath=ROUND, error_model="numpy")
def few(S: Reals) -> Few:
    """Room for runs on similarities S (n, n); the diagonal is not read."""
    n = S.shape[0]
    blocks = (n + BLOCK - 1) // BLOCK
    idle = np.full((n, blocks * BLOCK), -np.inf)
    idle[:, :n] = S
    for i in range(n):
        idle[i, i] = -np.inf
    room = n + 8
    return Few(
        idle,
        np.empty((n, blocks)),
        np.empty((n, room)),
        np.empty((n, room)),
        np.empty((n, room)),
        np.empty((n, room), np.uint32),
        np.zeros(n, np.uint64),
        np.empty((n, MAX_ITER)),
        np.zeros(blocks * BLOCK),
        np.zeros(blocks),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
        np.empty(n),
        np.zeros(n),
        np.zeros(n),
    )


@numba.njit(cache=True, nogil=True, fastmath=ROUND, error_model="numpy")
def _start(m: Few, preferences: Reals) -> None:
    """Follow nothing, as before the first round."""
    for i in range(m.followed.size):
        for j in range(m.followed[i]):
            m.idle[i, m.column[i, j]] = m.s[i, j]
        m.followed[i] = U(0)
        for b in range(m.peaks.shape[1]):
            m.peaks[i, b] = _peak(m.idle, i, b * BLOCK, (b + 1) * BLOCK)
        m.peak[i] = _peak(m.peaks, i, 0, m.peaks.shape[1])
        m.scale[i] = max(abs(preferences[i]), abs(m.peak[i]))
    for each in (m.common, m.support, m.own_a, m.own_r, m.smooth):
        each[:] = 0.0


@numba.njit(cache=True, nogil=True, fastmath=ROUND, error_model="numpy", forceinline=True)
def _history(s: float, best: Reals, i: Index, rounds: Index) -> float:
    """Responsibility of an entry of row i, never its best choice, after some rounds."""
    r = 0.0
    for t in range(rounds):
        r = r * DAMPING + (s - best[i, t]) * (1 - DAMPING)
    return float(r)


@numba.njit(cache=True, nogil=True, fastmath=ROUND, error_model="numpy", forceinline=True)
def _availabilities(a: Reals, r: Reals, i: Index, count: Index, support: Reals) -> None:
    """A of the followed entries of row i; support (count,) is that of their columns."""
    for j in range(count):
        short = (r[i, j] if r[i, j] > 0.0 else 0.0) - support[j]
        a[i, j] = a[i, j] * DAMPING - (short if short > 0.0 else 0.0) * (1 - DAMPING)


@numba.njit(cache=True, nogil=True, fastmath=ROUND, error_model="numpy", forceinline=True)
def _responsibilities(s: Reals, r: Reals, i: Index, count: Index, first: float) -> None:
    """R of the followed entries of row i, whose best value is `first`."""
    for j in range(count):
        r[i, j] = r[i, j] * DAMPING + (s[i, j] - first) * (1 - DAMPING)


@numba.njit(cache=True, nogil=True, fastmath=ROUND, error_model="numpy", forceinline=True)
def _enter(  # noqa: PLR0917
    lists: tuple[Reals, Reals, Reals, Columns, Counts],
    left: tuple[Reals, Reals, Reals],
    best: Reals,
    common: Reals,
    i: Index,
    k: Index,
    rounds: Index,
) -> None:
    """Follow entry (i, k) from now on, with its messages after some rounds."""
    s, a, r, column, count = lists
    idle, peaks, peak = left
    place, b = U(count[i]), k // U(BLOCK)
    s[i, place], a[i, place], column[i, place] = idle[i, k], common[k], k
    r[i, place] = _history(idle[i, k], best, i, rounds)
    count[i] = place + U(1)
    idle[i, k] = -np.inf
    peaks[i, b] = _peak(idle, i, b * U(BLOCK), (b + U(1)) * U(BLOCK))
    peak[i] = _peak(peaks, i, U(0), U(peaks.shape[1]))


@numba.njit(cache=True, nogil=True, fastmath=ROUND, error_model="numpy", forceinline=True)
def _column_of_peak(idle: Reals, peaks: Reals, peak: Reals, i: Index) -> Index:
    """Where the largest of row i of those not followed is."""
    b = U(0)
    while peaks[i, b] != peak[i]:
        b += U(1)
    k = b * U(BLOCK)
    while idle[i, k] != peak[i]:
        k += U(1)
    return k


@numba.njit(cache=True, nogil=True, fastmath=ROUND, error_model="numpy")
def _pass_few(  # noqa: PLR0912
    m: Few, t: Index, preferences: Reals, sums: Reals, room: Reals
) -> None:
    """Round t: as the plain kernel's, row by row, so that sums are taken in its order.

    preferences and sums are (n,); room is (2, n + 8).
    """
    # Unpacked once: every look into a named tuple counts references.
    idle, peaks, s, a, r, column, count, best, common, common_peaks = m[:10]
    support, own_a, own_r, peak, smooth, scale = m[10:]
    lists, left = (s, a, r, column, count), (idle, peaks, peak)
    n, blocks, gathered, v = U(preferences.size), U(common_peaks.size), room[0], room[1]
    for k in range(n):
        short = 0.0 - support[k]
        common[k] = common[k] * DAMPING - (short if short > 0.0 else 0.0) * (1 - DAMPING)
        sums[k] = 0.0
    for b in range(blocks):
        common_peaks[b] = _largest(common, b * U(BLOCK), (b + U(1)) * U(BLOCK))
    for i in range(n):
        own = U(count[i])  # the place of the row's own value, behind what it follows
        own_a[i] = own_a[i] * DAMPING - (own_r[i] - support[i]) * (1 - DAMPING)
        for j in range(own):
            gathered[j] = support[column[i, j]]
        _availabilities(a, r, i, own, gathered)
        for j in range(own):
            v[j] = a[i, j] + s[i, j]
        v[own] = own_a[i] + preferences[i]
        first = _largest(v, U(0), own + U(1))
        chosen = U(0)
        while v[chosen] != first:
            chosen += U(1)
        v[chosen] = -np.inf
        second = _largest(v, U(0), own + U(1))
        new: Index = n
        for b in range(blocks):
            if peaks[i, b] + common_peaks[b] > second:
                for k in range(b * U(BLOCK), (b + U(1)) * U(BLOCK)):
                    value = idle[i, k] + common[k]
                    if value > first:
                        first, second, new = value, first, k
                    elif value > second:
                        second = value
        is_own = chosen == own and new == n
        if new < n:
            _enter(lists, left, best, common, i, new, t)
            chosen = own
        rival, old = second if is_own else first, r[i, chosen]
        own_r[i] = own_r[i] * DAMPING + (preferences[i] - rival) * (1 - DAMPING)
        _responsibilities(s, r, i, count[i], first)
        if not is_own:
            r[i, chosen] = old * DAMPING + (s[i, chosen] - second) * (1 - DAMPING)
        best[i, t] = first
        smooth[i] = smooth[i] * DAMPING + first * (1 - DAMPING)
        scale[i] = max(scale[i], abs(first))
        while peak[i] > -np.inf and GROWN[t] * peak[i] >= smooth[i] - DOUBT * scale[i]:
            risen = _column_of_peak(idle, peaks, peak, i)
            _enter(lists, left, best, common, i, risen, t + U(1))
        for j in range(U(count[i])):
            sums[column[i, j]] += r[i, j] if r[i, j] > 0.0 else 0.0
        sums[i] += own_r[i]
    support[:] = sums


@numba.njit(cache=True, nogil=True, error_model="numpy")
def settle_few(m: Few, preferences: Reals, is_exemplar: Mask) -> bool:
    """Pass messages until the exemplars (n,) settle, as the plain kernel does; whether they did.

    Args:
        m: What `few` made of the similarities; any number of runs may follow each other in it.
        preferences: The diagonal of the similarities (n,), noise included.
        is_exemplar: Where to mark the exemplars (n,).
    """
    n = preferences.size
    sums, room = np.empty(n), np.empty((2, n + 8))
    _start(m, preferences)
    is_exemplar[:] = False
    unchanged = 0
    for t in range(U(MAX_ITER)):
        _pass_few(m, t, preferences, sums, room)
        changed = False
        for k in range(n):
            a = m.own_a[k] * DAMPING - (m.own_r[k] - m.support[k]) * (1 - DAMPING)
            mark = a + m.own_r[k] > 0
            changed = changed or mark != is_exemplar[k]
            is_exemplar[k] = mark
        unchanged = 1 if changed else unchanged + 1
        if t >= U(CONVERGENCE_ITER) and unchanged >= CONVERGENCE_ITER and is_exemplar.any():
            return True
    return False
