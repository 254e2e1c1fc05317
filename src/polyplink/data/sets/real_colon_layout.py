"""The layout of REAL-Colon's release: names of files, the XML of a frame, the tables. Writer.

Source: Biffi et al., Scientific Data 2024, 11:539; its release (figshare 22202866):
`<procedure>_annotations/<procedure>_<frame>.xml` for every frame, `<procedure>_frames` with the
images, `video_info.csv` and `lesion_info.csv`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import polars as pl

from polyplink.core.artefacts import whole_folder, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.files.folders import LARGEST
from polyplink.data.sets.layout import (
    FrameSource,
    parse_xml,
    short_number,
    write_image,
    write_origin,
)
from polyplink.data.tables import DataSet

# Column as released -> our name. The number of lesions is no column of ours.
VIDEO_INFO: Mapping[str, str] = {
    "unique_video_name": "procedure_id",
    "age": "age",
    "sex": "sex",
    "endoscope_brand": "brand",
    "fps": "fps",
    "num_frames": "n_frames",
    "num_lesions": "num_lesions",
    "bbps": "bbps",
}
LESION_INFO: Mapping[str, str] = {
    "unique_object_id": "polyp_id",
    "unique_video_name": "procedure_id",
    "size [mm]": "size_mm",
    "site": "location",
    "histology_extended": "histology",
    "histology_class": "histology_class",
}

_AGAIN = "download or unpack this file again"


def annotations_folder(procedure_id: str) -> str:
    """Name of the folder that holds a procedure's XML files."""
    return f"{procedure_id}_annotations"


def frames_folder(procedure_id: str) -> str:
    """Name of the folder that holds a procedure's images."""
    return f"{procedure_id}_frames"


def frame_stem(procedure_id: str, frame: int) -> str:
    """Name of a frame's files without ending: not zero-padded, counted from 0."""
    return f"{procedure_id}_{frame}"


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


def _format_object(box: VocObject) -> str:
    def number(value: float) -> str:
        return str(int(value)) if value == int(value) else repr(value)

    polyp = box.unique_id
    identity = "" if polyp is None else f"\t\t<unique_id>{escape(polyp)}</unique_id>\n"
    return (
        "\t<object>\n"
        "\t\t<name>lesion</name>\n"
        f"{identity}"
        f"\t\t<box_id>{box.box_id}</box_id>\n"
        "\t\t<bndbox>\n"
        f"\t\t\t<xmin>{number(box.xmin)}</xmin>\n"
        f"\t\t\t<xmax>{number(box.xmax)}</xmax>\n"
        f"\t\t\t<ymin>{number(box.ymin)}</ymin>\n"
        f"\t\t\t<ymax>{number(box.ymax)}</ymax>\n"
        "\t\t</bndbox>\n"
        "\t</object>\n"
    )


# Most frames show no polyp: they are read without building a tree.
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
    root = parse_xml(text, name)
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
        raise PolyplinkError(f"{name} has no <{tag}> in <{element.tag}>", _AGAIN)
    return child


def _real(element: ET.Element, tag: str, name: str) -> float:
    text = _child(element, tag, name).text or ""
    try:
        return float(text)
    except ValueError:
        raise PolyplinkError(f"{name}: <{tag}> holds {text!r}, not a number", _AGAIN) from None


def _count(element: ET.Element, tag: str, name: str) -> int:
    value = _real(element, tag, name)
    if not 1 <= value <= LARGEST:
        raise PolyplinkError(f"{name}: <{tag}> holds {value:g}, not a number from 1", _AGAIN)
    return round(value)


def write_real_colon(
    data: DataSet, root: Path, *, frames: FrameSource | None = None, keep: bool = False
) -> None:
    """Write annotations of every procedure, images where given, then the two tables.

    Scores, image paths, Paris classes and patients have no place in the release and are left out.

    Args:
        data: The data set.
        root: Folder to write into; made if absent.
        frames: Gives the image of a frame.
        keep: Leave annotation folders that exist as they are (a run that is resumed, and whose
            own record says which data set it is).

    Raises:
        PolyplinkError: If an annotation folder exists and `keep` is not asked for, a box lies
            beyond its procedure's last frame, or procedures are of several data sets.
    """
    if not keep:
        write_origin(data, root, "real-colon")
    for name, n_frames in data.procedures.select("procedure_id", "n_frames").iter_rows():
        if not (keep and (root / annotations_folder(name)).is_dir()):
            write_annotations(data, name, root)
        for frame in range(n_frames if frames is not None else 0):
            assert frames is not None
            image = root / frames_folder(name) / f"{frame_stem(name, frame)}.jpg"
            write_image(image, frames(name, frame))
    write_tables(data, root)


def write_annotations(data: DataSet, procedure_id: str, root: Path) -> None:
    """Write one XML for every frame of a procedure, the folder whole or not at all.

    Args:
        data: The data set.
        procedure_id: Which procedure.
        root: Folder that gets `<procedure_id>_annotations`.

    Raises:
        PolyplinkError: If there is no such procedure, its folder exists already, or a box lies
            beyond its last frame.
    """
    rows = data.procedures.filter(pl.col("procedure_id") == procedure_id)
    if rows.is_empty():
        raise PolyplinkError(f"no procedure {procedure_id!r}", "name one of the table procedures")
    procedure = rows.row(0, named=True)
    boxes = boxes_by_frame(data.detections.filter(pl.col("procedure_id") == procedure_id))
    beyond = [frame for frame in boxes if not 0 <= frame < procedure["n_frames"]]
    if beyond:
        raise PolyplinkError(
            f"procedure {procedure_id}: a box in frame {beyond[0]} of {procedure['n_frames']}",
            "correct n_frames, or leave the box out",
        )
    with whole_folder(root / annotations_folder(procedure_id)) as folder:
        for frame in range(procedure["n_frames"]):
            stem = frame_stem(procedure_id, frame)
            text = format_voc(
                VocFrame(
                    folder=frames_folder(procedure_id),
                    filename=f"{stem}.jpg",
                    width=procedure["width"],
                    height=procedure["height"],
                    objects=boxes.get(frame, ()),
                )
            )
            (folder / f"{stem}.xml").write_bytes(text.encode())


def boxes_by_frame(detections: pl.DataFrame) -> dict[int, list[VocObject]]:
    """The boxes of one procedure, numbered from 1 in every frame in the table's order."""
    boxes: defaultdict[int, list[VocObject]] = defaultdict(list)
    columns = detections.select("frame", "polyp_id", "x", "y", "w", "h")
    for frame, polyp_id, x, y, w, h in columns.iter_rows():
        there = boxes[frame]
        there.append(VocObject(polyp_id, len(there) + 1, x, y, x + w, y + h))
    return dict(boxes)


def write_tables(data: DataSet, root: Path) -> None:
    """Write `video_info.csv` and `lesion_info.csv`, rows in the order of the data set's tables.

    Texts are quoted and numbers are not, as in the release; null is an empty field. The number of
    lesions is counted from the polyps.

    Args:
        data: The data set.
        root: Folder to write into; made if absent.
    """
    lesions = data.polyps.group_by("procedure_id").len(name="num_lesions")
    videos = data.procedures.join(lesions, on="procedure_id", how="left", maintain_order="left")
    videos = videos.with_columns(pl.col("num_lesions").fill_null(0))
    for name, table, columns in (
        ("video_info.csv", videos, VIDEO_INFO),
        ("lesion_info.csv", data.polyps, LESION_INFO),
    ):
        rows = [tuple(columns), *table.select(columns.values()).iter_rows()]
        write_text(root / name, "".join(_line(row) for row in rows))


def _line(cells: Iterable[str | float | None]) -> str:
    def text(value: str | float | None) -> str:
        if value is None:
            return ""
        if isinstance(value, str):
            return '"' + value.replace('"', '""') + '"'
        return str(value) if isinstance(value, int) else short_number(value)

    return ",".join(map(text, cells)) + "\n"
