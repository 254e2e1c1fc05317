"""A polyp made ready for a renderer: numbers of its lump, and its maps with their slopes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from polyplink.simulate.picture.scene import MAP_EXTENT, Lump


@dataclass(frozen=True)
class Skin:
    """A polyp as it is drawn: its lump, and (3, m, m) colours over its surface, linear RGB."""

    lump: Lump
    paint: Tensor


@dataclass(frozen=True)
class Body:
    """A polyp made ready: numbers of its lump, and its maps.

    Attributes:
        lump: The lump.
        rows: Rows of the matrix that turns world axes into its own.
        offset: What is added then.
        radii: Its half sizes.
        maps: (1, 6, m, m) relative radius, its slopes along the map's columns and rows, and
            linear RGB.
        radius: (1, 1, m, m) the first of them alone.
    """

    lump: Lump
    rows: tuple[tuple[float, float, float], ...]
    offset: tuple[float, float, float]
    radii: tuple[float, float, float]
    maps: Tensor
    radius: Tensor


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
    x, y, z = (-(axes @ lump.centre)).tolist()
    a, b, c = lump.radii.tolist()
    return Body(lump, rows, (x, y, z), (a, b, c), maps.contiguous(), rho[None, None].contiguous())
