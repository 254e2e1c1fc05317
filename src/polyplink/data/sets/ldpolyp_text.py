"""The text of one LDPolypVideo frame: a line with the number of boxes, then one line for each.

Source: Ma et al., MICCAI 2021; each box is `xmin ymin xmax ymax` in pixels between blanks.
"""

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.trees import decode_text
from polyplink.data.formats.edge_boxes import Edges

_MEND = "download or unpack this file again"


def parse_boxes(data: bytes, name: str) -> list[Edges]:
    """Read one annotation; blank lines are passed over.

    Args:
        data: The file's bytes.
        name: The file's name, for messages.

    Returns:
        The edges of its boxes; none where the frame shows no polyp.

    Raises:
        PolyplinkError: If the number of boxes is missing, below 0 or not that of the lines, or a
            line is not four numbers.
    """
    lines = [line.split() for line in decode_text(data, name).splitlines() if line.strip()]
    if not lines or len(lines[0]) != 1 or not lines[0][0].isdecimal():
        first = " ".join(lines[0]) if lines else ""
        raise PolyplinkError(f"{name} begins with {first!r}, not a number of boxes", _MEND)
    count = int(lines[0][0])
    if count != len(lines) - 1:
        raise PolyplinkError(f"{name} has {len(lines) - 1} boxes and says {count}", _MEND)
    return [_edges(line, name) for line in lines[1:]]


def _edges(words: list[str], name: str) -> Edges:
    try:
        left, top, right, bottom = map(float, words)
    except ValueError:
        line = " ".join(words)
        raise PolyplinkError(f"{name}: {line!r} is not four numbers", _MEND) from None
    return left, top, right, bottom
