"""In which order a procedure's looks come: one polyp after the other, and how that is broken.

The rule: every polyp has one visit, at whose end it is removed. Three things break it, because a
loss that takes distance in time for difference must meet them: two polyps in one view, two looked
at in turn within a minute, and a polyp that is gone back to after another one was removed.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from polyplink.simulate.course.laws import LONG, Counts
from polyplink.simulate.course.lengths import Lengths
from polyplink.simulate.specs import Preset, ProcedureSpec

HEAD_SHARE = 0.6  # of a visit's looks come before it is broken
CLOSE_SECONDS = 15.0  # of looks at either of two polyps that are looked at in turn


@dataclass(frozen=True)
class Item:
    """One look to be placed in time.

    Attributes:
        polyp: Index of the polyp.
        frames: Its frames.
        beside: The other polyp that is in the view, if any.
        quick: Whether no more than seconds may pass before the next look.
    """

    polyp: int
    frames: int
    beside: int | None = None
    quick: bool = False


Visit = list[Item]


def draw_order(
    rng: np.random.Generator, spec: ProcedureSpec, preset: Preset, lengths: Lengths
) -> list[Visit]:
    """Bring the looks of a procedure into an order.

    Args:
        rng: What is left to chance.
        spec: The procedure; its polyps are visited by index.
        preset: How often the rule is broken.
        lengths: The looks, see `draw_lengths`.

    Returns:
        Visits of one polyp or two; minutes may lie between them, seconds inside.
    """
    own = [[Item(index, int(n)) for n in _end_long(n)] for index, n in enumerate(lengths.own)]
    visits: list[Visit] = list(own)
    for pair, frames in zip(spec.pairs, lengths.pairs, strict=True):
        both = [Item(pair.first, int(n), pair.second) for n in frames]
        visits[pair.first] = _side_by_side(rng, own[pair.first], both, own[pair.second])
        visits[pair.second] = []
    visits = [visit for visit in visits if visit]
    several = len(spec.polyps) > 1
    if several and rng.random() < preset.close_share:
        visits = _in_turn(rng, visits, round(CLOSE_SECONDS * spec.fps))
    if several and rng.random() < preset.return_share:
        visits = _gone_back_to(rng, visits)
    return visits


def _end_long(frames: Counts) -> Counts:
    """The same looks with a long one last, where there is one: a polyp is treated in it."""
    long = np.flatnonzero(frames >= LONG)
    if not len(long):
        return frames
    return np.append(np.delete(frames, long[-1]), frames[long[-1]])


def _mixed(rng: np.random.Generator, *parts: Visit) -> Visit:
    """Several runs of looks dealt into one, each in its own order; they follow quickly."""
    turns = rng.permutation(np.repeat(np.arange(len(parts)), [len(part) for part in parts]))
    sources = [iter(part) for part in parts]
    return [replace(next(sources[turn]), quick=True) for turn in turns]


def _side_by_side(rng: np.random.Generator, first: Visit, both: Visit, second: Visit) -> Visit:
    """Two visits with the looks that show both polyps between them."""
    head, rest = math.ceil(HEAD_SHARE * len(first)), max(len(first) - 1, 0)
    middle = _mixed(rng, first[head:rest], both, second[: len(second) // 3])
    return [*first[: min(head, rest)], *middle, *first[rest:], *second[len(second) // 3 :]]


def _ending(visit: Visit, frames: int | None = None) -> int:
    """Where the last looks at a visit's last polyp alone begin, of so many frames at most."""
    begin, total = len(visit), 0
    while begin and visit[begin - 1].polyp == visit[-1].polyp and visit[begin - 1].beside is None:
        total += visit[begin - 1].frames
        if frames is not None and total > frames:
            break
        begin -= 1
    return begin


def _in_turn(rng: np.random.Generator, visits: list[Visit], frames: int) -> list[Visit]:
    """Join two visits: the polyps are looked at in turn before the first is removed."""
    ways = []
    for index in range(len(visits) - 1):
        before, after = visits[index][:-1], visits[index + 1]
        if not before or before[-1].polyp != visits[index][-1].polyp or len(after) < 2:
            continue
        tail = max(_ending(before, frames), len(before) - max(len(before) // 3, 1))
        head = min(len(after) - _ending(after[::-1], frames), max(len(after) // 3, 1))
        ways.append((index, min(tail, len(before) - 1), max(head, 1)))
    if not ways:
        return visits
    index, tail, head = ways[rng.integers(len(ways))]
    before, after = visits[index], visits[index + 1]
    mixed = _mixed(rng, before[tail:-1], after[:head])
    return [
        *visits[:index],
        [*before[:tail], *mixed, before[-1], *after[head:]],
        *visits[index + 2 :],
    ]


def _gone_back_to(rng: np.random.Generator, visits: list[Visit]) -> list[Visit]:
    """Put off the end of one visit until after the next one."""
    ways = []
    for index, visit in enumerate(visits[:-1]):
        begin = _ending(visit)
        split = begin + math.ceil(HEAD_SHARE * (len(visit) - begin))
        if begin < split < len(visit):
            ways.append((index, split))
    if not ways:
        return visits
    index, split = ways[rng.integers(len(ways))]
    visit, between = visits[index], visits[index + 1]
    return [*visits[:index], visit[:split], between, visit[split:], *visits[index + 2 :]]
