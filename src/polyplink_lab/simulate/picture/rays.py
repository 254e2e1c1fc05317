"""Windows of frames, the rays through their pixels, and where these meet the surface.

A window is a rectangle of a frame, rendered at any size. Positions of everything on or in front of
the lens (mask, text, blur, water, instruments) are in frame widths, so that a window agrees with
its frame.

Rays are intersected with the surface by cone marching. A cell of 8 x 8 pixels is marched as one
cone until the surface is nearer to its axis than the cone's radius: up to this point no ray inside
the cone meets the surface. Its four quarters continue from there, and so on down to single pixels,
so that details smaller than a cell are not missed. Within a few pixels of the surface, each ray
continues on its own with secant steps.

Source: Hart, Sphere tracing, The Visual Computer 12 (1996), for the steps; Seven and Fossum, Cone
marching (2012), for the cells.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink_lab.simulate.colon.projection import FOCAL, Lens
from polyplink_lab.simulate.colon.surface import BatchSurface

FAR = 9.0  # units; surfaces farther away are not lit
VIGNETTE = 0.24  # share of light lost at the middle of each edge; twice as much in the corners
HOST = torch.device("cpu")


def onto(values: NDArray[Any], device: torch.device) -> Tensor:
    """Copy host values to a device asynchronously (a blocking copy would wait for the GPU)."""
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
            width, height. Always in host memory, so that control flow that depends on them does
            not wait for the device.
        frame: Width and height of the frame, pixels.
        size: Width and height of the rendered windows, pixels.
        device: Device of the coordinates.
    """

    edges: Tensor
    frame: tuple[int, int]
    size: tuple[int, int]
    device: torch.device = HOST

    @property
    def x(self) -> Tensor:
        """Centres of pixel columns (s, w), in frame widths: 0 (left) to 1 (right)."""
        return self._middles(0, self.size[0])

    @property
    def y(self) -> Tensor:
        """Centres of pixel rows (s, h), in frame widths: 0 (top) to height / width (bottom)."""
        return self._middles(1, self.size[1])

    @property
    def tall(self) -> float:
        """The frame's height divided by its width."""
        return self.frame[1] / self.frame[0]

    @property
    def host_scale(self) -> NDArray[np.float32]:
        """Rendered pixels per frame width (s,), in host memory."""
        scale = self.size[0] * self.frame[0] / (self.edges[:, 2] - self.edges[:, 0])
        return np.asarray(scale.numpy(), np.float32)

    @property
    def scale(self) -> Tensor:
        """Rendered pixels per frame width (s,), on the device."""
        return onto(self.host_scale, self.device)

    def cells(self, edge: int) -> tuple[int, int]:
        """Columns and rows of cells of `edge` x `edge` pixels."""
        return math.ceil(self.size[0] / edge), math.ceil(self.size[1] / edge)

    def _middles(self, first: int, count: int) -> Tensor:
        start, stop = (self.edges[:, side, None] for side in (first, first + 2))
        part = (torch.arange(count) + 0.5) / count  # (count,)
        middles = (start + part * (stop - start)) / self.frame[0]
        return middles.to(self.device, non_blocking=True)

    def some(self, rows: NDArray[np.int64]) -> "Windows":
        """The windows of some frames, by index."""
        return replace(self, edges=self.edges[torch.from_numpy(rows)])


def in_windows(
    windows: Windows,
    positions: NDArray[np.float64],
    rotations: NDArray[np.float64],
    centres: NDArray[np.float64],
    radii: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Whether spheres may be visible (s, k): False only where no ray of a window can meet one.

    Cameras have positions (s, 3) and rotations (s, 3, 3), columns right, down and forward; spheres
    have centres (k, 3) and radii (k,).
    """
    offsets = np.einsum("sji,skj->ski", rotations, centres[None] - positions[:, None])  # (s, k, 3)
    width, height = windows.frame
    middle = np.array([width, height, width, height]) / 2
    # Tangents (s, 4) of left, top, right, bottom.
    sides = (windows.edges.double().numpy() - middle) / (width * FOCAL)
    visible = (np.linalg.norm(offsets, axis=2) < FAR + radii) & (offsets[:, :, 2] > -radii)
    for side, (axis, sign) in enumerate(((0, 1), (1, 1), (0, -1), (1, -1))):
        tangent = sides[:, side, None]  # (s, 1)
        inward = sign * (offsets[:, :, axis] - tangent * offsets[:, :, 2])
        visible &= inward / np.sqrt(1 + tangent**2) > -radii
    return np.asarray(visible)


def lens_mask(lens: Lens, windows: Windows) -> tuple[Tensor, Tensor]:
    """Vignette and visibility mask of a lens, for s windows.

    Returns:
        Light (s, h, w), from 1 in the middle to 0 outside the view; and whether a pixel's centre is
        inside the view (s, h, w), by which polyp masks are clipped.
    """
    x, y = 2 * windows.x - 1, 2 * windows.y / windows.tall - 1
    fall = (1 - VIGNETTE * y * y)[:, :, None] - (VIGNETTE * x * x)[:, None, :]
    # The view is symmetric in both axes, so that tangents are mirrored into its lower right
    # quarter and only the sides of this quarter are needed.
    u = (windows.x - 0.5).abs() / FOCAL  # (s, w)
    v = (windows.y - 0.5 * windows.tall).abs() / FOCAL  # (s, h)
    inside = torch.full_like(fall, math.inf)  # distance to the view's edge, rendered pixels
    for a, b, c in lens.planes[(lens.planes[:, :2] < 1e-9).all(1)].tolist():
        per = windows.scale[:, None] * (FOCAL / math.hypot(a, b))
        edge = (per * (a * u + c))[:, None, :] + (per * (b * v))[:, :, None]
        inside = torch.minimum(inside, edge)
    return fall * (inside + 0.5).clamp(0, 1), inside >= 0


LEVELS = ((8, 16), (4, 4), (2, 3), (1, 0))  # edge of a cell in pixels, marching steps per cone
WIDEN = 1.0  # half a cell's diagonal is 0.71 of its edge; distances are bounds, but not strictly
SLANT, STEEPEST = 0.35, 2.0  # limits of a secant's slope
OPEN = 1.0  # minimum slope far from the surface: the step is at most the distance
SETTLED = 0.2  # pixels; a ray has converged if it is nearer to the surface than this
SETTLE_STEPS = 2  # secant steps between two tests for convergence
# Rounds of these steps before converged rays are removed. Rays that graze an edge take many steps,
# but there are few of them. On a GPU, removing rays requires synchronisation, so it is done rarely.
SETTLE_ROUNDS = {"cpu": (1,) * 60, "cuda": (1, 2, 4, 8, 16, 29)}


@dataclass(frozen=True)
class Cameras:
    """Cameras of s frames.

    Attributes:
        origins: (s, 3) positions.
        rotations: (s, 3, 3) columns: right, down, forward.
        frame: (s,) index of each in the batch, see `BatchSurface`.
    """

    origins: Tensor
    rotations: Tensor
    frame: Tensor


@dataclass(frozen=True)
class Beams:
    """Rays of s windows of n cells each; m single rays are stored as m windows of one cell.

    Attributes:
        origins: (3, s, 1) positions of the cameras.
        directions: (3, s, n) unit vectors.
        frame: (s, 1) index of the frame in the batch.
        width: (s, 1) width of a pixel per unit of depth.
    """

    origins: Tensor
    directions: Tensor
    frame: Tensor
    width: Tensor

    def at(self, depth: Tensor) -> Tensor:
        """Points (3, s, n) at depths (s, n)."""
        return torch.addcmul(self.origins, self.directions, depth)

    def part(self, rows: slice | Tensor, cells: slice = slice(None)) -> "Beams":
        """Select windows, and cells of them."""
        directions = self.directions[:, rows, cells].contiguous()
        return Beams(self.origins[:, rows], directions, self.frame[rows], self.width[rows])

    def single(self, rays: Tensor) -> "Beams":
        """Select m single rays by indices (m,) into s * n."""
        row = rays // self.directions.shape[2]
        directions = self.directions.flatten(1)[:, rays, None]
        return Beams(self.origins[:, row], directions, self.frame[row], self.width[row])


def beams_of(cameras: Cameras, windows: Windows, cell: int = 1) -> Beams:
    """Rays through the centres of cells of `cell` x `cell` pixels.

    Cells start at the window's upper left corner; the last ones may extend beyond its edge.
    """
    columns, rows = windows.cells(cell)
    device = windows.device
    edges = windows.edges[:, :2].to(device, non_blocking=True) / windows.frame[0]  # (s, 2)
    pixel = 1 / windows.scale[:, None]  # (s, 1) shares of the frame's width
    x = edges[:, :1] + pixel * cell * (torch.arange(columns, device=device) + 0.5)  # (s, columns)
    y = edges[:, 1:] + pixel * cell * (torch.arange(rows, device=device) + 0.5)  # (s, rows)
    x, y = (x - 0.5) / FOCAL, (y - 0.5 * windows.tall) / FOCAL
    turn = cameras.rotations.permute(1, 2, 0)[..., None]  # (3, 3, s, 1)
    across = turn[:, 0] * x + turn[:, 2]  # (3, s, columns)
    down = turn[:, 1] * y  # (3, s, rows)
    scale = torch.rsqrt((1 + x * x)[:, None, :] + (y * y)[:, :, None])  # (s, rows, columns)
    directions = (across[:, :, None, :] + down[:, :, :, None]) * scale  # (3, s, rows, columns)
    origins = cameras.origins.T[:, :, None].contiguous()  # (3, s, 1)
    return Beams(origins, directions.flatten(2), cameras.frame[:, None], pixel / FOCAL)


# The state of rays is one tensor (4, s, n): current depth, distance to the surface there,
# previous depth, distance there.


def _stride(surface: BatchSurface, beams: Beams, state: Tensor) -> Tensor:
    """One secant step from the last two depths and distances."""
    depth, distance, last_depth, last_distance = state
    step = depth - last_depth
    step = torch.where(step.abs() < 1e-7, 1e-7, step)
    # Far from the surface a secant is meaningless: limit the step to about the distance.
    shortest = (distance * (0.2 * OPEN) / (depth * beams.width)).clamp_(SLANT, OPEN)
    steep = torch.maximum(((last_distance - distance) / step).clamp_max_(STEEPEST), shortest)
    after = (depth + distance / steep).clamp_(0, FAR)
    return torch.stack([after, surface.distance(beams.at(after), beams.frame), depth, distance])


def _unsettled(beams: Beams, state: Tensor) -> Tensor:
    """Whether rays have not yet converged to the surface."""
    return (state[1].abs() > SETTLED * state[0] * beams.width) & (state[0] < FAR)


def tiles(frames: int, pixels: int, max_pixels: int) -> list[tuple[slice, slice]]:
    """Split s x n pixels into tiles of at most `max_pixels`: whole frames if they fit."""
    if pixels > max_pixels:
        cuts = [slice(start, start + max_pixels) for start in range(0, pixels, max_pixels)]
        return [(slice(k, k + 1), cut) for k in range(frames) for cut in cuts]
    step = max_pixels // pixels
    return [(slice(k, k + step), slice(0, pixels)) for k in range(0, frames, step)]


def march_windows(
    surface: BatchSurface, cameras: Cameras, windows: Windows, max_pixels: int = 1 << 16
) -> Tensor:
    """Depths (s, n) at which the rays of all pixels meet the surface, at most `FAR`.

    Args:
        surface: The surface in each of the s frames.
        cameras: The cameras of the frames.
        windows: One window of n pixels in each frame.
        max_pixels: Maximum number of pixels processed at once, which limits temporary memory.
    """
    depth = torch.zeros(0)
    for cell, steps in LEVELS:
        beams, (columns, rows) = beams_of(cameras, windows, cell), windows.cells(cell)
        if len(depth):  # quarters start at the depth of their cell; crop those beyond the edge
            depth = depth.repeat_interleave(2, 1).repeat_interleave(2, 2)[:, :rows, :columns]
            depth = depth.flatten(1).contiguous()
        else:
            depth = beams.directions[0] * 0
        widths = WIDEN * cell * beams.width
        for _ in range(steps):
            free = surface.distance(beams.at(depth), beams.frame)
            free.addcmul_(depth, widths, value=-1).clamp_min_(0)
            depth = free.add_(depth).clamp_max_(FAR)
        depth = depth.view(-1, rows, columns)
    depth = depth.flatten(1)  # (s, n), a few pixels before the surface
    states, places = [], []
    for frames, pixels in tiles(len(depth), depth.shape[1], max_pixels):
        tile, start = beams.part(frames, pixels), depth[frames, pixels]
        first = surface.distance(tile.at(start), tile.frame)
        after = (start + first).clamp_max_(FAR)
        second = surface.distance(tile.at(after), tile.frame)
        state = _stride(surface, tile, torch.stack([after, second, start, first]))
        depth[frames, pixels] = state[0]
        # Rays that have not converged, mostly at grazing angles.
        grazing = torch.nonzero(_unsettled(tile, state).flatten())[:, 0]
        states.append(state.flatten(1)[:, grazing, None])
        row, column = grazing // state.shape[2], grazing % state.shape[2]
        places.append((row + frames.start) * depth.shape[1] + column + pixels.start)
    place, state = torch.cat(places), torch.cat(states, 1)
    rays = beams.single(place)
    # Continue these rays, each with its own secant, until all converge. Depths do not depend on
    # how often converged rays are removed.
    for count in SETTLE_ROUNDS[depth.device.type]:
        if not len(place):
            break
        for turn in range(count):
            after = state
            for _ in range(SETTLE_STEPS):
                after = _stride(surface, rays, after)
            # In a round's first turn no ray has converged; later, converged rays keep their state.
            state = after if not turn else torch.where(_unsettled(rays, state), after, state)
        depth.view(-1)[place] = state[0, :, 0]
        on = torch.nonzero(_unsettled(rays, state))[:, 0]
        place, rays, state = place[on], rays.part(on), state[:, on]
    return depth
