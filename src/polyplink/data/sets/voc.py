"""VOC XML of a frame, as in REAL-Colon, PolypsSet and a packaging of SUN."""

from typing import NamedTuple
from xml.etree import ElementTree as ET

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.trees import decode_text
from polyplink.data.files.values import LARGEST
from polyplink.data.sets.layout import Edges, Size

_AGAIN = "download or unpack this file again"


class VocObject(NamedTuple):
    """One box of a VOC file: its class, its `unique_id` (only in REAL-Colon), its edges."""

    label: str
    unique_id: str | None
    edges: Edges


class VocFrame(NamedTuple):
    """A VOC file of a frame; the size in pixels is None if it is missing or 0."""

    size: Size | None
    objects: tuple[VocObject, ...]


def parse_voc(text: str, name: str) -> VocFrame:
    """Read the VOC XML of a frame.

    Fields are read by their tags in any order; blanks around them are ignored, and coordinates
    are neither rounded nor clamped.

    Raises:
        PolyplinkError: If the XML is malformed or truncated, has a document type (entities are not
            expanded), or an edge is missing or not a number.
    """
    if "<!DOCTYPE" in text:
        raise PolyplinkError(f"{name} has a document type, which is not read", _AGAIN)
    try:
        root = ET.fromstring(text)  # noqa: S314 - no entity without a document type
    except (ET.ParseError, ValueError, LookupError) as error:  # the latter two: its encoding
        raise PolyplinkError(f"{name} is not valid XML ({error})", _AGAIN) from None
    # Single tags, because ElementTree searches for those in C and for paths in Python.
    nothing = ET.Element("nothing")
    sides, size = [], root.find("size")
    for tag in ("width", "height"):
        try:
            sides.append(float((nothing if size is None else size).findtext(tag) or 0))
        except ValueError:
            sides.append(0)
    has_size = all(1 <= side <= LARGEST for side in sides)
    objects = []
    for element in root.iter("object"):
        edges, box = [], element.find("bndbox")
        for tag in ("xmin", "ymin", "xmax", "ymax"):
            value = (nothing if box is None else box).findtext(tag)
            try:
                edges.append(float(value or ""))
            except ValueError:
                problem = f"{name}: <{tag}> holds {value!r}, not a number"
                raise PolyplinkError(problem, _AGAIN) from None
        left, top, right, bottom = edges
        label = (element.findtext("name") or "").strip()
        polyp = (element.findtext("unique_id") or "").strip()
        objects.append(VocObject(label, polyp or None, (left, top, right, bottom)))
    return VocFrame((round(sides[0]), round(sides[1])) if has_size else None, tuple(objects))


def parse_voc_file(data: bytes, name: str) -> VocFrame:
    """`parse_voc` of a file's bytes, for `Tree.parse_each`."""
    return parse_voc(decode_text(data, name).lstrip(), name)
