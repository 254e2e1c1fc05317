"""Write a data set as REAL-Colon is released, annotations and tables (no images).

Source: Biffi et al., Scientific Data 2024, 11:539; layout of its release (figshare 22202866):
`<procedure>_annotations/<procedure>_<frame>.xml` for every frame, `video_info.csv` and
`lesion_info.csv`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from polyplink.core.artefacts import whole_folder, write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.sets.origin import write_origin
from polyplink.data.sets.voc import VocFrame, VocObject, format_voc
from polyplink.data.tables import DataSet

VIDEO_INFO = (
    "unique_video_name",
    "age",
    "sex",
    "endoscope_brand",
    "fps",
    "num_frames",
    "num_lesions",
    "bbps",
)
LESION_INFO = (
    "unique_object_id",
    "unique_video_name",
    "size [mm]",
    "site",
    "histology_extended",
    "histology_class",
)


def annotations_folder(procedure_id: str) -> str:
    """Name of the folder that holds a procedure's XML files."""
    return f"{procedure_id}_annotations"


def frames_folder(procedure_id: str) -> str:
    """Name of the folder that holds a procedure's images."""
    return f"{procedure_id}_frames"


def frame_stem(procedure_id: str, frame: int) -> str:
    """Name of a frame's files without ending: not zero-padded, counted from 0."""
    return f"{procedure_id}_{frame}"


def write_real_colon(data: DataSet, root: Path, *, keep: bool = False) -> None:
    """Write annotations of every procedure, then the two tables.

    Scores, image paths, Paris classes and patients have no place in the release and are left out.

    Args:
        data: The data set.
        root: Folder to write into; made if absent.
        keep: Leave annotation folders that are there already as they are (a run that goes on, and
            whose own record says which data set it is).

    Raises:
        PolyplinkError: If an annotation folder exists and `keep` is not asked for, a box lies
            beyond its procedure's last frame, or procedures are of several data sets.
    """
    if not keep:
        write_origin(data, root, "real-colon")
    for procedure_id in data.procedures["procedure_id"]:
        if not (keep and (root / annotations_folder(procedure_id)).is_dir()):
            write_annotations(data, procedure_id, root)
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
    lesions = data.polyps.group_by("procedure_id").len(name="lesions")
    videos = data.procedures.join(lesions, on="procedure_id", how="left", maintain_order="left")
    _write_csv(
        root / "video_info.csv",
        VIDEO_INFO,
        videos.select(
            "procedure_id",
            "age",
            "sex",
            "brand",
            "fps",
            "n_frames",
            pl.col("lesions").fill_null(0),
            "bbps",
        ),
    )
    _write_csv(
        root / "lesion_info.csv",
        LESION_INFO,
        data.polyps.select(
            "polyp_id", "procedure_id", "size_mm", "location", "histology", "histology_class"
        ),
    )


def _write_csv(path: Path, header: Sequence[str], table: pl.DataFrame) -> None:
    lines = [_line(header), *(_line(row) for row in table.iter_rows())]
    write_text(path, "".join(lines))


def _line(cells: Iterable[str | float | None]) -> str:
    return ",".join(_cell(cell) for cell in cells) + "\n"


def _cell(value: str | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    if isinstance(value, int):
        return str(value)
    # The tables hold float32: the shortest text that gives the same one back (29.97, 25).
    return np.format_float_positional(np.float32(value), trim="-")
