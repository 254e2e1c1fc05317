"""Ray marching in two steps: half resolution from the camera, then full resolution from there.

Source: Hart, Sphere tracing, The Visual Computer 12 (1996); the coarse start is cone marching in
its simplest form.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from polyplink.simulate.picture.scene import Colon, Lump, scene_distance

FIELD = math.radians(88.0)  # horizontal field of view
FAR = 9.0  # units; further away nothing is lit
COARSE_STEPS = 8
FINE_STEPS = 1
SETTLE_STEPS = 3  # for the few rays that are not there yet,
SETTLE_ROUNDS = 12  # picked out anew so many times
TOLERANCE = 4e-3  # of the depth; a pixel is some 1.5e-2 of it wide
BACK_OFF = 0.97  # the fine march starts a little before the nearest coarse neighbour


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


@dataclass(frozen=True)
class Rays:
    """Rays of n pixels: origins (3, n) and unit directions (3, n)."""

    origins: Tensor
    directions: Tensor

    def at(self, depth: Tensor) -> Tensor:
        """Points (3, n) at depths (n,)."""
        return self.origins + self.directions * depth

    def some(self, which: Tensor) -> "Rays":
        """The rays of some pixels, by index."""
        return Rays(self.origins[:, which], self.directions[:, which])


def pixel_rays(origins: Tensor, turned: Tensor) -> Rays:
    """Rays from origins (s, 3) in directions (3, s, h, w), n = s * h * w."""
    spread = origins.T[:, :, None, None].expand_as(turned)
    return Rays(spread.reshape(3, -1), turned.reshape(3, -1))


def advance(
    colon: Colon, lumps: Sequence[Lump], rays: Rays, depth: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """Take steps along rays from depths (n,): the new depths (n,) and the last step (n,)."""
    distance = torch.zeros_like(depth)
    for _ in range(steps):
        distance = scene_distance(colon, lumps, rays.at(depth))
        depth = (depth + distance).clamp(max=FAR)
    return depth, distance


def settle(colon: Colon, lumps: Sequence[Lump], rays: Rays, depth: Tensor, step: Tensor) -> Tensor:
    """Go on with the rays whose last step was long: those that graze a fold or a polyp.

    Args:
        colon: The tube.
        lumps: The polyps.
        rays: n rays.
        depth: (n,) depths so far.
        step: (n,) last steps.

    Returns:
        (n,) depths.
    """
    for _ in range(SETTLE_ROUNDS):
        moving = torch.nonzero((step > TOLERANCE * depth) & (depth < FAR))[:, 0]
        if not len(moving):
            break
        some, last = advance(colon, lumps, rays.some(moving), depth[moving], SETTLE_STEPS)
        depth = depth.index_copy(0, moving, some)
        step = torch.zeros_like(step).index_copy(0, moving, last)
    return depth


def march(
    colon: Colon, lumps: Sequence[Lump], origins: Tensor, rotations: Tensor, rays: Tensor
) -> tuple[Tensor, Rays]:
    """Find the first surface along every pixel's ray.

    Args:
        colon: The tube.
        lumps: The polyps that can be seen.
        origins: (s, 3) camera positions.
        rotations: (s, 3, 3) columns: right, down, forward.
        rays: (3, h, w) camera rays; h and w even.

    Returns:
        Depths (n,) along the rays, at most `FAR`, and the rays, n = s * h * w.
    """
    turned = turn_rays(rays, rotations)
    coarse = functional.normalize(turned[..., ::2, ::2] + turned[..., 1::2, 1::2], dim=0)
    start = coarse.new_zeros(coarse[0].numel())
    depth, _ = advance(colon, lumps, pixel_rays(origins, coarse), start, COARSE_STEPS)
    depth = depth.view(len(origins), 1, *coarse.shape[2:])  # (s, 1, h/2, w/2)
    nearest = -functional.max_pool2d(-depth, 3, stride=1, padding=1)
    depth = BACK_OFF * functional.interpolate(nearest, scale_factor=2.0).reshape(-1)  # (n,)
    fine = pixel_rays(origins, turned)
    depth, step = advance(colon, lumps, fine, depth, FINE_STEPS)
    return settle(colon, lumps, fine, depth, step), fine
