"""Pictures laid out for a person: sheets of many, boxes and names drawn on one."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Picture = NDArray[np.uint8]  # (h, w, 3) RGB
Box = tuple[int, int, int, int]  # x, y, w, h as annotated: edges are first and last pixel

GAP = 4  # pixels between two pictures of a sheet
MARGIN = 150  # pixels for the names of the rows
LINE = 15  # pixels from one line of text to the next
PAPER, INK = (250, 250, 250), (30, 30, 30)
# Okabe and Ito's colours, which colour-blind people can tell apart; black is left out.
COLOURS = (
    (230, 159, 0),
    (86, 180, 233),
    (0, 158, 115),
    (240, 228, 66),
    (0, 114, 178),
    (213, 94, 0),
    (204, 121, 167),
)


def colour_of(name: str) -> tuple[int, int, int]:
    """A colour that belongs to a name, the same in every run."""
    return COLOURS[hashlib.sha256(name.encode()).digest()[0] % len(COLOURS)]


def fit(picture: Picture, size: tuple[int, int]) -> Picture:
    """Scale a picture into width and height, keeping its shape, on black."""
    image = Image.fromarray(picture)
    image.thumbnail(size, Image.Resampling.LANCZOS)
    ground = Image.new("RGB", size)
    ground.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
    return np.array(ground)


def mark(picture: Picture, boxes: Sequence[tuple[str, Box]]) -> Picture:
    """Draw boxes with their names; the picture itself is left as it is."""
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(12)
    for name, (x, y, w, h) in boxes:
        colour = colour_of(name)
        draw.text((x, max(y - LINE - 2, 0)), name, fill=colour, font=font)
        draw.rectangle((x - 2, y - 2, x + w + 2, y + h + 2), outline=colour, width=2)
    return np.array(image)


def contact_sheet(
    rows: Sequence[tuple[str, Sequence[tuple[str, Picture]]]], cell: tuple[int, int]
) -> Picture:
    """Lay pictures out in rows.

    Args:
        rows: For each row its name (of several lines perhaps), and its pictures with a caption
            below each ("" for none).
        cell: Width and height that each picture is fitted into.

    Returns:
        The sheet, as wide as its longest row.
    """
    columns = max((len(pictures) for _, pictures in rows), default=0)
    step = cell[0] + GAP, cell[1] + GAP + LINE
    image = Image.new("RGB", (MARGIN + columns * step[0] + GAP, len(rows) * step[1] + GAP), PAPER)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(12)
    for row, (name, pictures) in enumerate(rows):
        top = GAP + row * step[1]
        draw.multiline_text((GAP, top), name, fill=INK, font=font)
        for column, (caption, picture) in enumerate(pictures):
            left = MARGIN + column * step[0]
            image.paste(Image.fromarray(fit(picture, cell)), (left, top))
            draw.text((left, top + cell[1]), caption, fill=INK, font=font)
    return np.array(image)
