"""`procedures.csv` and `polyps.csv` next to a source: facts for which its format has no field.

Their columns are those of polyplink (see `data.tables.PROCEDURES` and `POLYPS`); only
procedure_id, and polyp_id in `polyps.csv`, are required. In `polyps.csv`, an additional column
`track` gives the number of the polyp in formats that identify objects by number.
"""

from dataclasses import replace
from pathlib import Path

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError
from polyplink.core.messages import Message
from polyplink.data.faults import Faults
from polyplink.data.files.text_tables import read_text_table
from polyplink.data.tables import (
    POLYPS,
    PROCEDURES,
    Column,
    DataSet,
    absolute_sources,
    check,
    csv_text,
)

KEYS = ["procedure_id", "polyp_id"]


def whole_polyp_ids(table: pl.DataFrame) -> pl.DataFrame:
    """A table with the polyp id 7 for 7.0, as pandas writes it in a column with missing values."""
    if "polyp_id" not in table.columns:
        return table
    return table.with_columns(pl.col("polyp_id").str.replace(r"^(\d+)\.0$", "${1}"))


def read_side_tables(folder: Path, faults: Faults) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read `procedures.csv` and `polyps.csv` of a folder; a missing file has no rows.

    Args:
        folder: The folder.
        faults: Extended by a warning for each unknown column.

    Returns:
        All columns of `PROCEDURES`, with an absolute source; all columns of `POLYPS` and `track`.
        Missing columns are null.

    Raises:
        PolyplinkError: If a file is not a table, a value cannot be read, a key is missing, or a
            procedure has several rows that differ.
    """
    tables = []
    track = Column(pl.String(), True, "number of the polyp in its procedure's tracks")
    schemas = {"procedures.csv": PROCEDURES, "polyps.csv": {**POLYPS, "track": track}}
    for name, columns in schemas.items():
        if not (folder / name).is_file():
            tables.append(pl.DataFrame(schema={key: c.dtype for key, c in columns.items()}))
            continue
        table = read_text_table(folder / name, [key for key in columns if key in KEYS])
        # Without blank rows.
        table = whole_polyp_ids(table.filter(pl.any_horizontal(pl.all().is_not_null())))
        schema = {key: replace(c, nullable=key not in KEYS) for key, c in columns.items()}
        for key in [column for column in table.columns if column not in schema]:
            faults.warn(Message("import.unknown_column", {"table": name}), key)
        whole = [key for key in table.columns if key in schema and schema[key].dtype.is_integer()]
        table = table.with_columns(pl.col(whole).str.replace(r"\.0+$", ""))  # pandas writes 54.0
        tables.append(check(table, schema, name).unique(maintain_order=True))
    procedures, polyps = tables
    repeated = procedures.filter(pl.col("procedure_id").is_duplicated())["procedure_id"]
    if repeated.len():
        raise PolyplinkError(
            f"{folder / 'procedures.csv'} has several rows of procedure {repeated[0]!r}",
            "keep one of them",
        )
    return absolute_sources(procedures, folder), polyps


def number_polyps(data: DataSet) -> pl.DataFrame:
    """Number the polyps of each procedure.

    A polyp called `<procedure>_<number>` keeps its number; the others get the next free numbers
    from 1 in the order of the table, followed by polyps that only occur in boxes.

    Returns:
        Columns procedure_id, polyp_id, track (Int64).
    """
    pairs = pl.concat([data.polyps.select(KEYS), data.detections.select(KEYS).drop_nulls()])
    pairs = pairs.unique(maintain_order=True)
    prefix = pl.col("procedure_id") + "_"
    number = pl.col("polyp_id").str.strip_prefix(prefix)
    is_numbered = pl.col("polyp_id").str.starts_with(prefix) & number.str.contains(
        r"^(0|[1-9]\d{0,8})$"
    )
    pairs = pairs.with_columns(track=pl.when(is_numbered).then(number.cast(pl.Int64, strict=False)))
    used_numbers: dict[str, set[int]] = {}
    for procedure_id, track in pairs.select("procedure_id", "track").drop_nulls().iter_rows():
        used_numbers.setdefault(procedure_id, set()).add(track)
    tracks = []
    for procedure_id, track in pairs.select("procedure_id", "track").iter_rows():
        used = used_numbers.setdefault(procedure_id, set())
        free = next(k for k in range(1, len(used) + 2) if k not in used)
        tracks.append(free if track is None else track)
        used.add(tracks[-1])
    return pairs.with_columns(track=pl.Series(tracks, dtype=pl.Int64))


def write_side_tables(data: DataSet, folder: Path, tracks: pl.DataFrame | None = None) -> None:
    """Write `procedures.csv` and `polyps.csv` of a data set, each atomically.

    Args:
        data: The data set.
        folder: Folder to write into; created if absent.
        tracks: Result of `number_polyps`, for a format that identifies objects by number.
    """
    polyps = data.polyps
    if tracks is not None:
        polyps = tracks.join(polyps, on=KEYS, how="left", maintain_order="left")
        polyps = polyps.select(*POLYPS, "track")
    write_text(folder / "procedures.csv", csv_text(data.procedures))
    write_text(folder / "polyps.csv", csv_text(polyps))
