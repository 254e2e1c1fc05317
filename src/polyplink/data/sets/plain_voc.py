"""The plain VOC XML of one frame: size and named boxes, as PolypsSet and a packaging of SUN give.

The fields are read by their tags; numbers may stand between blanks. Unlike REAL-Colon's files
(`voc`) an object has a class name and no identity.
"""

from dataclasses import dataclass
from xml.etree import ElementTree as ET

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.folders import LARGEST
from polyplink.data.files.trees import decode_text
from polyplink.data.formats.edge_boxes import Edges

_MEND = "download or unpack this file again"


@dataclass(frozen=True, slots=True)
class PlainObject:
    """One box; edges in pixels.

    Attributes:
        name: The class, without blanks around it.
        edges: Left, top, right, bottom.
    """

    name: str
    edges: Edges


@dataclass(frozen=True, slots=True)
class PlainFrame:
    """What one file says.

    Attributes:
        size: Width and height in pixels; None where the file gives none, or 0.
        objects: Its boxes in the file's order.
    """

    size: tuple[int, int] | None
    objects: tuple[PlainObject, ...]


def parse_plain_voc(data: bytes, name: str) -> PlainFrame:
    """Read a frame's XML.

    Args:
        data: The file's bytes, UTF-8.
        name: The file's name, for messages.

    Raises:
        PolyplinkError: If the XML is broken, holds a document type (entities are not expanded),
            or an edge is missing or no number.
    """
    text = decode_text(data, name).lstrip()
    if "<!DOCTYPE" in text:
        raise PolyplinkError(f"{name} has a document type, which is not read", _MEND)
    try:
        # Safe: without a document type there is no entity to expand.
        root = ET.fromstring(text)  # noqa: S314
    except ET.ParseError as error:
        raise PolyplinkError(f"{name} is not whole XML ({error})", _MEND) from None
    return PlainFrame(_size(root), tuple(_object(element, name) for element in root.iter("object")))


def _size(root: ET.Element) -> tuple[int, int] | None:
    texts = [(root.findtext(f"size/{tag}") or "").strip() for tag in ("width", "height")]
    width, height = (int(text) if text.isdecimal() else 0 for text in texts)
    return (width, height) if 0 < width <= LARGEST and 0 < height <= LARGEST else None


def _object(element: ET.Element, name: str) -> PlainObject:
    edges = []
    for tag in ("xmin", "ymin", "xmax", "ymax"):
        text = element.findtext(f"bndbox/{tag}")
        try:
            edges.append(float(text or ""))
        except ValueError:
            raise PolyplinkError(f"{name}: <{tag}> holds {text!r}, not a number", _MEND) from None
    left, top, right, bottom = edges
    return PlainObject((element.findtext("name") or "").strip(), (left, top, right, bottom))
