"""What happens besides looking: treatment, water jets, smoke."""

from collections.abc import Sequence

import numpy as np

from polyplink.simulate.specs import ProcedureSpec

Span = tuple[int, int]

TREATMENT_SECONDS = (10.0, 0.4)  # an instrument is in view: median, log-sigma
TREATMENT_SHARE = 0.25  # of the frames in which a polyp is seen, at most
WITHDRAWN_SECONDS = 1.0  # at most, that the instrument stays after the last look
JET_EVERY = 40.0  # seconds
JET_SECONDS = (0.6, 3.0)
HOT_MM = 5.0  # from this size polyps are resected with current, which smokes; few smaller ones
HOT_SMALL = 0.15
SMOKE_BEFORE = (1.0, 4.0)  # seconds before the polyp is gone
SMOKE_AFTER = (5.0, 20.0)
EVENT_SHARE = 0.02  # of a procedure, at most, that one event takes: presets may be short


def _frames(spec: ProcedureSpec, seconds: float) -> int:
    return max(round(min(seconds * spec.fps, EVENT_SHARE * spec.n_frames)), 1)


def draw_treatment(
    rng: np.random.Generator,
    spec: ProcedureSpec,
    looks: Sequence[tuple[int, int, int]],
    ends: Sequence[int | None],
) -> tuple[tuple[int, int, int], ...]:
    """When an instrument is in view: over the end of each polyp's last looks.

    Args:
        rng: Where it comes from.
        spec: The procedure.
        looks: Polyp, first frame and frame after the last of every look, in order.
        ends: For each polyp the frame after its last look; None: it is never seen.

    Returns:
        Polyp, first and last frame, by first frame. No treatment reaches into a look at another
        polyp alone.
    """
    treated = []
    for polyp, (own, end) in enumerate(zip(spec.polyps, ends, strict=True)):
        if end is None:
            continue
        place = next(index for index, look in enumerate(looks) if look[2] == end)
        start = place
        while start and looks[start - 1][0] == looks[place][0]:
            start -= 1
        median, sigma = TREATMENT_SECONDS
        seconds = median * rng.lognormal(0, sigma)
        length = min(seconds * spec.fps, TREATMENT_SHARE * own.visible_frames)
        after = looks[place + 1][1] if place + 1 < len(looks) else spec.n_frames
        stay = _frames(spec, rng.uniform(0, WITHDRAWN_SECONDS))
        first = max(end - max(round(length), 1), looks[start][1])
        treated.append((polyp, first, min(end + stay, after) - 1))
    return tuple(sorted(treated, key=lambda one: one[1]))


def draw_jets(rng: np.random.Generator, spec: ProcedureSpec) -> tuple[Span, ...]:
    """When water is sprayed: first and last frames of jets that do not overlap, in order."""
    seconds = spec.n_frames / spec.fps
    firsts = np.sort(rng.integers(0, spec.n_frames, rng.poisson(seconds / JET_EVERY)))
    jets: list[Span] = []
    for first in firsts.tolist():
        last = min(first + _frames(spec, rng.uniform(*JET_SECONDS)), spec.n_frames) - 1
        if not jets or first > jets[-1][1] + 1:
            jets.append((first, last))
    return tuple(jets)


def draw_smoke(
    rng: np.random.Generator, spec: ProcedureSpec, removed: Sequence[int | None]
) -> tuple[Span, ...]:
    """When there is smoke: around the removal of large polyps and of a few small ones."""
    spans: list[Span] = []
    for polyp, gone in zip(spec.polyps, removed, strict=True):
        hot = polyp.size_mm > HOT_MM or rng.random() < HOT_SMALL
        if gone is None or not hot:
            continue
        first = max(gone - _frames(spec, rng.uniform(*SMOKE_BEFORE)), 0)
        last = min(gone + _frames(spec, rng.uniform(*SMOKE_AFTER)), spec.n_frames - 1)
        spans.append((first, last))
    return tuple(sorted(spans))
