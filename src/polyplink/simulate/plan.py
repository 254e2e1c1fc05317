"""The plan of a procedure: what is where and when, before any picture is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polyplink.simulate.colon.outline import coarser, outline
from polyplink.simulate.colon.polyp import Traits, draw_traits
from polyplink.simulate.colon.projection import LENS_CORNERS, Lens, Outlines
from polyplink.simulate.colon.surface import Colon, Lump, draw_colon
from polyplink.simulate.course.camera import CameraPath, Index
from polyplink.simulate.course.conditions import Conditions, draw_conditions
from polyplink.simulate.course.placing import (
    WAVE,
    WAVE_RATE,
    Place,
    calm_at,
    draw_places,
    set_lump,
)
from polyplink.simulate.course.route import draw_phase, follow_route
from polyplink.simulate.course.sight import Stage
from polyplink.simulate.course.timeline import Timeline, draw_timeline
from polyplink.simulate.specs import Preset, ProcedureSpec
from polyplink.simulate.streams import stream


@dataclass(frozen=True)
class Plan:
    """All that a procedure's boxes and pictures are computed from, textures and colours aside.

    Attributes:
        spec: What the tables say of it.
        timeline: What happens when.
        colon: The tube, with its folds faded around the polyps.
        traits: What each polyp is.
        lumps: The body of each.
        path: The camera in every frame.
        conditions: What else every frame shows.
        bodies: The outlines of the polyps, see `colon.outline`.
        looks: (s,) index of the look that a frame belongs to, -1 between looks.
        failed: Indices of looks that do not show what they should; none, as a rule.
    """

    spec: ProcedureSpec
    timeline: Timeline
    colon: Colon
    traits: tuple[Traits, ...]
    lumps: tuple[Lump, ...]
    path: CameraPath
    conditions: Conditions
    bodies: Outlines
    looks: Index
    failed: tuple[int, ...]


def lens_of(spec: ProcedureSpec) -> Lens:
    """The lens of a procedure's endoscope."""
    return Lens.of(LENS_CORNERS[spec.brand], spec.width, spec.height)


def gone_from(timeline: Timeline) -> Index:
    """The frame (k,) from which each polyp is gone; the number of frames for one that stays."""
    never = timeline.n_frames
    return np.array([never if r is None else r for r in timeline.removed], np.int64)


def _draw_polyps(
    seed: int, spec: ProcedureSpec, difficulty: float, colon: Colon, places: Sequence[Place]
) -> tuple[tuple[Traits, ...], tuple[Lump, ...]]:
    traits, lumps = [], []
    for index, (polyp, place) in enumerate(zip(spec.polyps, places, strict=True)):
        rng = stream(seed, spec.procedure_id, f"polyp {index}")
        traits.append(draw_traits(rng, polyp, difficulty))
        lumps.append(set_lump(rng, colon, place, traits[-1]))
    return tuple(traits), tuple(lumps)


def plan_procedure(preset: Preset, seed: int, spec: ProcedureSpec) -> Plan:
    """Plan a procedure.

    Args:
        preset: By which laws, and how difficult.
        seed: Seed of the data set.
        spec: What the tables say of the procedure.

    Returns:
        The plan; the same three give the same plan.

    Raises:
        PolyplinkError: If the looks do not fit into the procedure.
    """
    rngs = {
        concern: stream(seed, spec.procedure_id, concern)
        for concern in ("course", "colon", "places", "camera", "conditions")
    }
    timeline = draw_timeline(rngs["course"], spec, preset)
    places = draw_places(rngs["places"], [polyp.size_mm for polyp in spec.polyps], timeline.pairs)
    colon = replace(
        draw_colon(rngs["colon"]),
        wave=float(rngs["colon"].uniform(*WAVE)),
        wave_rate=float(rngs["colon"].uniform(*WAVE_RATE)),
    )
    colon = calm_at(colon, places)
    traits, lumps = _draw_polyps(seed, spec, preset.difficulty, colon, places)
    outlines = [outline(colon, lump) for lump in lumps]
    stage = Stage(
        colon=colon,
        lumps=lumps,
        bodies=Outlines.of([coarser(body) for body in outlines]),
        lens=lens_of(spec),
        size=(spec.width, spec.height),
        removed=gone_from(timeline),
    )
    phase = draw_phase(rngs["conditions"], timeline.n_frames, spec.fps)
    unrest = 0.5 + preset.difficulty
    route = follow_route(
        rngs["camera"], stage, places, timeline, phase, fps=spec.fps, unrest=unrest
    )
    conditions = draw_conditions(
        rngs["conditions"],
        spec,
        timeline,
        route.path,
        route.goals,
        phase=phase,
        blink=route.blink,
        unrest=unrest,
    )
    return Plan(
        spec=spec,
        timeline=timeline,
        colon=colon,
        traits=traits,
        lumps=lumps,
        path=route.path,
        conditions=conditions,
        bodies=Outlines.of(outlines),
        looks=route.look,
        failed=tuple(route.failed.tolist()),
    )
