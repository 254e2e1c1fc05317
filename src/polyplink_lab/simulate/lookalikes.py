"""False alarms on polyp-like places in a simulated procedure: folds, residue and bubbles.

A false alarm is attached to a place on the wall, so that its boxes move and grow like those of a
polyp. Of several random places in the picture, the one most similar to typical false alarms is
chosen: 88 % of the false alarms of GI Genius showed the bowel's wall, mostly folds, and 12 % its
content (Hassan et al., Gastrointestinal Endoscopy, 2020, 10.1016/j.gie.2020.06.021).
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from polyplink_lab.simulate.colon.surface import (
    RADIUS,
    at_rest,
    centre_line,
    to_material,
    wall_distance,
    wall_radius,
)
from polyplink_lab.simulate.course.camera import Array, Index, Mask, carry
from polyplink_lab.simulate.picture.shading import Patient, draw_patient, read_mucosa
from polyplink_lab.simulate.plan import Plan
from polyplink_lab.simulate.procedure_specs import stream
from polyplink_lab.simulate.rendering import read_plan

CANDIDATES = 24  # random places in the picture, one of which is chosen for an alarm
CONTENT = 0.12  # share of the alarms that show residue or bubbles; the others show folds
EDGE = 0.15  # of the frame, without candidates
STEPS = 96  # of a ray towards the wall
NEAREST, FARTHEST = 0.3, 3.0  # from the camera, units: 10 mm fill the picture, or a tenth of it


class Followed(NamedTuple):
    """The places of n boxes in the picture.

    Attributes:
        centre: (n, 2) centre, pixels.
        scale: (n,) size relative to that in the alarm's first frame.
        visible: (n,) whether the place is visible; False in all frames of an alarm without a place,
            because no candidate in its first frame was suitable.
    """

    centre: Array
    scale: Array
    visible: Mask


def follow_lookalikes(
    source: Path, procedure_id: str, rng: np.random.Generator, alarm: Index, frames: Index
) -> Followed:
    """Choose a place on the wall for every false alarm, and follow it.

    Args:
        source: Folder that `polyplink simulate` wrote.
        procedure_id: The procedure.
        rng: Source of randomness.
        alarm: (n,) number of the alarm of each box, ascending from 0.
        frames: (n,) frame of each box, ascending within an alarm.

    Returns:
        The places, one row per box.

    Raises:
        PolyplinkError: If the folder is not a simulation, or lacks the procedure.
    """
    plan, seed = read_plan(source, procedure_id)
    patient = draw_patient(stream(seed, procedure_id, "patient"), plan.spec.bbps)
    first = np.searchsorted(alarm, np.arange(alarm.max(initial=-1) + 1))  # a: each one's first box
    place = _choose(plan, patient, rng, frames[first])  # a 3
    in_camera = _in_camera(plan, place[alarm], frames)  # n 3
    depth = in_camera[:, 2]
    lens, size = plan.lens, np.array([plan.spec.width, plan.spec.height])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = 0.5 + in_camera[:, :2] / depth[:, None] * [lens.across, lens.down]
        scale = depth[first][alarm] / depth
    visible = (depth > NEAREST / 2) & (in_camera @ lens.planes.T > 0).all(1)
    return Followed(shares * size, scale, visible)


def _in_camera(plan: Plan, places: Array, frames: Index) -> Array:
    """Transform places at rest (n, 3) to the camera coordinates of their frames (n,): (n, 3)."""
    path = plan.path[frames]
    world = carry(plan.colon, places, plan.conditions.phase[frames].astype(np.float64))
    points: Array = np.einsum("nij,ni->nj", path.rotations, world - path.positions)
    return points


def wall_behind(plan: Plan, frames: Index, shares: Array) -> tuple[Tensor, Tensor]:
    """The points of the wall at positions in the picture, ignoring polyps.

    Args:
        plan: The procedure.
        frames: (a,) frames.
        shares: (a, k, 2) positions in each frame, as shares of its width and height.

    Returns:
        Points (3, a, k) of the wall at rest, and their distances (a, k) from the camera, units.
    """
    path, lens = plan.path[frames], plan.lens
    ahead = np.ones((*shares.shape[:2], 1))
    rays = np.concatenate([(shares - 0.5) / [lens.across, lens.down], ahead], axis=2)  # a k 3
    rays /= np.linalg.norm(rays, axis=2, keepdims=True)
    towards = torch.from_numpy(np.einsum("aij,akj->iak", path.rotations, rays))  # 3 a k
    eye = torch.from_numpy(path.positions.T.copy())[..., None]  # 3 a 1
    phase = torch.from_numpy(plan.conditions.phase[frames].astype(np.float64))[:, None]  # a 1
    depth = torch.zeros(shares.shape[:2], dtype=torch.float64)
    for _ in range(STEPS):
        depth += wall_distance(plan.colon, eye + depth * towards, phase)
    return to_material(plan.colon, eye + depth * towards, phase), depth


def fold_height(plan: Plan, places: Tensor) -> Tensor:
    """Height (...) of the wall into the lumen at places (3, ...) at rest, units."""
    line_x, _, x, y, _ = at_rest(plan.colon, places, 0.0)
    radius = torch.hypot(x, y)
    return RADIUS - wall_radius(plan.colon, places[2], line_x, x / radius, y / radius)


def _choose(plan: Plan, patient: Patient, rng: np.random.Generator, frames: Index) -> Array:
    """The place at rest (a, 3) most similar to a false alarm in each frame; NaN for none."""
    a = len(frames)
    shares = rng.uniform(EDGE, 1 - EDGE, (a, CANDIDATES, 2))
    content = rng.random(a) < CONTENT
    places, depth = wall_behind(plan, frames, shares)  # 3 a k, a k
    line_x, line_y = centre_line(plan.colon, places[2])
    turn = torch.atan2(places[1] - line_y, places[0] - line_x)
    colour, _ = read_mucosa(patient, turn.float(), places[2].float(), torch.zeros(()))
    stain = (colour[:3] - patient.wall[:, None, None]).norm(dim=0)  # a k
    looks = np.where(content[:, None], stain.numpy(), fold_height(plan, places).numpy())
    for lump in plan.lumps:  # a box on a polyp would not be a false alarm
        near = (places - lump.centre[:, None, None]).norm(dim=0) < 2 * float(lump.radii.max())
        looks[near.numpy()] = -np.inf
    looks[((depth < NEAREST) | (depth > FARTHEST)).numpy()] = -np.inf
    rows, best = np.arange(a), looks.argmax(1)
    chosen: Array = places.numpy()[:, rows, best].T.copy()
    chosen[np.isneginf(looks[rows, best])] = np.nan
    return chosen
