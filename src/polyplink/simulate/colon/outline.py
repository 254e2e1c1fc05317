"""The part of a polyp's surface that its mask shows, as a mesh.

The mask of a polyp holds the pixels that show a surface more than half of which is polyp, see
`surface.surface`. A polyp is star-shaped about its centre, so that this part of the surface
is found by rays from there: along each the joined surface by marching outwards, and around the
polyp the rim where wall and polyp have equal shares.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyplink.simulate.colon.projection import Outline
from polyplink.simulate.colon.still_surface import StillSurface
from polyplink.simulate.colon.surface import (
    WALL_BOUND,
    Colon,
    Lump,
    centre_line,
    read_maps,
    wall_distance,
)

Array = NDArray[np.float64]
RAYS, RINGS = 72, 30  # marched: around the polyp, from its top to its rim
AROUND, DOWN = 144, 60  # points of the mesh; between the rays the relief alone is read anew
HIGHEST = math.radians(40)  # from the top that a rim begins
SCAN = 16  # angles among which the rim is looked for
LOWEST = math.radians(177)  # from the top
INSIDE = 0.4  # radii from the centre where the march begins
STEPS = 60
FEW = 18  # steps after which a ray that has not arrived goes into the wall
FOOT = 1.5  # widths of the joint with the wall that the rays to a stalk's foot start above it
PARTS, ROUNDS = 14, 2  # a bracket of the rim is cut into, so often: few passes of many rays
CLOSE = 2e-3  # of the smallest radius: a distance from which the next step arrives
STRIDE = 1.12  # of a distance: they are bounds, and a little short
COARSE_DOWN, COARSE_AROUND = 10, 24
BLOCK = 6  # cells along a block of the mesh: a patch of `project`
DIRECTIONS = 1000  # in which points of the hull are looked for: 7 degrees apart
TOGETHER = 50  # directions, so that what they give stays in the cache
CALM_REACH = 3.0  # units along the tube beyond which a calm place does not count
REACH = 3.0  # the surface is looked for up to so many radii from the centre


@dataclass(frozen=True)
class _Star:
    """Where rays start (3, 1), and what their directions are multiplied by (3,), at rest."""

    origin: Tensor
    scale: Tensor

    def rays(self, lump: Lump, tilt: Tensor, turn: Tensor) -> Tensor:
        """Ways (3, n) at angles from the top and around."""
        local = torch.stack([tilt.sin() * turn.cos(), tilt.sin() * turn.sin(), tilt.cos()])
        return lump.axes.double() @ (self.scale[:, None] * local)


def _head(lump: Lump) -> _Star:
    """Rays from the centre, in radii of the lump."""
    return _Star(lump.centre.double()[:, None], lump.radii.double())


def _foot(colon: Colon, lump: Lump) -> _Star:
    """Rays from within the foot of a stalk: its fillet cannot be seen from the head."""
    lift = wall_distance(colon, lump.centre[:, None]).double() / WALL_BOUND
    down = lift - FOOT * lump.blend
    origin = lump.centre.double()[:, None] - lump.axes.double()[:, 2:] * down
    return _Star(origin, torch.full((3,), lump.stalk[0], dtype=torch.float64))


def _surface_along(
    colon: Colon, lump: Lump, star: _Star, tilt: Tensor, turn: Tensor, *, steps: int = STEPS
) -> tuple[Tensor, Tensor]:
    """Where rays first leave the joined surface: points (3, n) and the polyp's share (n,).

    Steps about as long as the distance lead outwards to the surface; beyond the rim, where there
    is only wall to go into, they end at `REACH` with no share.
    """
    ways = star.rays(lump, tilt, turn)
    per_unit = STRIDE / torch.linalg.vector_norm(ways, dim=0)
    s = torch.full_like(per_unit, INSIDE)
    close = CLOSE * float(star.scale.min())
    joined = StillSurface.of(colon, lump)
    some = torch.arange(len(s))  # of the rays, those that are not there yet
    for _ in range(steps):
        points = star.origin + s[some] * ways[:, some]
        distance = joined.at(points.float())[0].double()
        s[some] = (s[some] - distance * per_unit[some]).clamp(max=REACH)
        some = some[(distance.abs() > close) & (s[some] < REACH)]
        if not len(some):
            break
    points = star.origin + s * ways
    distance, share = joined.at(points.float())
    arrived = distance.abs() < 2 * close  # the others stay inside, down a stalk into the wall
    return points, torch.where(arrived, share, 0.0).double()


def _rim(colon: Colon, lump: Lump, star: _Star, turn: Tensor) -> Tensor:
    """The largest angle from the top at which half of the surface is polyp, around at (n,)."""
    scan = torch.linspace(HIGHEST, LOWEST, SCAN, dtype=turn.dtype)
    steps = STEPS if lump.stalk[1] else FEW
    grid = scan[:, None].expand(SCAN, len(turn)).reshape(-1)
    shares = _surface_along(colon, lump, star, grid, turn.repeat(SCAN), steps=steps)[1]
    inside = shares.view(SCAN, -1) > 0.5
    last = SCAN - 1 - inside.flip(0).int().argmax(0)  # (n,)
    low, high = scan[last], scan[(last + 1).clamp(max=SCAN - 1)]
    part = torch.arange(1, PARTS, dtype=turn.dtype)[:, None] / PARTS
    for _ in range(ROUNDS):
        middle = low + (high - low) * part  # (PARTS - 1, n)
        shares = _surface_along(
            colon, lump, star, middle.reshape(-1), turn.repeat(PARTS - 1), steps=steps
        )[1]
        passed = (shares.view(PARTS - 1, -1) > 0.5).int().cumprod(0).sum(0)  # (n,)
        step = (high - low) / PARTS
        low = low + step * passed
        high = low + step
    return low


def _grid_triangles(rows: int, columns: int) -> NDArray[np.int64]:
    """Triangles (m, 3) of a grid that closes around, block by block; the first row is one point."""
    row, column = (part.ravel() for part in np.mgrid[: rows - 1, :columns])
    order = np.lexsort((column, row, column // BLOCK, row // BLOCK))
    row, column = row[order], column[order]
    right = (column + 1) % columns
    a, b = row * columns + column, row * columns + right
    c, d = a + columns, b + columns
    return np.stack([a, c, b, b, c, d], axis=1).reshape(-1, 3)


def coarser(body: Outline) -> Outline:
    """An outline with few of its points, for what need not be exact to the pixel."""
    grid = body.points.reshape(DOWN, AROUND, -1)
    some = grid[np.linspace(0, DOWN - 1, COARSE_DOWN).astype(int), :: AROUND // COARSE_AROUND]
    points = np.ascontiguousarray(some.reshape(-1, 7))
    rest = np.stack(
        [points[:, 0] + points[:, 2], points[:, 1] + points[:, 3], points[:, 4]], axis=1
    )
    hull = _hull(rest - rest.mean(0))
    return Outline(points, _grid_triangles(COARSE_DOWN, COARSE_AROUND), hull, body.ball)


def carried(colon: Colon, points: Array) -> Array:
    """Points (n, 3) at rest as `project.Outline` keeps them, (n, 7)."""
    z = torch.from_numpy(points[:, 2])
    x, y = (part.numpy() for part in centre_line(colon, z))
    angle = colon.wave_rate * points[:, 2]
    parts = [x, y, points[:, 0] - x, points[:, 1] - y, points[:, 2], np.sin(angle), np.cos(angle)]
    return np.stack(parts, axis=1)


def _directions(count: int) -> Array:
    """Unit vectors (count, 3) spread evenly by the golden angle."""
    index = np.arange(count) + 0.5
    height, turn = 1 - 2 * index / count, index * (math.pi * (3 - math.sqrt(5)))
    across = np.sqrt(1 - height * height)
    return np.stack([across * np.cos(turn), across * np.sin(turn), height], axis=1)


def _hull(points: Array) -> NDArray[np.int64]:
    """The points (n, 3) that lie furthest out in some of many directions."""
    ways, across = _directions(DIRECTIONS).astype(np.float32), points.T.astype(np.float32)
    few = [ways[k : k + TOGETHER] for k in range(0, DIRECTIONS, TOGETHER)]
    furthest = np.concatenate([(part @ across).argmax(1) for part in few])
    return np.unique(furthest).astype(np.int64)


def _finer(grid: Tensor) -> Tensor:
    """A grid (c, r, `RAYS`) around the polyp read at r' x `AROUND` places, r' = `DOWN` or 1."""
    rows = DOWN if grid.shape[1] > 1 else 1
    closed = torch.cat([grid, grid[:, :, :1]], dim=2)[None]
    fine = functional.interpolate(
        closed, size=(rows, AROUND + 1), mode="bilinear", align_corners=True
    )
    return fine[0, :, :, :-1]


def _relief(lump: Lump, local: Tensor) -> Tensor:
    """Relative radius (r, n) of the lump in unit directions (3, r, n) of its own frame."""
    flat = local.reshape(3, -1).float()
    rho = read_maps(lump.maps[:1], flat, torch.ones_like(flat[0]))[0]
    return rho.double().view(local.shape[1:])


def _refined(lump: Lump, points: Tensor, tilt: Tensor) -> Tensor:
    """A finer mesh: how far the surface is from the relief is smooth, the relief is not.

    Args:
        lump: The polyp.
        points: (3, `RINGS`, `RAYS`) of its surface.
        tilt: (`RINGS`, `RAYS`) angles from the top.

    Returns:
        (3, `DOWN`, `AROUND`) points of its surface.
    """
    centre, axes, radii = lump.centre.double(), lump.axes.double(), lump.radii.double()
    local = torch.einsum("ij,irn->jrn", axes, points - centre[:, None, None]) / radii[:, None, None]
    length = torch.linalg.vector_norm(local, dim=0)
    rest = length - _relief(lump, local / length)  # (RINGS, RAYS)
    rest, fine = _finer(torch.stack([rest, tilt]))
    turn = torch.arange(AROUND, dtype=torch.float64) * (2 * math.pi / AROUND)
    across = fine.sin()
    ways = torch.stack([across * turn.cos(), across * turn.sin(), fine.cos()])  # (3, r, n)
    local = (rest + _relief(lump, ways)) * ways * radii[:, None, None]
    return centre[:, None, None] + torch.einsum("ij,jrn->irn", axes, local)


def outline(colon: Colon, lump: Lump) -> Outline:
    """What of a polyp a mask shows.

    Args:
        colon: The tube that the polyp stands in.
        lump: The polyp.

    Returns:
        The mesh: `AROUND` points on each of `DOWN` rings from the top to the rim.
    """
    near = tuple(p for p in colon.calm if abs(p[2] - float(lump.centre[2])) < CALM_REACH)
    still = replace(colon, wave=0.0, calm=near)
    turn = torch.arange(RAYS, dtype=torch.float64) * (2 * math.pi / RAYS)
    star = _head(lump)
    rim = _rim(still, lump, star, turn)
    tilt = torch.linspace(0, 1, RINGS, dtype=torch.float64)[:, None] * rim
    coarse, _ = _surface_along(still, lump, star, tilt.reshape(-1), turn.repeat(RINGS))
    points = _refined(lump, coarse.view(3, RINGS, RAYS), tilt)
    if lump.stalk[1]:
        foot = _foot(still, lump)
        low = _rim(still, lump, foot, turn)
        ring = _surface_along(still, lump, foot, low, turn)[0]
        points[:, -1] = _finer(ring[:, None])[:, 0]
    rest = np.ascontiguousarray(points.reshape(3, -1).T.numpy())
    middle = 0.5 * (rest.min(0) + rest.max(0))
    # The wave widens by a few percent; a ball this much too large is still a ball around it all.
    radius = (1 + 2 * abs(colon.wave)) * float(np.linalg.norm(rest - middle, axis=1).max())
    return Outline(
        points=carried(colon, rest),
        triangles=_grid_triangles(DOWN, AROUND),
        hull=_hull(rest - middle),
        ball=np.append(carried(colon, middle[None])[0], radius),
    )
