"""Text that several formats share: CSV tables, frame numbers in file names, and the side tables.

`procedures.csv` and `polyps.csv` beside a source hold what its format has no field for. Both have
our column names (see `polyplink.data.PROCEDURES` and `POLYPS`); only procedure_id, and polyp_id in
`polyps.csv`, are required. A further column `track` of `polyps.csv` gives the number of the polyp
in formats that identify objects by number.
"""

from dataclasses import replace
from pathlib import Path

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.faults import Faults
from polyplink.data.tables import POLYPS, PROCEDURES, Column, DataSet, Schema, check

PARTS = ("train", "val", "valid", "test")  # folders that name a part, not a procedure

_BOX = ("frame", "x", "y", "w", "h")

_WORD = r"(?:frame|image|img)?[_-]?"
_NUMBER = r"0*(\d{1,10})(?:\.0+)?$"
_ENDING = r"\.[A-Za-z][A-Za-z0-9]{1,4}$"
_ALONE = rf"(?i)^{_WORD}{_NUMBER}"
_NAMED = rf"(?i)^(.+?)_{_WORD}{_NUMBER}"


def read_text_table(path: Path) -> pl.DataFrame:
    """Read a CSV file with a header, every column as text (type inference would turn 001 into 1).

    A byte order mark, Windows line ends, and `;` or a tab instead of the comma are handled.

    Raises:
        PolyplinkError: If the file is missing, empty, not UTF-8 or not a table.
    """
    if not path.is_file():
        raise PolyplinkError(f"{path} is missing", "check the path")
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = file.readline()
        separator = max(",;\t", key=header.count)
        table = pl.read_csv(path, infer_schema=False, separator=separator)
    except UnicodeDecodeError:
        raise PolyplinkError(f"{path} is not UTF-8 text", "save it as UTF-8") from None
    except pl.exceptions.PolarsError as error:
        raise PolyplinkError(
            f"{path} is not a table ({first_line(error)})", "write one header and a row for each"
        ) from None
    return table.rename({name: name.strip() for name in table.columns})


def number(column: str) -> pl.Expr:
    """A text column as Float64; null where it is empty or no number."""
    return pl.col(column).str.strip_chars().cast(pl.Float64, strict=False)


def read_box_rows(path: Path) -> pl.DataFrame:
    """Read a CSV file of boxes.

    Args:
        path: The file; columns procedure_id (or video_id), frame, x, y, w, h in pixels.

    Returns:
        The table with these columns as numbers (null where they are none), the others as text, and
        `at`, the file and line of each row.

    Raises:
        PolyplinkError: If the file is missing or no table, or lacks a column.
    """
    table = read_text_table(path)
    table = table.rename({"video_id": "procedure_id"} if "video_id" in table.columns else {})
    missing = [name for name in ("procedure_id", *_BOX) if name not in table.columns]
    if missing:
        columns = ", ".join(("procedure_id", *_BOX))
        raise PolyplinkError(f"{path} has no column {missing[0]!r}", f"write the columns {columns}")
    table = table.with_row_index("line", 2).with_columns(
        *(number(column) for column in _BOX), at=pl.format("{}, line {}", pl.lit(path.name), "line")
    )
    return table.drop("line")


def no_number(column: str) -> pl.Expr:
    """Whether a text column holds something that is no number."""
    return (pl.col(column).str.strip_chars().str.len_bytes() > 0) & number(column).is_null()


def name_frames(names: pl.Series) -> pl.DataFrame:
    """Read procedure and frame number from file names.

    Three rules: in `<folder>/<number>` and `<folder>/frame_<number>` (also `image`, `img`) the
    folder is the procedure; in `<procedure>_<number>` and `<procedure>_frame<number>` it is what
    precedes the number. Zero padding and `.0` after the number are ignored.

    Args:
        names: Text, n file names with `/` between folders, relative to the root folder; a
            first folder called train, val, valid or test is a part and never the procedure.

    Returns:
        n rows: procedure_id, frame (Int64, as written) and part; null where a name has none.

    Example:
        >>> name_frames(pl.Series(["train/case7/frame_012.png", "001-002_5.jpg"])).rows()
        [('case7', 12, 'train'), ('001-002', 5, None)]
    """
    folder = pl.col("folder").str.replace(rf"^({'|'.join(PARTS)})(/|$)", "")
    stem = pl.col("stem")
    alone = stem.str.extract(_ALONE)
    table = pl.DataFrame({"name": names}).select(
        folder=pl.col("name").str.extract(r"^(.*)/[^/]*$").fill_null(""),
        stem=pl.col("name").str.extract(r"([^/]*)$").str.replace(_ENDING, ""),
    )
    return table.select(
        procedure_id=pl.when(alone.is_not_null())
        .then(pl.when(folder != "").then(folder))
        .otherwise(stem.str.extract(_NAMED)),
        frame=pl.coalesce(alone, stem.str.extract(_NAMED, 2)).cast(pl.Int64),
        part=pl.col("folder").str.extract(rf"^({'|'.join(PARTS)})(?:/|$)"),
    )


def _only_keys_required(schema: Schema, *keys: str) -> Schema:
    return {name: replace(c, nullable=name not in keys) for name, c in schema.items()}


_PROCEDURES = _only_keys_required(PROCEDURES, "procedure_id")
_POLYPS = {
    **_only_keys_required(POLYPS, "polyp_id", "procedure_id"),
    "track": Column(pl.String(), True, "number of the polyp in its procedure's tracks"),
}


def read_side_tables(folder: Path, faults: Faults) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read `procedures.csv` and `polyps.csv` of a folder; a missing file has no rows.

    Args:
        folder: The folder.
        faults: Gets a warning for unknown columns.

    Returns:
        All columns of `PROCEDURES`; all columns of `POLYPS` and `track`. Null where a file has
        no such column.

    Raises:
        PolyplinkError: If a file is no table, a value cannot be read, or a key is missing.
    """
    tables = []
    for name, schema in (("procedures.csv", _PROCEDURES), ("polyps.csv", _POLYPS)):
        table = pl.DataFrame(schema={key: column.dtype for key, column in schema.items()})
        if (folder / name).is_file():
            table = read_text_table(folder / name)
        for key in set(table.columns) - set(schema):
            faults.warn(f"unknown column of {name}, not read", key)
        tables.append(check(table, schema, name))
    return tables[0], tables[1]


def number_polyps(data: DataSet) -> pl.DataFrame:
    """Give every polyp a number that is unique in its procedure.

    A polyp called `<procedure>_<number>` keeps its number, the others get the next free ones from
    1 in the order of the table; polyps that only boxes name come after those of the table.

    Returns:
        Columns procedure_id, polyp_id, track (Int64).
    """
    keys = ["procedure_id", "polyp_id"]
    pairs = pl.concat([data.polyps.select(keys), data.detections.select(keys).drop_nulls()])
    pairs = pairs.unique(maintain_order=True)
    prefix = pl.col("procedure_id") + "_"
    own = pl.col("polyp_id").str.strip_prefix(prefix)
    has_own = pl.col("polyp_id").str.starts_with(prefix) & own.str.contains(r"^(0|[1-9]\d{0,8})$")
    pairs = pairs.with_columns(track=pl.when(has_own).then(own.cast(pl.Int64, strict=False)))
    taken: dict[str, set[int]] = {}
    for procedure_id, track in pairs.select("procedure_id", "track").drop_nulls().iter_rows():
        taken.setdefault(procedure_id, set()).add(track)
    tracks = []
    for procedure_id, track in pairs.select("procedure_id", "track").iter_rows():
        used = taken.setdefault(procedure_id, set())
        free = next(k for k in range(1, len(used) + 2) if k not in used)
        tracks.append(free if track is None else track)
        used.add(tracks[-1])
    return pairs.with_columns(track=pl.Series(tracks, dtype=pl.Int64))


def write_side_tables(data: DataSet, folder: Path, tracks: pl.DataFrame | None = None) -> None:
    """Write `procedures.csv` and `polyps.csv` of a data set, each whole or not at all.

    Args:
        data: The data set.
        folder: Created if absent.
        tracks: From `number_polyps`, for a format that identifies objects by number.
    """
    polyps = data.polyps
    if tracks is not None:
        keys = ["procedure_id", "polyp_id"]
        polyps = tracks.join(polyps, on=keys, how="left", maintain_order="left")
        polyps = polyps.select(*POLYPS, "track")
    write_text(folder / "procedures.csv", data.procedures.write_csv())
    write_text(folder / "polyps.csv", polyps.write_csv())
