"""When what happens in a procedure: insertion, then polyp after polyp seen, treated and removed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyplink.core.errors import PolyplinkError
from polyplink.simulate.course.events import draw_jets, draw_smoke, draw_treatment
from polyplink.simulate.course.laws import (
    FLICKER_SHARE,
    LONG,
    Counts,
    flicker_gaps,
    mean_gap,
    second_gaps,
)
from polyplink.simulate.course.lengths import draw_lengths
from polyplink.simulate.course.order import Visit, draw_order
from polyplink.simulate.specs import Preset, ProcedureSpec

Span = tuple[int, int]

GLIMPSED = 0.1  # share of polyps that are glimpsed on the way in
WAY_IN = 1000  # frames from which insertion is long enough for that
QUICK_FRAMES = 50  # at most, between looks that follow quickly
PAUSE_SHARE = 0.03  # of the gaps within a visit are as long as those between visits
CROWDED = 0.3  # of the frames without a box insertion may have at least
GAP_SHARE = 0.75  # of the frames without a box, at most, lie within visits
BIOPSIED = 0.25  # share of the lesions of class NO POLYP that are left after a biopsy


@dataclass(frozen=True)
class Look:
    """One unbroken view of a polyp: one tracklet to be, or two where another is beside it.

    Attributes:
        polyp: Index of the polyp in its procedure.
        first: First frame.
        frames: Number of frames.
        beside: Another polyp that is in the view all through, else None.
    """

    polyp: int
    first: int
    frames: int
    beside: int | None = None

    @property
    def end(self) -> int:
        """The frame after the last."""
        return self.first + self.frames


@dataclass(frozen=True)
class Timeline:
    """What happens when; frames count from 0, spans name their first and last frame.

    Attributes:
        n_frames: Frames of the procedure.
        looks: By first frame; at least one frame lies between two.
        turn: Frame at which insertion ends and withdrawal begins; few looks come before it.
        removed: For each polyp the frame from which it is gone; None: it stays.
        treated: Polyp, first and last frame with an instrument in view.
        jets: Spans with a water jet.
        pairs: Polyps that lie side by side.
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


def draw_timeline(rng: np.random.Generator, spec: ProcedureSpec, preset: Preset) -> Timeline:
    """Draw the course of a procedure.

    Args:
        rng: The stream "course" of the procedure.
        spec: The procedure: its frames in all and those of each polyp hold exactly.
        preset: By which laws, and how often the rule is broken.

    Returns:
        The timeline; every polyp's looks (those with another beside it counted for both) have
        its `visible_frames` in all.

    Raises:
        PolyplinkError: If the looks do not fit into the procedure.
    """
    visits = draw_order(rng, spec, preset, draw_lengths(rng, spec, preset))
    turn = _turn(rng, spec, preset, sum(len(visit) for visit in visits))
    glimpses = _glimpses(rng, len(spec.polyps), visits) if turn >= WAY_IN else []
    looks = (
        *_on_the_way_in(rng, len(spec.polyps), glimpses, turn),
        *_on_the_way_out(rng, spec, visits, turn),
    )
    ends = [_last_end(looks, polyp) for polyp in range(len(spec.polyps))]
    stays = [
        polyp.histology_class == "NO POLYP" and bool(rng.random() < BIOPSIED)
        for polyp in spec.polyps
    ]
    removed = tuple(None if stay else end for stay, end in zip(stays, ends, strict=True))
    spans = [(look.polyp, look.first, look.end) for look in looks]
    return Timeline(
        n_frames=spec.n_frames,
        looks=looks,
        turn=turn,
        removed=removed,
        treated=draw_treatment(rng, spec, spans, ends),
        jets=draw_jets(rng, spec),
        pairs=tuple((pair.first, pair.second) for pair in spec.pairs),
        smoke=draw_smoke(rng, spec, removed),
    )


def _last_end(looks: Sequence[Look], polyp: int) -> int | None:
    """The frame after a polyp's last look; None for one that is never seen."""
    return max((look.end for look in looks if polyp in (look.polyp, look.beside)), default=None)


def _turn(rng: np.random.Generator, spec: ProcedureSpec, preset: Preset, looks: int) -> int:
    """The frame at which insertion ends; earlier where the looks would be crowded otherwise."""
    free = spec.n_frames - spec.boxed_frames
    comfortable = max(free - looks * mean_gap(spec.fps), CROWDED * free)
    return max(int(min(rng.uniform(*preset.insertion) * spec.n_frames, comfortable)), 0)


def _glimpses(rng: np.random.Generator, polyps: int, visits: list[Visit]) -> Visit:
    """Take a short look of a few polyps out of their visits: they are seen on the way in."""
    taken: Visit = []
    for polyp in np.flatnonzero(rng.random(polyps) < GLIMPSED):
        for visit in visits:
            short = [
                item
                for item in visit[:-1]
                if item.polyp == polyp and item.frames < LONG and item.beside is None
            ]
            if short:
                visit.remove(short[0])
                taken.append(short[0])
                break
    return taken


def _on_the_way_in(
    rng: np.random.Generator, polyps: int, glimpses: Visit, turn: int
) -> tuple[Look, ...]:
    """Looks during insertion, when polyps are passed in the opposite order."""
    slot = turn // max(polyps, 1)
    return tuple(
        Look(item.polyp, int(slot * (polyps - 1 - item.polyp + rng.uniform(0.2, 0.6))), item.frames)
        for item in reversed(glimpses)
    )


def _on_the_way_out(
    rng: np.random.Generator, spec: ProcedureSpec, visits: list[Visit], turn: int
) -> tuple[Look, ...]:
    """Looks during withdrawal, where the procedure's remaining frames lie between them."""
    items = [item for visit in visits for item in visit]
    gaps, pauses = _gaps(rng, spec, visits)
    lengths = np.array([item.frames for item in items], np.int64)
    free = spec.n_frames - turn - int(lengths.sum())
    if free < len(gaps):
        raise PolyplinkError(
            f"procedure {spec.procedure_id}: {spec.boxed_frames} frames of looks do not fit into "
            f"{spec.n_frames}",
            "give it more frames, or its polyps fewer",
        )
    waits = _spread(rng, gaps, pauses, free)
    firsts = turn + np.cumsum(waits)[: len(items)] + np.cumsum(lengths) - lengths
    return tuple(
        Look(item.polyp, int(first), item.frames, item.beside)
        for item, first in zip(items, firsts, strict=True)
    )


def _gaps(
    rng: np.random.Generator, spec: ProcedureSpec, visits: list[Visit]
) -> tuple[Counts, NDArray[np.bool_]]:
    """Frames (n + 1,) before each look and after the last, and which of them are long pauses.

    A pause has a single frame yet: what a procedure has left is shared among the pauses.
    """
    looks = [item for visit in visits for item in visit]
    starts = np.cumsum([0, *(len(visit) for visit in visits)])
    pause = rng.random(len(looks) + 1) < PAUSE_SHARE
    quick = np.array([False, *(item.quick for item in looks)], np.bool_)
    pause[quick] = False
    pause[starts] = True
    gaps = np.where(
        rng.random(len(pause)) < FLICKER_SHARE,
        flicker_gaps(rng, len(pause)),
        second_gaps(rng, len(pause), spec.fps),
    )
    gaps[quick] = np.minimum(gaps[quick], QUICK_FRAMES)
    gaps[pause] = 1
    return gaps, pause


def _spread(rng: np.random.Generator, gaps: Counts, pause: NDArray[np.bool_], free: int) -> Counts:
    """Stretch the pauses so that all gaps sum up to the frames that are free.

    Where there are too few frames for that, all gaps shrink, to one frame at least.
    """
    most = max(int(GAP_SHARE * free), len(gaps))
    excess = gaps - 1
    if gaps.sum() > most:
        excess = (excess * (most - len(gaps)) // max(int(excess.sum()), 1)).astype(np.int64)
    weights = np.where(pause, rng.lognormal(0, 0.7, len(gaps)), 0.0)
    left = free - len(gaps) - int(excess.sum())
    ends = np.round(left * np.cumsum(weights) / weights.sum())
    waits: Counts = 1 + excess + np.diff(ends, prepend=0.0).astype(np.int64)
    return waits
