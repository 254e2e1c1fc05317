"""The layout of REAL-Colon's release: names of files, the XML of a frame, the tables. Writer.

Source: Biffi et al., Scientific Data 2024, 11:539; its release (figshare 22202866):
`<procedure>_annotations/<procedure>_<frame>.xml` for every frame, `<procedure>_frames` with the
images, `video_info.csv` and `lesion_info.csv`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import polars as pl

from polyplink.core.artefacts import whole_folder, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.layout import (
    Edges,
    FrameSource,
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


def annotations_folder(procedure_id: str) -> str:
    """Name of the folder that holds a procedure's XML files."""
    return f"{procedure_id}_annotations"


def frames_folder(procedure_id: str) -> str:
    """Name of the folder that holds a procedure's images."""
    return f"{procedure_id}_frames"


def frame_stem(procedure_id: str, frame: int) -> str:
    """Name of a frame's files without ending: not zero-padded, counted from 0."""
    return f"{procedure_id}_{frame}"


def format_voc(
    folder: str, filename: str, size: tuple[int, int], boxes: Sequence[tuple[str | None, Edges]]
) -> str:
    """Write a frame's XML with the fields in the order of the release.

    Args:
        folder: Name of the folder of the procedure's images.
        filename: Name of the frame's image.
        size: Width and height of the frame, pixels.
        boxes: Polyp and edges of each box; whole coordinates are written without a decimal point.

    Returns:
        The text of the file, ending in a newline; the same frame gives the same bytes.
    """
    objects = []
    for box_id, (polyp_id, edges) in enumerate(boxes, 1):
        left, top, right, bottom = (int(e) if e == int(e) else e for e in edges)
        polyp = "" if polyp_id is None else f"\t\t<unique_id>{escape(polyp_id)}</unique_id>\n"
        objects.append(
            "\t<object>\n"
            "\t\t<name>lesion</name>\n"
            f"{polyp}"
            f"\t\t<box_id>{box_id}</box_id>\n"
            "\t\t<bndbox>\n"
            f"\t\t\t<xmin>{left!r}</xmin>\n"
            f"\t\t\t<xmax>{right!r}</xmax>\n"
            f"\t\t\t<ymin>{top!r}</ymin>\n"
            f"\t\t\t<ymax>{bottom!r}</ymax>\n"
            "\t\t</bndbox>\n"
            "\t</object>\n"
        )
    return (
        "<annotation>\n"
        "\t<version_fmt>1.0</version_fmt>\n"
        f"\t<folder>{escape(folder)}</folder>\n"
        f"\t<filename>{escape(filename)}</filename>\n"
        "\t<source>\n"
        "\t\t<database>cosmoimd</database>\n"
        "\t\t<release>v1.0_20230228</release>\n"
        "\t</source>\n"
        "\t<size>\n"
        f"\t\t<width>{size[0]}</width>\n"
        f"\t\t<height>{size[1]}</height>\n"
        "\t\t<depth>3</depth>\n"
        "\t</size>\n"
        f"{''.join(objects)}"
        "</annotation>\n"
    )


def format_annotations(
    procedure: Mapping[str, Any], detections: pl.DataFrame, *, suffix: str = ""
) -> Iterator[tuple[str, str]]:
    """The annotation files of a procedure, one for every frame.

    Args:
        procedure: Its row of the table procedures.
        detections: Its boxes.
        suffix: Stands behind the frame number in file names; the release has `.0` in 001-012.

    Yields:
        Name of a file without its ending, and its text.

    Raises:
        PolyplinkError: If a box lies beyond the last frame.
    """
    name, n_frames = procedure["procedure_id"], procedure["n_frames"]
    boxes: defaultdict[int, list[tuple[str | None, Edges]]] = defaultdict(list)
    columns = detections.select("frame", "polyp_id", "x", "y", "w", "h")
    for frame, polyp_id, x, y, w, h in columns.iter_rows():
        boxes[frame].append((polyp_id, (x, y, x + w, y + h)))
    beyond = [frame for frame in boxes if not 0 <= frame < n_frames]
    if beyond:
        raise PolyplinkError(
            f"procedure {name}: a box in frame {beyond[0]} of {n_frames}",
            "correct n_frames, or leave the box out",
        )
    size = procedure["width"], procedure["height"]
    for frame in range(n_frames):
        stem = frame_stem(name, frame) + suffix
        yield stem, format_voc(frames_folder(name), f"{stem}.jpg", size, boxes.get(frame, ()))


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
    boxes = data.detections.partition_by("procedure_id", as_dict=True)
    for procedure in data.procedures.iter_rows(named=True):
        name = procedure["procedure_id"]
        target = root / annotations_folder(name)
        if not (keep and target.is_dir()):
            with whole_folder(target) as folder:  # whole or not at all
                found = boxes.get((name,), data.detections.clear())
                for stem, text in format_annotations(procedure, found):
                    (folder / f"{stem}.xml").write_bytes(text.encode())
        for frame in range(0 if frames is None else procedure["n_frames"]):
            image = root / frames_folder(name) / f"{frame_stem(name, frame)}.jpg"
            write_image(image, frames, name, frame)
    write_tables(data, root)


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
