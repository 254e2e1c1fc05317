"""The rounds of affinity propagation on few entries; see `few_entries` for why they suffice."""

import numpy as np
import numpy.typing as npt

from polyplink.associate.affinity.few_entries import (
    CONVERGENCE_ITER,
    DAMPING,
    DOUBT,
    LEAVE,
    MAX_ITER,
    SPARE,
    Columns,
    Counts,
    Few,
    Index,
    Mask,
    U,
    availability,
    damped,
    enter,
    history,
    start_runs,
)
from polyplink.associate.affinity.simd import (
    LANES,
    Four,
    any_above,
    larger,
    load,
    minus,
    plus,
    smaller,
    splat,
    store,
    times,
    where_equal,
)
from polyplink.associate.similarity import Reals
from polyplink.core.compiled import njit

GROWN = 1.0 - DAMPING ** np.arange(1.0, MAX_ITER + 1.0)  # a constant input's share after rounds


@njit(error_model="numpy", forceinline=True)
def _bound(idle: Reals, common: Reals, i: Index, start: Index, width: Index) -> Four:
    """Largest of idle[i, k] + common[k] in a block, a Four."""
    # Four accumulators: each depends only on its own last value.
    w = x = y = z = splat(-np.inf)
    for k in range(start, start + width, U(4)):
        w = larger(plus(splat(idle[i, k]), load(common, k)), w)
        x = larger(plus(splat(idle[i, k + U(1)]), load(common, k + U(1))), x)
        y = larger(plus(splat(idle[i, k + U(2)]), load(common, k + U(2))), y)
        z = larger(plus(splat(idle[i, k + U(3)]), load(common, k + U(3))), z)
    return larger(larger(w, x), larger(y, z))


@njit(error_model="numpy")
def _follow_risen(  # noqa: PLR0917
    by_size: Reals,
    column: Columns,
    until: npt.NDArray[np.uint16],
    risen: Counts,
    reached: Counts,
    r: Reals,
    best: Reals,
    sums: Reals,
    i: Index,
    t: Index,
    min_value: Four,
) -> None:
    """Follow all entries of row i that may have risen above 0 after round t; add them to sums."""
    n, j = U(by_size.shape[0]), U(risen[i])
    while j < n - U(1) and any_above(splat(GROWN[t] * by_size[i, j]), min_value):
        new, followed = splat(0.0), U(0)
        if j < reached[i]:  # followed before: continue from there
            new, followed = load(r, i * n + j), U(until[i, j])
        for u in range(followed, t + U(1)):
            new = damped(new, minus(splat(by_size[i, j]), load(best, u * n + i)))
        store(r, i * n + j, new)
        k = U(column[i, j])
        store(sums, k, plus(load(sums, k), larger(new, splat(0.0))))
        j += U(1)
    risen[i] = j
    reached[i] = max(reached[i], j)


@njit(error_model="numpy")
def _pass_few(  # noqa: PLR0912, PLR0915  # split up, it would count references at every row
    m: Few, t: Index, diagonals: Reals, sums: Reals, deep: float
) -> bool:
    """Compute round t row by row, so that sums are in scikit-learn's order.

    diagonals are (n * 4,), sums ((columns + SPARE) * 4,). Returns False if there was no room for
    another contender.
    """
    # Unpacked once: every access to a named tuple updates a reference count.
    idle, by_size, column, place, until, risen, reached, contenders, near_s, near_column = m[:10]
    near_a, near_r, r, best, supports, common, own_a, own_r, smooth, doubt = m[10:20]
    limit, rise, highest = m[20:]
    n, columns, room, zero = U(risen.size), U(idle.shape[1]), U(near_s.shape[1]), splat(0.0)
    j: Index
    k: Index
    blocks, start = U(rise.size // LANES - 1), t * columns
    width = columns // blocks
    # This round's `common`, and the largest rise of each block above -deep.
    floor, any_block = splat(-deep), zero
    for b in range(blocks):
        largest = zero
        for k in range(b * width, (b + U(1)) * width):
            old = load(common, k)
            new = availability(old, zero, load(supports, start + k))
            largest = larger(minus(larger(new, floor), larger(old, floor)), largest)
            store(common, k, new)
        store(rise, b, plus(load(rise, b), largest))
        any_block = larger(largest, any_block)
    store(rise, blocks, plus(load(rise, blocks), any_block))
    # Each row in turn; its responsibilities are added to sums, the next round's supports.
    for k in range(U(sums.size)):
        sums[k] = 0.0
    for i in range(n):
        # The row's availability and responsibility for itself, and its preference.
        self_r, wish = load(own_r, i), load(diagonals, i)
        self_value = damped(load(own_a, i), minus(load(supports, start + i), self_r))
        store(own_a, i, self_value)
        self_value = plus(self_value, wish)
        # Availabilities of the contenders, and the best two of their values and the row's own.
        first, second = self_value, splat(-np.inf)
        for j in range(U(contenders[i])):
            at, support = i * room + j, load(supports, start + U(near_column[i, j]))
            a = availability(load(near_a, at), load(near_r, at), support)
            store(near_a, at, a)
            value = plus(a, splat(near_s[i, j]))
            second = larger(smaller(value, first), second)
            first = larger(value, first)
        # New contenders: entries whose bound beats the second best.
        all_rise = load(rise, blocks)
        if any_above(plus(load(highest, i), all_rise), second):
            largest = splat(-np.inf)
            for b in range(blocks):
                highest_b = plus(load(limit, i * blocks + b), load(rise, b))
                if not any_above(highest_b, second):
                    largest = larger(highest_b, largest)
                    continue
                k = b * width
                bound = _bound(idle, common, i, k, width)
                while any_above(bound, second):
                    while not any_above(plus(splat(idle[i, k]), load(common, k)), second):
                        k += U(1)
                    j = U(contenders[i])
                    if j == room:
                        return False
                    s, at = idle[i, k], i * room + j
                    enter(idle, column, place, contenders, near_s, near_column, i, k)
                    history(near_a, near_r, best, supports, at, s, n, columns, i, k, t)
                    value = plus(load(near_a, at), splat(s))
                    second = larger(smaller(value, first), second)
                    first = larger(value, first)
                    bound = _bound(idle, common, i, b * width, width)
                bound = plus(larger(bound, splat(by_size[i, 0] - deep)), load(doubt, i))
                store(limit, i * blocks + b, minus(bound, load(rise, b)))
                largest = larger(bound, largest)
            store(highest, i, minus(plus(largest, load(doubt, i)), all_rise))
        # The row's responsibility for itself; its best value, smoothed, and the rounding margin.
        self_r = damped(self_r, minus(wish, where_equal(self_value, first, second, first)))
        store(own_r, i, self_r)
        store(best, t * n + i, first)
        smoothed = damped(load(smooth, i), first)
        store(smooth, i, smoothed)
        doubted = larger(times(larger(first, minus(zero, first)), splat(DOUBT)), load(doubt, i))
        store(doubt, i, doubted)
        # Responsibilities of the followed entries, added to sums.
        count = U(risen[i])
        for j in range(count):
            at, k = i * n + j, U(column[i, j])
            new = damped(load(r, at), minus(splat(by_size[i, j]), first))
            store(r, at, new)
            store(sums, k, plus(load(sums, k), larger(new, zero)))
        # Stop following entries at the end of the prefix that have fallen far below 0.
        low, min_value = times(doubted, splat(-LEAVE)), minus(smoothed, doubted)
        while count > U(0) and not any_above(load(r, i * n + count - U(1)), low):
            count -= U(1)
            until[i, count] = t + U(1)
        risen[i] = count
        # Follow entries that may have risen. Checked before the call, because it is rare.
        if any_above(splat(GROWN[t] * by_size[i, count]), min_value):
            _follow_risen(by_size, column, until, risen, reached, r, best, sums, i, t, min_value)
        # Responsibilities of the contenders, and of the row for itself, added to sums.
        for j in range(U(contenders[i])):
            at, k, near = i * room + j, U(near_column[i, j]), splat(near_s[i, j])
            # If two are equally best, the second best has the same value.
            rival = where_equal(plus(load(near_a, at), near), first, second, first)
            new = damped(load(near_r, at), minus(near, rival))
            store(near_r, at, new)
            store(sums, k, plus(load(sums, k), larger(new, zero)))
        store(sums, i, plus(load(sums, i), self_r))
    # The next round's supports.
    for k in range(columns):
        store(supports, start + columns + k, load(sums, k))
    return True


@njit(error_model="numpy")
def settle_few(m: Few, diagonals: Reals, is_exemplar: Mask, settled: Mask) -> bool:
    """Pass messages until the exemplars of four runs converge.

    Args:
        m: State from `few`; it can be reused for any number of runs.
        diagonals: Preferences with their noise (n * 4,).
        is_exemplar: Output: the exemplars (4, n).
        settled: Output: whether they converged within `MAX_ITER` rounds (4,).

    Returns:
        Whether there was room for all contenders; if not, try again with twice the room.
    """
    sums = np.empty(m.common.size + SPARE * LANES)
    own_a, own_r, deep = m.own_a, m.own_r, start_runs(m, diagonals)
    for e in range(U(LANES)):
        settled[e] = False
        for k in range(U(is_exemplar.shape[1])):
            is_exemplar[e, k] = False
    unchanged, unsettled = np.zeros(LANES, np.int64), LANES
    for t in range(U(MAX_ITER)):
        if not _pass_few(m, t, diagonals, sums, deep):
            return False
        for e in range(U(LANES)):
            if settled[e]:
                continue
            marks, changed, marked = is_exemplar[e], False, False
            for k in range(U(marks.size)):
                at = k * U(LANES) + e
                a = own_a[at] * DAMPING - (own_r[at] - sums[at]) * (1 - DAMPING)
                mark = a + own_r[at] > 0
                changed, marked = changed or mark != marks[k], marked or mark
                marks[k] = mark
            unchanged[e] = 1 if changed else unchanged[e] + 1
            enough = t >= U(CONVERGENCE_ITER) and unchanged[e] >= CONVERGENCE_ITER
            settled[e] = enough and marked
            unsettled -= settled[e]
        if unsettled == 0:
            break
    return True
