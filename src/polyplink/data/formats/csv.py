"""Plain CSV with the column names of polyplink: `detections.csv` and its side tables.

`detections.csv`: procedure_id, frame (from 0), x, y, w, h (pixels) and optionally score, polyp_id,
image (relative to the folder; a video's frame is `video.mp4#12`). Optional side tables are
`procedures.csv` and `polyps.csv` (see `polyplink.data.formats.side_tables`).
"""

from codecs import BOM_UTF8
from pathlib import Path
from typing import Unpack

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import ImportOptionError, PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.faults import Faults, leave_out, place_text
from polyplink.data.files.text_tables import read_raw_table, read_text_table
from polyplink.data.formats.assemble import (
    BoxImport,
    ReadOptions,
    assemble,
    no_number,
    number,
    source_folder,
)
from polyplink.data.formats.format import Format, by_item
from polyplink.data.formats.side_tables import whole_polyp_ids, write_side_tables
from polyplink.data.tables import DETECTIONS, DataSet, Imported, csv_text

_NAMES = ("detections.csv", "boxes.csv")
_BOX = ("frame", "x", "y", "w", "h")
_LIKE_SCORE = {"confidence", "conf", "probability", "prob", "scores"}


def read_box_rows(path: Path, faults: Faults) -> pl.DataFrame:
    """Read a CSV file of boxes.

    Args:
        path: The file; columns procedure_id (or video_id), frame, x, y, w, h in pixels.
        faults: Extended by a warning for each unknown column.

    Returns:
        The rows that are not blank, with these columns as numbers (null if not a number), the
        others as text, `item` (number of the row, from 0), and `at`, its file and line.

    Raises:
        PolyplinkError: If the file is missing or not a table, lacks a column, or has the scores
            under another name.
    """
    needed = ("procedure_id", *_BOX)
    table = read_text_table(path, needed)
    if {"video_id", "procedure_id"} <= set(table.columns):
        raise PolyplinkError(
            f"{path} has the columns procedure_id and video_id, which mean the same",
            "remove one of them",
        )
    table = table.rename({"video_id": "procedure_id"} if "video_id" in table.columns else {})
    known_columns = [name for name in table.columns if name in (*DETECTIONS, "track")]
    unknown_columns = table.drop(known_columns).columns
    for name in unknown_columns:
        faults.warn(Message("import.unknown_column", {"table": path.name}), name)
    like_score = [name for name in unknown_columns if name.lower() in _LIKE_SCORE]
    if like_score and "score" not in table.columns:  # without scores, people drew the boxes
        raise PolyplinkError(
            f"{path} has a column {like_score[0]!r}, but no column 'score'",
            "rename it, or remove it if people drew the boxes",
        )
    missing = [name for name in needed if name not in known_columns]
    if missing:
        spelt = next((name for name in unknown_columns if name.lower() == missing[0]), None)
        columns = ", ".join(needed)
        hint = f"write the columns {columns}" if spelt is None else f"rename the column {spelt!r}"
        raise PolyplinkError(f"{path} has no column {missing[0]!r}", hint)
    is_row = table.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
    table = table.select(known_columns).with_row_index("item").filter(is_row)
    for name in (*_BOX, *{"score"}.intersection(table.columns)):
        texts = table.filter(no_number(name))[name]
        if not texts.is_empty() and texts.str.contains(r"^\s*-?\d+,\d+\s*$").all():
            raise PolyplinkError(
                f"{path} has decimal commas in the column {name}",
                "write numbers with a decimal point, 1.5 and not 1,5",
            )
    line = pl.col("item") + 2  # after the header
    at = place_text("place.line", file=pl.lit(path.name), number=line)
    return table.with_columns(*(number(column) for column in _BOX), at=at)


def import_csv(source: Path, **options: Unpack[ReadOptions]) -> Imported:
    """Read `detections.csv` and its side tables.

    Args:
        source: The file, or a folder with `detections.csv` or `boxes.csv`.
        options: See `ReadOptions`; `workers` has no effect, as polars reads one file with its own
            threads.

    Returns:
        The data set and its warnings. Without a number of frames a procedure ends at its last
        box, with a warning. A table without a row is of the recording that is given with it.

    Raises:
        PolyplinkError: If the file or a column is missing, or the size of a procedure's frames is
            unknown; if strict, at the first fault.
    """
    reading = BoxImport(source, **options)
    path = source
    if source.is_dir():
        existing = [source / name for name in _NAMES if (source / name).is_file()]
        if not existing:
            raise PolyplinkError(f"{source} has no {_NAMES[0]}", "check the path, or name the file")
        path = existing[0]
    boxes = read_box_rows(path, reading.faults).with_columns(
        pl.when(pl.col("procedure_id") != "").then("procedure_id"),
        file=pl.lit(0),
    )
    kind = Message("import.row_without_box")
    hint = "remove it"
    boxes = leave_out(
        boxes, pl.all_horizontal(pl.col(_BOX[1:]).is_null()), kind, hint, reading.faults
    )
    boxes = whole_polyp_ids(boxes)
    if "image" in boxes.columns:
        boxes = boxes.with_columns(pl.col("image").str.replace_all("\\", "/", literal=True))
    procedures = None
    if boxes.is_empty() and not (source_folder(source) / "procedures.csv").is_file():
        procedures = _procedure_of(reading.video, path)
    if "score" in boxes.columns:
        kind, hint = Message("import.score_text"), "write a number, or nothing"
        boxes = leave_out(boxes, no_number("score"), kind, hint, reading.faults)
        boxes = boxes.with_columns(number("score"))
        reading.faults.check_some_usable(boxes, boxes.height + reading.faults.n_left_out)
    reading.progress(1, 1)
    return assemble(boxes, source_folder(source), reading, procedures=procedures, files=[path])


def _procedure_of(recording: Path | None, path: Path) -> pl.DataFrame:
    """The procedure of a recording without boxes, named after it."""
    if recording is None or not recording.is_file():
        what = f"{path} holds no procedure: it is empty"
        raise ImportOptionError(what, "if its recording shows no polyp, name it with --video FILE")
    return pl.DataFrame({"procedure_id": [recording.stem]})


def mark_csv(path: Path, marks: pl.DataFrame) -> dict[str, bytes]:
    """The table of a file with the columns `track_id` and `polyp`, empty for boxes without.

    Args:
        path: A file that `import_csv` reads.
        marks: See `Format`.

    Raises:
        PolyplinkError: If the file is not a table.
    """
    table, separator = read_raw_table(path)
    marked = table.with_columns(by_item(marks, table.height))
    with path.open("rb") as file:  # without its byte order mark, Excel would misread the file
        has_bom = file.read(len(BOM_UTF8)) == BOM_UTF8
    return {"": marked.write_csv(separator=separator, include_bom=has_bom).encode()}


def write_csv(data: DataSet, root: Path) -> None:
    """Write the three tables with polyplink's column names; `import_csv` reads them.

    Floats are written with enough digits to read the same float32 back; an empty text becomes null.
    Lost: splits.

    Args:
        data: The data set.
        root: Folder to write into; created if absent. Files of the same names are replaced.
    """
    write_text(root / "detections.csv", csv_text(data.detections))
    write_side_tables(data, root)


CSV = Format(import_csv, write_csv, ("splits",), mark_csv, archives=False)
