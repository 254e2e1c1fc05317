"""Cone marching: where every pixel's ray meets the surface, from coarse cells to single pixels.

A cell of 8 x 8 pixels is marched as one cone, which stops as soon as the surface comes nearer to
its axis than the cone is wide: up to there every ray inside is free. Its four quarters go on from
there, and so on down to the pixel, so that nothing that is smaller than a cell is missed. From a
few pixels before the surface every ray goes on by itself, with secant steps.

Source: Hart, Sphere tracing, The Visual Computer 12 (1996), for the steps; Seven and Fossum, Cone
marching (2012), for the cells.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyplink.simulate.colon.batch_surface import BatchSurface
from polyplink.simulate.colon.projection import FOCAL
from polyplink.simulate.picture.windows import FAR, Windows

LEVELS = ((8, 16), (4, 4), (2, 3))  # pixels along a cell, steps of its cone
WIDEN = 1.0  # half a cell's diagonal is 0.71 of its edge; distances are bounds, but not strictly
SLANT, STEEPEST = 0.35, 2.0  # what a secant's slope is kept between
OPEN = 1.0  # its least far from everything, where steps are plain
SETTLED = 0.2  # pixels: what is left to go when a ray is there
SETTLE_STEPS = 2  # of a ray that is not there, before those that are there are picked out
# Rounds of such steps before those that are there are left out: rays that graze an edge take many,
# and few are left by then. To leave some out a GPU must be waited for, so it is asked seldom.
SETTLE_ROUNDS = {"cpu": (1,) * 60, "cuda": (1, 2, 4, 8, 16, 29)}


@dataclass(frozen=True)
class Eyes:
    """Cameras of s frames.

    Attributes:
        origins: (s, 3) positions.
        rotations: (s, 3, 3) columns: right, down, forward.
        frame: (s,) index of each in the batch, see `BatchSurface`.
    """

    origins: Tensor
    rotations: Tensor
    frame: Tensor

    def some(self, which: slice) -> "Eyes":
        """Cameras of some of the frames."""
        return Eyes(self.origins[which], self.rotations[which], self.frame[which])


@dataclass(frozen=True)
class Beams:
    """Rays of s windows of n cells each; or m single rays, then s and n below are m.

    Attributes:
        origins: (3, s, 1).
        directions: (3, s, n) unit vectors.
        frame: (s, 1) index in the batch.
        width: (s, 1) of a pixel, units a unit of depth.
        shape: Rows and columns, n in all.
    """

    origins: Tensor
    directions: Tensor
    frame: Tensor
    width: Tensor
    shape: tuple[int, int]

    def at(self, depth: Tensor) -> Tensor:
        """Points (3, s, n) at depths (s, n)."""
        return torch.addcmul(self.origins, self.directions, depth)

    def single(self, which: Tensor) -> "Beams":
        """The m rays at indices (m,) into s * n, each with its own origin (3, m)."""
        row = which // self.directions.shape[2]
        ways = self.directions.flatten(1)[:, which]
        own = self.frame[row, 0], self.width[row, 0]
        return Beams(self.origins[:, row, 0], ways, *own, (1, len(which)))

    def part(self, which: Tensor) -> "Beams":
        """Some of m single rays."""
        own = self.frame[which], self.width[which]
        return Beams(self.origins[:, which], self.directions[:, which], *own, (1, len(which)))

    def tile(self, frames: slice, pixels: slice) -> "Beams":
        """Some windows' cells."""
        ways = self.directions[:, frames, pixels].contiguous()
        own = self.frame[frames], self.width[frames]
        return Beams(self.origins[:, frames], ways, *own, self.shape)


def join_beams(parts: Sequence[Beams]) -> Beams:
    """Single rays, one after the other."""
    columns = zip(*((p.origins, p.directions, p.frame, p.width) for p in parts), strict=True)
    origins, directions, frame, width = (torch.cat(column, -1) for column in columns)
    return Beams(origins, directions, frame, width, (1, len(frame)))


def beams_of(eyes: Eyes, windows: Windows, cell: int = 1) -> Beams:
    """Rays through the middles of cells of `cell` x `cell` pixels.

    Cells begin at the window's left upper corner; the last ones may go beyond its edge.
    """
    columns, rows = (math.ceil(pixels / cell) for pixels in windows.size)
    device = windows.device
    edges = windows.edges[:, :2].to(device, non_blocking=True) / windows.frame[0]  # (s, 2)
    pixel = 1 / windows.scale[:, None]  # (s, 1) shares of the frame's width
    x = edges[:, :1] + pixel * cell * (torch.arange(columns, device=device) + 0.5)  # (s, columns)
    y = edges[:, 1:] + pixel * cell * (torch.arange(rows, device=device) + 0.5)  # (s, rows)
    x, y = (x - 0.5) / FOCAL, (y - 0.5 * windows.tall) / FOCAL
    turn = eyes.rotations.permute(1, 2, 0)[..., None]  # (3, 3, s, 1)
    across = turn[:, 0] * x + turn[:, 2]  # (3, s, columns)
    down = turn[:, 1] * y  # (3, s, rows)
    scale = torch.rsqrt((1 + x * x)[:, None, :] + (y * y)[:, :, None])  # (s, rows, columns)
    directions = (across[:, :, None, :] + down[:, :, :, None]) * scale  # (3, s, rows, columns)
    origins = eyes.origins.T[:, :, None].contiguous()  # (3, s, 1)
    shape = rows, columns
    return Beams(origins, directions.flatten(2), eyes.frame[:, None], pixel / FOCAL, shape)


def march_cones(
    surface: BatchSurface, beams: Beams, depth: Tensor, cell: int, steps: int
) -> Tensor:
    """Go on along the axes of cones from depths (s, n): new depths (s, n), at most `FAR`."""
    widths = WIDEN * cell * beams.width
    for _ in range(steps):
        free = surface.distance(beams.at(depth), beams.frame)
        free.addcmul_(depth, widths, value=-1).clamp_min_(0)
        depth = free.add_(depth).clamp_max_(FAR)
    return depth


def refine(depth: Tensor, coarse: tuple[int, int], fine: tuple[int, int]) -> Tensor:
    """Depths of cells (s, n) given to their quarters (s, m); the last row may be cut."""
    grid = depth.view(len(depth), coarse[0], 1, coarse[1], 1)
    grid = grid.expand(-1, -1, 2, -1, 2).reshape(len(depth), 2 * coarse[0], 2 * coarse[1])
    # A view of fewer rows would not hold its frames one after the other.
    return grid[:, : fine[0], : fine[1]].flatten(1).contiguous()


# Where rays are and were a step ago is one tensor (4, ...) from here on: depth now, distance to the
# surface there, depth a step ago, distance there.


def _stride(surface: BatchSurface, beams: Beams, pace: Tensor) -> Tensor:
    """One step by the secant through the last two distances."""
    depth, left, before, behind = pace
    way = depth - before
    way = torch.where(way.abs() < 1e-7, 1e-7, way)
    # Far from everything a secant means nothing: there the step is hardly more than the distance.
    least = (left * (0.2 * OPEN) / (depth * beams.width)).clamp_(SLANT, OPEN)
    steep = torch.maximum(((behind - left) / way).clamp_max_(STEEPEST), least)
    after = (depth + left / steep).clamp_(0, FAR)
    return torch.stack([after, surface.distance(beams.at(after), beams.frame), depth, left])


def march_pixels(surface: BatchSurface, beams: Beams, depth: Tensor) -> Tensor:
    """Go on from depths (s, n) a few pixels before the surface, by one step and a secant."""
    first = surface.distance(beams.at(depth), beams.frame)
    after = (depth + first).clamp_max_(FAR)
    second = surface.distance(beams.at(after), beams.frame)
    return _stride(surface, beams, torch.stack([after, second, depth, first]))


def _away(beams: Beams, pace: Tensor) -> Tensor:
    """Whether rays are not on the surface yet."""
    return (pace[1].abs() > SETTLED * pace[0] * beams.width) & (pace[0] < FAR)


def settle(
    surface: BatchSurface, beams: Beams, pace: Tensor, rounds: Sequence[int] | None = None
) -> Tensor:
    """Go on with m rays, each by its own secant, until all are there: depths (m,).

    Args:
        surface: What is marched to.
        beams: Single rays.
        pace: (4, m) where they are and were.
        rounds: How many before those that are there are left out, each time; None for what suits
            the device. Depths do not depend on it, only on their sum.
    """
    depth = pace[0].clone()
    if not len(depth):
        return depth
    moving = torch.arange(len(depth), device=depth.device)
    for count in SETTLE_ROUNDS[depth.device.type] if rounds is None else rounds:
        for once in range(count):
            after = pace
            for _ in range(SETTLE_STEPS):
                after = _stride(surface, beams, after)
            # All that are left at the beginning are on their way; later those that are there stay.
            pace = after if not once else torch.where(_away(beams, pace), after, pace)
        depth[moving] = pace[0]
        on = torch.nonzero(_away(beams, pace))[:, 0]
        if not len(on):
            break
        moving, beams, pace = moving[on], beams.part(on), pace[:, on]
    return depth


def tiles(frames: int, pixels: int, most: int) -> list[tuple[slice, slice]]:
    """Cut s x n pixels into parts of at most `most`: whole frames where they fit, else rows."""
    if pixels > most:
        cuts = [slice(start, start + most) for start in range(0, pixels, most)]
        return [(slice(k, k + 1), cut) for k in range(frames) for cut in cuts]
    step = most // pixels
    return [(slice(k, k + step), slice(0, pixels)) for k in range(0, frames, step)]


def march_windows(
    surface: BatchSurface, eyes: Eyes, windows: Windows, most: int = 1 << 16
) -> Tensor:
    """Depths (s, n) at which the rays of all pixels meet the surface, at most `FAR`.

    Args:
        surface: Of the s frames.
        eyes: Their cameras.
        windows: A window of each, n pixels.
        most: Pixels whose temporaries are held at a time.
    """
    depth, shape = torch.zeros(0), (0, 0)
    for cell, steps in LEVELS:
        beams = beams_of(eyes, windows, cell)
        start = refine(depth, shape, beams.shape) if shape[0] else beams.directions[0] * 0
        depth, shape = march_cones(surface, beams, start, cell, steps), beams.shape
    beams = beams_of(eyes, windows)
    depth = refine(depth, shape, beams.shape)  # (s, n)
    rays, paces, places = [], [], []
    for frames, pixels in tiles(len(depth), depth.shape[1], most):
        tile = beams.tile(frames, pixels)
        pace = march_pixels(surface, tile, depth[frames, pixels])
        depth[frames, pixels] = pace[0]
        which = torch.nonzero(_away(tile, pace).flatten())[:, 0]  # grazing rays, still on their way
        rays.append(tile.single(which))
        paces.append(pace.flatten(1)[:, which])
        row, column = which // pace.shape[2], which % pace.shape[2]
        places.append((row + frames.start) * depth.shape[1] + column + pixels.start)
    found = settle(surface, join_beams(rays), torch.cat(paces, 1))
    depth.view(-1)[torch.cat(places)] = found
    return depth
