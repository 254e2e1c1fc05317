"""The three tables every data set becomes: detections, procedures and polyps.

A data folder holds `detections.parquet`, `procedures.parquet`, `polyps.parquet`, `splits.json`,
`run.json` and, where the papers' one is not wanted, `histology-map.json`. Identity, procedure and
patient are columns; missing is null, never -1.
"""

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Self

import polars as pl

from polyplink.core.artefacts import content_key, read_json, whole_file, write_json
from polyplink.core.errors import PolyplinkError, first_line
from polyplink.data.protocols import NAMES, protocol_part
from polyplink.data.vocabulary import ADENOMA, Maps, label_polyps, read_adenoma_maps


@dataclass(frozen=True)
class Column:
    """One column of a schema: its type, whether null is allowed, and what it holds."""

    dtype: pl.DataType
    nullable: bool
    meaning: str


Schema = Mapping[str, Column]

_TEXT, _COUNT, _REAL = pl.String(), pl.Int32(), pl.Float32()

DETECTIONS: Schema = {
    "procedure_id": Column(_TEXT, False, "the procedure (video) the frame belongs to"),
    "frame": Column(_COUNT, False, "frame number, from 0"),
    "x": Column(_REAL, False, "left edge, pixels"),
    "y": Column(_REAL, False, "top edge, pixels"),
    "w": Column(_REAL, False, "width, pixels, above 0"),
    "h": Column(_REAL, False, "height, pixels, above 0"),
    "score": Column(_REAL, True, "detector's score in [0, 1]; null for annotated boxes"),
    "polyp_id": Column(_TEXT, True, "which polyp; null where unknown"),
    "image": Column(_TEXT, True, "image file, relative to the procedure's source; null: none"),
}
PROCEDURES: Schema = {
    "procedure_id": Column(_TEXT, False, "name of the procedure, unique"),
    "dataset": Column(_TEXT, False, "name of the data set it was released in"),
    "patient": Column(_TEXT, False, "group that no split may cut through"),
    "n_frames": Column(_COUNT, False, "frames in the procedure"),
    "fps": Column(_REAL, True, "frames per second"),
    "width": Column(_COUNT, False, "frame width, pixels"),
    "height": Column(_COUNT, False, "frame height, pixels"),
    "source": Column(_TEXT, False, "folder that image paths are relative to"),
    "age": Column(_COUNT, True, "patient's age, years"),
    "sex": Column(_TEXT, True, "the data set's word"),
    "brand": Column(_TEXT, True, "endoscope brand, the data set's word"),
    "bbps": Column(_REAL, True, "Boston bowel preparation scale, 0 to 9"),
}
POLYPS: Schema = {
    "polyp_id": Column(_TEXT, False, "name of the polyp, unique"),
    "procedure_id": Column(_TEXT, False, "procedure it was found in"),
    "size_mm": Column(_REAL, True, "largest diameter, mm"),
    "histology": Column(_TEXT, True, "the data set's own word"),
    "histology_class": Column(_TEXT, True, "the data set's class"),
    "location": Column(_TEXT, True, "segment of the colon, normalised"),
    "morphology": Column(_TEXT, True, "Paris class"),
}


def _refuse(table: str, what: str, mend: str) -> PolyplinkError:
    return PolyplinkError(f"table {table}: {what}", mend)


def check(frame: pl.DataFrame, schema: Schema, table: str) -> pl.DataFrame:
    """Bring a table to its schema, or refuse it.

    Nullable columns that are absent are added as nulls; types are cast where no value is lost;
    columns beyond the schema are dropped.

    Args:
        frame: The table as it came.
        schema: Its columns.
        table: The table's name, for messages.

    Returns:
        A table with exactly the schema's columns, in the schema's order and types.

    Raises:
        PolyplinkError: Naming the column, the first bad row (from 0) and the mend.
    """
    columns = []
    for name, column in schema.items():
        if name not in frame.columns:
            if not column.nullable:
                raise _refuse(table, f"column {name} is missing", f"add it: {column.meaning}")
            columns.append(pl.lit(None, dtype=column.dtype).alias(name))
            continue
        columns.append(_checked_column(frame, name, column, table))
    return frame.select(columns)


def _may_hold(found: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether values of one type can be those of another: numbers, text, or nothing at all."""
    if found == pl.Null:
        return True
    text = found in (pl.String, pl.Categorical, pl.Enum)
    return text or (found.is_numeric() and wanted.is_numeric())


def _checked_column(frame: pl.DataFrame, name: str, column: Column, table: str) -> pl.Expr:
    values = frame[name]
    if not _may_hold(values.dtype, column.dtype):
        raise _refuse(table, f"column {name} holds {values.dtype}", f"write {column.meaning}")
    cast = values.cast(column.dtype, strict=False)
    gone = cast.is_null() & values.is_not_null()
    if values.dtype.is_float() and column.dtype.is_integer():
        gone = gone | (cast.cast(pl.Float64) != values.cast(pl.Float64)).fill_null(False)
    lost = gone.arg_true()
    if lost.len():
        row = int(lost[0])
        raise _refuse(
            table,
            f"column {name}, row {row}: {values[row]!r} is no value for it",
            f"write {column.meaning}",
        )
    empty = cast.is_null().arg_true()
    if not column.nullable and empty.len():
        raise _refuse(
            table,
            f"column {name}, row {int(empty[0])}: no value",
            f"fill it ({column.meaning}) or leave the row out",
        )
    if column.dtype == _REAL:
        broken = (~cast.fill_null(0.0).is_finite()).arg_true()
        if broken.len():
            raise _refuse(
                table,
                f"column {name}, row {int(broken[0])}: {cast[int(broken[0])]} is not finite",
                "leave the row out, or write null where null is allowed",
            )
    return pl.lit(cast).alias(name)


def _check_relations(
    detections: pl.DataFrame, procedures: pl.DataFrame, polyps: pl.DataFrame
) -> None:
    flat = ((detections["w"] <= 0) | (detections["h"] <= 0)).arg_true()
    if flat.len():
        raise _refuse("detections", f"row {int(flat[0])}: a box of no area", "leave it out")
    for table, frame, key in (
        ("procedures", procedures, "procedure_id"),
        ("polyps", polyps, "polyp_id"),
    ):
        twice = frame[key].is_duplicated().arg_true()
        if twice.len():
            name = frame[key][int(twice[0])]
            raise _refuse(table, f"{key} {name!r} occurs twice", "give every row its own name")
    known = procedures["procedure_id"]
    for table, frame in (("detections", detections), ("polyps", polyps)):
        strange = (~frame["procedure_id"].is_in(known.implode())).arg_true()
        if strange.len():
            row = int(strange[0])
            raise _refuse(
                table,
                f"column procedure_id, row {row}: {frame['procedure_id'][row]!r} is in no row of "
                "procedures",
                "add the procedure, or leave the row out",
            )


def _check_splits(splits: Any) -> None:
    """Splits may come from a file that anyone wrote: part -> list of procedure ids."""
    fits = splits is None or (
        isinstance(splits, Mapping)
        and all(
            isinstance(ids, list | tuple) and all(isinstance(i, str) for i in ids)
            for ids in splits.values()
        )
    )
    if not fits:
        raise PolyplinkError(
            "splits.json is not a mapping of parts to lists of procedure ids", "import again"
        )


def _table_key(table: pl.DataFrame) -> str:
    # Text, because two equal tables may lie in memory in different ways.
    return hashlib.sha256(table.write_csv(null_value="\0").encode()).hexdigest()


@dataclass(frozen=True)
class DataSet:
    """A data set in memory: three checked tables and the names of its splits.

    Attributes:
        detections: See `DETECTIONS`; sorted by procedure, then frame.
        procedures: See `PROCEDURES`.
        polyps: See `POLYPS`.
        splits: Part name ("train", "eval", ...) to procedure ids.
        key: Content key of the three tables (hexadecimal).
        adenoma: Which words of histology are adenoma, for each set; not part of the key.
    """

    detections: pl.DataFrame
    procedures: pl.DataFrame
    polyps: pl.DataFrame
    splits: Mapping[str, list[str]]
    key: str
    adenoma: Maps = field(default_factory=lambda: ADENOMA)

    @classmethod
    def of(
        cls,
        detections: pl.DataFrame,
        procedures: pl.DataFrame,
        polyps: pl.DataFrame,
        splits: Mapping[str, list[str]] | None = None,
        *,
        adenoma: Maps = ADENOMA,
    ) -> Self:
        """Check three tables and join them to a data set.

        Raises:
            PolyplinkError: If a table breaks its schema, a box has no area, a name occurs twice,
                or a row names a procedure that is not there.
        """
        detections = check(detections, DETECTIONS, "detections").sort(
            "procedure_id", "frame", maintain_order=True
        )
        procedures = check(procedures, PROCEDURES, "procedures")
        polyps = check(polyps, POLYPS, "polyps")
        _check_relations(detections, procedures, polyps)
        _check_splits(splits)
        # Where the images lie is not content: a moved data set keeps its key.
        key = content_key([_table_key(t) for t in (detections, procedures.drop("source"), polyps)])
        return cls(detections, procedures, polyps, dict(splits or {}), key, adenoma)

    def part(self, name: str | None) -> list[str]:
        """Procedure ids of a part ("train", "eval", ...), or of the whole set for None.

        What is no part of the splits may be one that papers name (see `protocols`).

        Raises:
            PolyplinkError: If there is no such part, naming those there are, or a procedure
                occurs twice in it.
        """
        if name is None:
            return self.procedures["procedure_id"].to_list()
        if name not in self.splits:
            published = protocol_part(name, self.procedures, self.polyps, self.adenoma)
            if published is not None:
                return published
            have = ", ".join([*sorted(self.splits), *NAMES])
            raise PolyplinkError(f"no part {name!r} in splits.json", f"choose one of: {have}")
        ids = list(self.splits[name])
        twice = sorted({i for i in ids if ids.count(i) > 1})
        if twice:
            raise PolyplinkError(
                f"splits.json: procedure {twice[0]!r} occurs twice in {name!r}", "keep one"
            )
        return ids

    def disjoint_parts(self, first: str, second: str, mend: str) -> tuple[list[str], list[str]]:
        """Procedure ids of two parts that have none in common.

        Raises:
            PolyplinkError: As `part`; or if a procedure is in both, with `mend`.
        """
        one, other = self.part(first), self.part(second)
        both = [name for name in other if name in one]
        PolyplinkError.unless(
            not both, f"procedure {both[:1]} is in {first!r} and in {second!r}", mend
        )
        return one, other

    def adenoma_labels(self, maps: Maps | None = None) -> pl.Series:
        """Label every polyp as adenoma (1) or not (0); see `label_polyps`.

        Args:
            maps: Name of a data set -> its map; None for the data set's own, which are those of
                the papers unless it was imported with others.

        Returns:
            Int8, one for each row of the table polyps; null where unknown or left out.

        Raises:
            PolyplinkError: If a set with histology has no map, or a word is not in it.
        """
        return label_polyps(self.procedures, self.polyps, self.adenoma if maps is None else maps)


@dataclass(frozen=True)
class Imported:
    """What every importer returns.

    Attributes:
        data: The data set.
        warnings: From `Faults.lines`: what was left out or is odd, how often, and the first name.
    """

    data: DataSet
    warnings: list[str]


TABLES = ("detections", "procedures", "polyps")
_MAP = "histology-map.json"


def write_table(path: Path, table: pl.DataFrame) -> None:
    """Write a Parquet file, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_bytes(_parquet(table))


def _parquet(table: pl.DataFrame) -> memoryview:
    # Through memory, because polars hides from its caller that a disk is full.
    buffer = BytesIO()
    table.write_parquet(buffer)
    return buffer.getbuffer()


def write_data(folder: Path, data: DataSet) -> None:
    """Write the three tables, splits.json and the map into `folder`, each whole or not at all."""
    with ExitStack() as stack:  # all are written before the first takes its place
        for name in TABLES:
            temporary = stack.enter_context(whole_file(folder / f"{name}.parquet"))
            temporary.write_bytes(_parquet(getattr(data, name)))
        write_json(folder / "splits.json", data.splits)
        if data.adenoma != ADENOMA:
            write_json(folder / _MAP, data.adenoma)
        else:
            (folder / _MAP).unlink(missing_ok=True)


def read_data(folder: Path) -> DataSet:
    """Read a data folder written by `write_data` (or by anyone who keeps to the schemas).

    Raises:
        PolyplinkError: If the folder or a table is missing, unreadable, or breaks its schema.
    """
    if not folder.is_dir():
        raise PolyplinkError(f"no folder {folder}", "check the path, or run `polyplink import`")
    tables = {}
    for name in TABLES:
        path = folder / f"{name}.parquet"
        if not path.is_file():
            raise PolyplinkError(
                f"{path} is missing", "give a folder that `polyplink import` wrote"
            )
        try:
            tables[name] = pl.read_parquet(path)
        except pl.exceptions.PolarsError as error:
            raise PolyplinkError(
                f"{path} cannot be read ({first_line(error)})", "import again"
            ) from None
    splits_path = folder / "splits.json"
    splits = read_json(splits_path) if splits_path.is_file() else {}
    adenoma = read_adenoma_maps(folder / _MAP) if (folder / _MAP).is_file() else ADENOMA
    return DataSet.of(**tables, splits=splits, adenoma=adenoma)
