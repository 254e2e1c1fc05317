"""When each polyp of a procedure is seen, treated and removed.

A procedure is an insertion, followed by a withdrawal during which one polyp after the other is
visited. A visit is a series of looks (unbroken views, each one tracklet) and ends with the removal
of the polyp. Three situations break this order, because they are difficult for a loss that infers
difference from distance in time: two polyps in one view, two polyps viewed alternately within a
minute, and a return to a polyp after another one was removed.

Sources of the statistics: the number of long tracklets of a polyp is fitted to the frames with a
box in REAL-Colon (Biffi et al., Scientific Data 2024, 11:539) and to the fragmentation without
clustering of the 19 evaluation procedures, 20.74 +- 20.78 (arXiv 2507.02493); it is confirmed by
the 736 long tracklets that follow from the results of arXiv 2605.12320. More than 400 tracklets in
003-013 are mentioned in the program of arXiv 2502.10054. The distributions of lengths and gaps are
not published; their shapes are our choice.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyplink.core.errors import PolyplinkError
from polyplink_lab.simulate.presets import Preset
from polyplink_lab.simulate.procedure_specs import ProcedureSpec

Counts = NDArray[np.int64]
Span = tuple[int, int]

# Number and length of looks.
LONG = 30  # least frames of a tracklet in evaluation
FACTOR, EXPONENT = 0.0118, 0.9  # number of long tracklets of a polyp = FACTOR * frames ** EXPONENT
FEWEST = 2  # least long tracklets of a polyp: each needs another to match
NOISE, STEADY = 0.25, 8  # log noise of that number; it shrinks if more than STEADY are expected
SHORT_PER_LONG = (4.8, 5.1)
SHORT_FRAMES = (5.0, 1.0)  # median and log-sigma of a short tracklet, below LONG
SHORT_SHARE = 0.4  # largest share of short tracklets in the frames that long ones do not need
SIGMA = 1.2  # log-sigma of the frames of a long tracklet beyond LONG: about 1 for all its frames

# Gaps between looks.
FLICKER = (3.0, 0.7, 15)  # frames: median, log-sigma, largest
SECONDS = (2.0, 0.8, 30.0)  # seconds: median, log-sigma, largest
FLICKER_SHARE = 0.8  # of the gaps within a visit; the others last seconds
QUICK_FRAMES = 50  # longest gap before a look that follows quickly
PAUSE_SHARE = 0.03  # share of the gaps within a visit that are as long as those between visits
CROWDED = 0.3  # least share of the frames without a box that insertion may have
GAP_SHARE = 0.75  # largest share of the frames without a box within visits

# Order of looks.
HEAD_SHARE = 0.6  # share of a visit's looks before it is interrupted
CLOSE_SECONDS = 15.0  # of looks at either of two polyps that are viewed alternately
GLIMPSED = 0.1  # share of polyps that are glimpsed during insertion
WAY_IN = 1000  # least frames of an insertion with glimpses

# Other events.
BIOPSIED = 0.25  # share of the lesions of class NO POLYP that remain after a biopsy
TREATMENT_SECONDS = (10.0, 0.4)  # with an instrument in view: median, log-sigma
TREATMENT_SHARE = 0.25  # largest share of the frames of a polyp with an instrument
WITHDRAWN_SECONDS = 1.0  # longest stay of the instrument after the last look
JET_EVERY = 40.0  # seconds
JET_SECONDS = (0.6, 3.0)
HOT_MM = 5.0  # larger polyps are resected with current, which causes smoke
HOT_SMALL = 0.15  # probability of the same for smaller polyps
SMOKE_BEFORE = (1.0, 4.0)  # seconds before the removal
SMOKE_AFTER = (5.0, 20.0)  # seconds after the removal
EVENT_SHARE = 0.02  # largest share of a procedure for one event, as presets may be short


@dataclass(frozen=True)
class Look:
    """An unbroken view of a polyp: one tracklet, or two with another polyp beside it.

    Attributes:
        polyp: Index of the polyp in its procedure.
        first: First frame.
        frames: Number of frames.
        beside: Another polyp that is in view throughout; None for none.
    """

    polyp: int
    first: int
    frames: int
    beside: int | None = None

    @property
    def end(self) -> int:
        """The frame after the last frame of the look."""
        return self.first + self.frames


@dataclass(frozen=True)
class Timeline:
    """The timeline of a procedure; frames count from 0, spans are first and last frame.

    Attributes:
        n_frames: Frames of the procedure.
        looks: Looks ordered by first frame, at least one frame apart.
        turn: Frame at which insertion ends and withdrawal begins; few looks are before it.
        removed: First frame without each polyp; None if the polyp is not removed.
        treated: Polyp, first and last frame with an instrument in view.
        jets: Spans with a water jet.
        pairs: Pairs of adjacent polyps.
        smoke: Spans with smoke in the lumen.
    """

    n_frames: int
    looks: tuple[Look, ...]
    turn: int
    removed: tuple[int | None, ...]
    treated: tuple[tuple[int, int, int], ...]
    jets: tuple[Span, ...]
    pairs: tuple[Span, ...]
    smoke: tuple[Span, ...] = ()

    @property
    def removal_frames(self) -> Counts:
        """First frame (k,) without each polyp; `n_frames` if it is not removed."""
        never = self.n_frames
        return np.array([never if r is None else r for r in self.removed], np.int64)


class Item(NamedTuple):
    """A look without a position in time; `quick`: it follows within seconds of the previous one."""

    polyp: int
    frames: int
    beside: int | None = None
    quick: bool = False


Visit = list[Item]  # gaps between visits may last minutes, gaps between their looks seconds


def draw_timeline(rng: np.random.Generator, spec: ProcedureSpec, preset: Preset) -> Timeline:
    """Sample the timeline of a procedure.

    Args:
        rng: The stream "course" of the procedure.
        spec: The procedure; its number of frames and the frames of each polyp are exact.
        preset: The statistics, and how often the order is broken.

    Returns:
        The timeline; the looks of every polyp (looks at two polyps count for both) have
        `visible_frames` frames in total.

    Raises:
        PolyplinkError: If the looks do not fit into the procedure.
    """
    polyps = len(spec.polyps)
    visits = draw_visits(rng, spec, preset, *draw_lengths(rng, spec, preset))
    # Insertion ends earlier if the looks would be crowded otherwise.
    free = spec.n_frames - spec.boxed_frames
    comfortable = free - sum(map(len, visits)) * mean_gap(spec.fps)
    share = rng.uniform(*preset.insertion)
    turn = max(int(min(share * spec.n_frames, max(comfortable, CROWDED * free))), 0)
    # A few polyps are glimpsed during insertion, in a short look from their visit.
    glimpses: Visit = []
    for polyp in np.flatnonzero(rng.random(polyps) < GLIMPSED) if turn >= WAY_IN else ():
        for visit in visits:
            polyp_items = [k for k in visit[:-1] if k.polyp == polyp and k.beside is None]
            short = [item for item in polyp_items if item.frames < LONG]
            if short:
                visit.remove(short[0])
                glimpses.append(short[0])
                break
    slot = turn // max(polyps, 1)  # polyps are passed in the opposite order on the way in
    looks = [
        Look(item.polyp, int(slot * (polyps - 1 - item.polyp + rng.uniform(0.2, 0.6))), item.frames)
        for item in reversed(glimpses)
    ]
    looks += _withdrawal(rng, spec, visits, turn)
    ends = [
        max((look.end for look in looks if polyp in (look.polyp, look.beside)), default=None)
        for polyp in range(polyps)
    ]
    stays = [
        polyp.histology_class == "NO POLYP" and bool(rng.random() < BIOPSIED)
        for polyp in spec.polyps
    ]
    removed = tuple(None if stay else end for stay, end in zip(stays, ends, strict=True))
    return Timeline(
        n_frames=spec.n_frames,
        looks=tuple(looks),
        turn=turn,
        removed=removed,
        treated=draw_treatment(rng, spec, looks, ends),
        jets=draw_jets(rng, spec),
        pairs=tuple((pair.first, pair.second) for pair in spec.pairs),
        smoke=draw_smoke(rng, spec, removed),
    )


# --- How long looks are ---------------------------------------------------------------------


def draw_lengths(
    rng: np.random.Generator, spec: ProcedureSpec, preset: Preset
) -> tuple[list[Counts], list[Counts]]:
    """Lengths of the looks at each polyp alone, and of the looks at each pair, in frames.

    For every polyp they add up to its visible frames (looks at pairs count for both polyps).
    """
    alone = [polyp.visible_frames for polyp in spec.polyps]
    for pair in spec.pairs:
        for polyp in (pair.first, pair.second):
            alone[polyp] = max(alone[polyp] - pair.frames, 0)
    if not preset.published_looks:
        long, short = preset.long_frames, preset.short_frames
        pairs = [compose(rng, pair.frames, ((1, 2), long), ((0, 0), short)) for pair in spec.pairs]
        kinds = (preset.long_views, long), (preset.short_views, short)
        return [compose(rng, frames, *kinds) for frames in alone], pairs
    # The number of long looks follows from all frames of a polyp. Pairs get a proportional part of
    # it, at the rate of the less visible polyp.
    numbers = [draw_long(rng, polyp.visible_frames) for polyp in spec.polyps]
    pairs = []
    for pair in spec.pairs:
        pair_polyps = (pair.first, pair.second)
        share = min(pair.frames * numbers[p] / spec.polyps[p].visible_frames for p in pair_polyps)
        common = max(round(share), 1)
        pairs.append(look_lengths(rng, pair.frames, common))
        for polyp in pair_polyps:
            numbers[polyp] = max(numbers[polyp] - common, 1)
    return [look_lengths(rng, n, k) for n, k in zip(alone, numbers, strict=True)], pairs


def draw_long(rng: np.random.Generator, frames: int) -> int:
    """Sample the number of long tracklets of a polyp with `frames` frames, at least `FEWEST`.

    The relative noise decreases with the number, so that the sum over a data set is stable although
    one procedure (004-013) contributes most of its variance.
    """
    expected = FACTOR * math.exp(EXPONENT * math.log(frames)) if frames else 0.0
    sigma = NOISE * min(1.0, STEADY / max(expected, 1.0))
    count = round(expected * rng.lognormal(-(sigma**2) / 2, sigma))
    return min(max(count, FEWEST), frames // LONG)


def look_lengths(rng: np.random.Generator, frames: int, long: int) -> Counts:
    """Divide the visible frames of a polyp into looks (n,), in random order.

    `long` looks have `LONG` frames or more, fewer if there are not enough frames.
    """
    long = min(long, frames // LONG)
    if not long:
        return np.array([frames] if frames else [], np.int64)
    count = round(rng.uniform(*SHORT_PER_LONG) * long)
    median, sigma = SHORT_FRAMES
    short = np.clip(np.round(rng.lognormal(math.log(median), sigma, count)), 1, LONG - 1)
    short = short[np.cumsum(short) <= SHORT_SHARE * (frames - LONG * long)].astype(np.int64)
    excess = rng.lognormal(0, SIGMA, long)
    remaining = frames - int(short.sum()) - LONG * long
    ends = np.round(remaining * np.cumsum(excess) / excess.sum())
    lengths = LONG + np.diff(ends, prepend=0.0).astype(np.int64)
    return rng.permutation(np.concatenate([short, lengths]))


def compose(
    rng: np.random.Generator, total: int, long: tuple[Span, Span], short: tuple[Span, Span]
) -> Counts:
    """Divide `total` frames into long and short looks (n,), in random order.

    `long` and `short` are ranges of the number of looks and of their length. If the total cannot be
    reached within them, it is divided evenly into looks of about the right length.
    """
    (min_long, max_long), (short_least, short_most) = long[1], short[1]
    counts = (range(low, high + 1) for low, high in (long[0], short[0]))
    fits = [
        (n, k)
        for n, k in itertools.product(*counts)
        if n * min_long + k * short_least <= total <= n * max_long + k * short_most
    ]
    if not total:
        return np.zeros(0, np.int64)
    if not fits:
        looks = max(round(2 * total / (min_long + max_long)), 1)
        return np.diff(np.arange(looks + 1) * total // looks)
    numbers = fits[rng.integers(len(fits))]
    low, high = (
        np.repeat([min_long, short_least], numbers),
        np.repeat([max_long, short_most], numbers),
    )
    lengths = rng.integers(low, high, endpoint=True)
    for index in rng.permutation(len(lengths)):  # adjust one look after the other to the total
        target = lengths[index] + total - lengths.sum()
        lengths[index] = np.clip(target, low[index], high[index])
    return rng.permutation(lengths)


# --- In which order they come ---------------------------------------------------------------


def draw_visits(
    rng: np.random.Generator,
    spec: ProcedureSpec,
    preset: Preset,
    lengths: Sequence[Counts],
    pairs: Sequence[Counts],
) -> list[Visit]:
    """Order the looks of a procedure; lengths and pairs are those of `draw_lengths`.

    Polyps are visited in order of index, which is broken as often as the preset says.
    """
    visits: list[Visit] = []
    for polyp, frames in enumerate(lengths):
        # The last look is a long one, if there is one, because the polyp is treated in it.
        long = np.flatnonzero(frames >= LONG)[-1:]
        ordered = np.append(np.delete(frames, long), frames[long])
        visits.append([Item(polyp, int(n)) for n in ordered])
    for pair, frames in zip(spec.pairs, pairs, strict=True):
        joint = [Item(pair.first, int(n), pair.second) for n in frames]
        first, second = visits[pair.first], visits[pair.second]
        head, tail = math.ceil(HEAD_SHARE * len(first)), max(len(first) - 1, 0)
        third = len(second) // 3
        middle = _alternate(rng, first[head:tail], joint, second[:third])
        ends = [*first[tail:], *second[third:]]
        visits[pair.first] = [*first[: min(head, tail)], *middle, *ends]
        visits[pair.second] = []
    visits = [visit for visit in visits if visit]
    several = len(spec.polyps) > 1
    if several and rng.random() < preset.close_share:
        visits = _viewed_alternately(rng, visits, round(CLOSE_SECONDS * spec.fps))
    if several and rng.random() < preset.return_share:
        visits = _returned_to(rng, visits)
    return visits


def _alternate(rng: np.random.Generator, *parts: Visit) -> Visit:
    """Merge several series of looks randomly, keeping the order within each, as quick looks."""
    turns = rng.permutation(np.repeat(np.arange(len(parts)), [len(part) for part in parts]))
    sources = [iter(part) for part in parts]
    return [next(sources[turn])._replace(quick=True) for turn in turns]


def _ending(visit: Visit, frames: int | None = None) -> int:
    """Index of the first of the final looks at a visit's last polyp, of at most `frames` frames."""
    begin, total = len(visit), 0
    while begin and visit[begin - 1].polyp == visit[-1].polyp and visit[begin - 1].beside is None:
        total += visit[begin - 1].frames
        if frames is not None and total > frames:
            break
        begin -= 1
    return begin


def _viewed_alternately(rng: np.random.Generator, visits: list[Visit], frames: int) -> list[Visit]:
    """Join two visits: both polyps are viewed alternately before the first is removed."""
    options = []
    for index, (visit, after) in enumerate(itertools.pairwise(visits)):
        before = visit[:-1]
        if not before or before[-1].polyp != visit[-1].polyp or len(after) < 2:
            continue
        tail = max(_ending(before, frames), len(before) - max(len(before) // 3, 1))
        head = min(len(after) - _ending(after[::-1], frames), max(len(after) // 3, 1))
        options.append((index, min(tail, len(before) - 1), max(head, 1)))
    if not options:
        return visits
    index, tail, head = options[rng.integers(len(options))]
    before, after = visits[index], visits[index + 1]
    mixed = _alternate(rng, before[tail:-1], after[:head])
    joined = [*before[:tail], *mixed, before[-1], *after[head:]]
    return [*visits[:index], joined, *visits[index + 2 :]]


def _returned_to(rng: np.random.Generator, visits: list[Visit]) -> list[Visit]:
    """Postpone the end of one visit until after the next one."""
    options = []
    for index, visit in enumerate(visits[:-1]):
        begin = _ending(visit)
        split = begin + math.ceil(HEAD_SHARE * (len(visit) - begin))
        if begin < split < len(visit):
            options.append((index, split))
    if not options:
        return visits
    index, split = options[rng.integers(len(options))]
    visit, between = visits[index], visits[index + 1]
    return [*visits[:index], visit[:split], between, visit[split:], *visits[index + 2 :]]


# --- When they are --------------------------------------------------------------------------


def _withdrawal(
    rng: np.random.Generator, spec: ProcedureSpec, visits: list[Visit], turn: int
) -> list[Look]:
    """Place looks in the withdrawal, with the remaining frames of the procedure between them."""
    items = [item for visit in visits for item in visit]
    lengths = np.array([item.frames for item in items], np.int64)
    n_free = spec.n_frames - turn - int(lengths.sum())
    n = len(items) + 1
    # Gaps before each look and after the last are flickers of the box (1 to 15 frames), losses of
    # the polyp for seconds, or long pauses.
    pause = rng.random(n) < PAUSE_SHARE
    is_quick = np.array([False, *(item.quick for item in items)], np.bool_)
    pause[is_quick] = False
    pause[np.cumsum([0, *(len(visit) for visit in visits)])] = True
    flickers = rng.random(n) < FLICKER_SHARE
    median, sigma, largest = FLICKER
    flicker = np.clip(np.round(rng.lognormal(math.log(median), sigma, n)), 1, largest)
    median, sigma, longest = SECONDS
    seconds = np.minimum(rng.lognormal(math.log(median), sigma, n), longest)
    lost_frames = np.maximum(np.round(spec.fps * seconds), 1)
    gaps = np.where(flickers, flicker, lost_frames).astype(np.int64)
    gaps[is_quick] = np.minimum(gaps[is_quick], QUICK_FRAMES)
    gaps[pause] = 1
    if n_free < n:
        raise PolyplinkError(
            f"procedure {spec.procedure_id}: {spec.boxed_frames} frames of looks do not fit into "
            f"{spec.n_frames}",
            "give it more frames, or its polyps fewer",
        )
    # If there are too few frames, gaps shrink to at least one frame; the remaining frames are
    # divided among the pauses.
    max_gaps = max(int(GAP_SHARE * n_free), n)
    excess = gaps - 1
    if gaps.sum() > max_gaps:
        excess = (excess * (max_gaps - n) // max(int(excess.sum()), 1)).astype(np.int64)
    weights = np.where(pause, rng.lognormal(0, 0.7, n), 0.0)
    n_spare = n_free - n - int(excess.sum())
    ends = np.round(n_spare * np.cumsum(weights) / weights.sum())
    waits = 1 + excess + np.diff(ends, prepend=0.0).astype(np.int64)
    firsts = turn + np.cumsum(waits)[:-1] + np.cumsum(lengths) - lengths
    return [
        Look(item.polyp, int(first), item.frames, item.beside)
        for item, first in zip(items, firsts, strict=True)
    ]


def mean_gap(fps: float) -> float:
    """Mean number of frames between the looks of a visit."""
    flicker, seconds = (law[0] * math.exp(law[1] ** 2 / 2) for law in (FLICKER, SECONDS))
    return FLICKER_SHARE * flicker + (1 - FLICKER_SHARE) * seconds * fps


# --- What happens besides looking -----------------------------------------------------------


def _event_frames(spec: ProcedureSpec, seconds: float) -> int:
    return max(round(min(seconds * spec.fps, EVENT_SHARE * spec.n_frames)), 1)


def draw_treatment(
    rng: np.random.Generator,
    spec: ProcedureSpec,
    looks: Sequence[Look],
    ends: Sequence[int | None],
) -> tuple[tuple[int, int, int], ...]:
    """Sample when an instrument is in view: at the end of each polyp's last looks.

    `ends` holds the frame after each polyp's last look. Returns polyp, first and last frame,
    ordered by first frame. No treatment overlaps a look at another polyp alone.
    """
    treated = []
    for polyp, (polyp_spec, end) in enumerate(zip(spec.polyps, ends, strict=True)):
        if end is None:
            continue
        place = next(index for index, look in enumerate(looks) if look.end == end)
        start = place
        while start and looks[start - 1].polyp == looks[place].polyp:
            start -= 1
        median, sigma = TREATMENT_SECONDS
        seconds = median * rng.lognormal(0, sigma)
        length = min(seconds * spec.fps, TREATMENT_SHARE * polyp_spec.visible_frames)
        after = looks[place + 1].first if place + 1 < len(looks) else spec.n_frames
        stay = _event_frames(spec, rng.uniform(0, WITHDRAWN_SECONDS))
        first = max(end - max(round(length), 1), looks[start].first)
        treated.append((polyp, first, min(end + stay, after) - 1))
    return tuple(sorted(treated, key=lambda treatment: treatment[1]))


def draw_jets(rng: np.random.Generator, spec: ProcedureSpec) -> tuple[Span, ...]:
    """Sample water jets: first and last frames of spans that do not overlap, in order."""
    seconds = spec.n_frames / spec.fps
    firsts = np.sort(rng.integers(0, spec.n_frames, rng.poisson(seconds / JET_EVERY)))
    jets: list[Span] = []
    for first in firsts.tolist():
        length = _event_frames(spec, rng.uniform(*JET_SECONDS))
        if not jets or first > jets[-1][1] + 1:
            jets.append((first, min(first + length, spec.n_frames) - 1))
    return tuple(jets)


def draw_smoke(
    rng: np.random.Generator, spec: ProcedureSpec, removed: Sequence[int | None]
) -> tuple[Span, ...]:
    """Sample spans with smoke: around the removal of large polyps and of a few small ones."""
    spans: list[Span] = []
    for polyp, removal in zip(spec.polyps, removed, strict=True):
        hot = polyp.size_mm > HOT_MM or rng.random() < HOT_SMALL
        if removal is None or not hot:
            continue
        first = max(removal - _event_frames(spec, rng.uniform(*SMOKE_BEFORE)), 0)
        last = min(removal + _event_frames(spec, rng.uniform(*SMOKE_AFTER)), spec.n_frames - 1)
        spans.append((first, last))
    return tuple(sorted(spans))
