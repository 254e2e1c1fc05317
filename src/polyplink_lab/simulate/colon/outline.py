"""The part of a polyp's surface that is visible in its mask, as a mesh.

The mask of a polyp consists of the pixels in which the polyp's share of the surface exceeds one
half. A polyp is star-shaped about its centre, so this part of the surface is located by rays from
the centre: marching outwards along a ray gives the joined surface, and a search around the polyp
gives the rim, at which wall and polyp have equal shares.
"""

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyplink_lab.simulate.colon import surface
from polyplink_lab.simulate.colon.projection import Outline, rest_of
from polyplink_lab.simulate.colon.surface import Colon, Lump

Array = NDArray[np.float64]
RAYS, RINGS = 72, 30  # marched rays: around the polyp, and from its top to its rim
AROUND, DOWN = 144, 60  # points of the mesh; between the rays only the relief is read again
HIGHEST = math.radians(40)  # smallest angle of the rim from the top
SCAN = 16  # angles at which the rim is searched
LOWEST = math.radians(177)  # largest angle of the rim from the top
INSIDE = 0.4  # distance from the centre at which the march begins, radii
STEPS = 60
FEW = 18  # steps after which a ray that has not reached the surface goes into the wall
FOOT = 1.5  # height above the wall from which rays to a stalk's foot start, widths of the joint
PARTS, ROUNDS = 14, 2  # parts of the rim's bracket, and number of subdivisions
CLOSE = 2e-3  # of the smallest radius: distance at which the next step reaches the surface
STRIDE = 1.12  # step relative to the distance, which is a slightly short bound
COARSE_DOWN, COARSE_AROUND = 10, 24
DIRECTIONS = 1000  # in which points of the hull are searched: 7 degrees apart
TOGETHER = 50  # directions per batch, so that the results fit into the cache
CALM_REACH = 3.0  # units along the tube beyond which a calm place has no effect
REACH = 3.0  # distance from the centre up to which the surface is searched, radii


class _Rays:
    """Rays from a point within a polyp to the surface, in a tube at rest without a wave.

    They start in the polyp's centre, or within the foot of its stalk, which is hidden from the
    centre by the fillet.
    """

    def __init__(self, colon: Colon, lump: Lump, *, from_foot: bool = False) -> None:
        everywhere, calm = np.ones((1, 1), np.bool_), np.ones((1, len(colon.calm)), np.bool_)
        stack = surface.stack_maps([lump.maps[:1]])
        self._surface = surface.BatchSurface(colon, [lump], stack, (everywhere, calm), np.zeros(1))
        self._axes, self._steps = lump.axes.double(), STEPS if lump.stalk[1] else FEW
        self._origin, self._scale = lump.centre.double()[:, None], lump.radii.double()
        if from_foot:
            lift = surface.wall_distance(colon, lump.centre[:, None]).double() / surface.WALL_BOUND
            self._origin = self._origin - self._axes[:, 2:] * (lift - FOOT * lump.blend)
            self._scale = torch.full((3,), lump.stalk[0], dtype=torch.float64)

    def _at(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Distances (n,) of points (3, n), and the polyp's share there."""
        frame = torch.zeros(1, 1, dtype=torch.int64)
        distance, shares = self._surface.fast(points[:, None].float(), frame, with_shares=True)
        return distance[0].double(), shares[0, 0].double()

    def meet(self, tilt: Tensor, turn: Tensor, steps: int = STEPS) -> tuple[Tensor, Tensor]:
        """Intersections of rays with the joined surface: points (3, n) and the polyp's share (n,).

        Rays have angles `tilt` (n,) from the top and `turn` (n,) around the polyp. Each step is
        about as long as the distance to the surface. Beyond the rim rays go into the wall: they end
        at `REACH` or after `steps` steps, with share 0.
        """
        local = torch.stack([tilt.sin() * turn.cos(), tilt.sin() * turn.sin(), tilt.cos()])
        directions = self._axes @ (self._scale[:, None] * local)  # (3, n)
        per_unit = STRIDE / torch.linalg.vector_norm(directions, dim=0)
        s = torch.full_like(per_unit, INSIDE)
        close = CLOSE * float(self._scale.min())
        active = torch.arange(len(s))  # rays that have not reached the surface yet
        for _ in range(steps):
            distance, _ = self._at(self._origin + s[active] * directions[:, active])
            s[active] = (s[active] - distance * per_unit[active]).clamp(max=REACH)
            active = active[(distance.abs() > close) & (s[active] < REACH)]
            if not len(active):
                break
        points = self._origin + s * directions
        distance, share = self._at(points)
        arrived = distance.abs() < 2 * close  # the others stay inside, down a stalk into the wall
        return points, torch.where(arrived, share, 0.0)

    def rim(self, turn: Tensor) -> Tensor:
        """The largest angle (n,) from the top at which the polyp's share is one half."""
        scan = torch.linspace(HIGHEST, LOWEST, SCAN, dtype=turn.dtype)
        grid = scan[:, None].expand(SCAN, len(turn)).reshape(-1)
        shares = self.meet(grid, turn.repeat(SCAN), self._steps)[1]
        inside = shares.view(SCAN, -1) > 0.5
        last = SCAN - 1 - inside.flip(0).int().argmax(0)  # (n,)
        low, high = scan[last], scan[(last + 1).clamp(max=SCAN - 1)]
        part = torch.arange(1, PARTS, dtype=turn.dtype)[:, None] / PARTS
        for _ in range(ROUNDS):
            middle = low + (high - low) * part  # (PARTS - 1, n)
            shares = self.meet(middle.reshape(-1), turn.repeat(PARTS - 1), self._steps)[1]
            passed = (shares.view(PARTS - 1, -1) > 0.5).int().cumprod(0).sum(0)  # (n,)
            step = (high - low) / PARTS
            low = low + step * passed
            high = low + step
        return low


def coarser(fine: Outline) -> Outline:
    """An outline with fewer points, for uses that need not be exact to the pixel."""
    rows = np.linspace(0, DOWN - 1, COARSE_DOWN).astype(int)
    grid = np.ascontiguousarray(fine.grid[rows, :: AROUND // COARSE_AROUND])
    points = rest_of(grid.reshape(-1, 7))
    return Outline(grid, _hull(points - points.mean(0)), fine.ball)


def carried(colon: Colon, points: Array) -> Array:
    """Convert points (n, 3) at rest to the coordinates (n, 7) of `projection.Outline`."""
    z = torch.from_numpy(points[:, 2])
    x, y = (part.numpy() for part in surface.centre_line(colon, z))
    angle = colon.wave_rate * points[:, 2]
    parts = [x, y, points[:, 0] - x, points[:, 1] - y, points[:, 2], np.sin(angle), np.cos(angle)]
    return np.stack(parts, axis=1)


def _hull(points: Array) -> NDArray[np.int64]:
    """Indices of the points (n, 3) that are extreme in one of `DIRECTIONS` even directions."""
    index = np.arange(DIRECTIONS) + 0.5
    height, turn = 1 - 2 * index / DIRECTIONS, index * (math.pi * (3 - math.sqrt(5)))
    across = np.sqrt(1 - height * height)
    directions = np.stack([across * np.cos(turn), across * np.sin(turn), height], 1).astype(
        np.float32
    )
    columns = points.T.astype(np.float32)
    batches = [directions[k : k + TOGETHER] for k in range(0, DIRECTIONS, TOGETHER)]
    furthest = np.concatenate([(part @ columns).argmax(1) for part in batches])
    return np.unique(furthest).astype(np.int64)


def _finer(grid: Tensor) -> Tensor:
    """Interpolate a grid (c, r, `RAYS`) around the polyp to (c, r', `AROUND`); r' = `DOWN` or 1."""
    rows = DOWN if grid.shape[1] > 1 else 1
    closed = torch.cat([grid, grid[:, :, :1]], dim=2)[None]
    fine = functional.interpolate(
        closed, size=(rows, AROUND + 1), mode="bilinear", align_corners=True
    )
    return fine[0, :, :, :-1]


def _relief(lump: Lump, local: Tensor) -> Tensor:
    """Relative radius (r, n) of the lump in unit directions (3, r, n) of its coordinate frame."""
    place = surface.map_place(local.float().unbind(), torch.ones(local.shape[1:]))
    return surface.read_maps(lump.maps[:1], torch.tensor(0.0), place)[0].double()


def outline(colon: Colon, lump: Lump) -> Outline:
    """The part of a polyp that is visible in a mask: `DOWN` rings of `AROUND` points to the rim."""
    calm_places = tuple(p for p in colon.calm if abs(p[2] - float(lump.centre[2])) < CALM_REACH)
    colon_at_rest = replace(colon, wave=0.0, calm=calm_places)
    turn = torch.arange(RAYS, dtype=torch.float64) * (2 * math.pi / RAYS)
    rays = _Rays(colon_at_rest, lump)
    tilt = torch.linspace(0, 1, RINGS, dtype=torch.float64)[:, None] * rays.rim(turn)
    coarse, _ = rays.meet(tilt.reshape(-1), turn.repeat(RINGS))
    # A finer mesh: the distance of the surface from the relief is smooth and is interpolated.
    centre, radii = (part.double()[:, None, None] for part in (lump.centre, lump.radii))
    axes = lump.axes.double()
    local = torch.einsum("ij,irn->jrn", axes, coarse.view(3, RINGS, RAYS) - centre) / radii
    length = torch.linalg.vector_norm(local, dim=0)  # (RINGS, RAYS)
    residual, fine = _finer(torch.stack([length - _relief(lump, local / length), tilt]))
    turns = torch.arange(AROUND, dtype=torch.float64) * (2 * math.pi / AROUND)
    across = fine.sin()  # (DOWN, AROUND)
    directions = torch.stack([across * turns.cos(), across * turns.sin(), fine.cos()])
    local = (residual + _relief(lump, directions)) * directions * radii
    points = centre + torch.einsum("ij,jrn->irn", axes, local)  # (3, DOWN, AROUND)
    if lump.stalk[1]:
        rays = _Rays(colon_at_rest, lump, from_foot=True)
        ring = rays.meet(rays.rim(turn), turn)[0]
        points[:, -1] = _finer(ring[:, None])[:, 0]
    at_rest = np.ascontiguousarray(points.reshape(3, -1).T.numpy())
    middle = 0.5 * (at_rest.min(0) + at_rest.max(0))
    # The wave widens the tube by a few percent, so the ball is enlarged by as much.
    radius = (1 + 2 * abs(colon.wave)) * float(np.linalg.norm(at_rest - middle, axis=1).max())
    return Outline(
        grid=carried(colon, at_rest).reshape(DOWN, AROUND, 7),
        hull=_hull(at_rest - middle),
        ball=np.append(carried(colon, middle[None])[0], radius),
    )
