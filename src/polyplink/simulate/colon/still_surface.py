"""`scene.surface` of one polyp in a tube at rest, compiled: the same bits in far less time.

An outline takes some fifty rounds of about a thousand rays, for which sixty small tensor
operations each cost more than their arithmetic. Here all that is sums, products and quotients is
compiled, without leave to reorder; sines, roots, the turn into the polyp's frame, the reading of
its map and the interpolation stay torch's own, so that no bit differs.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.core.compiled import njit
from polyplink.simulate.colon.surface import (
    CALM_DEPTH,
    CALM_RADIUS,
    LUMP_BOUND,
    MAP_EXTENT,
    RADIUS,
    RIDGE_SQUARINGS,
    UNEVEN,
    WALL_BOUND,
    Colon,
    Lump,
    calm_place,
    with_stalk,
)

Single = NDArray[np.float32]


@njit()
def _bend_angles(points: Single, line: Single, out: Single) -> None:  # pragma: no cover
    """Angles (2, n) whose sines the centre line is made of."""
    for k in range(2):
        for j in range(points.shape[1]):
            out[k, j] = line[0, k] * points[2, j] + line[1, k]


@njit()
def _fold_angles(  # pragma: no cover
    points: Single, sines: Single, line: Single, tube: Single, out: Single
) -> None:
    """Rows of out (5, n): angle of the folds, cosine, sine, square of the radius, radius."""
    tiny, one = np.float32(1e-8), np.float32(1)
    for j in range(points.shape[1]):
        middle = line[2, 0] * sines[0, j]
        x, y = points[0, j] - middle, points[1, j] - line[2, 1] * sines[1, j]
        square = x * x + y * y + tiny
        per = one / np.sqrt(square)
        c = x * per
        out[0, j] = tube[0] * points[2, j] + tube[1] + tube[2] * middle + tube[3] * c
        out[1, j], out[2, j], out[3, j], out[4, j] = c, y * per, square, square * per


@njit()
def _calm(z: float, c: float, s: float, calm: Single, numbers: Single) -> float:  # pragma: no cover
    """`scene.fold_share` at one place; calm (k, 3): twice its cosine and sine, z."""
    share: float = numbers[1]
    for k in range(calm.shape[0]):
        along = z - calm[k, 2]
        apart = along * along + numbers[2] - calm[k, 0] * c - calm[k, 1] * s
        bell = max(numbers[1] - apart / numbers[5], numbers[0])
        share *= numbers[1] - numbers[6] * bell * bell
    return share


@njit()
def _walls(  # noqa: PLR0917  # pragma: no cover
    points: Single, cosines: Single, at: Single, tube: Single, calm: Single, numbers: Single
) -> None:
    """Distances to the wall into the first row of `at`, as `scene.wall_distance`."""
    three, four = numbers[3], numbers[4]
    half, low, tall = np.float32(0.5), np.float32(0.7), np.float32(0.3)
    for j in range(points.shape[1]):
        c, s = at[1, j], at[2, j]
        triple_c, triple_s = c * (four * c * c - three), s * (three - four * s * s)
        corner = triple_c * tube[4] - triple_s * tube[5]
        ridge = half + half * cosines[j]
        for _ in range(RIDGE_SQUARINGS):
            ridge *= ridge
        if calm.shape[0]:
            ridge *= _calm(points[2, j], c, s, calm, numbers)
        radius = numbers[7] + tube[6] * corner - tube[7] * ridge * (low + tall * corner)
        at[0, j] = numbers[8] * (radius - at[4, j])


@njit()
def _squares(local: Single, radii: Single, out: Single) -> None:  # pragma: no cover
    """Rows of out (2, n): squares of the length, and of how steep a polyp's bound is."""
    tiny = np.float32(1e-12)
    for j in range(local.shape[1]):
        p, q, r = local[0, j], local[1, j], local[2, j]
        out[0, j] = p * p + q * q + r * r + tiny
        p, q, r = p / radii[0], q / radii[1], r / radii[2]
        out[1, j] = p * p + q * q + r * r + tiny


@njit()
def _map_places(local: Single, length: Single, grid: Single) -> None:  # pragma: no cover
    """Places (n, 2) on a polyp's map."""
    least, extent = np.float32(1e-3), np.float32(MAP_EXTENT)
    for j in range(local.shape[1]):
        per = max(length[j] + local[2, j], least) * extent
        grid[j, 0], grid[j, 1] = local[0, j] / per, local[1, j] / per


@njit()
def _heads(rho: Single, reach: Single, out: Single) -> None:  # pragma: no cover
    """Distances (n,) to a polyp's head, as `scene.lump_distance`."""
    bound = np.float32(LUMP_BOUND)
    for j in range(len(rho)):
        out[j] = bound * (reach[0, j] - rho[j]) * reach[0, j] / reach[1, j]


@njit()
def _shares(wall: Single, lump: Single, blend: Single, out: Single) -> None:  # pragma: no cover
    """Shares (n,) of a polyp in the surface, as `scene.join`."""
    half, one, none = np.float32(0.5), np.float32(1), np.float32(0)
    for j in range(len(wall)):
        out[j] = min(max(half + half * (wall[j] - lump[j]) / blend[0], none), one)


@njit()
def _joined(mixed: Single, share: Single, blend: Single) -> None:  # pragma: no cover
    """Take from a mixture of two distances what the joint rounds off."""
    one = np.float32(1)
    for j in range(len(mixed)):
        mixed[j] -= blend[0] * share[j] * (one - share[j])


_NUMBERS = np.array(
    [0, 1, 2, 3, 4, CALM_RADIUS**2, CALM_DEPTH, RADIUS, WALL_BOUND], np.float32
)  # as `_calm` and `_walls` number them


@dataclass(frozen=True)
class StillSurface:
    """One polyp in a tube without a wave.

    Attributes:
        lump: The polyp.
        line: (3, 2) rate, phase, size of the bends in x and y.
        tube: (8,) rate, phase, unevenness, tilt of the folds; cosine and sine of the corners'
            phase, their depth; depth of the folds.
        calm: (k, 3) calm places: twice the cosine, twice the sine, z.
        turn: (3, 3) into the polyp's frame, and (3, 1) what is added.
        blend: (1,) width of its joint with the wall.
    """

    lump: Lump
    line: Single
    tube: Single
    calm: Single
    turn: tuple[Tensor, Tensor]
    blend: Single

    @classmethod
    def of(cls, colon: Colon, lump: Lump) -> "StillSurface":
        """Of a polyp in a tube, whose wave is left out."""
        corner = math.cos(colon.corner_phase), math.sin(colon.corner_phase), colon.corner_depth
        folds = colon.fold_rate, colon.fold_phase, UNEVEN, colon.fold_tilt
        places = [calm_place(colon, place) for place in colon.calm]
        turn = lump.axes.T / lump.radii[:, None]
        return cls(
            lump,
            np.array([colon.bend_rate, colon.bend_phase, colon.bend], np.float32),
            np.array([*folds, *corner, colon.fold_depth], np.float32),
            np.array([(2 * c, 2 * s, z) for c, s, z in places], np.float32).reshape(-1, 3),
            (turn, -(turn @ lump.centre)[:, None]),
            np.array([lump.blend], np.float32),
        )

    def at(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Distances (n,) of points (3, n), and the polyp's share (n,) in the surface."""
        places = np.ascontiguousarray(points.numpy())
        wall, lump = self._walls(places), self._lumps(points)
        share = np.empty_like(wall)
        _shares(wall, lump.numpy(), self.blend, share)
        mixed = torch.lerp(torch.from_numpy(wall), lump, torch.from_numpy(share))
        _joined(mixed.numpy(), share, self.blend)
        return mixed, torch.from_numpy(share)

    def _walls(self, points: Single) -> Single:
        n = points.shape[1]
        at, bends = np.empty((5, n), np.float32), np.empty((2, n), np.float32)
        _bend_angles(points, self.line, bends)
        torch.from_numpy(bends).sin_()
        _fold_angles(points, bends, self.line, self.tube, at)
        torch.from_numpy(at[0]).cos_()
        _walls(points, at[0], at, self.tube, self.calm, _NUMBERS)
        return np.asarray(at[0])

    def _lumps(self, points: Tensor) -> Tensor:
        turn, shift = self.turn
        local = torch.addmm(shift, turn, points)  # (3, n)
        n = points.shape[1]
        grid, reach = np.empty((n, 2), np.float32), np.empty((2, n), np.float32)
        _squares(local.numpy(), self.lump.radii.numpy(), reach)
        torch.from_numpy(reach).sqrt_()
        _map_places(local.numpy(), reach[0], grid)
        rho = torch.grid_sampler(
            self.lump.maps[None, :1], torch.from_numpy(grid)[None, None], 0, 1, True
        )
        head = np.empty(n, np.float32)
        _heads(rho.numpy()[0, 0, 0], reach, head)
        found = torch.from_numpy(head)
        return with_stalk(self.lump, local, found) if self.lump.stalk[1] else found
