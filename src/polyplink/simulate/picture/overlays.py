"""What the processor writes into the black corners: Olympus its badge, Fujifilm date and time.

Letters are a small bitmap font; every pixel gets exactly the share of it that letters cover, so
that text is sharp in full frames and fades to a grey hint in small ones.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyplink.simulate.picture.window import onto

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
INK = 0.86
LINE = 10  # rows from one line of text to the next
BADGE_CELL = 0.0027  # a letter's cell, in frame widths
CLOCK_CELL = 0.0018
MARGIN = 0.006


def text_cells(lines: Sequence[str]) -> NDArray[np.float32]:
    """Lines of text as cells, 1 where there is ink: (rows, columns)."""
    cells = np.zeros((LINE * len(lines), 6 * max(map(len, lines))), np.float32)
    for row, line in enumerate(lines):
        for column, letter in enumerate(line):
            bits = np.array(_GLYPHS[letter])[:, None] >> np.arange(4, -1, -1) & 1
            cells[LINE * row : LINE * row + 7, 6 * column : 6 * column + 5] = bits
    return cells


def coverage(edges: Tensor, count: int) -> Tensor:
    """How much of each pixel lies in each cell.

    Args:
        edges: (p + 1,) edges of p pixels, in cells.
        count: Number of cells.

    Returns:
        (p, count) shares of the pixel.
    """
    cell = torch.arange(count, device=edges.device)
    start, stop = edges[:-1, None], edges[1:, None]
    common = torch.minimum(stop, cell + 1.0) - torch.maximum(start, cell.float())
    return common.clamp_min(0) / (stop - start)


@dataclass(frozen=True)
class Label:
    """A text in a frame.

    Attributes:
        cells: (rows, columns) ink.
        left: Of the first cell, frame widths.
        top: Likewise.
        cell: Edge of a cell, frame widths.
    """

    cells: NDArray[np.float32]
    left: float
    top: float
    cell: float


def badge(tall: float) -> Label:
    """Olympus' "Near Focus", in the left lower corner; tall is the frame's height over width."""
    cells = text_cells(["Near", "Focus"])
    return Label(cells, MARGIN, tall - MARGIN - BADGE_CELL * (len(cells) - 3), BADGE_CELL)


def clock(start: datetime.datetime, seconds: int) -> Label:
    """Fujifilm's date and time, in the left upper corner."""
    now = start + datetime.timedelta(seconds=seconds)
    return Label(text_cells([f"{now:%d/%m/%Y}", f"{now:%H:%M:%S}"]), MARGIN, MARGIN, CLOCK_CELL)


def _pixels(first: float, last: float, start: float, stop: float, count: int) -> tuple[int, int]:
    """The pixels of a window's side that lie between first and last; all in frame widths."""
    step = (stop - start) / count
    low, high = int((first - start) // step), int((last - start) // step) + 1
    return min(max(low, 0), count), min(max(high, 0), count)


def write_label(image: Tensor, edges: Sequence[float], label: Label) -> None:
    """Write a text over one image, in place, where its window shows it.

    Args:
        image: (3, h, w).
        edges: Left, top, right and bottom of its window, frame widths.
        label: The text.
    """
    left, top, right, bottom = edges
    rows, columns = label.cells.shape
    h, w = image.shape[1:]
    x0, x1 = _pixels(label.left, label.left + columns * label.cell, left, right, w)
    y0, y1 = _pixels(label.top, label.top + rows * label.cell, top, bottom, h)
    if x0 >= x1 or y0 >= y1:
        return

    x = left + (right - left) / w * torch.arange(x0, x1 + 1, device=image.device)
    y = top + (bottom - top) / h * torch.arange(y0, y1 + 1, device=image.device)
    across = coverage((x - label.left) / label.cell, columns)
    down = coverage((y - label.top) / label.cell, rows)
    ink = down @ onto(label.cells, image.device) @ across.T
    part = image[:, y0:y1, x0:x1]
    part += ink * (INK - part)
