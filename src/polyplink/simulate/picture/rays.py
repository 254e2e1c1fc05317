"""Windows of frames, the rays through their pixels, and where these meet the surface.

A window is a rectangle of a frame that is drawn at a size of its own. Whatever lies on the lens or
before it (mask, text, blur, water, instruments) is placed in shares of the frame's width, so that
a window shows the same as the frame it was cut from.

Rays meet the surface by cone marching. A cell of 8 x 8 pixels is marched as one cone, which stops
as soon as the surface comes nearer to its axis than the cone is wide: up to there every ray inside
is free. Its four quarters go on from there, and so on down to the pixel, so that nothing that is
smaller than a cell is missed. From a few pixels before the surface every ray goes on by itself,
with secant steps.

Source: Hart, Sphere tracing, The Visual Computer 12 (1996), for the steps; Seven and Fossum, Cone
marching (2012), for the cells.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.colon.batch_surface import BatchSurface
from polyplink.simulate.colon.projection import FOCAL, RIGHT_LOWER

FAR = 9.0  # units; further away nothing is lit
VIGNETTE = 0.24  # of the light is missing in the middle of each edge, twice that in the corners
HOST = torch.device("cpu")


def onto(values: NDArray[Any], device: torch.device) -> Tensor:
    """Host values on a device, without waiting for it: a plain copy waits for a GPU."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device, non_blocking=True)


def colour_like(images: Tensor, colour: Sequence[float]) -> Tensor:
    """A colour (3, 1, ...) with the type, device and number of dimensions of images (3, ...)."""
    shape = (-1, *(1 for _ in images.shape[1:]))
    return torch.tensor(colour, dtype=images.dtype).view(shape).to(images.device, non_blocking=True)


@dataclass(frozen=True)
class Windows:
    """One window in each of s frames.

    Attributes:
        edges: (s, 4) left, top, right, bottom in pixels of the frame; a whole frame is 0, 0,
            width, height. Always in the host's memory, so that what is to be done can be decided
            without waiting for a device.
        frame: Width and height of the frame, pixels.
        size: Width and height that every window is drawn at, pixels.
        device: Where coordinates are wanted.
    """

    edges: Tensor
    frame: tuple[int, int]
    size: tuple[int, int]
    device: torch.device = HOST

    @property
    def x(self) -> Tensor:
        """Middles of columns (s, w), shares of the frame's width: 0 left to 1 right."""
        return self._middles(0, self.size[0])

    @property
    def y(self) -> Tensor:
        """Middles of rows (s, h), shares of the frame's width: 0 top to height / width below."""
        return self._middles(1, self.size[1])

    @property
    def tall(self) -> float:
        """The frame's height over its width."""
        return self.frame[1] / self.frame[0]

    @property
    def host_scale(self) -> NDArray[np.float32]:
        """Pixels drawn per width of the frame: (s,)."""
        scale = self.size[0] * self.frame[0] / (self.edges[:, 2] - self.edges[:, 0])
        return np.asarray(scale.numpy(), np.float32)

    @property
    def scale(self) -> Tensor:
        """The same on the device: (s,)."""
        return onto(self.host_scale, self.device)

    def _middles(self, first: int, count: int) -> Tensor:
        start, stop = (self.edges[:, side, None] for side in (first, first + 2))
        part = (torch.arange(count) + 0.5) / count  # (count,)
        middles = (start + part * (stop - start)) / self.frame[0]
        return middles.to(self.device, non_blocking=True)

    def some(self, which: NDArray[np.int64]) -> "Windows":
        """The windows of some frames, by index."""
        return replace(self, edges=self.edges[torch.from_numpy(which)])


def in_windows(
    windows: Windows,
    positions: NDArray[np.float64],
    rotations: NDArray[np.float64],
    centres: NDArray[np.float64],
    radii: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Whether spheres may show: (s, k), False only where no ray can meet them.

    Args:
        windows: s windows.
        positions: (s, 3) of the cameras.
        rotations: (s, 3, 3) columns: right, down, forward.
        centres: (k, 3).
        radii: (k,).
    """
    away = np.einsum("sji,skj->ski", rotations, centres[None] - positions[:, None])  # (s, k, 3)
    width, height = windows.frame
    middle = np.array([width, height, width, height]) / 2
    # Tangents (s, 4) of left, top, right, bottom.
    sides = (windows.edges.double().numpy() - middle) / (width * FOCAL)
    shown = (np.linalg.norm(away, axis=2) < FAR + radii) & (away[:, :, 2] > -radii)
    for side, (axis, sign) in enumerate(((0, 1), (1, 1), (0, -1), (1, -1))):
        tangent = sides[:, side, None]  # (s, 1)
        inward = sign * (away[:, :, axis] - tangent * away[:, :, 2])
        shown &= inward / np.sqrt(1 + tangent**2) > -radii
    return np.asarray(shown)


def lens_mask(brand: str, windows: Windows) -> tuple[Tensor, Tensor]:
    """What the lens of a brand's endoscope lets through.

    Args:
        brand: A key of `projection.LENS_CORNERS`.
        windows: s windows.

    Returns:
        Light (s, h, w) from 1 in the middle, with its vignette, to 0 outside the view; and
        whether a pixel's middle is inside the view (s, h, w), which is what polyps are masked by.
    """
    tall, scale = windows.tall, windows.scale[:, None]
    # The view is the same left and right, above and below, so that one corner is enough.
    x = 0.5 + (windows.x - 0.5).abs()  # (s, w) folded to the right
    y = 0.5 * tall + (windows.y - 0.5 * tall).abs()  # (s, h) folded down
    # How far pixels lie inside the view, in drawn pixels: first of its right and lower border.
    inside = torch.minimum((scale * (1 - x))[:, None, :], (scale * (tall - y))[:, :, None])
    for (x0, y0), (x1, y1) in pairwise(RIGHT_LOWER[brand]):
        across, down = (y1 - y0) * tall, x0 - x1  # the outward normal
        norm = math.hypot(across, down)
        part_x = scale * (across / norm) * (x0 - x)  # (s, w)
        part_y = scale * (down / norm) * (y0 * tall - y)  # (s, h)
        inside = torch.minimum(inside, part_y[:, :, None] + part_x[:, None, :])
    x, y = 2 * windows.x - 1, 2 * windows.y / tall - 1
    fall = (1 - VIGNETTE * y * y)[:, :, None] - (VIGNETTE * x * x)[:, None, :]
    return fall * (inside + 0.5).clamp(0, 1), inside >= 0


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
