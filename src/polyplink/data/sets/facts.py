"""Tables of facts on the recordings of a public data set: size, histology, shape, site, patient.

Polyp-Size is released with such a table; for SUN the user writes one. It is a CSV file or a
spreadsheet, with columns recognised by their headers.
"""

import csv
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from python_calamine import CalamineError, CalamineWorkbook

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.messages import Message
from polyplink.core.text import ESCAPED_FORMULA
from polyplink.data.faults import Faults, with_value
from polyplink.data.files.limits import LARGEST_TOTAL, check_member, check_total, refuse_excess
from polyplink.data.files.trees import decode_text
from polyplink.data.sets.layout import ReleasedRecording
from polyplink.data.tables import POLYPS, PROCEDURES
from polyplink.data.vocabulary import normalise_location

# Number of a recording -> columns of `PROCEDURES` and `POLYPS`, without nulls.
Facts = dict[int, dict[str, Any]]

# Column -> pattern of headers, in lower case and with `_` for blanks. The first match is used.
# Code that uses Polyp-Size reads Video_ID, Polyp_Size ("11.74mm"), Paris_Classification, Age,
# Gender and Endoscope_Model; the name of the pathology column is not confirmed.
_HEADERS: Mapping[str, str] = {
    "number": r"(video|case)(_?(id|name|number|no))?|id",
    "patient": r"patient(_?id)?",
    "age": r"(patient_)?age.*",
    "sex": r"gender|sex",
    "brand": r"endoscope.*",
    "size_mm": r"(?!.*_cm\b)(polyp_)?size.*",
    "morphology": r"paris.*|shape",
    "location": r"location|site",
    "histology": r".*(path|hist).*",
}
# Abbreviations as GewelsJI/VPS lists them, docs/INFO_POSITIVE_CASES.md.
_LOCATIONS: Mapping[str, str] = {
    "c": "cecum",
    "a": "ascending",
    "t": "transverse",
    "d": "descending",
    "s": "sigma",
    "r": "rectum",
}
# 7, case007, 01, Video01.mp4
NUMBER = r"(?:video|case)?[ _-]*0*(\d{1,6})(?:\.0)?(?:\.\w*[a-z]\w*)?"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:mm)?\s*(-?)", re.I)
_AGE = re.compile(r"(\d{1,3})(?:\.0+)?")

MOST_CELLS = 1_000_000  # of a sheet, rows times columns up to its last cell

# Exceptions of zipfile for damaged archives.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)

# Tags of rows, cells and shared texts; a tag that ends in a slash is empty.
_TAG = re.compile(rb"<(?:\w+:)?(row|c|si)\b([^<>]*)(.?)", re.S)
_PLACE = re.compile(rb"""\br\s*=\s*["']\s*([A-Za-z]*)(\d*)""")


def read_facts(
    path: Path, required: Sequence[str], classes: Mapping[str, str], faults: Faults
) -> Facts:
    """Read a table of facts with `parse_facts`.

    Raises:
        PolyplinkError: If the file is missing, and see `parse_facts`.
    """
    if not path.is_file():
        raise PolyplinkError(f"{path} is missing", "check the path of the table")
    return parse_facts(
        read_rows(path.read_bytes(), path.name), path.name, required, classes, faults
    )


def read_rows(data: bytes, name: str) -> list[list[str]]:
    """The rows of a table, .xlsx (its first sheet) or CSV, as stripped texts without empty rows.

    Raises:
        PolyplinkError: If the data is neither a valid .xlsx file nor text, or a sheet has too many
            cells.
    """
    if name.lower().endswith(".xlsx"):
        try:
            _check_cells(data, name)
            sheet = CalamineWorkbook.from_filelike(BytesIO(data)).get_sheet_by_index(0)
            rows = [[_cell_text(cell) for cell in row] for row in sheet.to_python()]
        except (CalamineError, OSError, ValueError, IndexError, *_DAMAGED) as error:
            raise PolyplinkError(
                f"{name} is not a valid .xlsx file ({first_line(error)})",
                "download it again, or save it as CSV",
            ) from None
    else:
        text = decode_text(data, name)
        separator = max(",;\t", key=text.partition("\n")[0].count)
        try:
            rows = list(csv.reader(StringIO(text, newline=""), delimiter=separator))
        except csv.Error as error:
            raise PolyplinkError(f"{name} is not a table ({error})", "save it as CSV") from None
    stripped = [[re.sub(ESCAPED_FORMULA, r"\1", cell.strip()) for cell in row] for row in rows]
    return [row for row in stripped if any(row)]


def _cell_text(cell: object) -> str:
    """The text of a cell of a spreadsheet, in which all numbers are floats: 12, not 12.0."""
    return str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell)


def _column_number(letters: bytes) -> int:
    """The number of a column in a reference: A is 1, AA is 27; letters after the fifth are cut."""
    number = 0
    for letter in letters.upper()[:5]:
        number = 26 * number + letter - ord("A") + 1
    return number


def _check_cells(data: bytes, name: str) -> None:
    """Refuse a spreadsheet that would need too much memory: its reader creates all cells.

    Raises:
        ValueError: If the file is a spreadsheet of another format.
        PolyplinkError: If a sheet has too many cells.
    """
    with zipfile.ZipFile(BytesIO(data)) as archive:
        members = archive.infolist()
        names = {member.filename.lower() for member in members}
        if "xl/workbook.xml" not in names or names & {"content.xml", "xl/workbook.bin"}:
            raise ValueError("no xl/workbook.xml in it")
        check_total(Path(name), sum(member.file_size for member in members), len(data))
        extents = {}
        for member in members:
            inside = f"{name}, {member.filename}"
            check_member(inside, member.file_size, member.compress_size)
            extents[inside] = _extent(archive.read(member), member.filename)
    # Every cell may hold the longest of the texts that cells share.
    longest = max(extent.longest_text for extent in extents.values())
    for inside, extent in extents.items():
        if extent.rows * extent.columns > MOST_CELLS:
            place = f"{extent.rows} rows x {extent.columns} columns"
            refuse_excess(f"{inside}: {place} are more than {MOST_CELLS} cells")
        if extent.cells * longest > LARGEST_TOTAL:
            mebibytes = extent.cells * longest >> 20
            refuse_excess(f"{inside}: texts that cells share may take {mebibytes} MiB")


class _Extent(NamedTuple):
    """What a file of a spreadsheet holds; each is 0 in a file of another kind.

    Attributes:
        rows: Row of the last cell, from 1.
        columns: Column of the last cell, from 1.
        cells: Number of cells that are not empty.
        longest_text: Bytes of the longest shared text, with its tags.
    """

    rows: int
    columns: int
    cells: int
    longest_text: int


def _extent(text: bytes, filename: str) -> _Extent:
    """Count the cells and measure the shared texts of a file, without parsing its XML.

    Raises:
        ValueError: If a tag is broken.
    """
    row = column = rows = columns = cells = 0
    longest = start = 0  # of shared texts, and where the last one begins
    for tag in _TAG.finditer(text):
        kind, attributes, end = tag.groups()
        if end != b">" or attributes.count(b'"') % 2 or attributes.count(b"'") % 2:
            raise ValueError(f"{filename}: a broken tag")
        place = _PLACE.search(attributes)
        letters, digits = place.groups() if place is not None else (b"", b"")
        if kind == b"si":
            longest, start = max(longest, tag.start() - start), tag.start()
        elif kind == b"row":  # without a number, it is the next row
            row, column = int(digits[:10] or row + 1), 0
        else:  # a cell; without a reference, it is the next cell of the row
            row, column = int(digits[:10] or row), column + 1
            if letters:
                column = _column_number(letters)
            if not attributes.endswith(b"/"):
                rows, columns, cells = max(rows, row), max(columns, column), cells + 1
    if start:
        longest = max(longest, len(text) - start)
    return _Extent(rows, columns, cells, longest)


def find_columns(header: Sequence[str]) -> dict[str, int]:
    """Column -> index of its header; columns that the table lacks are left out."""
    names = [re.sub(r"\W+", "_", text.lower()).strip("_") for text in header]
    columns = {}
    for column, pattern in _HEADERS.items():
        matching = [i for i, name in enumerate(names) if re.fullmatch(pattern, name)]
        if matching:
            columns[column] = matching[0]
    return columns


def parse_facts(
    rows: Sequence[Sequence[str]],
    name: str,
    required: Sequence[str],
    classes: Mapping[str, str],
    faults: Faults,
) -> Facts:
    """Read the rows of a table of facts.

    Sizes are `5mm`, `5` or `15mm-` (15 mm or more), locations are in words or the letters C A T D
    S R, recordings are `7`, `case7`, `Video07` or `07.mp4`.

    Args:
        rows: Header and rows, from `read_rows`.
        name: The file's name, for messages.
        required: Columns that the table should have.
        classes: Term of the pathology in lower case -> class of the data set's adenoma map.
        faults: Counts missing and unknown columns, rows and values that cannot be read, and sizes
            that are a lower bound.

    Raises:
        PolyplinkError: If no column has the number of the recording; if strict, at the first row or
            value that cannot be read.
    """
    columns = find_columns(rows[0]) if rows else {}
    if "number" not in columns:
        raise PolyplinkError(
            f"{name} has no column video_id or case", "add one with the recordings' numbers"
        )
    for column in required:
        if column not in columns:
            faults.warn(Message("import.missing_column", {"table": name}), column)
    for i, header in enumerate(rows[0]):
        if header and i not in columns.values():
            faults.warn(Message("import.unknown_column", {"table": name}), header)
    facts: Facts = {}
    for row in rows[1:]:
        words = {fact: row[i] for fact, i in columns.items() if i < len(row) and row[i]}
        text = words.pop("number", "")
        match = re.fullmatch(NUMBER, text, re.I)
        place = Message("place.recording", {"file": name, "name": repr(text)})
        if match is None:
            hint = "write the recording's number"
            faults.fault(Message("import.row_without_recording"), place, hint)
        elif int(match[1]) in facts:
            faults.fault(Message("import.second_row"), place, "remove one of them")
        else:
            facts[int(match[1])] = _read_words(words, classes, place, faults)
    return facts


def _read_words(
    words: dict[str, str], classes: Mapping[str, str], place: Message, faults: Faults
) -> dict[str, Any]:
    """The texts of a row as values of the columns."""
    facts: dict[str, Any] = dict(words)
    if "size_mm" in words:
        size = _SIZE.fullmatch(facts.pop("size_mm"))
        at = with_value(place, words["size_mm"])
        if size is None:
            faults.fault(Message("import.size_text"), at, "write it as 4.5mm")
        else:
            facts["size_mm"] = float(size[1])
            if size[2]:
                faults.warn(Message("import.size_bound"), at)
    if "age" in words:
        age = _AGE.fullmatch(facts.pop("age"))
        if age is None:
            faults.fault(
                Message("import.age_text"), with_value(place, words["age"]), "write whole years"
            )
        else:
            facts["age"] = int(age[1])
    if "location" in words:
        word = _LOCATIONS.get(words["location"].lower(), words["location"])
        facts["location"] = normalise_location(pl.Series([word]))[0]
    if "histology" in words:
        facts["histology_class"] = classes.get(words["histology"].lower())
        if facts["histology_class"] is None:
            kind = Message("import.unknown_pathology")
            faults.warn(kind, with_value(place, words["histology"]))
    return facts


def add_facts(
    recordings: Mapping[int, ReleasedRecording], facts: Facts, table: str | None, faults: Faults
) -> None:
    """Add the facts of a table to recordings and their polyps.

    Args:
        recordings: Number -> recording.
        facts: Result of `parse_facts`.
        table: Name of the table, or None.
        faults: Counts recordings without a row and rows without a recording.
    """
    of_table = {} if table is None else {"table": table}
    without_facts = Message("import.no_row" if of_table else "import.no_table", of_table)
    for number, recording in recordings.items():
        if number not in facts:
            faults.warn(without_facts, recording.name)
        row = facts.get(number, {})
        recording.procedure |= {k: v for k, v in row.items() if k in PROCEDURES}
        if recording.polyp is not None:
            recording.polyp |= {k: v for k, v in row.items() if k in POLYPS}
    for number in sorted(facts.keys() - recordings.keys()):
        faults.warn(Message("import.recording_missing", of_table), str(number))
