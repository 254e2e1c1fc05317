"""Masks of a planned procedure drawn plainly: every ray marched from the camera, no shortcuts."""

import dataclasses

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.colon.projection import FIELD, LENS_CORNERS
from polyplink.simulate.colon.surface import Lump, surface
from polyplink.simulate.course.stage import MIN_AREA
from polyplink.simulate.picture.march import FAR
from polyplink.simulate.plan import Plan

STEPS = 300
Window = tuple[int, int, int, int]


def rays(width: int, height: int, window: Window) -> Tensor:
    """Unit ways (3, n) through the middles of the pixels of a window: x, y, w, h."""
    x0, y0, w, h = window
    focal = 0.5 * width / np.tan(FIELD / 2)
    x, y = np.meshgrid(
        (np.arange(x0, x0 + w) + 0.5 - width / 2) / focal,
        (np.arange(y0, y0 + h) + 0.5 - height / 2) / focal,
    )
    ways = np.stack([x, y, np.ones_like(x)]).reshape(3, -1)
    return torch.from_numpy(ways / np.linalg.norm(ways, axis=0))


def in_lens(brand: str, width: int, height: int, window: Window) -> NDArray[np.bool_]:
    """Whether the middles of a window's pixels (h, w) are inside the lens, by cross products."""
    x0, y0, w, h = window
    x, y = np.meshgrid(
        (np.arange(x0, x0 + w) + 0.5) / width, (np.arange(y0, y0 + h) + 0.5) / height
    )
    corners = np.array(LENS_CORNERS[brand])
    sides = [
        (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0])
        for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)
    ]
    return np.asarray(np.all(np.array(sides) >= 0, 0) | np.all(np.array(sides) <= 0, 0))


def _double(lump: Lump) -> Lump:
    return dataclasses.replace(
        lump,
        centre=lump.centre.double(),
        axes=lump.axes.double(),
        radii=lump.radii.double(),
        maps=lump.maps.double(),
    )


def mask_of(plan: Plan, frame: int, window: Window | None = None) -> NDArray[np.int64]:
    """Which polyp the pixels (h, w) of a frame's window show, -1 for none."""
    width, height = plan.spec.width, plan.spec.height
    window = window or (0, 0, width, height)
    shown = np.full((window[3], window[2]), -1)
    gone = [r is not None and frame >= r for r in plan.timeline.removed]
    here = [k for k, g in enumerate(gone) if not g]
    if plan.conditions.blink[frame] or not here:
        return shown
    lumps = [_double(plan.lumps[k]) for k in here]
    origin = torch.from_numpy(plan.path.positions[frame])[:, None]
    ways = torch.from_numpy(plan.path.rotations[frame]) @ rays(width, height, window)
    phase = float(plan.conditions.phase[frame])
    depth = torch.zeros_like(ways[0])
    active = torch.arange(len(depth))
    for _ in range(STEPS):
        step = surface(plan.colon, lumps, origin + ways[:, active] * depth[active], phase)[0]
        depth[active] = depth[active] + step
        active = active[(step.abs() > 1e-5 * depth[active]) & (depth[active] < FAR)]
        if not len(active):
            break
    shares = surface(plan.colon, lumps, origin + ways * depth, phase)[1]
    share, which = shares.max(0)
    seen = torch.where((share > 0.5) & (depth < FAR), which, -1).numpy().reshape(shown.shape)
    seen[~in_lens(plan.spec.brand, width, height, window)] = -1
    return np.asarray(np.append(here, -1)[seen])


def box_of(mask: NDArray[np.int64], polyp: int) -> tuple[int, int, int, int] | None:
    """The tight box x, y, w, h of a polyp in a whole frame's mask; None if there is none."""
    rows, columns = np.flatnonzero((mask == polyp).any(1)), np.flatnonzero((mask == polyp).any(0))
    if not len(rows):
        return None
    x, y = int(columns[0]), int(rows[0])
    w, h = int(columns[-1]) - x, int(rows[-1]) - y
    return (x, y, w, h) if w > 0 and h > 0 and w * h >= MIN_AREA * mask.size else None
