"""Cone marching: where every pixel's ray meets the scene, from coarse cells to single pixels.

A cell of 8 x 8 pixels is marched as one cone, which stops as soon as the scene comes nearer to its
axis than the cone is wide: up to there every ray inside is free. Its four quarters go on from
there, and so on down to the pixel, so that nothing that is smaller than a cell is missed.

Source: Hart, Sphere tracing, The Visual Computer 12 (1996), for the steps; Seven and Fossum, Cone
marching (2012), for the cells.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyplink.simulate.colon.projection import FOCAL
from polyplink.simulate.picture.field import Scene
from polyplink.simulate.picture.window import Windows

FAR = 9.0  # units; further away nothing is lit
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
        phases: (s,) of the peristaltic wave; or (q, s), what else the scene wants of a frame.
    """

    origins: Tensor
    rotations: Tensor
    phases: Tensor

    def some(self, which: slice) -> "Eyes":
        """Cameras of some of the frames."""
        return Eyes(self.origins[which], self.rotations[which], self.phases[..., which])


@dataclass(frozen=True)
class Beams:
    """Rays of s windows of n cells each.

    Attributes:
        origins: (3, s, 1).
        directions: (3, s, n) unit vectors.
        phases: (s, 1) of the wave; or (q, s, 1), as in `Eyes`.
        width: (s, 1) of a pixel, units a unit of depth.
        shape: Rows and columns, n in all.
    """

    origins: Tensor
    directions: Tensor
    phases: Tensor
    width: Tensor
    shape: tuple[int, int]

    def at(self, depth: Tensor) -> Tensor:
        """Points (3, s, n) at depths (s, n)."""
        return torch.addcmul(self.origins, self.directions, depth)

    def some(self, which: Tensor) -> "Beams":
        """The m rays at indices (m,) into s * n, each with its own origin: directions (3, m)."""
        frame = which // self.directions.shape[2]
        return Beams(
            self.origins[:, frame, 0],
            self.directions.flatten(1)[:, which],
            self.phases[..., frame, 0],
            self.width[frame, 0],
            (1, len(which)),
        )

    def tile(self, frames: slice, pixels: slice) -> "Beams":
        """Some frames' pixels."""
        return Beams(
            self.origins[:, frames],
            self.directions[:, frames, pixels].contiguous(),
            self.phases[..., frames, :],
            self.width[frames],
            self.shape,
        )

    def part(self, which: Tensor) -> "Beams":
        """Some of m rays that `some` gave."""
        return Beams(
            self.origins[:, which],
            self.directions[:, which],
            self.phases[..., which],
            self.width[which],
            (1, len(which)),
        )


def join_beams(parts: Sequence[Beams]) -> Beams:
    """Rays that `Beams.some` gave, one after the other."""
    return Beams(
        torch.cat([part.origins for part in parts], 1),
        torch.cat([part.directions for part in parts], 1),
        torch.cat([part.phases for part in parts], -1),
        torch.cat([part.width for part in parts]),
        (1, sum(part.shape[1] for part in parts)),
    )


def beams_of(eyes: Eyes, windows: Windows, cell: int = 1) -> Beams:
    """Rays through the middles of cells of `cell` x `cell` pixels.

    Cells begin at the window's left upper corner; the last ones may go beyond its edge.
    """
    columns, rows = (math.ceil(pixels / cell) for pixels in windows.size)
    edges = windows.edges[:, :2].to(windows.device, non_blocking=True) / windows.frame[0]  # (s, 2)
    pixel = 1 / windows.scale[:, None]  # (s, 1) shares of the frame's width
    device = windows.device
    x = edges[:, :1] + pixel * cell * (torch.arange(columns, device=device) + 0.5)  # (s, columns)
    y = edges[:, 1:] + pixel * cell * (torch.arange(rows, device=device) + 0.5)
    x, y = (x - 0.5) / FOCAL, (y - 0.5 * windows.frame[1] / windows.frame[0]) / FOCAL
    turn = eyes.rotations.permute(1, 2, 0)[..., None]  # (3, 3, s, 1)
    across = turn[:, 0] * x + turn[:, 2]  # (3, s, columns)
    down = turn[:, 1] * y  # (3, s, rows)
    scale = torch.rsqrt((1 + x * x)[:, None, :] + (y * y)[:, :, None])  # (s, rows, columns)
    directions = (across[:, :, None, :] + down[:, :, :, None]) * scale
    return Beams(
        eyes.origins.T[:, :, None].contiguous(),
        directions.flatten(2),
        eyes.phases[..., None],
        pixel / FOCAL,
        (rows, columns),
    )


def march_cones(field: Scene, beams: Beams, depth: Tensor, cell: int, steps: int) -> Tensor:
    """Go on along the axes of cones from depths (s, n): new depths (s, n), at most `FAR`."""
    widths = WIDEN * cell * beams.width
    for _ in range(steps):
        free = field.distance(beams.at(depth), beams.phases)
        free.addcmul_(depth, widths, value=-1).clamp_min_(0)
        depth = free.add_(depth).clamp_max_(FAR)
    return depth


def refine(depth: Tensor, coarse: tuple[int, int], fine: tuple[int, int]) -> Tensor:
    """Depths of cells (s, n) given to their quarters (s, m); the last row may be cut."""
    grid = depth.view(len(depth), coarse[0], 1, coarse[1], 1)
    grid = grid.expand(-1, -1, 2, -1, 2).reshape(len(depth), 2 * coarse[0], 2 * coarse[1])
    # A view of fewer rows would not hold its frames one after the other.
    return grid[:, : fine[0], : fine[1]].flatten(1).contiguous()


@dataclass(frozen=True)
class Pace:
    """Where rays are and were a step ago; all of one shape.

    Attributes:
        depth: Now.
        left: Distance to the surface there.
        before: Depth a step ago.
        behind: Distance to the surface there.
    """

    depth: Tensor
    left: Tensor
    before: Tensor
    behind: Tensor

    def some(self, which: Tensor) -> "Pace":
        """Those of some rays, by index into the flattened shape: (m,)."""
        parts = (self.depth, self.left, self.before, self.behind)
        return Pace(*(part.flatten()[which] for part in parts))

    def where(self, these: Tensor, other: "Pace") -> "Pace":
        """Rays where a mask of their shape is set, another's elsewhere."""
        return Pace(
            torch.where(these, self.depth, other.depth),
            torch.where(these, self.left, other.left),
            torch.where(these, self.before, other.before),
            torch.where(these, self.behind, other.behind),
        )


def join_paces(parts: Sequence[Pace]) -> Pace:
    """Rays (m,) of several, one after the other."""
    return Pace(
        torch.cat([part.depth for part in parts]),
        torch.cat([part.left for part in parts]),
        torch.cat([part.before for part in parts]),
        torch.cat([part.behind for part in parts]),
    )


def march_pixels(field: Scene, beams: Beams, depth: Tensor) -> Pace:
    """Go on from depths (s, n) a few pixels before the surface, by one step and a secant."""
    first = field.distance(beams.at(depth), beams.phases)
    before = (depth + first).clamp_max_(FAR)
    second = field.distance(beams.at(before), beams.phases)
    return _stride(field, beams, Pace(before, second, depth, first))


def _away(depth: Tensor, left: Tensor, beams: Beams) -> Tensor:
    return (left.abs() > SETTLED * depth * beams.width) & (depth < FAR)


def unsettled(depth: Tensor, left: Tensor, beams: Beams) -> Tensor:
    """Indices into the flattened rays of those that are not on the surface.

    Args:
        depth: (s, n) depths.
        left: (s, n) distances to the surface there.
        beams: The rays.
    """
    return torch.nonzero(_away(depth, left, beams).flatten())[:, 0]


def settle(field: Scene, beams: Beams, pace: Pace, rounds: Sequence[int] | None = None) -> Tensor:
    """Go on with m rays, each by its own secant, until all are there: depths (m,).

    Args:
        field: The scene.
        beams: Rays as `Beams.some` gives.
        pace: (m,) where they are.
        rounds: How many before those that are there are left out, each time; None for what suits
            the device. Depths do not depend on it, only on their sum.
    """
    depth = pace.depth.clone()
    if not len(depth):
        return depth
    moving = torch.arange(len(depth), device=depth.device)
    for count in SETTLE_ROUNDS[depth.device.type] if rounds is None else rounds:
        for once in range(count):
            after = pace
            for _ in range(SETTLE_STEPS):
                after = _stride(field, beams, after)
            # All that are left at the beginning are on their way; later those that are there stay.
            pace = after if not once else after.where(_away(pace.depth, pace.left, beams), pace)
        depth[moving] = pace.depth
        on = unsettled(pace.depth, pace.left, beams)
        if not len(on):
            break
        moving, beams, pace = moving[on], beams.part(on), pace.some(on)
    return depth


def _stride(field: Scene, beams: Beams, pace: Pace) -> Pace:
    way = pace.depth - pace.before
    way = torch.where(way.abs() < 1e-7, 1e-7, way)
    # Far from everything a secant means nothing: there the step is hardly more than the distance.
    least = (pace.left * (0.2 * OPEN) / (pace.depth * beams.width)).clamp_(SLANT, OPEN)
    steep = torch.maximum(((pace.behind - pace.left) / way).clamp_max_(STEEPEST), least)
    depth = (pace.depth + pace.left / steep).clamp_(0, FAR)
    left = field.distance(beams.at(depth), beams.phases)
    return Pace(depth, left, pace.depth, pace.left)


def tiles(frames: int, pixels: int, most: int) -> list[tuple[slice, slice]]:
    """Cut s x n pixels into parts of at most `most`: whole frames where they fit, else rows."""
    if pixels > most:
        cuts = [slice(start, start + most) for start in range(0, pixels, most)]
        return [(slice(k, k + 1), cut) for k in range(frames) for cut in cuts]
    step = most // pixels
    return [(slice(k, k + step), slice(0, pixels)) for k in range(0, frames, step)]


def march_windows(field: Scene, eyes: Eyes, windows: Windows, most: int = 1 << 16) -> Tensor:
    """Depths (s, n) at which the rays of all pixels meet the scene, at most `FAR`.

    Args:
        field: The scene.
        eyes: Cameras of s frames.
        windows: A window of each, n pixels.
        most: Pixels whose temporaries are held at a time.
    """
    coarse, shape = None, (0, 0)
    for cell, steps in LEVELS:
        beams = beams_of(eyes, windows, cell)
        if coarse is None:
            coarse = torch.zeros_like(beams.directions[0])
        else:
            coarse = refine(coarse, shape, beams.shape)
        coarse, shape = march_cones(field, beams, coarse, cell, steps), beams.shape
    assert coarse is not None
    beams = beams_of(eyes, windows)
    depth = refine(coarse, shape, beams.shape)
    some, paces, places = [], [], []
    for frames, pixels in tiles(len(depth), depth.shape[1], most):
        tile = beams.tile(frames, pixels)
        pace = march_pixels(field, tile, depth[frames, pixels])
        depth[frames, pixels] = pace.depth
        which = unsettled(pace.depth, pace.left, tile)
        some.append(tile.some(which))
        paces.append(pace.some(which))
        row, column = which // pace.depth.shape[1], which % pace.depth.shape[1]
        places.append((row + frames.start) * depth.shape[1] + column + pixels.start)
    found = settle(field, join_beams(some), join_paces(paces))
    depth.view(-1)[torch.cat(places)] = found
    return depth
