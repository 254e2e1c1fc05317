"""Ray marching in two steps: half resolution from the camera, then full resolution from there.

Source: Hart, Sphere tracing, The Visual Computer 12 (1996); the coarse start is cone marching in
its simplest form.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from polyplink.simulate.scene import Colon, Lump, scene_distance

FIELD = math.radians(88.0)  # horizontal field of view
FAR = 9.0  # units; further away nothing is lit
COARSE_STEPS = 18
FINE_STEPS = 4
BACK_OFF = 0.93  # the fine march starts a little before the nearest coarse neighbour


def camera_rays(width: int, height: int, device: torch.device) -> Tensor:
    """Unit directions (3, height, width) of a pinhole camera: x right, y down, z forward."""
    focal = 0.5 * width / math.tan(FIELD / 2)
    x = (torch.arange(width, device=device) + 0.5 - width / 2) / focal
    y = (torch.arange(height, device=device) + 0.5 - height / 2) / focal
    rays = torch.stack(
        [x.expand(height, width), y[:, None].expand(height, width), x.new_ones(height, width)]
    )
    return functional.normalize(rays, dim=0)


def turn_rays(rays: Tensor, rotations: Tensor) -> Tensor:
    """Turn camera rays (3, h, w) by every frame's rotation (s, 3, 3): (3, s, h, w)."""
    return torch.einsum("sij,jhw->ishw", rotations, rays)


def along(origins: Tensor, rays: Tensor, depth: Tensor) -> Tensor:
    """Points (3, s*h*w) at depth (s, h, w) along rays (3, s, h, w) from origins (s, 3)."""
    return (origins.T[:, :, None, None] + rays * depth).reshape(3, -1)


def _advance(
    colon: Colon, lumps: Sequence[Lump], origins: Tensor, rays: Tensor, depth: Tensor, steps: int
) -> Tensor:
    for _ in range(steps):
        distance = scene_distance(colon, lumps, along(origins, rays, depth))
        depth = (depth + distance.view_as(depth)).clamp(max=FAR)
    return depth


def march(
    colon: Colon, lumps: Sequence[Lump], origins: Tensor, rotations: Tensor, rays: Tensor
) -> tuple[Tensor, Tensor]:
    """Find the first surface along every pixel's ray.

    Args:
        colon: The tube.
        lumps: The polyps that can be seen.
        origins: (s, 3) camera positions.
        rotations: (s, 3, 3) columns: right, down, forward.
        rays: (3, h, w) camera rays; h and w even.

    Returns:
        Depths (s, h, w) along the rays, at most `FAR`, and the turned rays (3, s, h, w).
    """
    turned = turn_rays(rays, rotations)
    coarse = turned[..., ::2, ::2] + turned[..., 1::2, 1::2]
    coarse = functional.normalize(coarse, dim=0)  # (3, s, h/2, w/2)
    depth = coarse.new_zeros(coarse.shape[1:])
    depth = _advance(colon, lumps, origins, coarse, depth, COARSE_STEPS)
    nearest = -functional.max_pool2d(-depth[:, None], 3, stride=1, padding=1)
    depth = BACK_OFF * functional.interpolate(nearest, scale_factor=2.0)[:, 0]  # (s, h, w)
    return _advance(colon, lumps, origins, turned, depth, FINE_STEPS), turned
