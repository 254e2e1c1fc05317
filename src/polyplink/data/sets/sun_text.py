"""The annotation text of one SUN case: a line for each image.

Source: sundatabase.org; `filename xmin,ymin,xmax,ymax,class`, class 0 polyp and 1 non-polyp.
"""

from pathlib import PurePosixPath
from typing import NamedTuple

from polyplink.data.faults import Faults
from polyplink.data.files.folders import IMAGE_ENDINGS
from polyplink.data.files.trees import decode_text
from polyplink.data.formats.edge_boxes import Edges

_POLYP, _OTHER = "0", "1"


class SunLine(NamedTuple):
    """The boxes of one image: its name without folder and ending, and the polyps' edges."""

    stem: str
    edges: list[Edges]


def parse_case(data: bytes, name: str, faults: Faults) -> list[SunLine]:
    """Read the annotation of one case; blank lines are passed over.

    Args:
        data: The file's bytes.
        name: The file's name, for messages.
        faults: Told of lines and boxes that cannot be read, and of boxes of class 1.

    Returns:
        Its lines in the file's order; a line may have no box, or several.

    Raises:
        PolyplinkError: If the file is no text; if strict, at the first line that cannot be read.
    """
    lines = []
    for number, text in enumerate(decode_text(data, name).splitlines(), 1):
        words = text.split()
        boxes = [word for word in words if "," in word]
        image = text.partition(boxes[0])[0].strip() if boxes else text.strip()
        where = f"{name}, line {number}"
        if not words:
            continue
        in_order = words[len(words) - len(boxes) :] == boxes  # the name, then boxes alone
        if not image or not in_order or (not boxes and len(words) > 1):
            _broken(where, text, faults)
            continue
        edges = [_edges(word, where, faults) for word in boxes]
        lines.append(SunLine(_stem(image), [box for box in edges if box is not None]))
    return lines


def _broken(where: str, text: str, faults: Faults) -> None:
    mend = "write `filename xmin,ymin,xmax,ymax,class`"
    faults.fault("line that cannot be read", f"{where} ({text.strip()[:80]!r})", mend)


def _edges(word: str, where: str, faults: Faults) -> Edges | None:
    """One box; None if it is of no polyp or cannot be read."""
    *numbers, kind = word.split(",")
    try:
        left, top, right, bottom = map(float, numbers)
    except ValueError:
        _broken(where, word, faults)
        return None
    if kind == _OTHER:
        faults.warn("box of class 1 (no polyp), not taken", where)
    elif kind != _POLYP:
        faults.fault("box of an unknown class", f"{where} ({word})", "write 0 for a polyp")
    return (left, top, right, bottom) if kind == _POLYP else None


def _stem(image: str) -> str:
    path = PurePosixPath(image.replace("\\", "/"))
    return path.stem if path.suffix.lower() in IMAGE_ENDINGS else path.name
