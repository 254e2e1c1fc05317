"""Other conditions of a frame: focus, motion, smoke, water, an instrument, peristalsis."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyplink_lab.simulate.colon.projection import FOCAL
from polyplink_lab.simulate.colon.surface import MM_PER_UNIT
from polyplink_lab.simulate.course.camera import Array, CameraPath, Index, Mask, wander
from polyplink_lab.simulate.course.route import Route
from polyplink_lab.simulate.course.timeline import Timeline
from polyplink_lab.simulate.procedure_specs import ProcedureSpec

Array32 = NDArray[np.float32]

NEAR_MM = 5.0  # distance below which near focus is on
SHARP_NEAR = (0.10, 0.45)  # sharp range with near focus, units
SHARP_FAR = 0.30  # least sharp distance without near focus, units
DEFOCUS = 0.0012  # blur per difference of inverse distances, share of the frame's width
HUNT = 0.003  # blur while the autofocus searches
SHUTTER = 0.5  # exposure time as a share of the time between frames
MOST_MOTION = 0.06  # share of the frame's width
BLINK_BLUR = (0.03, 0.06)
BLINK_WATER = 0.3  # share of the blinks with water on the lens
SNARE_MM = 3.0  # larger polyps are resected with a snare, smaller ones with forceps
SNARE, FORCEPS = 0.0, 1.0
ENTRY = 0.5 * math.pi  # angle of the working channel: 6 o'clock (0 is right, down is positive)
SLIDE = 0.5  # seconds in which an instrument enters or leaves


@dataclass(frozen=True)
class Conditions:
    """Conditions of s frames, float32.

    Attributes:
        phase: (s,) phase of the peristaltic wave, radians.
        focus: (s,) defocus blur: standard deviation as a share of frame width.
        motion: (s, 2) motion of the picture during the exposure, right and down, as a share of
            frame width.
        haze: (s,) smoke, 0 to 1.
        splash: (s,) water on the lens, 0 to 1.
        blink: (s,) whether nothing is recognisable; such a frame has no box.
        instrument: (s, 3) reach from 0 (none) to 1; angle at which it enters the picture, radians,
            0 at the right, a quarter turn below; kind, 0 for a snare, 1 for forceps.
        near: (s,) whether near focus is on.
    """

    phase: Array32
    focus: Array32
    motion: Array32
    haze: Array32
    splash: Array32
    blink: Mask
    instrument: Array32
    near: Mask


def draw_conditions(
    rng: np.random.Generator,
    spec: ProcedureSpec,
    timeline: Timeline,
    route: Route,
    *,
    phase: Array,
    unsteadiness: float,
) -> Conditions:
    """Sample the conditions of all frames.

    Args:
        rng: The stream "conditions".
        spec: The procedure.
        timeline: The timeline of the procedure.
        route: The route, see `course.route`.
        phase: (s,) phase of the peristaltic wave.
        unsteadiness: Factor on the blur of the autofocus.
    """
    path, blink, goals = route.path, route.blink, route.targets
    distance = np.linalg.norm(goals - path.positions, axis=1)
    near = distance < NEAR_MM / MM_PER_UNIT
    hunt = wander(0.13 * np.arange(timeline.n_frames) / spec.fps, rng.uniform(0, 6, 2))
    focus = defocus(distance, near) + unsteadiness * HUNT * (hunt - 0.75).clip(0)
    # Blur and water of blinks, constant within a blink.
    run, count = blink_runs(blink)
    blur = rng.uniform(*BLINK_BLUR, count)[run] * blink
    water = (rng.random(count) < BLINK_WATER)[run] * blink
    motion = (SHUTTER * picture_motion(path, goals)).clip(-MOST_MOTION, MOST_MOTION)
    splash = np.maximum(draw_splash(rng, spec.fps, timeline), water)
    return Conditions(
        phase=np.remainder(phase, 2 * math.pi).astype(np.float32),
        focus=np.maximum(focus, blur).astype(np.float32),
        motion=motion.astype(np.float32),
        haze=draw_haze(rng, spec.fps, timeline).astype(np.float32),
        splash=splash.clip(0, 1).astype(np.float32),
        blink=blink,
        instrument=draw_instruments(rng, spec, timeline).astype(np.float32),
        near=near,
    )


def picture_motion(path: CameraPath, goals: Array) -> Array:
    """Motion (s, 2) of the camera's targets (s, 3) in the picture from frame to frame.

    It is right and down, as a share of the frame's width; the last frame repeats the previous one.
    """

    def projected(rows: slice, points: Array) -> Array:
        local = np.einsum("sij,si->sj", path.rotations[rows], points - path.positions[rows])
        return np.asarray(FOCAL * local[:, :2] / np.maximum(local[:, 2:], 0.1))

    if len(goals) < 2:
        return np.zeros((len(goals), 2))
    here, next_frame = slice(None, -1), slice(1, None)
    moved = projected(next_frame, goals[:-1]) - projected(here, goals[:-1])
    return np.concatenate([moved, moved[-1:]])


def defocus(distance: Array, near: Mask) -> Array:
    """Blur (s,) at distances (s,), units, with near focus on or off."""
    inverse = 1 / np.maximum(distance, 0.03)
    close = (inverse - 1 / SHARP_NEAR[0]).clip(0) + (1 / SHARP_NEAR[1] - inverse).clip(0)
    return np.asarray(DEFOCUS * np.where(near, close, (inverse - 1 / SHARP_FAR).clip(0)))


def draw_instruments(rng: np.random.Generator, spec: ProcedureSpec, timeline: Timeline) -> Array:
    """Draw the instruments (s, 3) in view, see `Conditions`."""
    out = np.zeros((timeline.n_frames, 3))
    entry = ENTRY + 0.25 * rng.standard_normal()
    out[:, 1] = entry
    for polyp, first, last in timeline.treated:
        span = slice(first, last + 1)
        frame = np.arange(last + 1 - first)
        slide = np.minimum(frame + 1, frame[::-1] + 1) / max(SLIDE * spec.fps, 1)
        work = 0.08 * wander(frame * np.float64(0.4 / spec.fps), rng.uniform(0, 6, 2))
        out[span, 0] = (rng.uniform(0.6, 0.85) + work).clip(0.4, 1) * slide.clip(0, 1)
        out[span, 1] = entry + 0.05 * rng.standard_normal()
        out[span, 2] = SNARE if spec.polyps[polyp].size_mm > SNARE_MM else FORCEPS
    return out


def draw_haze(rng: np.random.Generator, fps: float, timeline: Timeline) -> Array:
    """Draw smoke (s,), which appears quickly and clears slowly."""
    haze = np.zeros(timeline.n_frames)
    for first, last in timeline.smoke:
        time = np.arange(last + 1 - first)
        rise, fall = 0.8 * fps, max(len(time) / 3, 1.0)
        shape = (1 - np.exp(-time / rise)) * np.exp(-time / fall)
        shape *= (time[::-1] / max(0.15 * len(time), 1)).clip(0, 1)
        span = slice(first, last + 1)
        haze[span] = np.maximum(haze[span], rng.uniform(0.35, 1.0) * shape)
    return haze


def draw_splash(rng: np.random.Generator, fps: float, timeline: Timeline) -> Array:
    """Draw water (s,) on the lens during jets and for a second afterwards."""
    splash = np.zeros(timeline.n_frames)
    for first, last in timeline.jets:
        stop = min(last + round(fps), timeline.n_frames - 1)
        time = np.arange(stop + 1 - first)
        shape = np.minimum((time + 1) / (0.2 * fps), np.exp(-(time - (last - first)) / (0.4 * fps)))
        flutter = 0.85 + 0.15 * np.sin(1.3 * time + rng.uniform(0, 6))
        span = slice(first, stop + 1)
        splash[span] = np.maximum(splash[span], rng.uniform(0.3, 0.8) * shape.clip(0, 1) * flutter)
    return splash


def blink_runs(blink: Mask) -> tuple[Index, int]:
    """Number (s,) of the latest blink in each frame, from 1, 0 before any; and the count + 1."""
    run = np.cumsum(blink & ~np.append(False, blink[:-1]))
    return run, int(run.max(initial=0)) + 1
