"""Tables in CSV files, every value as text."""

import csv
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError, first_line
from polyplink.core.text import ESCAPED_FORMULA


def read_text_table(path: Path, needed: Collection[str]) -> pl.DataFrame:
    """Read a CSV file with a header, every column as text (type inference would turn 001 into 1).

    A byte order mark, Windows line endings, and `;` or a tab as the separator are handled, and
    blanks around the values if there are some around the names of columns.

    Args:
        path: The file.
        needed: Columns that the table must have, for the error about a file without a header.

    Raises:
        PolyplinkError: If the file is missing, empty, not UTF-8 or not a table, has no header, or
            two columns have the same name. A missing column is left to the caller.
    """
    table = read_raw_table(path)[0]
    names = [name.strip() for name in table.columns]
    number = next((name for name in names if re.fullmatch(r"[-+]?\d+([.,]\d+)?", name)), None)
    if number is not None and not {*names} & {*needed}:
        raise PolyplinkError(
            f"{path} seems to have no header: its first line has the number {number}",
            f"write the names of its columns into the first line: {', '.join(needed)}",
        )
    repeated = (re.fullmatch(r"(.+)_duplicated_\d+", name) for name in names)  # as polars names it
    if len({*names}) != table.width or any(match and match[1] in names for match in repeated):
        raise PolyplinkError(f"{path} has two columns with the same name", "keep one of them")
    if names != table.columns:
        table = table.with_columns(pl.col(pl.String).str.strip_chars())
    table = table.rename(dict(zip(table.columns, names, strict=True)))
    return table.with_columns(pl.col(pl.String).str.replace(ESCAPED_FORMULA, "${1}"))


def read_raw_table(path: Path) -> tuple[pl.DataFrame, str]:
    """Read a CSV file like `read_text_table`, but unchanged, and return it with its separator.

    Raises:
        PolyplinkError: See `read_text_table`; columns with the same name are allowed.
    """
    if not path.is_file():
        raise PolyplinkError(f"{path} is missing", "check the path")
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = file.readline()
        if header.lower().startswith("sep="):
            raise PolyplinkError(
                f"{path} begins with the line {header.strip()[:20]!r} of a spreadsheet program",
                "remove this line",
            )
        separator = max(",;\t", key=header.count)
        # From bytes, because polars reads [, * and ? in a path as a pattern.
        return pl.read_csv(path.read_bytes(), infer_schema=False, separator=separator), separator
    except UnicodeDecodeError:
        raise PolyplinkError(f"{path} is not UTF-8 text", "save it as UTF-8") from None
    except pl.exceptions.PolarsError as error:
        reason = _longer_line(path, separator) or first_line(error)
        raise PolyplinkError(
            f"{path} is not a table ({reason})", "write a header and one line per row"
        ) from None


def _longer_line(path: Path, separator: str) -> str | None:
    """The first line of a CSV file with more values than its header, in words; None if none has."""
    with suppress(csv.Error), path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = csv.reader(file, delimiter=separator)
        width = len(next(rows, []))
        for row in rows:
            if len(row) > width:
                return f"line {rows.line_num} has {len(row)} values, its header {width}"
    return None
