"""The three tables of a data set: detections, procedures and polyps.

A data folder holds `detections.parquet`, `procedures.parquet`, `polyps.parquet`, `splits.json`,
`run.json` and, if the papers' histology map is not used, `histology-map.json`. Identity, procedure
and patient are columns; missing values are null, never -1.
"""

import hashlib
import mmap
import os
import shlex
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import polars as pl

from polyplink.core.artefacts import (
    atomic_file,
    change_folder,
    content_key,
    finish_change,
    write_json,
)
from polyplink.core.errors import CONTROL, PolyplinkError, escape_control, first_line
from polyplink.core.messages import Message
from polyplink.core.results import check_several
from polyplink.core.text import FORMULA, many
from polyplink.data.files.folders import check_is_folder
from polyplink.data.files.limits import refuse_excess
from polyplink.data.protocols import (
    LONGEST_NAME,
    NAMES,
    checked_parts,
    patients_of,
    protocol_part,
    read_splits,
)
from polyplink.data.vocabulary import ADENOMA, Maps, label_polyps, read_adenoma_maps


@dataclass(frozen=True)
class Column:
    """One column of a schema.

    Attributes:
        dtype: Its type.
        nullable: Whether null is allowed.
        meaning: What a value is, for messages and the documentation.
        above: A number that every value must exceed; None if there is no such limit.
        between: The smallest and largest value; None if there are no such limits.
    """

    dtype: pl.DataType
    nullable: bool
    meaning: str
    above: int | None = None
    between: tuple[int, int] | None = None


Schema = Mapping[str, Column]

LONGEST_PATH = 4096  # characters
# Maximum length of columns that hold names or paths.
LONGEST: Mapping[str, int] = {
    **dict.fromkeys(("procedure_id", "dataset", "patient", "polyp_id"), LONGEST_NAME),
    **dict.fromkeys(("image", "source"), LONGEST_PATH),
}

_TEXT, _COUNT, _REAL = pl.String(), pl.Int32(), pl.Float32()

DETECTIONS: Schema = {
    "procedure_id": Column(_TEXT, False, "the procedure (video) the frame belongs to"),
    "frame": Column(_COUNT, False, "frame number, from 0"),
    "x": Column(_REAL, False, "left edge, pixels"),
    "y": Column(_REAL, False, "top edge, pixels"),
    "w": Column(_REAL, False, "width, pixels, above 0", above=0),
    "h": Column(_REAL, False, "height, pixels, above 0", above=0),
    "score": Column(
        _REAL, True, "detector's score in [0, 1]; null for annotated boxes", between=(0, 1)
    ),
    "polyp_id": Column(_TEXT, True, "id of the polyp; null if unknown"),
    "image": Column(_TEXT, True, "image file, relative to the procedure's source; null: none"),
}
PROCEDURES: Schema = {
    "procedure_id": Column(_TEXT, False, "name of the procedure, unique"),
    "dataset": Column(_TEXT, False, "name of the data set it was released in"),
    "patient": Column(_TEXT, False, "the patient, or any group that splits must not divide"),
    "n_frames": Column(_COUNT, False, "frames in the procedure", above=-1),
    "fps": Column(_REAL, True, "frames per second, above 0", above=0),
    "width": Column(_COUNT, False, "frame width, pixels, above 0", above=0),
    "height": Column(_COUNT, False, "frame height, pixels, above 0", above=0),
    "source": Column(_TEXT, False, "folder that image paths are relative to"),
    "age": Column(_COUNT, True, "patient's age, years"),
    "sex": Column(_TEXT, True, "patient's sex, in the data set's terms"),
    "brand": Column(_TEXT, True, "endoscope brand, in the data set's terms"),
    "bbps": Column(_REAL, True, "Boston bowel preparation scale, 0 to 9"),
    "date": Column(_TEXT, True, "day of the procedure, YYYY-MM-DD"),
}
POLYPS: Schema = {
    "polyp_id": Column(_TEXT, False, "name of the polyp, unique"),
    "procedure_id": Column(_TEXT, False, "procedure that shows it"),
    "size_mm": Column(_REAL, True, "largest diameter, mm"),
    "histology": Column(_TEXT, True, "histology, in the data set's terms"),
    "histology_class": Column(_TEXT, True, "histology class, in the data set's terms"),
    "location": Column(_TEXT, True, "segment of the colon, normalised"),
    "morphology": Column(_TEXT, True, "Paris class"),
}


class _CellRule(NamedTuple):
    """What a value of a column must not be.

    Attributes:
        column: Name of the column.
        broken: Whether a row breaks the rule.
        problem: The problem, with `{value}`.
        hint: How to fix it.
    """

    column: str
    broken: pl.Expr
    problem: str
    hint: str


@cache
def _cell_rules(name: str, column: Column, dtype: pl.DataType) -> Sequence[_CellRule]:
    """The rules for the values of a column that a table holds as `dtype`."""
    rules: list[_CellRule] = []
    raw, value = pl.col(name), pl.col(name).cast(column.dtype, strict=False)
    write = f"write {column.meaning}"
    if dtype != column.dtype:
        lost = value.is_null() & raw.is_not_null()
        if dtype.is_float() and column.dtype.is_integer():
            lost = lost | (value.cast(pl.Float64) != raw.cast(pl.Float64)).fill_null(False)
        rules.append(_CellRule(name, lost, "{value!r} is not a valid value", write))
    if column.above is not None:
        rules.append(_CellRule(name, value <= column.above, "{value} is too small", write))
    if column.between is not None:
        low, high = column.between
        outside = ~value.is_between(low, high)
        rules.append(_CellRule(name, outside, f"{{value}} is not in [{low}, {high}]", write))
    if not column.nullable:
        hint = f"fill it ({column.meaning}) or leave the row out"
        rules.append(_CellRule(name, value.is_null(), "no value", hint))
    if column.dtype == _REAL:
        hint = "leave the row out, or write null if null is allowed"
        rules.append(_CellRule(name, ~value.is_finite(), "{value} is not finite", hint))
    if name == "date":
        wrong = value.is_not_null() & ~is_date(value)
        rules.append(_CellRule(name, wrong, "{value!r} is not a date", write))
    if name in LONGEST:
        hint = f"write 1 to {LONGEST[name]} characters without control characters"
        names = value.unique(maintain_order=True)  # far fewer than rows
        fits = names.str.len_chars().is_between(1, LONGEST[name])
        bad_names = names.filter(~fits | names.str.contains(rf"[{CONTROL}\t\n]"))
        bad = value.is_in(bad_names.implode())
        rules.append(_CellRule(name, bad, "{value!r} is not a valid name", hint))
    return rules


def _refuse_first(table: str, bad: pl.Series, values: pl.Series, problem: str, hint: str) -> None:
    """If any row is bad, raise an error with the number and value of the first one."""
    rows = bad.arg_true()
    if rows.len():
        row = int(rows[0])
        raise PolyplinkError(f"table {table}: {problem.format(row=row, value=values[row])}", hint)


def check(frame: pl.DataFrame, schema: Schema, table: str) -> pl.DataFrame:
    """Convert a table to a schema.

    Missing nullable columns are added as nulls; types are cast if no value is lost; columns that
    are not in the schema are dropped.

    Args:
        frame: The table.
        schema: The schema.
        table: The table's name, for messages.

    Returns:
        A table with exactly the schema's columns, in the schema's order and types.

    Raises:
        PolyplinkError: If a column is missing or has a wrong type, or a value is not allowed; names
            the column, the first bad row (from 0) and the fix. Names and paths must not be empty,
            too long, or contain control characters.
    """
    frame = frame.with_columns(
        pl.col(pl.Categorical, pl.Enum).cast(pl.String), pl.col(pl.Decimal).cast(pl.Float64)
    )
    dtypes = frame.schema
    cast: list[pl.Expr] = []
    rules: list[_CellRule] = []
    for name, column in schema.items():
        # A column that is missing, or of a type that cannot be cast.
        if name not in dtypes:
            if not column.nullable:
                hint = f"add it: {column.meaning}"
                raise PolyplinkError(f"table {table}: column {name} is missing", hint)
            cast.append(pl.lit(None, dtype=column.dtype).alias(name))
            continue
        dtype = dtypes[name]
        are_numbers = dtype.is_numeric() and column.dtype.is_numeric()
        if not are_numbers and dtype not in (pl.Null, pl.String):
            problem = f"table {table}: column {name} holds {dtype}"
            raise PolyplinkError(problem, f"write {column.meaning}")
        cast.append(pl.col(name).cast(column.dtype, strict=False))
        rules += _cell_rules(name, column, dtype)

    # One query for the first bad row of each rule.
    if frame.is_empty():  # there is none
        return frame.select(cast)
    firsts = [rule.broken.arg_true().first().alias(str(k)) for k, rule in enumerate(rules)]
    for row, (name, _, problem, hint) in zip(frame.select(firsts).row(0), rules, strict=True):
        if row is not None:
            place = f"table {table}: column {name}, row {row}"
            raise PolyplinkError(f"{place}: {problem.format(value=frame[name][row])}", hint)
    return frame.select(cast)


def _content_keys(
    detections: pl.DataFrame, procedures: pl.DataFrame, polyps: pl.DataFrame
) -> tuple[str, dict[str, str]]:
    """Key of three tables, and of what the crops of each procedure are cut from.

    Text is hashed, because equal tables may have different layouts in memory. The boxes of each
    procedure are converted to text once for both keys.
    """
    # What each procedure's key is made of: its row, without the patient, so that a correction of
    # patients or of sizes of polyps cuts no crop again, and the digest of its boxes.
    rows_of = procedures.drop("patient").rows()
    parts_of: dict[str, list[object]] = {str(row[0]): [row] for row in rows_of}
    of_boxes, first = hashlib.sha256(detections.clear().write_csv().encode()), 0
    for length, name in detections["procedure_id"].rle().struct.unnest().rows():
        rows = detections.slice(first, length).write_csv(include_header=False, null_value="\0")
        text, first = rows.encode(), first + length
        of_boxes.update(text)
        parts_of[name].append(hashlib.sha256(text).hexdigest())

    texts = (table.write_csv(null_value="\0").encode() for table in (procedures, polyps))
    digests = [of_boxes.hexdigest(), *(hashlib.sha256(text).hexdigest() for text in texts)]
    return content_key(digests), {name: content_key(*parts) for name, parts in parts_of.items()}


def is_date(values: pl.Expr) -> pl.Expr:
    """Whether texts are dates, YYYY-MM-DD."""
    is_valid = values.str.to_date("%Y-%m-%d", strict=False).is_not_null()
    return values.str.contains(r"^\d{4}-\d\d-\d\d$") & is_valid


@dataclass(frozen=True)
class DataSet:
    """A data set in memory: three checked tables and the names of its splits.

    Attributes:
        detections: See `DETECTIONS`; sorted by procedure, then frame.
        procedures: See `PROCEDURES`.
        polyps: See `POLYPS`.
        splits: Part name ("train", "eval", ...) -> procedure ids.
        key: Content key of the three tables (hexadecimal).
        adenoma: Map of histology terms to adenoma, by data set; not part of the key.
        keys: Content key of each procedure's boxes, and of its row without the patient.
    """

    detections: pl.DataFrame
    procedures: pl.DataFrame
    polyps: pl.DataFrame
    splits: Mapping[str, list[str]]
    key: str
    adenoma: Maps = field(default_factory=lambda: ADENOMA)
    keys: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"DataSet({self.contents})"

    @property
    def contents(self) -> str:
        """Numbers of procedures, polyps and boxes, in words; boxes may show polyps without ids."""
        polyps = many(self.polyps.height, "polyp") if self.polyps.height else "no polyp id"
        procedures, boxes = many(self.procedures.height, "procedure"), self.detections.height
        return f"{procedures}, {polyps}, {many(boxes, 'box')}"

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
            PolyplinkError: If a table breaks its schema, a name occurs twice, or a row refers to a
                procedure that is not in the table of procedures.
        """
        # Each table alone.
        detections = check(detections, DETECTIONS, "detections")
        procedures = check(procedures, PROCEDURES, "procedures")
        polyps = check(polyps, POLYPS, "polyps")
        for table, names in (
            ("procedures", procedures["procedure_id"]),
            ("polyps", polyps["polyp_id"]),
        ):
            problem = f"{names.name} {{value!r}} occurs twice"
            hint = "give every row its own name"
            _refuse_first(table, names.is_duplicated(), names, problem, hint)

        # References to procedures.
        for table, frame in (("detections", detections), ("polyps", polyps)):
            names = frame["procedure_id"]
            unknown = ~names.is_in(procedures["procedure_id"].implode())
            problem = "column procedure_id, row {row}: {value!r} is not in the table procedures"
            hint = "add the procedure, or leave the row out"
            _refuse_first(table, unknown, names, problem, hint)

        detections = detections.sort("procedure_id", "frame", maintain_order=True)
        splits = checked_parts({} if splits is None else splits, "splits.json", "import again")
        # The folder of the images and the date are not content: a moved data set keeps its key.
        key, keys = _content_keys(detections, procedures.drop("source", "date"), polyps)
        return cls(detections, procedures, polyps, splits, key, adenoma, keys)

    def part(self, name: str | None) -> list[str]:
        """Procedure ids of a part ("train", "eval", ...), or of the whole set for None or "all".

        A name that is not in the splits may be a published part (see `protocols`).

        Raises:
            PolyplinkError: If there is no such part (the message lists the parts), or a procedure
                occurs twice in it or is unknown.
        """
        if name is None or (name == "all" and name not in self.splits):
            return self.procedures["procedure_id"].to_list()
        if name not in self.splits:
            published = protocol_part(name, self.procedures, self.polyps, self.adenoma)
            if published is not None:
                return published
            if self.splits:
                hint = f"choose one of: {', '.join([*sorted({*self.splits, 'all'}), *NAMES])}"
            else:
                hint = (
                    "use --part all, divide the data folder with `polyplink split`, or choose a "
                    f"published part: {', '.join(NAMES)}"
                )
            raise PolyplinkError(f"no part {name!r} in splits.json", hint)
        ids = list(self.splits[name])
        repeated = sorted(i for i, number in Counter(ids).items() if number > 1)
        if repeated:
            raise PolyplinkError(
                f"splits.json: procedure {repeated[0]!r} occurs twice in {name!r}", "keep one"
            )
        unknown = sorted(set(ids) - set(self.procedures["procedure_id"]))
        if unknown:
            raise PolyplinkError(
                f"splits.json: part {name!r} names {unknown[0]!r}, which is not in the table "
                "procedures",
                "correct the name, or remove it from the part",
            )
        return ids

    def disjoint_parts(self, first: str, second: str, hint: str) -> tuple[list[str], list[str]]:
        """Procedure ids of two parts that must not overlap.

        Raises:
            PolyplinkError: See `part`; and with `hint` if a procedure is in both parts.
        """
        ids, second_ids = self.part(first), self.part(second)
        shared = [name for name in second_ids if name in ids]
        if shared:
            raise PolyplinkError(f"procedure {min(shared)} is in {first!r} and in {second!r}", hint)
        return ids, second_ids

    @cached_property
    def patients(self) -> dict[str, str]:
        """Patient of each procedure, see `patients_of`."""
        return patients_of(self.procedures)

    def adenoma_labels(self) -> pl.Series:
        """Label every polyp as adenoma (1) or not (0) by the maps of the import.

        Returns:
            Int8, one for each row of the table polyps; null if unknown or left out of the task.

        Raises:
            PolyplinkError: If a data set with histology has no map, or a term is not in its map.
        """
        return label_polyps(self.procedures, self.polyps, self.adenoma)


@dataclass(frozen=True)
class Places:
    """The place of each box in the files of a source, to write the files again with tracks.

    Attributes:
        files: The files of boxes, including files without a box.
        boxes: A row for each detection: file (number of the file) and item (number of the box in
            the file, counting boxes that were left out), both from 0; null if unknown.
        options: Options of the format that are needed to read the files again.
    """

    files: Sequence[Path]
    boxes: pl.DataFrame
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Imported:
    """The result of an importer.

    Attributes:
        data: The data set.
        warnings: What was left out or is unusual; a plugin may give sentences, shown verbatim.
        places: Places of the boxes in the source; None if the importer does not record them.
        empty: Frames annotated as free of polyps, see `polyplink.data.empty`; None if the importer
            does not record them.

    Raises:
        PolyplinkError: If `warnings` is one text.
    """

    data: DataSet
    warnings: Sequence[Message | str]
    places: Places | None = None
    empty: pl.DataFrame | None = None

    def __post_init__(self) -> None:
        check_several("warnings of an Imported", self.warnings)

    @property
    def lines(self) -> list[str]:
        """The warnings in English."""
        return [str(warning) for warning in self.warnings]


# Control character -> its escape.
_ESCAPES = {
    char: escape_control(char) for char in map(chr, range(0x2070)) if escape_control(char) != char
}


def csv_text(table: pl.DataFrame) -> str:
    """A table as CSV, with the texts of cells escaped as by `core.text.csv_cell`."""
    escaped = pl.col(pl.String).str.replace_many(_ESCAPES).str.replace(FORMULA, "'${1}")
    return table.with_columns(escaped).write_csv()


def absolute_sources(procedures: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """Procedures with sources that hold in any folder.

    Args:
        procedures: With the column source, null if unknown.
        folder: The folder that relative sources are relative to.
    """
    sources = [
        None if source is None else os.path.realpath(folder / source)
        for source in procedures["source"]
    ]
    return procedures.with_columns(source=pl.Series(sources, dtype=pl.String))


TABLES = ("detections", "procedures", "polyps")
_MAP = "histology-map.json"
SOURCE_FILES = ("source-files.parquet", "source-boxes.parquet")  # see `polyplink.data.return_boxes`
EMPTY_FILE = "empty.parquet"  # see `polyplink.data.empty`
WARNINGS_FILE = "warnings.json"  # what was left out or is unusual in the boxes
_IMPORT = "polyplink"  # metadata entry with a key that the three tables of an import share


MOST_ROWS = 1_000_000  # of a file of less than a byte per row, unless the limits are lifted
_SEAL = b"polyplink CRC-32"  # before the checksum, between pages and footer, where no reader looks


def write_table(
    path: Path,
    table: pl.DataFrame,
    metadata: Mapping[str, str] | None = None,
    row_group_size: int | None = None,
) -> None:
    """Write a Parquet file with a checksum, atomically.

    Args:
        path: The file.
        table: The table.
        metadata: Entries of the file's metadata.
        row_group_size: Rows of a group; polars chooses by default.
    """
    buffer = BytesIO()  # because polars does not report a full disk
    table.write_parquet(buffer, metadata=dict(metadata or {}), row_group_size=row_group_size)
    data = buffer.getbuffer()
    pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        file.writelines((data[:pages], _SEAL, zlib.crc32(data).to_bytes(4, "little"), data[pages:]))


def check_table(file: BinaryIO, path: Path, hint: str) -> None:
    """Check the checksum of a Parquet file; files of other programs have none.

    Without the check, polars would end the process if a damaged page claims more rows than fit
    into memory.

    Args:
        file: The open file.
        path: Path of the file, for the error.
        hint: How to fix a damaged file.
    """
    if not os.fstat(file.fileno()).st_size:
        return  # an empty file cannot be memory-mapped
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
        at = data.rfind(_SEAL)
        end = at + len(_SEAL) + 4
        with view[: max(at, 0)] as pages, view[end:] as footer:
            checksum = zlib.crc32(footer, zlib.crc32(pages)).to_bytes(4, "little")
        intact = at < 0 or data[end - 4 : end] == checksum
    if not intact:
        raise PolyplinkError(f"{path} is damaged: its checksum does not hold", hint)


def change_data(folder: Path, *further: str) -> AbstractContextManager[Path]:
    """Yield an empty folder for all files of a data folder, which are replaced together.

    Files that are not written into it are removed from the data folder, and so are `further` ones.
    """
    return change_folder(
        folder, (_MAP, "scenes.parquet", WARNINGS_FILE, EMPTY_FILE, *SOURCE_FILES, *further)
    )


def write_data(folder: Path, data: DataSet) -> None:
    """Write the three tables, splits.json and the map into `folder`, replacing all together."""
    key = content_key(data.key, data.procedures["source"].to_list())
    with change_data(folder) as new:
        for name in TABLES:
            write_table(new / f"{name}.parquet", getattr(data, name), {_IMPORT: key})
        write_json(new / "splits.json", data.splits)
        if data.adenoma != ADENOMA:
            write_json(new / _MAP, data.adenoma)


def read_table(path: Path, hint: str, columns: pl.Schema | None = None) -> pl.DataFrame:
    """Read a Parquet file, or some of its columns, cast to the types of `columns`.

    Raises:
        FileNotFoundError: If the file does not exist.
        PolyplinkError: If the file is broken or lacks a column (with `hint`), or exceeds a limit
            (`limits.py`).
    """
    table = read_table_with_metadata(path, hint)[0]
    if columns is None:
        return table
    try:
        return table.select(*columns).cast(columns)
    except pl.exceptions.PolarsError as error:
        raise PolyplinkError(f"{path} cannot be read ({first_line(error)})", hint) from None


def read_table_with_metadata(path: Path, hint: str) -> tuple[pl.DataFrame, dict[str, str]]:
    """Read a Parquet file and its metadata; raises as `read_table` does."""
    try:
        # Opened once: another process may replace it.
        with path.open("rb") as file:
            check_table(file, path, hint)
            metadata = pl.read_parquet_metadata(file)
            file.seek(0)
            rows = pl.scan_parquet(file).select(pl.len()).collect().item()
            size = os.fstat(file.fileno()).st_size
            if rows > max(MOST_ROWS, size):
                refuse_excess(f"{path} holds {rows} rows in {size >> 10} KiB")
            file.seek(0)
            return pl.read_parquet(file), metadata
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise PolyplinkError(f"{path} cannot be read ({first_line(error)})", hint) from None


def is_data_folder(folder: Path) -> bool:
    """Whether a path is a data folder; False if it cannot be read."""
    # isfile and not Path.is_file, which fails in a folder without permission to read.
    return os.path.isfile(folder / f"{TABLES[0]}.parquet")  # noqa: PTH113


def check_folder(folder: Path) -> None:
    """Check that a folder contains the three tables.

    Raises:
        PolyplinkError: If the folder or a table is missing.
    """
    finish_change(folder)
    if not is_data_folder(folder):
        check_is_folder(folder, "check the path, or run `polyplink import`")
        inside = folder / "data"  # of an output folder of `run` or `live`
        if is_data_folder(inside):
            raise PolyplinkError(
                f"{folder} is not a data folder: it has no detections.parquet",
                f"did you mean {inside}?",
            )
        raise PolyplinkError(
            f"{folder} is not a data folder: it has no detections.parquet",
            f"make one with `polyplink import FORMAT {shlex.quote(str(folder))} DATA`, or count "
            "the polyps of images or videos with `polyplink run`",
        )
    for path in (folder / f"{name}.parquet" for name in TABLES):
        if not path.is_file():
            raise PolyplinkError(
                f"{path} is missing", "give a folder that `polyplink import` wrote"
            )


def read_data(folder: Path) -> DataSet:
    """Read a data folder written by `write_data`, or by another program with the same schemas.

    Raises:
        PolyplinkError: If the folder or a table is missing, unreadable, or breaks its schema, or if
            the tables come from different imports.
    """
    check_folder(folder)
    tables, imports = {}, set()
    for name in TABLES:
        tables[name], marks = read_table_with_metadata(folder / f"{name}.parquet", "import again")
        imports.add(marks.get(_IMPORT))
    if len(imports - {None}) > 1:
        raise PolyplinkError(f"{folder} holds tables of several imports", "import again")
    splits = read_splits(folder)
    adenoma = read_adenoma_maps(folder / _MAP) if (folder / _MAP).is_file() else ADENOMA
    return DataSet.of(**tables, splits=splits, adenoma=adenoma)
