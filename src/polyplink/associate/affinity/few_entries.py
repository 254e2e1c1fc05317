"""Affinity propagation on the few matrix entries that matter, for four preferences at a time.

The results equal those of passing all messages to the last bit, because only few entries of a large
matrix influence a round. A row needs its two best values of a(i, k) + s(i, k), and a column the sum
of its responsibilities above 0. All other messages can be computed later if they are needed,
because best values and column sums of every round are stored. Three facts are used.

As long as a column has never been the row's best choice, the responsibility of the entry is
(1 - 0.9^t) s(i, k) minus a smoothed best value: whether it has risen above 0 depends on s(i, k)
alone. The entries that have risen are therefore a prefix of the row sorted by similarity, and are
computed in every round ("followed") while they are above 0. (The closed form only decides when to
begin, with a margin `DOUBT` for its rounding; values are computed step by step.)

An availability is at most `common`, that of a row that never chose the column: both are computed by
the same steps, and rounding is monotonic. So `common` plus similarity bounds a value from above.
Only entries with a bound above the row's second best value become `contenders`, for which messages
are stored.

A bound rises no faster than its `common`. For each block of columns a row caches its last bound.
While that bound plus the rise of the block's `common` since then is below the row's second best,
the block is skipped.

Preferences change only the diagonal, so four runs share the similarities, their order and the
choice of entries to follow: an entry is followed if one of the four runs needs it, which does not
change the results of the others. Arrays of messages are flat and hold four numbers per entry, one
for each run, see `simd`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from polyplink.associate.affinity.simd import (
    LANES,
    Four,
    larger,
    load,
    minus,
    plus,
    splat,
    store,
    times,
)
from polyplink.associate.similarity import Reals
from polyplink.core.compiled import njit

Mask = npt.NDArray[np.bool_]
Columns = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.uint64]
Index = int | np.uint64

DAMPING = 0.9
MAX_ITER = 500
CONVERGENCE_ITER = 50
WIDE = 64  # columns of a block at most; a multiple of 8
CONTENDERS = 32  # of a row at first; the room is doubled when they are more
DOUBT = 1e-9  # times a row's largest value: responsibilities this close to 0 are followed
LEAVE = 1e6  # times that margin below 0, a responsibility is no longer followed
DEEP = 0.6  # times the spread of similarities: rises of `common` this far below 0 are ignored
SPARE = 16  # padding for sums that are never read

# Unsigned indices: for signed ones numba checks whether they count from the end, which hinders
# vectorisation.
U = np.uint64


class Few(NamedTuple):
    """Messages of four runs on n tracklets; `columns` is n rounded up to whole blocks."""

    idle: Reals  # (n, columns) similarities of entries that are no contenders; others are -inf
    sorted: Reals  # (n, n) similarities of every row in descending order, the diagonal last
    column: Columns  # (n, n) columns of `sorted`; for contenders a number >= `columns`
    place: Columns  # (n, n) place of a column in `sorted`
    until: npt.NDArray[np.uint16]  # (n, n) number of rounds up to which an entry was followed
    risen: Counts  # (n,) number of entries of `sorted` that are followed
    reached: Counts  # (n,) largest number of them that were ever followed
    contenders: Counts  # (n,) number of contenders of a row
    near_s: Reals  # (n, room) similarities of contenders
    near_column: Columns  # (n, room) columns of contenders
    near_a: Reals  # (n * room * 4,) availabilities of contenders
    near_r: Reals  # (n * room * 4,) responsibilities of contenders
    r: Reals  # (n * n * 4,) responsibilities of the followed entries of `sorted`
    best: Reals  # (rounds * n * 4,) best value of every row in every round
    supports: Reals  # (rounds * columns * 4,) sums of positive responsibilities before a round
    common: Reals  # (columns * 4,) availability of an entry that never chose its column
    own_a: Reals  # (n * 4,) availability of every tracklet to itself
    own_r: Reals  # (n * 4,) responsibility of every tracklet for itself
    smooth: Reals  # (n * 4,) best values of every row, damped like the messages
    doubt: Reals  # (n * 4,) `DOUBT` times the largest absolute value of a row so far
    limit: Reals  # (n * blocks * 4,) last bound of a row and block, less `rise` at that time
    rise: Reals  # ((blocks + 1) * 4,) largest total rise of `common` per block; last: of any block
    highest: Reals  # (n * 4,) largest bound of a row, less the rise of any block at that time


def few(S: Reals, order: npt.NDArray[np.int64], room: int) -> Few:
    """Allocate the state of runs on similarities S.

    Args:
        S: Similarities (n, n); the diagonal is not read.
        order: Columns (n, n) of every row by descending similarity; the diagonal at any place.
        room: Maximum number of contenders of a row.
    """
    n = S.shape[0]
    width = min(WIDE, (n + 31) // 32 * 8)  # few blocks, but several
    blocks = (n + width - 1) // width
    columns = blocks * width
    idle = np.full((n, columns), -np.inf)
    idle[:, :n] = S
    np.fill_diagonal(idle, -np.inf)
    diagonal = np.arange(n)[:, None]
    column = np.hstack([order[order != diagonal].reshape(n, n - 1), diagonal])
    place = np.empty((n, n), np.uint32)
    np.put_along_axis(place, column, diagonal.T.astype(np.uint32), axis=1)
    return Few(
        idle,
        np.take_along_axis(idle, column, axis=1),
        column.astype(np.uint32),
        place,
        np.empty((n, n), np.uint16),
        np.zeros(n, np.uint64),
        np.zeros(n, np.uint64),
        np.zeros(n, np.uint64),
        np.empty((n, room)),
        np.empty((n, room), np.uint32),
        np.empty(n * room * LANES),
        np.empty(n * room * LANES),
        np.empty(n * n * LANES),
        np.empty(MAX_ITER * n * LANES),
        np.empty((MAX_ITER + 1) * columns * LANES),
        np.empty(columns * LANES),
        np.empty(n * LANES),
        np.empty(n * LANES),
        np.empty(n * LANES),
        np.empty(n * LANES),
        np.empty(n * blocks * LANES),
        np.empty((blocks + 1) * LANES),
        np.empty(n * LANES),
    )


@njit(error_model="numpy", forceinline=True)
def damped(old: Four, new: Four) -> Four:
    """Damp a Four of messages: combine the old values with those of a round."""
    return plus(times(old, splat(DAMPING)), times(new, splat(1 - DAMPING)))


@njit(error_model="numpy", forceinline=True)
def availability(a: Four, r: Four, support: Four) -> Four:
    """Availabilities to other tracklets, from those of the last round, r, and column sums."""
    zero = splat(0.0)
    short = larger(minus(larger(r, zero), support), zero)
    return minus(times(a, splat(DAMPING)), times(short, splat(1 - DAMPING)))


@njit(error_model="numpy", forceinline=True)
def enter(  # noqa: PLR0917
    idle: Reals,
    column: Columns,
    place: Columns,
    contenders: Counts,
    near_s: Reals,
    near_column: Columns,
    i: Index,
    k: Index,
) -> None:
    """Make (i, k) a contender; its messages must still be filled in."""
    j, at = U(contenders[i]), U(place[i, k])
    near_s[i, j], near_column[i, j] = idle[i, k], k
    contenders[i] = j + U(1)
    idle[i, k] = -np.inf
    column[i, at] = U(idle.shape[1]) + at % U(SPARE)  # the contender adds to the real sum instead


@njit(error_model="numpy")
def start_runs(m: Few, diagonals: Reals) -> float:
    """Reset the state to before the first round: the two most similar of each row are contenders.

    diagonals are (n * 4,). Returns the depth below 0 at which rises of `common` are ignored.
    """
    n = m.risen.size
    room, largest, smallest, highest = m.near_s.shape[1], 0.0, np.inf, -np.inf
    for place in range(diagonals.size):
        largest = max(largest, abs(diagonals[place]))
    for i in range(U(n)):
        for j in range(U(m.contenders[i])):
            k = U(m.near_column[i, j])
            m.idle[i, k] = m.near_s[i, j]
            m.column[i, m.place[i, k]] = k
        m.contenders[i] = m.risen[i] = m.reached[i] = U(0)
        scale = max(largest, abs(m.sorted[i, 0]))
        for e in range(U(LANES)):
            m.doubt[i * U(LANES) + e] = DOUBT * scale
        smallest, highest = min(smallest, m.sorted[i, n - 2]), max(highest, m.sorted[i, 0])
        for j in range(U(min(2, n - 1))):
            k = U(m.column[i, j])
            enter(m.idle, m.column, m.place, m.contenders, m.near_s, m.near_column, i, k)
            at = i * U(room) + j
            store(m.near_a, at, splat(0.0))
            store(m.near_r, at, splat(0.0))
    for array in (m.common, m.own_a, m.own_r, m.smooth, m.rise):
        for place in range(array.size):
            array[place] = 0.0
    for place in range(m.common.size):
        m.supports[place] = 0.0
    for array in (m.limit, m.highest):
        for place in range(array.size):
            array[place] = np.inf
    return DEEP * (highest - smallest)


@njit(error_model="numpy")
def history(  # noqa: PLR0917
    near_a: Reals,
    near_r: Reals,
    best: Reals,
    supports: Reals,
    at: Index,
    s: float,
    n: Index,
    columns: Index,
    i: Index,
    k: Index,
    t: Index,
) -> None:
    """Compute the messages of a new contender (i, k), stored at `at`, from rounds 0 to t."""
    a, r = splat(0.0), splat(0.0)
    for u in range(t):
        a = availability(a, r, load(supports, u * columns + k))
        r = damped(r, minus(splat(s), load(best, u * n + i)))
    store(near_a, at, availability(a, r, load(supports, t * columns + k)))
    store(near_r, at, r)
