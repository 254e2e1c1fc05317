"""The camera between looks: a blink, a turn away and back, or a way through the tube.

What lies far from the last polyp and the next is passed in a stretch of the tube that has no
polyp: the camera always looks up the lumen, away from all of them, and a blink hides that it was
taken there.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyplink.simulate.colon.surface import Colon
from polyplink.simulate.course.camera import Array, Index, from_tube, smooth, to_tube, wander
from polyplink.simulate.course.rotations import look_along, turn_between, turn_own, unit

BLINK_GAP = 5  # frames: a shorter gap is a blink as a whole
TURN_GAP = 240  # frames: a longer one is spent elsewhere
LEAVE = 7  # frames in which the camera turns away, and back
JOINT = 6  # frames of a blink that hides a cut
SPEED = (0.004, 0.012)  # units a frame through the tube
FREE = 5.0  # units from the first polyp up the tube where the stretch without polyps begins
OFF_LINE = 0.28  # units that the camera sways off the centre line
AHEAD = 1.3  # units up the tube that it looks at


@dataclass(frozen=True)
class Ends:
    """The camera at k frames: positions (k, 3) and rotations (k, 3, 3)."""

    positions: Array
    rotations: Array

    def some(self, which: Index) -> "Ends":
        """Those of some frames."""
        return Ends(self.positions[which], self.rotations[which])


def lost_rotations(rng: np.random.Generator, axes: Array, rotations: Array) -> Array:
    """Turn cameras (k, 3, 3) away from polyps: to the wall across, somewhat up or down the tube.

    Args:
        rng: Where the lean comes from.
        axes: (k, 3, 3) of the wall at the polyps.
        rotations: (k, 3, 3) of the cameras that look at them.
    """
    k = len(axes)
    lean = rng.choice((-1.0, 1.0), k) * rng.uniform(0.2, 0.7, k)
    away = unit(axes[:, :, 2] + lean[:, None] * axes[:, :, 0])
    # The way that keeps the picture upright as far as can be: the same right side, made square.
    right = unit(np.cross(rotations[:, :, 1], away) + 1e-9)
    return np.stack([right, np.cross(away, right), away], axis=-1)


def turn_away(  # noqa: PLR0917
    colon: Colon,
    ends: tuple[Ends, Ends],
    lost: tuple[Array, Array],
    which: Index,
    time: Index,
    lengths: Index,
    phases: Array,
) -> Ends:
    """The camera in k gaps in which it turns away from a polyp and back to one near by.

    Args:
        colon: The tube.
        ends: The last frame of the look before, and the first of the look after, (k,) each.
        lost: Rotations (k, 3, 3) that the camera goes to, and comes back from.
        which: (n,) the gap of each frame.
        time: (n,) frames since the gap began.
        lengths: (k,) of the gaps.
        phases: (k, 2, 2) of the sway while it is lost.
    """
    before, after = ends
    length = lengths[which]
    leave = np.minimum(LEAVE, np.maximum(1, length // 3))
    # Three turns after one another: away, from one lost view to the other, back.
    rest = np.maximum(length - 2 * leave, 1)
    part = np.where(time < leave, 0, np.where(time >= length - leave, 2, 1))
    t = np.choose(
        part, [(time + 1) / (leave + 1), (time - leave) / rest, (time - length + leave) / leave]
    )
    pairs = (
        np.concatenate([before.rotations, lost[0], lost[1]]),
        np.concatenate([lost[0], lost[1], after.rotations]),
    )
    k = len(lengths)
    turned = turn_between(*pairs, smooth(np.clip(t, 0, 1)), part * k + which)
    sway = 0.12 * np.where(part == 1, np.sin(np.pi * np.clip(t, 0, 1)), 0)
    turned = turn_own(turned, 1, sway * wander(length / 150 * t, phases[which, 0]))
    turned = turn_own(turned, 0, sway * wander(length / 150 * t, phases[which, 1]))
    start, stop = to_tube(colon, before.positions)[which], to_tube(colon, after.positions)[which]
    s = (time + 1) / (length + 1)
    places = start + (stop - start) * smooth(s)[:, None]
    inwards = 1 - 0.5 * np.sin(np.pi * s)
    places[:, :2] *= inwards[:, None]
    return Ends(from_tube(colon, places), turned)


def travel(
    rng: np.random.Generator, colon: Colon, forward: NDArray[np.bool_], fps: float, start: float
) -> Ends:
    """The camera on its way through the stretch without polyps, looking up the lumen.

    Args:
        rng: Where its unrest comes from.
        colon: The tube.
        forward: (n,) whether it is pushed up the tube, frame by frame, or withdrawn.
        fps: Frames per second.
        start: z that it never falls below.
    """
    n = len(forward)
    second = np.arange(n) / fps
    phases = rng.uniform(0, 2 * math.pi, (6, 2))
    rates = rng.uniform([0.03, 0.08, 0.08, 0.04, 0.04, 0.03], [0.07, 0.2, 0.2, 0.12, 0.12, 0.08])
    pace, x, y, heading, nod, roll = (
        wander(rate * second, phase) for rate, phase in zip(rates, phases, strict=True)
    )
    step = rng.uniform(*SPEED) * (30 / fps) * (1 + 0.75 * pace) * np.where(forward, 1, -1)
    z = np.cumsum(step)
    z += start - z.min(initial=0.0)
    places = np.stack([OFF_LINE * x, OFF_LINE * y, z], axis=1)
    ahead = np.stack([-0.3 * places[:, 0], -0.3 * places[:, 1], z + AHEAD], axis=1)
    positions = from_tube(colon, places)
    up = np.broadcast_to(np.array([0.0, 1.0, 0.0]), (n, 3))
    turned = look_along(from_tube(colon, ahead) - positions, up)
    turned = turn_own(turned, 2, 0.6 * roll + phases[0, 0])
    turned = turn_own(turned, 1, 0.22 * heading)
    return Ends(positions, turn_own(turned, 0, 0.22 * nod))
