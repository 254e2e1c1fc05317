"""Overlays of an image: instruments, the processor's text, and sensor noise.

All positions are in frame widths, so that a window agrees with its frame. The tip of an instrument
(a snare with its loop, or biopsy forceps) is fixed relative to the lens, not to the wall. Olympus
processors show a badge, Fujifilm processors date and time in the black corners. Letters come from
a small bitmap font, and each pixel's coverage by them is computed exactly, so that text is sharp in
full frames and fades to grey in small ones.
"""

import datetime
import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink_lab.simulate.course.conditions import SNARE
from polyplink_lab.simulate.picture.rays import Windows, colour_like, onto

ENTRY = 0.48  # frame widths from the middle of the frame to the sheath's entry point
RADII = (0.050, 0.026)  # radius of the sheath at the entry and in the middle (perspective)
SHEATH = (0.80, 0.84, 0.88)
COIL = (0.60, 0.61, 0.64)
WIRE = (0.92, 0.84, 0.66)
STEEL = (0.74, 0.75, 0.78)
LOOP = (0.105, 0.058)  # half length and half width of a loop that is open
WIRE_RADIUS = 0.0045
JAW = (0.040, 0.016)  # half length and half width of a cup
JAW_TURN = math.radians(24)
GRAIN_TEXELS = 509  # size of the noise tile; a prime, so that frames start at all offsets
GRAIN = 0.012  # standard deviation of the noise in a full frame
STRIDES = (7919, 104_729)  # offset between the tile positions of successive frames, texels
INK = 0.86
# A text in a frame: its ink in cells (rows, columns); left, top and edge of a cell, frame widths.
Label = tuple[NDArray[np.float32], float, float, float]
LINE = 10  # rows from one line of text to the next
BADGE_CELL = 0.0027  # a letter's cell, in frame widths
CLOCK_CELL = 0.0018
MARGIN = 0.006
# Five columns and seven rows a letter, a row per number, the left column the highest bit.
_GLYPHS = {
    "0": (14, 17, 19, 21, 25, 17, 14),
    "1": (4, 12, 4, 4, 4, 4, 14),
    "2": (14, 17, 1, 2, 4, 8, 31),
    "3": (31, 2, 4, 2, 1, 17, 14),
    "4": (2, 6, 10, 18, 31, 2, 2),
    "5": (31, 16, 30, 1, 1, 17, 14),
    "6": (6, 8, 16, 30, 17, 17, 14),
    "7": (31, 1, 2, 4, 8, 8, 8),
    "8": (14, 17, 17, 14, 17, 17, 14),
    "9": (14, 17, 17, 15, 1, 2, 12),
    "/": (0, 1, 2, 4, 8, 16, 0),
    ":": (0, 12, 12, 0, 12, 12, 0),
    " ": (0, 0, 0, 0, 0, 0, 0),
    "N": (17, 17, 25, 21, 19, 17, 17),
    "F": (31, 16, 16, 30, 16, 16, 16),
    "a": (0, 0, 14, 1, 15, 17, 15),
    "c": (0, 0, 14, 16, 16, 17, 14),
    "e": (0, 0, 14, 17, 31, 16, 14),
    "o": (0, 0, 14, 17, 17, 17, 14),
    "r": (0, 0, 22, 25, 16, 16, 16),
    "s": (0, 0, 15, 16, 14, 1, 30),
    "u": (0, 0, 17, 17, 17, 19, 13),
}


def _cover(distance: Tensor, scale: Tensor) -> Tensor:
    """Coverage of a pixel, from the distance to the edge in frame widths."""
    return (0.5 - distance * scale).clamp(0, 1)


def _paint(
    images: Tensor, colour: tuple[float, float, float], light: Tensor, cover: Tensor
) -> Tensor:
    """Blend a colour, lit by `light` (s, h, w), over images with coverage `cover` (s, h, w)."""
    paint = colour_like(images, colour) * light
    return torch.lerp(images, paint.clamp(0, 1), cover)


def _rod(side: Tensor) -> Tensor:
    """Brightness of a round rod at positions -1 to 1 across it, with an off-centre highlight."""
    up = (1 - side * side).clamp_min(0).sqrt()
    return 0.30 + 0.62 * up + 0.55 * torch.exp(-(((side + 0.30) / 0.13) ** 2))


def _ellipse(x: Tensor, y: Tensor, half: tuple[float, float], open_: Tensor) -> Tensor:
    """Approximate signed distance to an ellipse scaled by `open_` (s, 1, 1)."""
    a, b = half[0] * open_, half[1] * open_
    u, v = x / a, y / b
    level = (u * u + v * v + 1e-9).sqrt()
    slope = ((u / a) ** 2 + (v / b) ** 2 + 1e-9).sqrt() / level
    return (level - 1) / slope


def draw_instruments(images: Tensor, windows: Windows, tools: Tensor) -> Tensor:
    """Draw every frame's instrument over it, as flat shaded shapes.

    Args:
        images: (3, s, h, w) in 0 to 1.
        windows: s windows.
        tools: (3, s) reach, from 0 (not in view) to 1 (tip in the middle of the frame); angle
            where it comes from, seen from the middle: 0 right, pi / 2 below, radians; kind, see
            `course.conditions`.
    """
    scale = windows.scale[:, None, None]
    reach, angle, kind = tools
    reach = reach[:, None, None]
    # Pixel coordinates (s, h, w) relative to the entry: along the instrument, and across it.
    c, s = angle.cos()[:, None], angle.sin()[:, None]
    x, y = windows.x - 0.5, windows.y - 0.5 * windows.tall  # (s, w), (s, h)
    along = (ENTRY - s * y)[:, :, None] - (c * x)[:, None, :]
    across = (c * y)[:, :, None] - (s * x)[:, None, :]
    radius = RADII[0] + (RADII[1] - RADII[0]) * (along / ENTRY).clamp(0, 1.2)
    tip = reach * ENTRY - 0.02  # the loop or the jaws begin here
    body = _cover(torch.maximum(across.abs() - radius, along - tip), scale)
    brightness = 1.12 - 0.4 * (along / ENTRY).clamp(0, 1)  # the light is at the lens
    shadow = torch.exp(-((across - 0.02).abs() - radius).clamp_min(0) / 0.02)
    shadow = 0.35 * shadow * ((tip + 0.03 - along) / 0.05).clamp(0, 1) * (reach > 0)
    images = images * (1 - shadow)
    is_snare = (kind == SNARE)[:, None, None]
    light = brightness * _rod(across / radius)
    rings = 1 + 0.16 * torch.sin(along * 620)
    images = _paint(images, SHEATH, light, body * is_snare)
    images = _paint(images, COIL, light * rings, body * ~is_snare)
    ahead = along - tip
    # The wire of a snare, which opens as it leaves the sheath.
    out = reach * is_snare
    open_ = (1.4 * out).clamp(0.15, 1)
    edge = _ellipse(ahead - LOOP[0] * open_, across, LOOP, open_)
    cover = _cover(edge.abs() - WIRE_RADIUS, scale) * (out > 0)
    images = _paint(images, WIRE, 0.85 * _rod((edge / WIRE_RADIUS).clamp(-1, 1)), cover)
    # The two cups of open forceps; their insides are dark.
    out, ones = reach * ~is_snare, torch.ones_like(reach)
    c0, s0 = math.cos(JAW_TURN), math.sin(JAW_TURN)
    for turn in (1.0, -1.0):
        x = c0 * (ahead - 0.008) + turn * s0 * across - JAW[0]
        y = c0 * across - turn * s0 * (ahead - 0.008)
        edge = _ellipse(x, y, JAW, ones)
        light = 0.35 + 0.75 * (-edge / JAW[1]).clamp(0, 1) - 0.25 * turn * y / JAW[1]
        hollow = ((turn * y / JAW[1] - 0.2) * -3).clamp(0, 1) * (-edge / (0.4 * JAW[1])).clamp(0, 1)
        cover = _cover(edge, scale) * (out > 0)
        images = _paint(images, STEEL, light * (1 - 0.65 * hollow), cover)
    return images


def text_cells(lines: Sequence[str]) -> NDArray[np.float32]:
    """Bitmap (rows, columns) of lines of text, 1 for ink."""
    cells = np.zeros((LINE * len(lines), 6 * max(map(len, lines))), np.float32)
    for row, line in enumerate(lines):
        for column, letter in enumerate(line):
            bits = np.array(_GLYPHS[letter])[:, None] >> np.arange(4, -1, -1) & 1
            cells[LINE * row : LINE * row + 7, 6 * column : 6 * column + 5] = bits
    return cells


def badge(tall: float) -> Label:
    """Olympus's "Near Focus" in the lower left corner; `tall` is the frame's height / width."""
    cells = text_cells(["Near", "Focus"])
    return cells, MARGIN, tall - MARGIN - BADGE_CELL * (len(cells) - 3), BADGE_CELL


def clock(start: datetime.datetime, seconds: int) -> Label:
    """Fujifilm's date and time in the upper left corner."""
    time = start + datetime.timedelta(seconds=seconds)
    return text_cells([f"{time:%d/%m/%Y}", f"{time:%H:%M:%S}"]), MARGIN, MARGIN, CLOCK_CELL


def _coverage(
    cells: tuple[float, float, int], side: tuple[float, float, int], device: torch.device
) -> tuple[slice, Tensor]:
    """Range of a window's pixels that cells cover along one axis, and their coverage (p, cells).

    `cells`: start of the first cell and size of a cell, in frame widths; number of cells.
    `side`: start and end of the window along the axis, in frame widths; number of pixels.
    """
    (first, cell, count), (start, stop, pixels) = cells, side
    step = (stop - start) / pixels
    low, high = (first - start) // step, (first + count * cell - start) // step + 1
    low, high = (min(max(int(pixel), 0), pixels) for pixel in (low, high))
    edges = start + step * torch.arange(low, high + 1, device=device)
    edges, index = (edges - first) / cell, torch.arange(count, device=device)
    begin, end = edges[:-1, None], edges[1:, None]
    common = torch.minimum(end, index + 1.0) - torch.maximum(begin, index.float())
    return slice(low, high), common.clamp_min(0) / (end - begin)


def write_label(image: Tensor, edges: Sequence[float], label: Label) -> None:
    """Draw a label into the image (3, h, w) of a window, in place.

    `edges` are left, top, right and bottom of the window in frame widths.
    """
    left, top, right, bottom = edges
    cells, x, y, cell = label
    (rows, columns), (h, w) = cells.shape, image.shape[1:]
    across, horizontal = _coverage((x, cell, columns), (left, right, w), image.device)
    down, vertical = _coverage((y, cell, rows), (top, bottom, h), image.device)
    part = image[:, down, across]
    if part.numel():
        ink = vertical @ onto(cells, image.device) @ horizontal.T
        part += ink * (INK - part)


def draw_grain(rng: np.random.Generator) -> Tensor:
    """Draw a tile (g, g) of white noise with standard deviation `GRAIN`."""
    noise = rng.standard_normal((GRAIN_TEXELS, GRAIN_TEXELS))
    return torch.from_numpy(GRAIN * noise.astype(np.float32))


def read_grain(grain: Tensor, frames: NDArray[np.int64], windows: Windows) -> Tensor:
    """Sensor noise (s, h, w) of windows of frames (s,), from the tile of `draw_grain`.

    The noise is weaker in pixels that average several pixels of the frame.
    """
    share = torch.from_numpy(windows.host_scale / windows.frame[0])  # drawn pixels per pixel
    first = (windows.edges[:, :2] * share[:, None]).round().long()
    start = torch.from_numpy(frames[:, None] * np.array(STRIDES))
    begin = ((start + first) % GRAIN_TEXELS).to(grain.device, non_blocking=True)  # (s, 2)
    w, h = windows.size
    columns = (begin[:, :1] + torch.arange(w, device=grain.device)) % GRAIN_TEXELS
    rows = (begin[:, 1:] + torch.arange(h, device=grain.device)) % GRAIN_TEXELS
    return (
        grain[rows[:, :, None], columns[:, None, :]]
        * share.clamp(max=1).to(grain.device, non_blocking=True)[:, None, None]
    )
