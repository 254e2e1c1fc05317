"""VOC XML of a frame, as in REAL-Colon, PolypsSet and a packaging of SUN."""

import re
from typing import NamedTuple
from xml.etree import ElementTree as ET

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.trees import decode_text
from polyplink.data.files.values import LARGEST
from polyplink.data.sets.layout import Edges, Size

_AGAIN = "download or unpack this file again"

# Files with fields in the order of the releases and only printable ASCII in them are read by
# regular expressions in 3 microseconds; an XML tree takes 12, and a release has millions of files.
_GAP, _TEXT = r"[\t\n ]*+", r"[\t\n -%'-;=?-~]*+"  # text without <, > and &
_SIDE, _EDGE = r"(\d{1,9})", r"(\d{1,9}(?:\.\d{1,9})?)"


def _leaves(group: int) -> str:
    """Pattern of fields that are skipped; `group` is the number of its group."""
    tag = r"<(?!(?:size|object|name|unique_id|bndbox)>)([A-Za-z_]\w*+)>"
    return rf"(?:{tag}{_TEXT}</\{group}>{_GAP})*+"


_HEAD = re.compile(
    rf"<annotation>{_GAP}{_leaves(1)}(?:<source>{_GAP}{_leaves(2)}</source>{_GAP})?+"
    rf"<size>{_GAP}<width>{_SIDE}</width>{_GAP}<height>{_SIDE}</height>{_GAP}{_leaves(5)}</size>"
    rf"{_GAP}{_leaves(6)}",
    re.ASCII,
)
_OBJECT = re.compile(
    rf"<object>{_GAP}<name>({_TEXT})</name>{_GAP}(?:<unique_id>({_TEXT})</unique_id>{_GAP})?+"
    rf"{_leaves(3)}<bndbox>{_GAP}"
    + "".join(rf"<(xmin|xmax|ymin|ymax)>{_EDGE}</\{n}>{_GAP}" for n in (4, 6, 8, 10))
    + rf"</bndbox>{_GAP}</object>{_GAP}",
    re.ASCII,
)
_END = re.compile(rf"</annotation>{_GAP}")


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
    if (quick := _parse_released(text)) is not None:
        return quick
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


def _parse_released(text: str) -> VocFrame | None:
    """Like `parse_voc`, for fields in the order of the releases; None for any other order."""
    head = _HEAD.match(text)
    if head is None:
        return None
    objects, at = [], head.end()
    while (match := _OBJECT.match(text, at)) is not None:
        label, polyp, _, *tags_and_values = match.groups()
        edge = dict(zip(tags_and_values[::2], tags_and_values[1::2], strict=True))
        if len(edge) < 4:  # one of the four tags occurs twice
            return None
        left, top = float(edge["xmin"]), float(edge["ymin"])
        box = left, top, float(edge["xmax"]), float(edge["ymax"])
        objects.append(VocObject(label.strip(), (polyp or "").strip() or None, box))
        at = match.end()
    if _END.fullmatch(text, at) is None:
        return None
    size = int(head[3]), int(head[4])
    return VocFrame(size if min(size) else None, tuple(objects))


def parse_voc_file(data: bytes, name: str) -> VocFrame:
    """`parse_voc` of a file's bytes, for `Tree.parse_each`."""
    return parse_voc(decode_text(data, name).lstrip(), name)
