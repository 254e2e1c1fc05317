"""All that happens to a picture between the scene and the screen, frame by frame.

The order is that of the light: the lens out of focus and the movement blur the scene; smoke and
water lie before it; an instrument stands in the way; in a blink nothing of this is seen. Frames
without an effect are not touched, so that they cost nothing.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.course.conditions import Conditions
from polyplink.simulate.picture.appearance import Appearance
from polyplink.simulate.picture.blink import blinded
from polyplink.simulate.picture.blur import LEAST, defocus, smear
from polyplink.simulate.picture.drops import water
from polyplink.simulate.picture.instrument import Reach, draw_instruments
from polyplink.simulate.picture.overlays import badge, clock, write_label
from polyplink.simulate.picture.veil import read_clouds, smoke
from polyplink.simulate.picture.window import Windows, onto

Array = NDArray[np.float32]
Indices = NDArray[np.int64]
Way = NDArray[np.float64]

LEAST_MOTION = 0.8  # pixels
BLINK_ZOOM = 2.0
DRIFT = np.array([0.0041, -0.0027])  # of the clouds from frame to frame, frame widths
RUN = np.array([0.0003, 0.0021])  # of the drops on the lens


def _drift(frames: Indices, device: torch.device, step: Way = DRIFT) -> Tensor:
    return onto((frames[:, None] * step).astype(np.float32), device)


def _change(
    images: Tensor, chosen: NDArray[np.bool_], change: Callable[[Tensor, Indices], Tensor]
) -> None:
    """Replace the chosen frames of images, in place, by what `change` makes of them.

    It is called with the images (3, k, h, w) and their indices.
    """
    which = np.flatnonzero(chosen)
    if len(which):
        index = onto(which, images.device)
        images[:, index] = change(images[:, index], which)


def blur_frames(images: Tensor, frames: Indices, windows: Windows, conditions: Conditions) -> None:
    """Defocus and movement, in place; see `apply_effects`."""
    scale = windows.host_scale
    sigma = conditions.focus[frames] * scale
    _change(images, sigma >= LEAST, lambda some, which: defocus(some, sigma[which]))
    motion = conditions.motion[frames] * scale[:, None]
    moved = np.hypot(motion[:, 0], motion[:, 1]) >= LEAST_MOTION
    _change(images, moved, lambda some, which: smear(some, motion[which]))


def veil_frames(
    images: Tensor,
    frames: Indices,
    windows: Windows,
    conditions: Conditions,
    appearance: Appearance,
) -> None:
    """Smoke and water, in place; see `apply_effects`."""
    haze, splash = conditions.haze[frames], conditions.splash[frames]

    def smoky(some: Tensor, which: Indices) -> Tensor:
        strength = onto(haze[which], some.device)
        drift = _drift(frames[which], some.device)
        return smoke(some, strength, read_clouds(appearance.clouds, windows.some(which), drift)[0])

    def wet(some: Tensor, which: Indices) -> Tensor:
        run = _drift(frames[which], some.device, RUN)
        return water(some, splash[which], appearance.drops, run, windows.some(which))

    _change(images, haze > 0, smoky)
    _change(images, splash > 0, wet)


def apply_effects(
    images: Tensor,
    frames: Indices,
    windows: Windows,
    conditions: Conditions,
    appearance: Appearance,
) -> Tensor:
    """Everything before the lens' own mask.

    Args:
        images: (3, s, h, w) the scene as developed, 0 to 1; changed in place.
        frames: (s,) which frames these are.
        windows: The part of each that is drawn.
        conditions: Of all frames of the procedure.
        appearance: Its look, on the images' device.

    Returns:
        The images.
    """
    blink = conditions.blink[frames]
    blur_frames(images, frames, windows, conditions)
    veil_frames(images, frames, windows, conditions, appearance)
    tools = conditions.instrument[frames]

    def armed(some: Tensor, which: Indices) -> Tensor:
        reach, angle, kind = onto(tools[which].T, some.device)
        return draw_instruments(some, windows.some(which), Reach(reach, angle, kind))

    def blinking(some: Tensor, which: Indices) -> Tensor:
        kind = onto(appearance.blinks[frames[which]], some.device)
        drift = 3 * _drift(frames[which], some.device)
        cloud = read_clouds(appearance.clouds, windows.some(which), drift, BLINK_ZOOM)
        return blinded(kind, cloud, appearance.patient.wall)

    _change(images, (tools[:, 0] > 0) & ~blink, armed)
    _change(images, blink, blinking)
    return images


def write_overlays(
    images: Tensor,
    frames: Indices,
    windows: Windows,
    conditions: Conditions,
    appearance: Appearance,
) -> None:
    """The processor's writing in the corners, in place, after the lens' mask.

    Args:
        images: (3, s, h, w) 0 to 1.
        frames: (s,) which frames these are.
        windows: The part of each that is drawn.
        conditions: Of all frames of the procedure.
        appearance: Its look.
    """
    tall = windows.frame[1] / windows.frame[0]
    edges = (windows.edges / windows.frame[0]).tolist()
    for index, frame in enumerate(frames.tolist()):
        if appearance.brand == "Fujifilm":
            label = clock(appearance.start, int(frame / appearance.fps))
        elif conditions.near[frame]:
            label = badge(tall)
        else:
            continue
        write_label(images[:, index], edges[index], label)
