"""Frames and boxes of a planned procedure."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.course.first_camera import CameraPath
from polyplink.simulate.first_plan import Plan
from polyplink.simulate.picture.march import camera_rays
from polyplink.simulate.picture.shade import Shots, Skin, lens_mask, render
from polyplink.simulate.presets import Preset

REACH = 3.6  # a polyp further from the camera than this is not drawn, nor would it be seen
CHUNK = 4  # frames rendered at a time: the temporaries stay in the cache
MIN_AREA = 1 / 600  # share of the frame that a polyp shows before it gets a box


def render_procedure(
    plan: Plan, preset: Preset, device: torch.device
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int8]]]:
    """Render a procedure chunk by chunk.

    Yields:
        Images (s, h, w, 3), and which polyp a pixel shows (s, h, w): an index into `Plan.skins`,
        or -1. At most `CHUNK` frames at a time, in order.
    """
    rays = camera_rays(preset.width, preset.height, device)
    mask = lens_mask(preset.width, preset.height, device)
    patient = plan.patient.to(device)
    skins = [Skin(skin.lump.to(device), skin.paint.to(device)) for skin in plan.skins]
    shots = _shots(plan.path, device)
    grain = plan.grain.to(device)
    with torch.inference_mode():
        for start in range(0, len(shots.origins), CHUNK):
            some = shots.part(start, start + CHUNK)
            near = [k for k, skin in enumerate(skins) if _in_reach(skin, some)]
            images, which = render(patient, [skins[k] for k in near], some, rays, mask)
            images += _grain(grain, plan.corners[start : start + CHUNK], preset)
            names = torch.tensor([*near, -1], dtype=torch.int8, device=device)  # -1 reads the last
            pixels = (images * 255 + 0.5).clamp(0, 255).to(torch.uint8)
            yield pixels.cpu().numpy(), names[which.long()].cpu().numpy()


def _shots(path: CameraPath, device: torch.device) -> Shots:
    def tensor(values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(device)

    return Shots(
        tensor(path.positions), tensor(path.rotations), tensor(path.exposures), tensor(path.whites)
    )


def _in_reach(skin: Skin, shots: Shots) -> bool:
    return bool((shots.origins - skin.lump.centre).norm(dim=1).min() < REACH)


def _grain(grain: Tensor, corners: NDArray[np.int64], preset: Preset) -> Tensor:
    """Every frame's own part of the noise: (s, h, w, 1)."""
    parts = [grain[y : y + preset.height, x : x + preset.width] for y, x in corners.tolist()]
    return torch.stack(parts)


def tight_boxes(which: NDArray[np.int8], polyps: int) -> list[tuple[int, int, int, int, int, int]]:
    """Boxes of the polyps that are visible enough.

    A box's edges are its first and last visible pixel, as REAL-Colon's annotations are; a polyp
    that shows fewer than `MIN_AREA` of the frame, or a single row or column, has none.

    Args:
        which: (s, h, w) index of the polyp that a pixel shows, or -1.
        polyps: Number of polyps.

    Returns:
        Frame, polyp, x, y, w, h of every box, by frame, then polyp.
    """
    boxes = []
    for frame, pixels in enumerate(which):
        for polyp in range(polyps):
            seen = pixels == polyp
            if np.count_nonzero(seen) < MIN_AREA * seen.size:
                continue
            rows, columns = np.flatnonzero(seen.any(1)), np.flatnonzero(seen.any(0))
            x, y = int(columns[0]), int(rows[0])
            w, h = int(columns[-1]) - x, int(rows[-1]) - y
            if w > 0 and h > 0:
                boxes.append((frame, polyp, x, y, w, h))
    return boxes
