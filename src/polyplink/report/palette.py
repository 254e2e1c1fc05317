"""Looks of polyps that can be told apart: seven hues, then the same hues with a texture.

Colour is never alone: whatever wears a look also carries its number or letter.
"""

from dataclasses import dataclass

# Six hues of Okabe and Ito (2008, "Color universal design") and a brown; their yellow and black
# would vanish on a white or a dark page. The order keeps neighbours far apart.
HUES = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#7a4a1e",
)
TEXTURES = ("plain", "stripes", "dots")


@dataclass(frozen=True)
class Look:
    """How the marks of one polyp look: index of a hue, index of a texture."""

    hue: int
    texture: int


def look(index: int) -> Look:
    """The look of polyp number `index` (from 0); repeats after hues x textures."""
    turn, hue = divmod(index, len(HUES))
    return Look(hue, turn % len(TEXTURES))
