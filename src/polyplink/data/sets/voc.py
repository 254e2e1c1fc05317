"""The VOC-like XML of one frame, as REAL-Colon releases it.

Source: Biffi et al., Scientific Data 2024, 11:539, and the annotation files of its release.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from polyplink.core.errors import PolyplinkError
from polyplink.data.files.folders import LARGEST

_MEND = "download or unpack this file again"


@dataclass(frozen=True, slots=True)
class VocObject:
    """One box of a frame; edges in pixels.

    Attributes:
        unique_id: The polyp's name; None where the file gives none.
        box_id: Number of the box in its frame, from 1.
        xmin: Left edge.
        ymin: Top edge.
        xmax: Right edge.
        ymax: Bottom edge.
    """

    unique_id: str | None
    box_id: int
    xmin: float
    ymin: float
    xmax: float
    ymax: float


@dataclass(frozen=True, slots=True)
class VocFrame:
    """What one annotation file says: the frame's names, its size in pixels and its boxes."""

    folder: str
    filename: str
    width: int
    height: int
    objects: Sequence[VocObject]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _format_object(box: VocObject) -> str:
    identity = (
        "" if box.unique_id is None else f"\t\t<unique_id>{escape(box.unique_id)}</unique_id>\n"
    )
    return (
        "\t<object>\n"
        "\t\t<name>lesion</name>\n"
        f"{identity}"
        f"\t\t<box_id>{box.box_id}</box_id>\n"
        "\t\t<bndbox>\n"
        f"\t\t\t<xmin>{_number(box.xmin)}</xmin>\n"
        f"\t\t\t<xmax>{_number(box.xmax)}</xmax>\n"
        f"\t\t\t<ymin>{_number(box.ymin)}</ymin>\n"
        f"\t\t\t<ymax>{_number(box.ymax)}</ymax>\n"
        "\t\t</bndbox>\n"
        "\t</object>\n"
    )


def format_voc(frame: VocFrame) -> str:
    """Write a frame's XML with the fields in the order of the release.

    Args:
        frame: The frame; whole coordinates are written without a decimal point.

    Returns:
        The text of the file, ending in a newline; the same frame gives the same bytes.
    """
    return (
        "<annotation>\n"
        "\t<version_fmt>1.0</version_fmt>\n"
        f"\t<folder>{escape(frame.folder)}</folder>\n"
        f"\t<filename>{escape(frame.filename)}</filename>\n"
        "\t<source>\n"
        "\t\t<database>cosmoimd</database>\n"
        "\t\t<release>v1.0_20230228</release>\n"
        "\t</source>\n"
        "\t<size>\n"
        f"\t\t<width>{frame.width}</width>\n"
        f"\t\t<height>{frame.height}</height>\n"
        "\t\t<depth>3</depth>\n"
        "\t</size>\n"
        f"{''.join(_format_object(box) for box in frame.objects)}"
        "</annotation>\n"
    )


# Most frames show no polyp; what such a frame says is had without building a tree.
_FIELD = re.compile(r"<(folder|filename|width|height)>([^<&]*)</\1>")


def parse_voc(text: str, name: str) -> VocFrame:
    """Read a frame's XML, fields by their tags in whatever order.

    Of a frame without an object only the fields that are needed and the end are looked at.

    Args:
        text: The file's text.
        name: The file's name, for messages.

    Returns:
        The frame; coordinates as written (not rounded, not clamped).

    Raises:
        PolyplinkError: If the XML is broken or truncated, holds a document type (entities are not
            expanded), or lacks a field or a number.
    """
    if "<object" not in text and (short := _parse_without_object(text)):
        return short
    if "<!DOCTYPE" in text:
        raise PolyplinkError(f"{name} has a document type, which is not read", _MEND)
    try:
        # Safe: without a document type there is no entity to expand.
        root = ET.fromstring(text)  # noqa: S314
    except ET.ParseError as error:
        raise PolyplinkError(f"{name} is not whole XML ({error})", _MEND) from None
    size = _child(root, "size", name)
    return VocFrame(
        folder=(root.findtext("folder") or "").strip(),
        filename=(root.findtext("filename") or "").strip(),
        width=_count(size, "width", name),
        height=_count(size, "height", name),
        objects=tuple(_parse_object(element, name) for element in root.iter("object")),
    )


def _parse_without_object(text: str) -> VocFrame | None:
    """Read a frame that has no object; None where the text needs the full parser."""
    fields = dict(_FIELD.findall(text))
    whole = text.startswith("<annotation") and text.rstrip().endswith("</annotation>")
    if not whole or len(fields) < 4 or "<!" in text:
        return None
    width, height = fields["width"], fields["height"]
    sizes = [int(text) if text.isdecimal() else 0 for text in (width, height)]
    if not all(0 < size <= LARGEST for size in sizes):
        return None
    return VocFrame(fields["folder"], fields["filename"], sizes[0], sizes[1], ())


def _parse_object(element: ET.Element, name: str) -> VocObject:
    box = _child(element, "bndbox", name)
    return VocObject(
        unique_id=(element.findtext("unique_id") or "").strip() or None,
        box_id=_count(element, "box_id", name),
        xmin=_real(box, "xmin", name),
        ymin=_real(box, "ymin", name),
        xmax=_real(box, "xmax", name),
        ymax=_real(box, "ymax", name),
    )


def _child(element: ET.Element, tag: str, name: str) -> ET.Element:
    child = element.find(tag)
    if child is None:
        raise PolyplinkError(f"{name} has no <{tag}> in <{element.tag}>", _MEND)
    return child


def _real(element: ET.Element, tag: str, name: str) -> float:
    text = _child(element, tag, name).text or ""
    try:
        return float(text)
    except ValueError:
        raise PolyplinkError(f"{name}: <{tag}> holds {text!r}, not a number", _MEND) from None


def _count(element: ET.Element, tag: str, name: str) -> int:
    value = _real(element, tag, name)
    if not 1 <= value <= LARGEST:
        raise PolyplinkError(f"{name}: <{tag}> holds {value:g}, not a number from 1", _MEND)
    return round(value)
