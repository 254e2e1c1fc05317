"""Write a data set as the SUN database is packed.

Source: layout as `sun` reads it. Nothing of SUN itself is in here; its terms forbid to hand on
files made of it, so write them for your own use only.
"""

from pathlib import Path
from typing import Literal

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.data.files.write_frames import FrameSource, short_number, whole_edges, write_image
from polyplink.data.sets.origin import write_origin
from polyplink.data.sets.sun import DATASET
from polyplink.data.sets.sun_cases import COLUMNS
from polyplink.data.tables import DataSet

Packaging = Literal["text", "xml"]


def write_sun(
    data: DataSet,
    root: Path,
    *,
    frames: FrameSource | None = None,
    packaging: Packaging = "text",
) -> None:
    """Write annotations of every case `caseN`, images where there are, and `cases.csv`.

    As in the release the positive part holds frames with a box alone, the image number starts
    again after every gap, and the file names do not hold the case. Lost are frames behind a
    case's last box, scores, image sizes (without images), further polyps of a case, frame rates
    other than 30, and procedures without a box unless there are images.

    Args:
        data: Procedures named `case<number>` or `negative<number>`.
        root: Folder to write into; made if absent.
        frames: Gives the image of a frame.
        packaging: `text`: `annotation_txt/caseN.txt`; `xml`: `imgs` and `annotation_xml`.

    Raises:
        PolyplinkError: If a procedure is named otherwise, or a box is not of whole pixels.
    """
    boxes = whole_edges(data, "SUN")
    write_origin(data, root, DATASET)
    for procedure_id, n_frames in data.procedures.select("procedure_id", "n_frames").iter_rows():
        number = _number(procedure_id)
        positive = procedure_id.startswith("case")
        found = boxes.get(procedure_id, {})
        names = _names(sorted(found) if positive else list(range(n_frames)), number)
        folder = root / ("imgs" if packaging == "xml" else "sundatabase_positive_part1")
        if not positive:
            folder = root / "sundatabase_negative_part1"
        _write_images(folder / f"case{number}", procedure_id, names, frames)
        if packaging == "xml" and found:
            _write_xml(root / "annotation_xml" / f"case{number}", names, found)
        elif found:
            lines = [_line(names[frame], found[frame]) for frame in sorted(found)]
            write_text(folder / "annotation_txt" / f"case{number}.txt", "".join(lines) + "\n")
    write_cases(data, root / "cases.csv")


def _number(procedure_id: str) -> int:
    number = procedure_id.removeprefix("case").removeprefix("negative")
    if not number.isdecimal() or number == procedure_id:
        raise PolyplinkError(
            f"procedure {procedure_id!r} is no case of SUN", "name it case<number>"
        )
    return int(number)


def _names(frames: list[int], case: int) -> dict[int, str]:
    """Image names of frames in rising order; a new segment, counted from 1, after every gap."""
    names: dict[int, str] = {}
    segment, start, last = 1, 0, -1
    for frame in frames:
        if frame > last + 1 and names:
            segment, start = segment + 1, last + 2
        # The release's names tell the recording, not the case.
        names[frame] = (
            f"case_M_20180101000000_0U{case * 7919:014d}_1_{case % 7:03d}_001-1"
            f"_a{segment}_ayy_image{frame - start + 1:04d}"
        )
        last = frame
    return names


def _write_images(
    folder: Path, procedure_id: str, names: dict[int, str], frames: FrameSource | None
) -> None:
    for frame, name in names.items():
        pixels = None if frames is None else frames(procedure_id, frame)
        if pixels is not None:
            write_image(folder / f"{name}.jpg", pixels)


def _line(name: str, boxes: list[tuple[int, ...]]) -> str:
    words = [f"{name}.jpg", *(",".join(map(str, (*box, 0))) for box in boxes)]
    return " ".join(words) + "\n"


def _write_xml(
    folder: Path, names: dict[int, str], found: dict[int, list[tuple[int, ...]]]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for frame, boxes in found.items():
        objects = "".join(
            "<object><name>polyp</name><bndbox>"
            f"<xmin>{left}</xmin><ymin>{top}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax>"
            "</bndbox></object>"
            for left, top, right, bottom in boxes
        )
        text = f"<annotation><filename>{names[frame]}.jpg</filename>{objects}</annotation>\n"
        (folder / f"{names[frame]}.xml").write_text(text)


def write_cases(data: DataSet, path: Path) -> None:
    """Write the table of cases that `import_sun` reads; 15 mm becomes `15mm-` as on the site."""
    patients = dict(data.procedures.select("procedure_id", "patient").iter_rows())
    rows = data.polyps.select(
        "procedure_id",
        "morphology",
        "size_mm",
        "location",
        pl.coalesce("histology_class", "histology"),
    )
    lines = [
        (
            procedure_id.removeprefix("case"),
            patients[procedure_id],
            shape,
            None if size is None else f"{short_number(size)}mm{'-' if size == 15 else ''}",
            location,
            word,
        )
        for procedure_id, shape, size, location, word in rows.iter_rows()
    ]
    schema = dict.fromkeys(COLUMNS, pl.String)
    write_text(path, pl.DataFrame(lines, schema=schema, orient="row").write_csv())
