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


def luminance(colour: str) -> float:
    """Relative luminance in [0, 1] of "#rrggbb" (WCAG 2.2, definition of relative luminance)."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """Contrast ratio, 1 to 21, of two colours "#rrggbb" (WCAG 2.2)."""
    lighter, darker = sorted((luminance(a), luminance(b)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def ink_on(colour: str) -> str:
    """Black or white, whichever is read more easily on a colour."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, colour))
