"""A polyp made ready for a renderer: numbers of its lump, and its maps with their slopes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from polyplink.simulate.colon.surface import MAP_EXTENT, Lump


@dataclass(frozen=True)
class Skin:
    """A polyp as it is drawn: its lump, and (3, m, m) colours over its surface, linear RGB."""

    lump: Lump
    paint: Tensor


Number = float | Tensor
"""One for all frames, or one a frame (s, 1), or one a ray (m,)."""


@dataclass(frozen=True)
class Shape:
    """What a renderer needs of a polyp, or of the polyps that have one place in their frames.

    Attributes:
        rows: Rows of the matrix that turns world axes into its own.
        offset: What is added then.
        radii: Its half sizes.
        maps: (1, 6, m, m) relative radius, its slopes along the map's columns and rows, and
            linear RGB.
        radius: (1, 1, m, m) the first of them alone.
        blend: Width of the joint with the wall.
        stalk: Radius and length of the stalk, and the width of its joint; None for no stalk.
        tile: Where the maps are tiles one below the other of taller ones: what a place's row is
            to be multiplied by, and what is added then. None for maps of its own.
    """

    rows: tuple[tuple[Number, Number, Number], ...]
    offset: tuple[Number, Number, Number]
    radii: tuple[Number, Number, Number]
    maps: Tensor
    radius: Tensor
    blend: Number
    stalk: tuple[Number, Number, Number] | None
    tile: tuple[float, Number] | None


@dataclass(frozen=True)
class Body(Shape):
    """One polyp made ready: plain numbers of its lump, and its maps."""

    rows: tuple[tuple[float, float, float], ...]
    offset: tuple[float, float, float]
    radii: tuple[float, float, float]
    blend: float
    stalk: tuple[float, float, float] | None
    lump: Lump


def make_body(skin: Skin) -> Body:
    """A polyp made ready."""
    lump = skin.lump
    rho = lump.maps[0]
    texel = 2 * MAP_EXTENT / (len(rho) - 1)
    along_rows, along_columns = torch.gradient(rho, spacing=texel)
    for slope in (along_rows, along_columns):  # beyond the border the radius stays what it is
        slope[[0, -1]] = 0
        slope[:, [0, -1]] = 0
    maps = torch.cat([torch.stack([rho, along_columns, along_rows]), skin.paint])[None]
    axes = lump.axes.T
    rows = tuple((float(a), float(b), float(c)) for a, b, c in axes.cpu())
    stalk = (*lump.stalk, lump.stalk[0]) if lump.stalk[1] else None
    x, y, z = (-(axes @ lump.centre)).tolist()
    a, b, c = lump.radii.tolist()
    return Body(
        rows=rows,
        offset=(x, y, z),
        radii=(a, b, c),
        maps=maps.contiguous(),
        radius=rho[None, None].contiguous(),
        blend=lump.blend,
        stalk=stalk,
        tile=None,
        lump=lump,
    )
