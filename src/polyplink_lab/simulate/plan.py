"""The plan of a procedure: anatomy, camera path, events and boxes, before any frame is rendered.

A box is the tight bounding box of a polyp's mask. The mask consists of the pixels whose centres
lie inside the lens's view and on a surface that is more than half polyp. Instruments, smoke, water
and overlays do not clip the box. A polyp has no box in a blink or after its removal.
"""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from polyplink_lab.simulate.colon.outline import coarser, outline
from polyplink_lab.simulate.colon.polyp import Traits, draw_traits
from polyplink_lab.simulate.colon.projection import LENS_CORNERS, Lens, Outlines, project
from polyplink_lab.simulate.colon.surface import Colon, Lump, draw_colon
from polyplink_lab.simulate.course.camera import Array, CameraPath, Index
from polyplink_lab.simulate.course.conditions import Conditions, draw_conditions
from polyplink_lab.simulate.course.route import draw_phase, follow_route
from polyplink_lab.simulate.course.scene import (
    MIN_AREA,
    Scene,
    calm_at,
    draw_places,
    in_reach,
    set_lump,
    shots_of,
)
from polyplink_lab.simulate.course.timeline import Timeline, draw_timeline
from polyplink_lab.simulate.presets import Preset
from polyplink_lab.simulate.procedure_specs import ProcedureSpec, stream

WAVE = (0.03, 0.06)  # size of the peristaltic wave
WAVE_RATE = (0.9, 1.6)  # radians a unit


@dataclass(frozen=True)
class Plan:
    """Everything that boxes and pictures are computed from, except textures and colours.

    Attributes:
        spec: The procedure as the tables describe it.
        timeline: The looks, removals and other events, by frame.
        colon: The tube, with its folds faded around the polyps.
        traits: Size, shape and tissue of each polyp.
        lumps: The geometry of each polyp.
        path: The camera in every frame.
        conditions: Blinks, smoke, water, instruments and focus of every frame.
        bodies: The outlines of the polyps, see `course.outline`.
        looks: (s,) index of the look that a frame belongs to, -1 between looks.
        failed: Indices of looks that do not show their polyp as planned; usually empty.
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

    @property
    def lens(self) -> Lens:
        """The lens of the procedure's endoscope."""
        return Lens.of(LENS_CORNERS[self.spec.brand], self.spec.width, self.spec.height)


def plan_procedure(preset: Preset, seed: int, spec: ProcedureSpec) -> Plan:
    """Plan a procedure.

    Args:
        preset: Statistics and difficulty of the data set.
        seed: Seed of the data set.
        spec: The procedure as the tables describe it.

    Returns:
        The plan; the same arguments give the same plan.

    Raises:
        PolyplinkError: If the looks do not fit into the procedure.

    Example:
        >>> from polyplink_lab.simulate.presets import smoke
        >>> from polyplink_lab.simulate.procedure_specs import procedure_specs
        >>> plan = plan_procedure(smoke(), 0, procedure_specs(smoke(), seed=0)[0])
        >>> boxes_of(plan).columns
        ['frame', 'polyp', 'x', 'y', 'w', 'h']
    """
    course, tube, places_rng, camera, weather = (
        stream(seed, spec.procedure_id, concern)
        for concern in ("course", "colon", "places", "camera", "conditions")
    )
    timeline = draw_timeline(course, spec, preset)
    places = draw_places(places_rng, [polyp.size_mm for polyp in spec.polyps], timeline.pairs)
    colon = replace(
        draw_colon(tube), wave=float(tube.uniform(*WAVE)), wave_rate=float(tube.uniform(*WAVE_RATE))
    )
    colon = calm_at(colon, places)
    traits, lumps = [], []
    for index, (polyp, place) in enumerate(zip(spec.polyps, places, strict=True)):
        rng = stream(seed, spec.procedure_id, f"polyp {index}")
        traits.append(draw_traits(rng, polyp.size_mm, polyp.histology_class, preset.difficulty))
        lumps.append(set_lump(rng, colon, place, traits[-1]))
    outlines = [outline(colon, lump) for lump in lumps]
    lens = Lens.of(LENS_CORNERS[spec.brand], spec.width, spec.height)
    coarse = Outlines.of([coarser(body) for body in outlines])
    size = spec.width, spec.height
    scene = Scene(colon, tuple(lumps), coarse, lens, size, timeline.removal_frames)
    phase = draw_phase(weather, timeline.n_frames, spec.fps)
    unsteadiness = 0.5 + preset.difficulty
    route = follow_route(
        camera, scene, places, timeline, phase, fps=spec.fps, unsteadiness=unsteadiness
    )
    return Plan(
        spec=spec,
        timeline=timeline,
        colon=colon,
        traits=tuple(traits),
        lumps=tuple(lumps),
        path=route.path,
        conditions=draw_conditions(
            weather, spec, timeline, route, phase=phase, unsteadiness=unsteadiness
        ),
        bodies=Outlines.of(outlines),
        looks=route.look,
        failed=route.failed,
    )


def boxes_of(plan: Plan) -> pl.DataFrame:
    """The boxes of all frames.

    Args:
        plan: The procedure.

    Returns:
        frame, polyp (index), x, y, w, h in pixels, by frame, then polyp: x and y are the first
        visible pixel, x + w and y + h the last. A box whose w * h is below `MIN_AREA` of the
        frame is left out.
    """
    width, height = plan.spec.width, plan.spec.height
    frames = np.flatnonzero(~plan.conditions.blink)
    path = plan.path[frames]
    rows, polyps = in_reach(plan.bodies, plan.timeline.removal_frames, path, frames)
    cameras = shots_of(plan.colon, path, plan.conditions.phase[frames].astype(np.float64))
    boxes = pixel_boxes(project(plan.bodies, cameras, plan.lens, rows, polyps), width, height)
    w, h = boxes[:, 2], boxes[:, 3]
    is_large = (w > 0) & (h > 0) & (w * h >= MIN_AREA * width * height)
    columns = {"frame": frames[rows[is_large]], "polyp": polyps[is_large]}
    return pl.DataFrame(columns | dict(zip("xywh", boxes[is_large].T, strict=True)))


def pixel_boxes(boxes: Array, width: int, height: int) -> Index:
    """Convert edges (n, 4) in shares of the frame to x, y, w, h (n, 4) in whole pixels.

    The box runs from the first to the last pixel whose centre lies within the edges; w and h are
    -1 where the edges are NaN or contain no pixel centre.
    """
    scale = np.array([width, height])
    none = np.asarray(np.isnan(boxes).any(axis=1), np.bool_)
    shares = np.where(none[:, None], 0.0, boxes)
    first = np.ceil(shares[:, :2] * scale - 0.5).clip(0)
    last = np.minimum(np.floor(shares[:, 2:] * scale - 0.5), scale - 1)
    out = np.concatenate([first, last - first], axis=1).astype(np.int64)
    out[none, 2:] = -1
    return out
