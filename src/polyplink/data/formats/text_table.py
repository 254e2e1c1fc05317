"""A CSV file as a table of texts, and texts as numbers."""

from pathlib import Path

import polars as pl

from polyplink.core.errors import PolyplinkError, first_line


def read_text_table(path: Path) -> pl.DataFrame:
    """Read a CSV file with a header, every column as text (a guessed type turns 001 into 1).

    A byte order mark, Windows line ends, and `;` or a tab instead of the comma are understood.

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
    """A text column as Float64; null where it is no number, or nothing."""
    return pl.col(column).str.strip_chars().cast(pl.Float64, strict=False)


def written(column: str) -> pl.Expr:
    """Whether a text column holds anything but blanks."""
    return pl.col(column).str.strip_chars().str.len_bytes().fill_null(0) > 0
