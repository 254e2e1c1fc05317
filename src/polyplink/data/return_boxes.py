"""Return boxes: write the imported files of a data folder again, with track and polyp.

`source-files.parquet` of a data folder lists the files (path, name in the source, bytes, time of
the last change), with the format in its metadata; `source-boxes.parquet` has the place of each
detection in these files. If the format cannot be written again, or a file has changed since, the
boxes are returned as a table.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from polyplink.core.artefacts import change_folder, file_state
from polyplink.core.parts import FORMATS
from polyplink.data.tables import (
    SOURCE_FILES,
    DataSet,
    Imported,
    csv_text,
    read_table_with_metadata,
    write_table,
)

TABLE = "boxes.csv"
_FORMAT, _KEY, _OPTION = "format", "detections", "option:"  # entries of the metadata
_FILES = {"path": pl.String, "name": pl.String, "bytes": pl.Int64, "changed": pl.Int64}
_COLUMNS = ("procedure_id", "frame", "image", "x", "y", "w", "h", "score")
_NOWHERE = pl.Series(dtype=pl.Int64)


@dataclass(frozen=True)
class Returned:
    """Boxes that were written with their tracks.

    Attributes:
        folder: Folder of the files.
        format: Format of the files: the format of the source, or "csv" for the table.
        warning: Why the files of the source were not written again; None if they were.
    """

    folder: Path
    format: str
    warning: str | None = None


def write_places(folder: Path, format_name: str, imported: Imported, source: Path) -> None:
    """Write the places of a data folder's boxes in its source.

    Args:
        folder: The data folder.
        format_name: The format.
        imported: The result of the import.
        source: The source: a file or a folder.
    """
    places = imported.places
    rows, options = [], {}
    boxes = pl.DataFrame({"file": _NOWHERE, "item": _NOWHERE})
    if places is not None:
        boxes, options = places.boxes, dict(places.options)
        root = os.path.join(os.path.abspath(source if source.is_dir() else source.parent), "")  # noqa: PTH100, PTH118 - no path object for each of many files
        for path in map(os.path.abspath, places.files):
            inside = path.startswith(root)
            name = path.removeprefix(root).replace(os.sep, "/") if inside else Path(path).name
            rows.append((path, name, *file_state(path)))
    marks = {_FORMAT: format_name, _KEY: imported.data.key}
    marks |= {_OPTION + name: value for name, value in options.items()}
    files, items = (folder / name for name in SOURCE_FILES)
    write_table(files, pl.DataFrame(rows, schema=_FILES, orient="row"), marks)
    write_table(items, boxes)


def return_boxes(folder: Path, data: DataSet, tracks: pl.DataFrame, out: Path) -> Returned | None:
    """Write the boxes of a data folder in the format of the import, with tracks and polyps.

    Args:
        folder: The data folder.
        data: Its data set.
        tracks: track_id and polyp of each detection, null for none.
        out: Folder to write; an existing one is replaced.

    Returns:
        The written files; None if the boxes were not imported.
    """
    files, items = (folder / name for name in SOURCE_FILES)
    if not (files.is_file() and items.is_file()):
        return None
    hint = "import again"
    table, about = read_table_with_metadata(files, hint)
    if about.get(_KEY) != data.key:  # the imported tables were replaced by others
        return None
    boxes = read_table_with_metadata(items, hint)[0]
    changed_names = [name for path, name, *state in table.iter_rows() if file_state(path) != state]
    warning = (
        f"{changed_names[0]} has changed since the import: boxes are in {TABLE}"
        if changed_names
        else None
    )
    mark = None
    if warning is None and not table.is_empty() and about[_FORMAT] in FORMATS:
        mark = FORMATS[about[_FORMAT]].mark
    with change_folder(out.parent, (out.name,)) as change:
        target_folder = change / out.name
        target_folder.mkdir()
        if mark is None:
            _write_table(target_folder / TABLE, data, boxes, tracks)
            return Returned(out, "csv", warning)
        options = {k.removeprefix(_OPTION): v for k, v in about.items() if k.startswith(_OPTION)}
        marked_boxes = pl.concat([boxes, tracks], how="horizontal").drop_nulls(["file", "item"])
        of_file = marked_boxes.partition_by("file", as_dict=True)
        for number, (path, name) in enumerate(table.select("path", "name").iter_rows()):
            marks = of_file.get((number,), marked_boxes.clear())
            for place, content in mark(Path(path), marks, **options).items():
                target = target_folder / place / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
    return Returned(out, about[_FORMAT])


def _write_table(path: Path, data: DataSet, places: pl.DataFrame, tracks: pl.DataFrame) -> None:
    """Write the detections with their tracks, in the order of the source if it is known."""
    table = pl.concat([data.detections.select(_COLUMNS), tracks], how="horizontal")
    if places.height == table.height:
        table = pl.concat([table, places], how="horizontal")
        table = table.sort("file", "item", maintain_order=True, nulls_last=True)
    path.write_text(csv_text(table.select(*_COLUMNS, "track_id", "polyp")), encoding="utf-8")
