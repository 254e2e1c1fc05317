"""`procedures.csv` and `polyps.csv` beside a source: what its format has no place for.

Both have our column names (see `polyplink.data.PROCEDURES` and `POLYPS`); only procedure_id, and
polyp_id in `polyps.csv`, must be there. A further column `track` of `polyps.csv` says which
number stands for the polyp in formats that know numbers alone.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from polyplink.core.artefacts import write_text
from polyplink.data.faults import Faults
from polyplink.data.formats.text_table import read_text_table
from polyplink.data.tables import POLYPS, PROCEDURES, Column, DataSet, Schema, check

_TRACK = Column(pl.String(), True, "number of the polyp in its procedure's tracks")


@dataclass(frozen=True)
class SideTables:
    """The rows of `procedures.csv` and `polyps.csv`; no rows where a file is not there.

    Attributes:
        procedures: All columns of `PROCEDURES`, null where the file has none.
        polyps: All columns of `POLYPS`, and `track`.
    """

    procedures: pl.DataFrame
    polyps: pl.DataFrame


def _loose(schema: Schema, *keys: str) -> Schema:
    return {name: replace(c, nullable=name not in keys) for name, c in schema.items()}


_PROCEDURES = _loose(PROCEDURES, "procedure_id")
_POLYPS = {**_loose(POLYPS, "polyp_id", "procedure_id"), "track": _TRACK}


def read_side_tables(folder: Path, faults: Faults) -> SideTables:
    """Read the side tables of a folder, where they are there.

    Args:
        folder: The folder.
        faults: Told of columns that are not known.

    Raises:
        PolyplinkError: If a file is no table, a value cannot be read, or a key is missing.
    """
    return SideTables(
        _read(folder / "procedures.csv", _PROCEDURES, faults),
        _read(folder / "polyps.csv", _POLYPS, faults),
    )


def _read(path: Path, schema: Schema, faults: Faults) -> pl.DataFrame:
    if not path.is_file():
        return pl.DataFrame(schema={name: column.dtype for name, column in schema.items()})
    table = read_text_table(path)
    for name in table.columns:
        if name not in schema:
            faults.warn(f"column of {path.name} that is not known, not read", name)
    return check(table, schema, path.name)


def tracks_of(data: DataSet) -> pl.DataFrame:
    """Give every polyp a number, unique in its procedure.

    A polyp called `<procedure>_<number>` keeps its number, the others get the next free ones from
    1 in the order of the table. Boxes of a polyp without a row count behind the table's.

    Returns:
        Columns procedure_id, polyp_id, track (Int64).
    """
    pairs = pl.concat(
        [
            data.polyps.select("procedure_id", "polyp_id"),
            data.detections.select("procedure_id", "polyp_id").drop_nulls(),
        ]
    ).unique(maintain_order=True)
    own = pl.col("polyp_id").str.strip_prefix(pl.col("procedure_id") + "_")
    pairs = pairs.with_columns(
        track=pl.when(
            pl.col("polyp_id").str.starts_with(pl.col("procedure_id") + "_")
            & own.str.contains(r"^(0|[1-9]\d{0,8})$")
        ).then(own.cast(pl.Int64, strict=False))
    )
    taken: dict[str, set[int]] = {}
    for procedure_id, track in pairs.select("procedure_id", "track").drop_nulls().iter_rows():
        taken.setdefault(procedure_id, set()).add(track)
    tracks = []
    for procedure_id, track in pairs.select("procedure_id", "track").iter_rows():
        used = taken.setdefault(procedure_id, set())
        number = next(k for k in range(1, len(used) + 2) if k not in used)
        tracks.append(number if track is None else track)
        used.add(tracks[-1])
    return pairs.with_columns(track=pl.Series(tracks, dtype=pl.Int64))


def write_side_tables(data: DataSet, folder: Path, tracks: pl.DataFrame | None = None) -> None:
    """Write `procedures.csv` and `polyps.csv` of a data set, each whole or not at all.

    Args:
        data: The data set.
        folder: Where to; made if absent.
        tracks: From `tracks_of`, for a format that knows numbers alone.
    """
    polyps = data.polyps
    if tracks is not None:
        polyps = tracks.join(
            polyps, on=["procedure_id", "polyp_id"], how="left", maintain_order="left"
        ).select(*POLYPS, "track")
    write_text(folder / "procedures.csv", data.procedures.write_csv())
    write_text(folder / "polyps.csv", polyps.write_csv())
